"""Makes the traces of a process, if they are on."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from dealer_agent.config.settings import TracesSettings
from dealer_agent.config.settings_problems import SettingsError

if TYPE_CHECKING:
    # Only with the extra `traces`.
    from dealer_agent.server.traces import Traces

MISSING = "[traces] needs more packages: pip install 'dealer-agent[traces]', or remove endpoint under [traces]"


def check_traces(settings: TracesSettings) -> None:
    """Raises SettingsError if traces are on and their packages are missing."""
    if settings.endpoint:
        try:
            # Imported here: the packages are an extra.
            import dealer_agent.server.traces  # noqa: F401
        except ModuleNotFoundError:
            raise SettingsError(MISSING) from None


@asynccontextmanager
async def open_traces(settings: TracesSettings) -> AsyncIterator["Traces | None"]:
    """The traces of this process for an `async with` block. None if they are off."""
    if not settings.endpoint:
        yield None
        return
    check_traces(settings)
    from dealer_agent.server.traces import Traces

    traces = Traces(settings)
    try:
        yield traces
    finally:
        await asyncio.to_thread(traces.close)
