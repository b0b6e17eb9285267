"""Each dealer of an installation has its own rate limits. That of an address also holds for all dealers together."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.installation.platform import DEALERS, INSTALLATION_TOML, add, make_installation, run_installation
from tests.server.dealership import Dealership, message
from tests.servers.valkey import Valkey

pytestmark = pytest.mark.requirement("dealer-limits")

NORTH, SOUTH = DEALERS
BUYER, OTHER = "198.51.100.7", "198.51.100.8"


@contextmanager
def platform(folder: Path, limits: str, env: dict[str, str] | None = None, north: str = "") -> Iterator[Dealership]:
    installation = make_installation(folder, f"{INSTALLATION_TOML}\n[rate_limits]\n{limits}\n", env)
    add(installation, NORTH, more=north)
    add(installation, SOUTH)
    with run_installation(installation) as running:
        # A request that opens a dealer counts twice for its address.
        for dealer_id in DEALERS:
            running.request("GET", f"/d/{dealer_id}/readyz", address="192.0.2.1")
        yield running


@pytest.fixture(params=["machine", "shared"])
def env(request: pytest.FixtureRequest) -> dict[str, str]:
    if request.param == "machine":
        return {}
    server: Valkey = request.getfixturevalue("valkey_server")
    return {"RATE_LIMIT_URL": server.patient_url}


def searches(running: Dealership, dealer_id: str, times: int, address: str = BUYER) -> Counter[int]:
    """The statuses of searches."""
    return Counter(
        running.post(message("inventory.search"), f"/d/{dealer_id}/message:send", address=address).status_code
        for _ in range(times)
    )


def test_two_dealers_count_the_same_client_separately(tmp_path: Path, env: dict[str, str]) -> None:
    with platform(tmp_path / "i", 'inventory_search = "4/hour"', env) as running:
        assert searches(running, NORTH, 6) == {200: 4, 429: 2}
        assert searches(running, SOUTH, 6) == {200: 4, 429: 2}


def test_a_dealer_may_have_its_own_rate(tmp_path: Path, env: dict[str, str]) -> None:
    own = '\n[rate_limits]\ninventory_search = "2/hour"\n'
    with platform(tmp_path / "i", 'inventory_search = "4/hour"', env, north=own) as running:
        assert searches(running, NORTH, 6) == {200: 2, 429: 4}
        assert searches(running, SOUTH, 6) == {200: 4, 429: 2}


def test_an_address_cannot_multiply_its_rate_by_the_number_of_dealers(tmp_path: Path, env: dict[str, str]) -> None:
    with platform(tmp_path / "i", 'address = "6/hour"', env) as running:
        assert searches(running, NORTH, 4)[200] == 4
        assert searches(running, SOUTH, 4)[200] == 2
        assert searches(running, NORTH, 1)[200] == 0
        assert searches(running, SOUTH, 6, OTHER)[200] == 6


def test_a_dealer_cannot_raise_the_rate_of_the_installation(tmp_path: Path) -> None:
    own = '\n[rate_limits]\naddress = "100/hour"\n'
    with platform(tmp_path / "i", 'address = "6/hour"', north=own) as running:
        assert searches(running, NORTH, 8)[200] == 6
