"""Rate limits (specification, part 8; contract, part 3; issue: they hold across the worker processes of a machine)."""

import multiprocessing
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest

from dealer_agent.server.limits import RateLimits

pytestmark = pytest.mark.requirement("rate-limits-are-settings", "retry-after")

BUYER = "198.51.100.7"
OTHER = "198.51.100.8"


class Clock:
    """Epoch seconds, moved by the test."""

    def __init__(self) -> None:
        self.now = 1_790_000_000.25

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def limits(tmp_path: Path, clock: Clock) -> Iterator[Callable[..., RateLimits]]:
    opened: list[RateLimits] = []

    def open_limits(rule: str = "3/minute", **rules: str) -> RateLimits:
        opened.append(RateLimits(tmp_path / "limits", {"search": rule, **rules}, clock=clock))
        return opened[-1]

    yield open_limits
    for one in opened:
        one.close()


def _allowed(limits: RateLimits, tries: int, rule: str = "search", client: str = BUYER) -> int:
    return sum(limits.hit(rule, client) is None for _ in range(tries))


@pytest.mark.parametrize(
    ("rule", "tries", "allowed"),
    [
        ("3/minute", 10, 3),
        ("3 per minute", 10, 3),
        ("5/2hours", 10, 5),
        ("120/minute; 10/second", 30, 10),
        ("10/second; 120/minute", 30, 10),
        ("4/minute; 9/hour; 7/day", 10, 4),
        ("9/minute; 2/minute", 10, 2),
        ("2/minute; 9/minute", 10, 2),
        ("0/day", 5, 0),
        ("", 50, 50),
        ("   ", 50, 50),
    ],
)
def test_every_limit_of_a_rule_holds(limits: Callable[..., RateLimits], rule: str, tries: int, allowed: int) -> None:
    """Spec 8: rate limits are set by each dealer. An empty rule is no limit."""
    assert _allowed(limits(rule), tries) == allowed


@pytest.mark.parametrize(
    ("rule", "passed_seconds", "wait"),
    [
        ("3/minute", 0.0, 60),
        ("3/minute", 17.0, 43),
        ("3/minute", 17.5, 43),
        ("3/minute", 59.99, 1),
        ("3/second", 0.2, 1),
        ("3/minute; 3/hour", 10.0, 3590),
        ("3/minute; 900/hour", 10.0, 50),
        ("3/hour; 900/minute", 10.0, 3590),
    ],
)
def test_a_refusal_names_the_whole_seconds_to_wait(
    limits: Callable[..., RateLimits], clock: Clock, rule: str, passed_seconds: float, wait: int
) -> None:
    """Contract 3: RATE_LIMITED carries Retry-After."""
    table = limits(rule)
    assert _allowed(table, 3) == 3
    clock.now += passed_seconds
    assert table.hit("search", BUYER) == wait


def test_who_waits_as_long_as_told_is_let_in(limits: Callable[..., RateLimits], clock: Clock) -> None:
    """Contract 3: Retry-After is the truth."""
    table = limits("5/minute; 7/hour")
    for _ in range(20):
        wait = table.hit("search", BUYER)
        if wait is not None:
            clock.now += wait - 1.25
            assert table.hit("search", BUYER) is not None
            clock.now += 1.25
            assert table.hit("search", BUYER) is None


def test_a_window_is_over_at_its_end_and_the_next_one_holds_as_many(
    limits: Callable[..., RateLimits], clock: Clock
) -> None:
    table = limits("3/minute")
    assert _allowed(table, 9) == 3
    clock.now += 60
    assert _allowed(table, 9) == 3


def test_a_refused_hit_counts_against_no_limit_of_the_rule(limits: Callable[..., RateLimits], clock: Clock) -> None:
    table = limits("2/second; 4/minute")
    assert _allowed(table, 50) == 2
    clock.now += 1
    assert _allowed(table, 50) == 2
    clock.now += 1
    assert table.hit("search", BUYER) == 58


def test_a_hit_may_cost_more_and_is_counted_whole_or_not_at_all(limits: Callable[..., RateLimits]) -> None:
    table = limits("10/minute; 12/hour")
    assert [table.hit("search", BUYER, cost) for cost in (4, 7, 6, 1)] == [None, 60, None, 60]
    # What costs more than the whole limit is allowed once the limit is whole.
    assert [table.hit("search", OTHER, 50), table.hit("search", OTHER)] == [None, 3600]


def test_a_hit_that_is_given_back_was_never_counted(limits: Callable[..., RateLimits], clock: Clock) -> None:
    table = limits("2/minute; 5/hour")
    for _ in range(9):
        assert table.hit("search", BUYER) is None
        table.give_back("search", BUYER)
    assert _allowed(table, 9) == 2
    clock.now += 60
    table.give_back("search", BUYER)
    table.give_back("search", OTHER)
    assert (_allowed(table, 9), _allowed(table, 9, client=OTHER)) == (2, 2)


