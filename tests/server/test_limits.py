"""Rate limits, also across the worker processes of a machine (docs/protocol.md#rate-limits)."""

import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.soak import SOAK

from dealer_agent.server.limits import BLOCKS, RateLimits

pytestmark = pytest.mark.requirement("rate-limits-are-settings", "retry-after")

FEW_BLOCKS = BLOCKS // 8
"""A table of an eighth of the size, which a flood of so many addresses fills more than twice."""
FLOOD = 18_750
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

    def open_limits(rule: str = "3/minute", *, blocks: int = BLOCKS, **rules: str) -> RateLimits:
        opened.append(RateLimits(tmp_path / "limits", {"search": rule, **rules}, blocks=blocks, clock=clock))
        return opened[-1]

    yield open_limits
    for one in opened:
        one.close()


def _allowed(limits: RateLimits, tries: int, rule: str = "search", client: str = BUYER) -> int:
    return sum(limits.acquire(rule, client) is None for _ in range(tries))


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
        ("", 50, 50),
        ("   ", 50, 50),
    ],
)
def test_every_limit_of_a_rule_applies(limits: Callable[..., RateLimits], rule: str, tries: int, allowed: int) -> None:
    """Rate limits are set by each dealer. An empty rule is no limit."""
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
def test_a_refusal_names_the_seconds_to_wait(
    limits: Callable[..., RateLimits], clock: Clock, rule: str, passed_seconds: float, wait: int
) -> None:
    """RATE_LIMITED carries Retry-After."""
    table = limits(rule)
    assert _allowed(table, 3) == 3
    clock.now += passed_seconds
    assert table.acquire("search", BUYER) == wait


def test_a_client_that_waits_for_retry_after_is_allowed(limits: Callable[..., RateLimits], clock: Clock) -> None:
    """After the seconds of Retry-After the request is allowed, and not before."""
    table = limits("5/minute; 7/hour")
    for _ in range(20):
        wait = table.acquire("search", BUYER)
        if wait is not None:
            clock.now += wait - 1.25
            assert table.acquire("search", BUYER) is not None
            clock.now += 1.25
            assert table.acquire("search", BUYER) is None


def test_a_new_window_starts_after_the_end_of_the_last_one(limits: Callable[..., RateLimits], clock: Clock) -> None:
    table = limits("3/minute")
    assert _allowed(table, 9) == 3
    clock.now += 60
    assert _allowed(table, 9) == 3


def test_a_refused_request_is_not_counted(limits: Callable[..., RateLimits], clock: Clock) -> None:
    table = limits("2/second; 4/minute")
    assert _allowed(table, 50) == 2
    clock.now += 1
    assert _allowed(table, 50) == 2
    clock.now += 1
    assert table.acquire("search", BUYER) == 58


def test_a_request_with_a_higher_cost_is_counted_completely_or_not_at_all(limits: Callable[..., RateLimits]) -> None:
    table = limits("10/minute; 12/hour")
    assert [table.acquire("search", BUYER, cost) for cost in (4, 7, 6, 1)] == [None, 60, None, 60]
    # A cost above the limit is allowed when nothing else is counted.
    assert [table.acquire("search", OTHER, 50), table.acquire("search", OTHER)] == [None, 3600]


def test_a_released_request_does_not_count(limits: Callable[..., RateLimits]) -> None:
    table = limits("2/minute; 5/hour")
    for _ in range(9):
        assert table.acquire("search", BUYER) is None
        table.acquire("search", BUYER, -1)
    assert _allowed(table, 9) == 2


def test_a_release_without_a_request_gives_no_more_requests(limits: Callable[..., RateLimits], clock: Clock) -> None:
    table = limits("2/minute; 5/hour")
    assert _allowed(table, 9) == 2
    clock.now += 60
    # The request of BUYER was in an earlier minute, and OTHER has sent none.
    table.acquire("search", BUYER, -1)
    table.acquire("search", OTHER, -1)
    assert (_allowed(table, 9), _allowed(table, 9, client=OTHER)) == (2, 2)


def test_rules_in_order_count_until_one_refuses(limits: Callable[..., RateLimits]) -> None:
    """The rate of the address comes before that of the skill. A request it refuses does not count for the skill."""
    kept = limits(address="2/minute", search="3/hour", unlimited="")
    turn = ("unlimited", "address", "search")
    assert [kept.acquire_in_order(turn, "a") for _ in range(3)] == [None, None, ("address", 60)]
    assert [kept.acquire("search", "a") for _ in range(2)] == [None, 3600]
    assert kept.acquire_in_order(("search", "address"), "a") == ("search", 3600)


