"""Captures what the code under test logs, without what services log that run beside it in the process of the tests.

A service that tests share goes on with its own work, such as fetching keys, while other tests run.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import structlog
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


@contextmanager
def captured_logs() -> Iterator[list[EventDict]]:
    """The events of every level. A command that ran before in this process may have chosen to log errors only."""
    before = structlog.get_config()
    structlog.reset_defaults()
    try:
        with capture_logs([_without_background]) as events:
            yield events
    finally:
        structlog.configure(**before)


def _without_background(_logger: object, _method: str, event: EventDict) -> EventDict:
    if _IN_BACKGROUND.get():
        raise DropEvent
    return event