def test_rules_in_turn_count_as_far_as_the_first_that_refuses(limits: Callable[..., RateLimits]) -> None:
    """Contract 3: the address's rate is asked before the skill's; what it refuses uses up none of the skill's."""
    kept = limits(address="2/minute", search="3/hour", unlimited="")
    turn = ("unlimited", "address", "search")
    assert [kept.hit_in_turn(turn, "a") for _ in range(3)] == [None, None, ("address", 60)]
    assert [kept.hit("search", "a") for _ in range(2)] == [None, 3600]
    assert kept.hit_in_turn(("search", "address"), "a") == ("search", 3600)


def test_clients_and_rules_are_counted_apart(limits: Callable[..., RateLimits]) -> None:
    """Issue, part 9: per client and skill."""
    table = limits("3/minute", lead="3/minute")
    assert _allowed(table, 9) == 3
    assert _allowed(table, 9, client=OTHER) == 3
    assert _allowed(table, 9, rule="lead") == 3


def test_an_unknown_rule_is_the_callers_mistake(limits: Callable[..., RateLimits]) -> None:
    with pytest.raises(KeyError):
        limits().hit("leads", BUYER)


@pytest.mark.parametrize(
    "rule",
    [
        "many",
        "10",
        "10/fortnight",
        "-1/minute",
        "10/minute;",
        "10/minute; x",
        f"{2**64}/minute",
        "1/2000years",
        ";".join(f"9/{seconds}seconds" for seconds in range(1, 10)),
    ],
)
def test_a_rule_that_cannot_be_kept_is_refused_with_its_name(limits: Callable[..., RateLimits], rule: str) -> None:
    with pytest.raises(ValueError, match="rate limit of lead"):
        limits("1/second", lead=rule)


def test_as_many_times_as_a_rule_may_have_all_hold(limits: Callable[..., RateLimits], clock: Clock) -> None:
    table = limits(";".join(f"{seconds}/{seconds}seconds" for seconds in range(1, 9)))
    passed = []
    for second in range(40):
        passed += [second] * _allowed(table, 3)
        clock.now += 1
    assert passed[:8] == [0, 1, 2, 3, 4, 5, 6, 7]


def test_counters_outlive_the_process_that_made_them(limits: Callable[..., RateLimits]) -> None:
    first = limits("3/hour")
    assert _allowed(first, 2) == 2
    first.close()
    assert _allowed(limits("3/hour"), 9) == 1


@pytest.mark.parametrize("seconds", [30.0, 7200.0])
def test_a_clock_set_back_shuts_nobody_out_for_longer_than_the_window(
    limits: Callable[..., RateLimits], clock: Clock, seconds: float
) -> None:
    table = limits("3/minute")
    assert _allowed(table, 9) == 3
    clock.now -= seconds
    wait = table.hit("search", BUYER)
    assert wait is None or wait <= 60


def test_a_clock_corrected_by_milliseconds_opens_no_new_window(limits: Callable[..., RateLimits], clock: Clock) -> None:
    table = limits("3/minute")
    assert _allowed(table, 9) == 3
    clock.now -= 0.004
    assert table.hit("search", BUYER) is not None


def test_a_flood_of_addresses_costs_no_room_and_frees_no_one_from_a_longer_limit(
    limits: Callable[..., RateLimits], tmp_path: Path
) -> None:
    """The counter that expires first makes room."""
    table = limits("3/minute", lead="2/hour")
    assert _allowed(table, 9, rule="lead") == 2
    size = (tmp_path / "limits").stat().st_size
    refused = sum(table.hit("search", f"2001:db8::{number:x}") is not None for number in range(150_000))
    assert refused == 0
    assert (tmp_path / "limits").stat().st_size == size < 4_000_000
    assert table.hit("lead", BUYER) == 3600
    assert _allowed(table, 9, client="2001:db8::1") <= 3


def test_what_has_expired_makes_room_before_what_has_not(limits: Callable[..., RateLimits], clock: Clock) -> None:
    table = limits("2/2minutes", lead="2/minute")
    for number in range(150_000):
        table.hit("search", f"2001:db8::{number:x}")
    clock.now += 119
    assert _allowed(table, 9, rule="lead") == 2
    clock.now += 2
    for number in range(20_000):
        table.hit("search", f"2001:db8:1::{number:x}")
    assert table.hit("lead", BUYER) == 58


def test_a_limit_added_to_a_rule_takes_no_room_from_the_rules_own(limits: Callable[..., RateLimits]) -> None:
    """A restart with another rule finds the counters of the old one, in a full table and the first of it to expire."""
    before = limits("9/day", lead="2/minute")
    for number in range(150_000):
        before.hit("search", f"2001:db8::{number:x}")
    assert _allowed(before, 1, rule="lead") == 1
    assert _allowed(limits("9/day", lead="2/minute; 9/hour"), 9, rule="lead") == 1


