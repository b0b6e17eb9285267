"""Structured logs: one JSON object a line, without personal data.

The access log goes through a buffer that is flushed a few times a second: a write for each request would cost more than
the request. Nothing of a request's body, headers or address is ever logged.
"""

import sys
import threading
import traceback
from datetime import UTC, datetime
from typing import Any, BinaryIO

import msgspec
import structlog
from msgspec import UNSET, Struct, UnsetType

FLUSH_SECONDS = 0.25


class BufferedLines:
    """Lines for a stream, written together; threads may share one."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lines: list[bytes] = []
        self._lock = threading.Lock()

    def msg(self, line: bytes) -> None:
        """Takes one line."""
        self._lines.append(line)

    debug = info = warning = error = critical = msg

    def flush(self) -> None:
        """Writes what was taken."""
        with self._lock:
            lines, self._lines = self._lines, []
            if lines:
                lines.append(b"")
                self._stream.write(b"\n".join(lines))
                self._stream.flush()


class RequestLine(Struct, gc=False):
    """The one line of a request, as structlog would write it, at a fraction of the cost. `ms` is how long it took."""

    request_id: str
    binding: str
    status: int = 0
    ms: float = 0.0
    skill: str | UnsetType = UNSET
    code: str | UnsetType = UNSET
    error_id: str | UnsetType = UNSET
    event: str = "request"
    level: str = "info"
    at: datetime | UnsetType = UNSET


_request_lines: list[BufferedLines] = []
"""Where they go: nowhere when the level is above `info`, or before logs are configured."""


def log_request(line: RequestLine) -> None:
    """Takes the line of a request."""
    line.at = datetime.now(UTC)
    encoded = _encode_line(line)
    for lines in _request_lines:
        lines.msg(encoded)


def configure_logs(level: str, lines: BufferedLines | None = None) -> BufferedLines:
    """Sets structlog up for this process; every logger writes to the lines that are returned, stderr by default."""
    lines = lines or BufferedLines(sys.stderr.buffer)
    _request_lines[:] = [lines] if level in ("debug", "info") else []
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
            structlog.processors.JSONRenderer(serializer=_encode),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *_: lines,
        cache_logger_on_first_use=True,
    )
    return lines


_encode_line = msgspec.json.Encoder().encode


def _encode(event: dict[str, Any], **_: object) -> bytes:
    return _encode_line(event)


def places(error: BaseException) -> list[str]:
    """Where an exception came from: file, line and function of each frame, without its message or any value, which may
    be a customer's."""
    frames = traceback.extract_tb(error.__traceback__)
    return [f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in frames]