def test_clients_and_rules_are_counted_separately(limits: Callable[..., RateLimits]) -> None:
    """Each client and each skill has its own counters."""
    table = limits("3/minute", lead="3/minute")
    assert _allowed(table, 9) == 3
    assert _allowed(table, 9, client=OTHER) == 3
    assert _allowed(table, 9, rule="lead") == 3


def test_an_unknown_rule_raises_key_error(limits: Callable[..., RateLimits]) -> None:
    with pytest.raises(KeyError):
        limits().acquire("leads", BUYER)


def test_all_windows_of_a_rule_apply(limits: Callable[..., RateLimits], clock: Clock) -> None:
    table = limits(";".join(f"{seconds}/{seconds}seconds" for seconds in range(1, 9)))
    passed = []
    for second in range(40):
        passed += [second] * _allowed(table, 3)
        clock.now += 1
    assert passed[:8] == [0, 1, 2, 3, 4, 5, 6, 7]


def test_counters_survive_the_process(limits: Callable[..., RateLimits]) -> None:
    first = limits("3/hour")
    assert _allowed(first, 2) == 2
    first.close()
    assert _allowed(limits("3/hour"), 9) == 1


@pytest.mark.parametrize("seconds", [30.0, 7200.0])
def test_a_clock_set_back_refuses_no_client_for_longer_than_the_window(
    limits: Callable[..., RateLimits], clock: Clock, seconds: float
) -> None:
    table = limits("3/minute")
    assert _allowed(table, 9) == 3
    clock.now -= seconds
    wait = table.acquire("search", BUYER)
    assert wait is None or wait <= 60


def test_a_clock_correction_of_milliseconds_starts_no_new_window(
    limits: Callable[..., RateLimits], clock: Clock
) -> None:
    table = limits("3/minute")
    assert _allowed(table, 9) == 3
    clock.now -= 0.004
    assert table.acquire("search", BUYER) is not None


def test_a_flood_of_addresses_takes_no_space_and_keeps_longer_limits(
    limits: Callable[..., RateLimits], tmp_path: Path
) -> None:
    """The counter that expires first is replaced."""
    table = limits("3/minute", blocks=FEW_BLOCKS, lead="2/hour")
    assert _allowed(table, 9, rule="lead") == 2
    size = (tmp_path / "limits").stat().st_size
    refused = sum(table.acquire("search", f"2001:db8::{number:x}") is not None for number in range(FLOOD))
    assert refused == 0
    assert (tmp_path / "limits").stat().st_size == size < 4_000_000 * FEW_BLOCKS / BLOCKS
    assert table.acquire("lead", BUYER) == 3600
    assert _allowed(table, 9, client="2001:db8::1") <= 3


