"""Structured logs: one JSON object a line, without personal data.

Lines go through a buffer that is flushed a few times a second: a write for each request would cost more than the
request. Nothing of a request's body, headers or address is ever logged.

The log is bounded, because a flood of requests would fill the disk. In each interval the first lines of each kind are
written, and the rest of that kind is counted. At the end of the interval one line per kind says how many were left out
(`docs/reference/settings.md`, `[logs]`). Use `log_request` for the line of a request and structlog for every other
event: both are bounded.
"""

import sys
import threading
import traceback
from collections.abc import Hashable, MutableMapping
from datetime import UTC, datetime
from time import perf_counter
from typing import Any, BinaryIO

import msgspec
import structlog
from msgspec import UNSET, Struct, UnsetType

FLUSH_SECONDS = 0.25
INTERVAL_SECONDS = 10.0

MOST_ANSWERS = 500
"""Lines of successful requests in an interval, for each skill."""
MOST_REFUSALS = 10
"""Lines of refused requests in an interval, for each status, code and skill."""
MOST_FAULTS = 100
"""Lines of requests that failed with INTERNAL_ERROR, for each status and skill: a customer may quote their ids."""
MOST_EVENTS = 100
"""Lines of any other event in an interval, for each event and class of error."""
MOST_PLACES = 20
"""Frames of a traceback in a line: the innermost ones."""


class BufferedLines:
    """Lines for a stream, written together; threads may share one."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lines: list[bytes] = []
        self._lost = 0
        self._lock = threading.Lock()

    def msg(self, line: bytes) -> None:
        """Takes one line."""
        self._lines.append(line)

    debug = info = warning = msg

    def error(self, line: bytes) -> None:
        """Takes one line and writes it now: the process may be about to end."""
        self.msg(line)
        self.flush()

    critical = error

    def flush(self) -> None:
        """Writes the lines. Lines that cannot be written, as on a full disk, are counted. The count is written as soon
        as possible. The service goes on without its log."""
        with self._lock:
            lines, self._lines = self._lines, []
            if not lines and not self._lost:
                return
            lost = [_encode_line({"event": "log lines lost", "lines": self._lost, "level": "error"})] * bool(self._lost)
            try:
                self._stream.write(b"\n".join([*lost, *lines, b""]))
                self._stream.flush()
            except (OSError, ValueError):  # A stream that is closed raises ValueError.
                self._lost += len(lines)
            else:
                self._lost = 0


class Sampler:
    """Admits the first lines of each kind in an interval, and counts the rest."""

    def __init__(self) -> None:
        self._counted: dict[Hashable, int] = {}
        self._left_out: dict[Hashable, int] = {}

    def admits(self, kind: Hashable, most: int) -> bool:
        """Counts a line of this kind; whether it is one of the first `most` in this interval."""
        count = self._counted[kind] = self._counted.get(kind, 0) + 1
        if count <= most:
            return True
        self._left_out[kind] = count - most
        return False

    def end_interval(self) -> dict[Any, int]:
        """Starts the next interval. Returns how many lines of each kind the last one left out."""
        left_out, self._counted, self._left_out = self._left_out, {}, {}
        return left_out


class RequestLine(Struct, gc=False):
    """The one line of a request, as structlog would write it, at a fraction of the cost. `ms` is how long it took.

    Requests outside the two bindings have neither `binding` nor `ms`. Status, code and skill are the line's kind: none
    of them may hold what a client wrote.
    """

    request_id: str
    binding: str | UnsetType = UNSET
    status: int = 0
    ms: float | UnsetType = UNSET
    skill: str | UnsetType = UNSET
    code: str | UnsetType = UNSET
    error_id: str | UnsetType = UNSET
    event: str = "request"
    level: str = "info"
    at: datetime | UnsetType = UNSET


class _LeftOut(Struct):
    """How many request lines of one kind an interval left out."""

    status: int
    suppressed: int
    code: str | UnsetType
    skill: str | UnsetType
    at: datetime
    event: str = "requests not logged"
    level: str = "info"


_request_lines: list[BufferedLines] = []
"""Where request lines go: nowhere when the level is above `info`, or before logs are configured."""
_requests = Sampler()
_events = Sampler()


def log_request(line: RequestLine, started: float | None = None) -> None:
    """Writes the line of a request, or counts it when enough lines of its kind were written. `started` is the value of
    `perf_counter` when the request began."""
    code = line.code
    most = MOST_ANSWERS if code is UNSET else MOST_FAULTS if code == "INTERNAL_ERROR" else MOST_REFUSALS
    if _requests.admits((line.status, code, line.skill), most):
        if started is not None:
            line.ms = int((perf_counter() - started) * 1_000_000) / 1000
        line.at = datetime.now(UTC)
        encoded = _encode_line(line)
        for lines in _request_lines:
            lines.msg(encoded)


def end_interval() -> None:
    """Writes how many lines of each kind were left out since the last call."""
    at = datetime.now(UTC)
    for (status, code, skill), count in _requests.end_interval().items():
        for lines in _request_lines:
            lines.msg(_encode_line(_LeftOut(status, count, code, skill, at)))
    for (event, error), count in _events.end_interval().items():
        named = {"error": error} if error else {}
        structlog.get_logger().warning("events not logged", of=event, **named, suppressed=count)


def _sample(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A structlog processor: drops an event when enough of its kind were written."""
    if not _events.admits((event["event"], event.get("error")), MOST_EVENTS):
        raise structlog.DropEvent
    return event


def configure_logs(level: str, lines: BufferedLines | None = None) -> BufferedLines:
    """Sets structlog up for this process; every logger writes to the lines that are returned, stderr by default."""
    lines = lines or BufferedLines(sys.stderr.buffer)
    _request_lines[:] = [lines] if level in ("debug", "info") else []
    for sampler in (_requests, _events):
        sampler.end_interval()
    structlog.configure(
        processors=[
            _sample,
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
    """Where an exception came from: file, line and function of its innermost frames, without its message or any value,
    which may be a customer's."""
    frames = traceback.extract_tb(error.__traceback__, -MOST_PLACES)
    return [f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in frames]
