"""Structured logs: one JSON object a line, without personal data.

The access log goes through a buffer that is flushed a few times a second: a write for each request would cost more than
the request. Nothing of a request's body, headers or address is ever logged.
"""

import sys
import threading
import traceback
from typing import Any, BinaryIO

import msgspec
import structlog

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


def configure_logs(level: str, lines: BufferedLines | None = None) -> BufferedLines:
    """Sets structlog up for this process; every logger writes to the lines that are returned, stderr by default."""
    lines = lines or BufferedLines(sys.stderr.buffer)
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


def _encode(event: dict[str, Any], **_: object) -> bytes:
    return msgspec.json.encode(event)


def places(error: BaseException) -> list[str]:
    """Where an exception came from: file, line and function of each frame, without its message or any value, which may
    be a customer's."""
    frames = traceback.extract_tb(error.__traceback__)
    return [f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in frames]
