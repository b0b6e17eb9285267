"""Two machines share their rate limits: two services with the same keys and a real Valkey server."""

import shutil
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import cycle, islice
from pathlib import Path

import httpx
import pytest
from tests.acceptance.asking import ask, error_payload, lead
from tests.acceptance.dealers import stocked_dealer
from tests.acceptance.running import Running, eventually, serving
from tests.servers.valkey import Valkey

pytestmark = pytest.mark.outside_protocol("rate limits that machines share")

SEARCHES, LEADS, BAD_TOKENS, MANY = 40, 5, 7, 100_000
AWAY, BACK = "rate limits hold for this machine only, the shared store does not answer", "rate limits are shared again"


@pytest.fixture
def machines(tmp_path: Path, valkey_server: Valkey) -> Iterator[list[Running]]:
    """Two services of one dealer."""
    first, second = stocked_dealer(tmp_path / "first"), tmp_path / "second"
    settings = (first / "dealer.toml").read_text("utf-8")
    for rule, limit in (("inventory_search", SEARCHES), ("lead_submit", LEADS), ("inventory_facets", MANY)):
        settings = settings.replace(f'{rule} = ""', f'{rule} = "{limit}/hour"')
    settings = settings.replace('health = ""', f'health = ""\nbad_tokens = "{BAD_TOKENS}/hour"')
    (first / "dealer.toml").write_text(settings, "utf-8")
    shutil.copytree(first, second)
    with ExitStack() as stack:
        yield [
            stack.enter_context(serving(folder, RATE_LIMIT_URL=valkey_server.patient_url)) for folder in (first, second)
        ]


def statuses(machines: list[Running], skill: str, times: int, *, token: str | None = None) -> Counter[int]:
    """The statuses of so many requests that arrive at the machines in turn, some of them at the same time."""

    def one(number_and_machine: tuple[int, Running]) -> httpx.Response:
        number, machine = number_and_machine
        members = lead(number) if skill == "lead.submit" else {}
        return ask(machine.url, skill, token=token, **members)

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(one, islice(enumerate(cycle(machines)), times)))
    for answer in answers:
        if answer.status_code == 429:
            assert 1 <= int(answer.headers["retry-after"]) <= 3600
            assert error_payload(answer)["code"] == "RATE_LIMITED"
    return Counter(answer.status_code for answer in answers)


def count_lines(machines: list[Running], event: str) -> list[int]:
    return [sum(line["event"] == event for line in machine.logged()) for machine in machines]


def test_limits_hold_for_all_machines_together_and_for_each_while_the_store_is_away(
    machines: list[Running], valkey_server: Valkey
) -> None:
    assert statuses(machines, "dealer.information", 12, token="dat_x_wrong") == {401: BAD_TOKENS, 429: 12 - BAD_TOKENS}
    assert statuses(machines, "lead.submit", 2) == {200: 2}
    valkey_server.kill()
    for machine in machines:
        assert statuses([machine], "lead.submit", 9) == {200: LEADS, 429: 9 - LEADS}
    eventually("the log says so", lambda: all(count_lines(machines, AWAY)))
    assert count_lines(machines, AWAY) == [1, 1]
    valkey_server.start()

    def are_shared_again() -> bool:
        # A request that is counted tries the store again.
        statuses(machines, "inventory.facets", 8)
        return count_lines(machines, BACK) == count_lines(machines, AWAY)

    eventually("the limits are shared again", are_shared_again, every=0.5)
    assert statuses(machines, "inventory.search", 60) == {200: SEARCHES, 429: 60 - SEARCHES}
