"""The public address as the service sees it: its card, and its certificate."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.delivery.certificates import server_certificate
from tests.delivery.receivers import NOBODY, HttpReceiver, always, receiving_http

from dealer_agent.alerts.observing import MOST_BYTES, PublicAddress, observe_address
from dealer_agent.config.alert_settings import AlertSettings

pytestmark = pytest.mark.outside_protocol("alerts")

SETTINGS = AlertSettings()


def answering(body: bytes, status: str = "200 OK") -> HttpReceiver:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n"
    return HttpReceiver(always("take"), answer=head.encode() + body)


@pytest.mark.parametrize(
    ("receiver", "works"),
    [
        pytest.param(answering(b'{"url": "https://store.example.com"}'), True, id="the card"),
        pytest.param(answering(b'{"url": "https://other.example.com"}'), False, id="another card"),
        pytest.param(answering(b"https://store.example.com", "503 Unavailable"), False, id="an error"),
        pytest.param(answering(b"https://store.example.com", "302 Found"), False, id="a redirect"),
        pytest.param(answering(b" " * (MOST_BYTES + 1)), False, id="too much"),
        pytest.param(HttpReceiver(always("cut")), False, id="a connection that breaks"),
    ],
)
def test_the_address_works_if_it_has_the_card(receiver: HttpReceiver, works: bool) -> None:
    with receiving_http(receiver) as running:
        address = PublicAddress("https://store.example.com", running.url, "https://store.example.com")
        seen = observe_address(address, SETTINGS, datetime.now(UTC))
    assert [each.subject for each in seen["public_address_failing"]] == ([] if works else ["https://store.example.com"])


def test_a_public_address_without_a_server_fails_the_check() -> None:
    address = PublicAddress("name", f"http://127.0.0.1:{NOBODY}/", "")
    assert len(observe_address(address, SETTINGS, datetime.now(UTC))["public_address_failing"]) == 1


def test_a_certificate_causes_an_alert_before_it_expires(tmp_path: Path) -> None:
    """The certificate of the tests is valid for a day."""
    server, trusted = server_certificate(tmp_path)
    now = datetime.now(UTC)
    with receiving_http(answering(b"ok"), server) as running:
        url = running.url.replace("http://", "https://")
        trusting = PublicAddress(url, url, "ok", ssl.create_default_context(cafile=str(trusted)))
        seen = observe_address(trusting, SETTINGS, now)
        assert seen["public_address_failing"] == []
        (expiring,) = seen["certificate_expiring"]
        assert expiring.subject == "127.0.0.1"
        assert expiring.since is not None
        assert timedelta(hours=20) < expiring.since - now < timedelta(days=2)
        assert observe_address(trusting, SETTINGS, now - timedelta(days=20))["certificate_expiring"] == []
        untrusted = observe_address(PublicAddress(url, url, "ok"), SETTINGS, now)
        assert len(untrusted["public_address_failing"]) == 1
