"""A flood of requests does not fill the disk: repeated lines are counted, and their number is written (`[logs]`)."""

import json
import re
import socket
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.running import serving
from tests.server.dealership import NO_LIMITS, message, set_up

from dealer_agent.protocol.errors import ERRORS
from dealer_agent.protocol.skill import ALL_SKILLS
from dealer_agent.server.log import INTERVAL_SECONDS, MOST_ANSWERS, MOST_FAULTS, MOST_REFUSALS, BufferedLines, Sampler

SETTINGS_DOCS = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"
BATCH = 8
"""Requests that are sent together on one connection. A connection with more of them closes."""

GET_NOTHING = b"GET /nosuch HTTP/1.1\r\nHost: x\r\n\r\n"


def post(document: Any, head: str = "") -> bytes:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    lines = f"POST /message:send HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{head}"
    return f"{lines}Content-Length: {len(body)}\r\n\r\n".encode() + body


def flood(port: int, request: bytes, count: int) -> None:
    """Sends one request `count` times on one connection and waits for every response."""
    with closing(socket.create_connection(("127.0.0.1", port), timeout=120)) as client:
        for _ in range(count // BATCH):
            client.sendall(request * BATCH)
            seen = b""
            while seen.count(b"HTTP/1.1 ") < BATCH:
                received = client.recv(1 << 20)
                assert received, "the service closed the connection"
                seen += received


FLOODS = {
    "unknown path": (GET_NOTHING, (404, "UNSUPPORTED_SKILL", None)),
    "not JSON": (post(b"{"), (422, "SCHEMA_VALIDATION_FAILED", None)),
    "bad token": (post(message("inventory.search"), "Authorization: Bearer x\r\n"), (401, "AUTH_REQUIRED", None)),
    "bad filter": (
        post(message("inventory.search", filters={"year_min": "x"})),
        (422, "SCHEMA_VALIDATION_FAILED", "inventory.search"),
    ),
    "valid": (post(message("dealer.information")), (200, None, "dealer.information")),
}


def count_of(name: str) -> int:
    """The requests of a flood: many more than the lines that an interval has of their kind."""
    return 1600 if name == "valid" else 160


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory, stocked: Path) -> list[dict[str, Any]]:
    """The log of a service after each flood."""
    folder = tmp_path_factory.mktemp("flooded")
    set_up(folder, NO_LIMITS, stocked=stocked)
    with serving(folder) as running:
        for name, (request, _) in FLOODS.items():
            flood(running.port, request, count_of(name))
    return running.logged()


def kind(line: dict[str, Any]) -> tuple[int, str | None, str | None]:
    return line["status"], line.get("code"), line.get("skill")


@pytest.mark.parametrize("name", FLOODS)
@pytest.mark.requirement("error-id-in-log")
def test_the_log_has_the_first_lines_of_a_flood_and_the_number_of_the_others(
    written: list[dict[str, Any]], name: str
) -> None:
    of_this_kind = [line for line in written if "status" in line and kind(line) == FLOODS[name][1]]
    lines = [line for line in of_this_kind if line["event"] == "request"]
    counts = [line["suppressed"] for line in of_this_kind if line["event"] == "requests not logged"]
    most = MOST_ANSWERS if name == "valid" else MOST_REFUSALS
    assert len(lines) + sum(counts) == count_of(name)
    # A flood may last several intervals, and the first and the last may see few of it. Each starts with new counts.
    assert most <= len(lines) <= most * (len(counts) + 2)
    assert all("error_id" in line for line in lines) is (name != "valid")


def test_a_sampler_counts_each_kind_separately_and_restarts_with_each_interval() -> None:
    sampler = Sampler()
    assert [sampler.admits("a", 2) for _ in range(5)] == [True, True, False, False, False]
    assert sampler.admits("b", 2)
    assert sampler.end_interval() == {"a": 3}
    assert sampler.admits("a", 2)
    assert sampler.end_interval() == {}


def test_the_published_bound_holds_for_lines_of_every_kind_at_once(written: list[dict[str, Any]]) -> None:
    """A kind is a status, a code and a skill of our own tables. No request can add one."""
    longest = Counter[str]()
    for line in written:
        longest[line["event"]] = max(longest[line["event"]], len(json.dumps(line)))
    statuses = {row.http for row in ERRORS.values()} | {200, 400, 405, 408, 413, 415}
    skills = len(ALL_SKILLS) + 1
    refusals = sum(MOST_FAULTS if row.code == "INTERNAL_ERROR" else MOST_REFUSALS for row in ERRORS.values())
    # A code has its own status, and 200 over JSON-RPC; one code has five more.
    lines = skills * (2 * refusals + 5 * MOST_REFUSALS) + len(ALL_SKILLS) * MOST_ANSWERS
    counts = skills * (2 * len(ERRORS) + len(statuses))
    bound = (lines * longest["request"] + counts * longest["requests not logged"]) / INTERVAL_SECONDS
    published = re.search(r"at most (\d+) KB a second", SETTINGS_DOCS.read_text("utf-8"))
    assert published is not None, bound
    assert bound <= int(published[1]) * 1000


def test_lines_that_cannot_be_written_are_counted_and_the_service_goes_on(tmp_path: Path) -> None:
    """A full disk must not end the log and must not fill the memory. The device /dev/full acts like one."""
    log = tmp_path / "log"
    if not Path("/dev/full").exists():
        pytest.skip("GAP: no /dev/full here, so a log that cannot be written was not tried")
    with Path("/dev/full").open("wb", buffering=0) as full, log.open("wb", buffering=0) as good:
        lines = BufferedLines(full)
        for _ in range(3):
            lines.msg(b"lost")
            lines.flush()
        lines._stream = good
        lines.msg(b"written")
        lines.flush()
    lost, written = log.read_bytes().splitlines()
    assert json.loads(lost) == {"event": "log lines lost", "lines": 3, "level": "error"}
    assert written == b"written"