def test_no_flood_of_addresses_makes_the_table_forget_a_token(limits: Callable[..., RateLimits]) -> None:
    """One customer of an internet provider may have 65,536 networks of IPv6. A short run has an eighth of both."""
    part = 1 if SOAK else 8
    table = limits("3/minute", blocks=BLOCKS // part, lead="2/day")
    tokens = [f"known:token:{number}" for number in range(100)]
    for token in tokens:
        assert _allowed(table, 3, rule="lead", client=token) == 2
    for number in range(65_536 // part):
        table.acquire_in_order(("search", "lead"), f"2001:db8:0:{number:x}::/64")
    assert all(table.acquire("lead", token) for token in tokens)


def test_expired_counters_are_replaced_first(limits: Callable[..., RateLimits], clock: Clock) -> None:
    table = limits("2/2minutes", blocks=FEW_BLOCKS, lead="2/minute")
    for number in range(FLOOD):
        table.acquire("search", f"2001:db8::{number:x}")
    clock.now += 119
    buyers = [f"198.51.100.{number}" for number in range(100)]
    assert [_allowed(table, 9, rule="lead", client=buyer) for buyer in buyers] == [2] * 100
    clock.now += 2
    # With 400 addresses, hardly ever eight come into one set of counters. In each set, seven counters have expired.
    for number in range(400):
        table.acquire("search", f"2001:db8:1::{number:x}")
    assert {table.acquire("lead", buyer) for buyer in buyers} == {58}


def test_a_limit_added_to_a_rule_replaces_no_counter_of_the_same_rule(limits: Callable[..., RateLimits]) -> None:
    """After a restart with another rule, the counters of the old rule are in a full table, and expire first."""
    before = limits("9/day", blocks=FEW_BLOCKS, lead="2/minute")
    for number in range(FLOOD):
        before.acquire("search", f"2001:db8::{number:x}")
    assert _allowed(before, 1, rule="lead") == 1
    after = limits("9/day", blocks=FEW_BLOCKS, lead="2/minute; 9/hour")
    assert _allowed(after, 9, rule="lead") == 1


def test_the_file_is_private_and_contains_no_address(limits: Callable[..., RateLimits], tmp_path: Path) -> None:
    """The file has no personal data. Each file has its own key for the hashes."""
    limits("3/minute").acquire("search", BUYER)
    one = tmp_path / "limits"
    assert BUYER.encode() not in one.read_bytes()
    assert stat.S_IMODE(one.stat().st_mode) == 0o600

    other = RateLimits(tmp_path / "other", {"search": "3/minute"}, clock=Clock())
    other.acquire("search", BUYER)
    other.close()
    assert {one.read_bytes()[at : at + 12] for at in _used(one)}.isdisjoint(
        {(tmp_path / "other").read_bytes()[at : at + 12] for at in _used(tmp_path / "other")}
    )


def _used(table: Path) -> list[int]:
    """The offsets of the counters in use."""
    content = table.read_bytes()
    return [at for at in range(64, len(content), 32) if any(content[at : at + 12])]


@pytest.mark.parametrize("content", [b"vin,stock,price\n", b"ratelim9" + bytes(4_000_000)])
def test_a_file_with_other_content_is_not_overwritten(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "stock.csv").write_bytes(content)
    with pytest.raises(ValueError, match="is not a table of rate limits"):
        RateLimits(tmp_path / "stock.csv", {})
    assert (tmp_path / "stock.csv").read_bytes() == content


@pytest.mark.parametrize("size", [0, 5, 100_000])
def test_a_table_that_a_killed_worker_left_incomplete_is_created_again(
    limits: Callable[..., RateLimits], tmp_path: Path, size: int
) -> None:
    (tmp_path / "limits").write_bytes(bytes(size))
    assert _allowed(limits("3/minute"), 9) == 3


WORKER = """
import sys
from pathlib import Path
from dealer_agent.server.limits import RateLimits
print("ready", flush=True)
sys.stdin.readline()
table = RateLimits(Path(sys.argv[1]), {"search": "8000/hour; 90000/day"})
print([table.acquire("search", sys.argv[2]) for _ in range(8_000)].count(None))
table.close()
"""


def test_workers_together_allow_exactly_the_limit(tmp_path: Path) -> None:
    """The limits apply across all worker processes of a machine. The workers also create the file together."""
    command = [sys.executable, "-c", WORKER, str(tmp_path / "limits"), BUYER]
    workers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("\n")
        worker.stdin.flush()
    assert sum(int(worker.communicate()[0]) for worker in workers) == 8_000


HOLDER = """
import fcntl, sys, time
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(600)
"""


def test_a_worker_killed_while_it_holds_the_lock_does_not_block_others(
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


def test_only_one_worker_at_a_time_creates_the_table(tmp_path: Path) -> None:
    """Two workers that create it at the same time would use two hash keys, and count separately."""
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


ACQUIRER = """
import sys
from pathlib import Path
from dealer_agent.server.limits import RateLimits
table = RateLimits(Path(sys.argv[1]), {"search": "1000000/hour"})
print("begun", flush=True)
while True:
    table.acquire("search", sys.argv[2])
"""


def test_killed_workers_leave_a_valid_table(limits: Callable[..., RateLimits], tmp_path: Path) -> None:
    table = limits("6/hour")
    for _ in range(3):
        worker = subprocess.Popen([sys.executable, "-c", ACQUIRER, tmp_path / "limits", OTHER], stdout=subprocess.PIPE)
        with worker:
            assert worker.stdout is not None
            assert worker.stdout.readline() == b"begun\n"
            worker.send_signal(signal.SIGKILL)
        assert table.acquire("search", BUYER) is None
    assert _allowed(table, 9) == 3