def test_the_file_holds_no_address_and_only_its_owner_reads_it(
    limits: Callable[..., RateLimits], tmp_path: Path
) -> None:
    """House rule: no personal data; the key of the hashes is made anew for each file."""
    limits("3/minute").hit("search", BUYER)
    one = tmp_path / "limits"
    assert BUYER.encode() not in one.read_bytes()
    assert stat.S_IMODE(one.stat().st_mode) == 0o600

    other = RateLimits(tmp_path / "other", {"search": "3/minute"}, clock=Clock())
    other.hit("search", BUYER)
    other.close()
    assert {one.read_bytes()[at : at + 12] for at in _used(one)}.isdisjoint(
        {(tmp_path / "other").read_bytes()[at : at + 12] for at in _used(tmp_path / "other")}
    )


def _used(table: Path) -> list[int]:
    """Where the non-zero stretches of 12 bytes behind the header are."""
    content = table.read_bytes()
    return [at for at in range(64, len(content), 32) if any(content[at : at + 12])]


@pytest.mark.parametrize("content", [b"vin,stock,price\n", b"ratelim9" + bytes(4_000_000)])
def test_a_file_that_is_something_else_is_not_overwritten(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "stock.csv").write_bytes(content)
    with pytest.raises(ValueError, match="is not a table of rate limits"):
        RateLimits(tmp_path / "stock.csv", {})
    assert (tmp_path / "stock.csv").read_bytes() == content


@pytest.mark.parametrize("size", [0, 5, 100_000])
def test_a_table_that_a_killed_worker_began_is_begun_again(
    limits: Callable[..., RateLimits], tmp_path: Path, size: int
) -> None:
    (tmp_path / "limits").write_bytes(bytes(size))
    assert _allowed(limits("3/minute"), 9) == 3


def _hit_in_a_worker(path: Path, rule: str, tries: int) -> tuple[int, int]:
    table = RateLimits(path, {"search": rule})
    answers = [table.hit("search", BUYER) for _ in range(tries)]
    table.close()
    return answers.count(None), os.getpid()


def test_workers_together_let_exactly_the_limit_through(tmp_path: Path) -> None:
    """Issue, part 9: holding across the worker processes of a machine, who also make the file together."""
    path = tmp_path / "limits"
    with ProcessPoolExecutor(4, mp_context=multiprocessing.get_context("spawn")) as pool:
        jobs = [pool.submit(_hit_in_a_worker, path, "20000/hour; 90000/day", 10_000) for _ in range(4)]
        results = [job.result() for job in jobs]
    assert sum(allowed for allowed, _ in results) == 20_000
    assert len({worker for _, worker in results}) > 1


HOLDER = """
import fcntl, sys, time
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(600)
"""


def test_a_worker_killed_while_it_holds_the_lock_blocks_no_one(
    limits: Callable[..., RateLimits], tmp_path: Path
) -> None:
    table = limits("3/hour")
    assert _allowed(table, 1) == 1
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, tmp_path / "limits"], stdout=subprocess.PIPE)
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        holder.send_signal(signal.SIGKILL)
    assert holder.returncode == -signal.SIGKILL
    assert _allowed(table, 9) == 2


def test_a_worker_that_makes_the_table_has_it_alone(tmp_path: Path) -> None:
    """Two that made it at once would hash with two keys, and count apart."""
    path = tmp_path / "limits"
    path.touch()
    reader = HOLDER.replace("LOCK_EX", "LOCK_SH")
    holder = subprocess.Popen([sys.executable, "-c", reader, path], stdout=subprocess.PIPE)
    with holder, ThreadPoolExecutor() as pool:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        opening = pool.submit(RateLimits, path, {})
        try:
            with pytest.raises(TimeoutError):
                opening.result(timeout=0.3)
        finally:
            holder.kill()
        opening.result().close()


HITTER = """
import sys
from pathlib import Path
from dealer_agent.server.limits import RateLimits
table = RateLimits(Path(sys.argv[1]), {"search": "1000000/hour"})
print("begun", flush=True)
while True:
    table.hit("search", sys.argv[2])
"""


def test_workers_killed_in_the_middle_of_hits_leave_a_table_that_works(
    limits: Callable[..., RateLimits], tmp_path: Path
) -> None:
    table = limits("6/hour")
    for _ in range(3):
        worker = subprocess.Popen([sys.executable, "-c", HITTER, tmp_path / "limits", OTHER], stdout=subprocess.PIPE)
        with worker:
            assert worker.stdout is not None
            assert worker.stdout.readline() == b"begun\n"
            worker.send_signal(signal.SIGKILL)
        assert table.hit("search", BUYER) is None
    assert _allowed(table, 9) == 3
