"""Writes structured logs: one JSON object in each line, without a body, a header or an IP address of a request.

A buffer is flushed a few times a second, because a write for each request would cost more than the request.

In each interval the first lines of each kind are written, so that a flood of requests does not fill the disk
(`docs/reference/settings.md`, `[logs]`). One line at its end has the number of the others. `log_request` is for the
line of a request, and structlog for every other event: `most_lines` sets another bound for it.
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
"""Lines of requests that failed with INTERNAL_ERROR, for each status and skill. Customers may quote their ids."""
MOST_EVENTS = 100
"""Lines of any other event in an interval, for each event and class of error."""
MOST_FRAMES = 20
"""Frames of a traceback in a line: the innermost ones."""

LONGEST_CALLER = 200
"""Characters of a caller's identity in a line."""

REFUSED = "requests refused, the service is busy"


class BufferedLines:
    """Buffers the lines for a stream. Threads may share one."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lines: list[bytes] = []
        self._lost = 0
        self._lock = threading.Lock()

    def msg(self, line: bytes) -> None:
        """Adds a line."""
        self._lines.append(line)

    debug = info = warning = msg

    def error(self, line: bytes) -> None:
        """Adds a line and writes it now, because the process may be about to end."""
        self.msg(line)
        self.flush()

    critical = error

    def flush(self) -> None:
        """Writes the lines. If that fails, as on a full disk, the next flush that works writes how many are lost."""
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
    """Admits the first lines of each kind in an interval, and counts the others."""

    def __init__(self) -> None:
        # By kind, the lines of this interval, and those that were not written.
        self._counts: dict[Hashable, int] = {}
        self._suppressed: dict[Hashable, int] = {}

    def admits(self, kind: Hashable, most: int) -> bool:
        """Counts a line of this kind. Returns whether it is one of the first `most` in this interval."""
        count = self._counts[kind] = self._counts.get(kind, 0) + 1
        if count > most:
            self._suppressed[kind] = count - most
        return count <= most

    def end_interval(self) -> dict[Any, int]:
        """Starts the next interval. Returns for each kind how many lines the last interval has suppressed."""
        suppressed, self._counts, self._suppressed = self._suppressed, {}, {}
        return suppressed


class RequestLine(Struct, gc=False):
    """The log line of a request, as structlog would write it, at a fraction of the cost. `ms` is its duration.

    Requests outside the bindings have neither `binding` nor `ms`. `version` is the published version, if any. `caller`
    is the identity of a known caller. Status, code and skill are the line's kind.
    """

    request_id: str
    binding: str | UnsetType = UNSET
    status: int = 0
    ms: float | UnsetType = UNSET
    skill: str | UnsetType = UNSET
    code: str | UnsetType = UNSET
    error_id: str | UnsetType = UNSET
    version: str | UnsetType = UNSET
    caller: str | UnsetType = UNSET
    event: str = "request"
    level: str = "info"
    at: datetime | UnsetType = UNSET


_request_lines: list[BufferedLines] = []
"""The destination of request lines. Empty when the level is above `info`, and before logs are configured."""
_requests = Sampler()
_events = Sampler()


def log_request(line: RequestLine, started: float | None = None) -> None:
    """Writes or counts the line of a request. `started` is the value of `perf_counter` when the request began."""
    code = line.code
    most = MOST_ANSWERS if code is UNSET else MOST_FAULTS if code == "INTERNAL_ERROR" else MOST_REFUSALS
    if _requests.admits((line.status, code, line.skill), most):
        if started is not None:
            line.ms = int((perf_counter() - started) * 1_000_000) / 1000
        line.at = datetime.now(UTC)
        encoded = _encode_line(line)
        for lines in _request_lines:
            lines.msg(encoded)


def count_refusal() -> None:
    """Counts a request that an overloaded process has refused. It gets no line of its own."""
    _events.admits(REFUSED, 0)


def end_interval() -> None:
    """Writes how many lines of each kind were suppressed since the last call."""
    log = structlog.get_logger()
    for (status, code, skill), count in _requests.end_interval().items():
        kind = {name: value for name, value in (("code", code), ("skill", skill)) if value is not UNSET}
        log.info("requests not logged", status=status, suppressed=count, **kind, most_lines=sys.maxsize)
    suppressed = _events.end_interval()
    if refused := suppressed.pop(REFUSED, 0):
        log.warning(REFUSED, requests=refused)
    for (event, error), count in suppressed.items():
        log.warning("events not logged", of=event, **({"error": error} if error else {}), suppressed=count)


def _sample(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A structlog processor: drops an event when enough of its kind were written."""
    if not _events.admits((event["event"], event.get("error")), event.pop("most_lines", MOST_EVENTS)):
        raise structlog.DropEvent
    return event


def configure_logs(level: str, lines: BufferedLines | None = None) -> BufferedLines:
    """Configures structlog for this process. Every logger writes to the returned lines, by default those of stderr."""
    lines = lines or BufferedLines(sys.stderr.buffer)
    _request_lines[:] = [lines] if level in ("debug", "info") else []
    # What was counted before belongs to the earlier lines.
    for sampler in (_requests, _events):
        sampler.end_interval()
    structlog.configure(
        processors=[
            _sample,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
            structlog.processors.JSONRenderer(serializer=lambda event, **_: _encode_line(event)),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *_: lines,
    )
    return lines


_encode_line = msgspec.json.Encoder().encode


def code_positions(error: BaseException) -> list[str]:
    """File, line and function of an exception's innermost frames. Message and values may contain data of a customer."""
    frames = traceback.extract_tb(error.__traceback__, -MOST_FRAMES)
    return [f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in frames]
