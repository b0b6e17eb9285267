"""The trace of the work in progress. It is empty unless traces are on (`server.traces`). Pure."""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Protocol


class OpenSpan(Protocol):
    """A span of a trace, such as a request, that other work belongs to."""

    @property
    def traceparent(self) -> str:
        """The header of W3C Trace Context that names this span: 55 characters."""

    def record(self, name: str, started: int, ended: int) -> None:
        """Adds a child span with these times, in nanoseconds since 1970. Threads may call it."""

    def end(self, attributes: Mapping[str, str | int], *, failed: bool) -> None:
        """Ends the span."""


current_span: ContextVar[OpenSpan | None] = ContextVar("current_span", default=None)
"""The span of the current task. A job that it gives to the lead writer belongs to it."""
