"""How many connections the SFTP server has, and which addresses failed to log in too often."""

import pytest

from dealer_agent.feeds.collection import upload_limits
from dealer_agent.feeds.collection.upload_limits import FAILURE_SECONDS, ConnectionLimits, counted_as

pytestmark = pytest.mark.outside_protocol("uploads of feeds by SFTP")


@pytest.fixture
def limits() -> ConnectionLimits[str]:
    return ConnectionLimits(most=3, most_per_address=2, failed_logins=2)


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("fe80::1%eth0", "fe80::"),
        ("", ""),
    ],
)
def test_an_ipv6_client_counts_by_its_network(address: str, counted: str) -> None:
    assert counted_as(address) == counted


def test_an_address_has_a_bound_of_its_own(limits: ConnectionLimits[str]) -> None:
    assert [limits.admit(name, "192.0.2.1", 0) for name in ("a", "b", "c")] == [None, None, "c"]
    assert limits.admit("d", "192.0.2.2", 0) is None
    limits.remove("a")
    assert limits.admit("e", "192.0.2.1", 0) is None
    assert len(limits) == 3


def test_a_new_connection_replaces_the_one_that_has_waited_longest_for_its_login(limits: ConnectionLimits[str]) -> None:
    for number, name in enumerate(("a", "b", "c")):
        assert limits.admit(name, f"192.0.2.{number}", 0) is None
    limits.log_in("a")
    assert limits.admit("d", "192.0.2.9", 0) == "b"
    limits.log_in("c")
    limits.log_in("d")
    assert limits.admit("e", "192.0.2.9", 0) == "e"
    assert len(limits) == 3


def test_failed_logins_count_for_a_time_also_on_other_connections(limits: ConnectionLimits[str]) -> None:
    limits.admit("a", "2001:db8::1", 0)
    limits.fail("a", 0)
    limits.log_in("a")
    limits.remove("a")
    limits.admit("b", "2001:db8::2", 1)
    limits.fail("b", 1)
    limits.remove("b")
    assert limits.admit("c", "2001:db8::3", 2) == "c"
    assert limits.admit("c", "192.0.2.1", 2) is None
    assert limits.admit("d", "2001:db8::3", FAILURE_SECONDS) is None


def test_a_bounded_number_of_addresses_is_remembered(
    limits: ConnectionLimits[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload_limits, "MOST_REMEMBERED", 2)
    for number in range(3):
        limits.admit("a", f"192.0.2.{number}", 0)
        limits.fail("a", 0)
        limits.fail("a", 0)
        limits.remove("a")
    assert limits.admit("a", "192.0.2.0", 1) is None
    assert limits.admit("b", "192.0.2.2", 1) == "b"
