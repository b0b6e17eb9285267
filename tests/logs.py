"""Captures what the code under test logs, without what services log that run beside it in the process of the tests.

A service that tests share goes on with its own work, such as fetching keys, while other tests run.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

from structlog import DropEvent
from structlog.testing import capture_logs
from structlog.typing import EventDict

_IN_BACKGROUND: ContextVar[bool] = ContextVar("in_background", default=False)


@contextmanager
def in_background() -> Iterator[None]:
    """Tasks that are started here, and contexts that are copied here, are not captured."""
    before = _IN_BACKGROUND.set(True)
    try:
        yield
    finally:
        _IN_BACKGROUND.reset(before)


def captured_logs() -> AbstractContextManager[list[EventDict]]:
    return capture_logs([_without_background])


def _without_background(_logger: object, _method: str, event: EventDict) -> EventDict:
    if _IN_BACKGROUND.get():
        raise DropEvent
    return event
