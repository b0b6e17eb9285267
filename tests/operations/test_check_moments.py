"""What `dealer-agent doctor` says at a moment: of feeds, keys, clocks, certificates, deliveries and replicas."""

import json
import socket
import threading
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.acceptance.dealers import stock_of_three, stocked_dealer
from tests.delivery.certificates import server_certificate
from tests.delivery.receivers import HttpReceiver, always, one_after_the_other, receiving_http

from dealer_agent import __version__
from dealer_agent.config import Settings, load_settings
from dealer_agent.config.alert_settings import AlertSettings
from dealer_agent.config.installation import installation_of
from dealer_agent.config.settings import MetricsSettings
from dealer_agent.config.sftp import SftpSettings
from dealer_agent.dealers.profile import Deliver, HttpChannel
from dealer_agent.feeds.collection.collection import feed_rows
from dealer_agent.operations import inside_checks as checks
from dealer_agent.operations.checks import DoctorFinding, Examined
from dealer_agent.operations.outside_checks import check_address, check_channels, check_metrics, check_sftp_server
from dealer_agent.server.replica_record import settings_hash
from dealer_agent.storage.alerts import confirm_key_copy
from dealer_agent.storage.installation.replicas import record_replica
from dealer_agent.storage.stock.feeds import put_feeds
from dealer_agent.storage.store import Store

pytestmark = pytest.mark.outside_protocol("the command `doctor`")


def photographed() -> list[dict[str, Any]]:
    """A stock about which no check warns."""
    return [unit | {"photos": ["https://example.com/1.jpg"]} for unit in stock_of_three()]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A dealer whose stock was imported just before."""
    return load_settings(stocked_dealer(tmp_path_factory.mktemp("doctor") / "store", units=photographed()), {})


def examined(settings: Settings, store: Store, now: datetime) -> Examined:
    return Examined({}, now, installation_of(settings, {}), settings, opened=store)


def statuses(found: list[DoctorFinding]) -> list[str]:
    return [finding.status for finding in found]


@pytest.mark.parametrize(("days", "status"), [(0, "ok"), (1, "ok"), (2, "warning"), (8, "problem")])
def test_a_feed_is_late_after_a_day_and_old_after_a_week(settings: Settings, days: int, status: str) -> None:
    with Store.open(settings.database_url, settings.cipher) as store:
        found = list(checks.check_feeds(examined(settings, store, datetime.now(UTC) + timedelta(days=days))))
    assert set(statuses(found)) == {status}
    zones = [("EST", "EDT"), ("CST", "CDT")] if status != "ok" else [("EST", "EDT")]
    for finding, names in zip(found, zones, strict=True):
        assert any(name in finding.says for name in names), "times are in the zone of the rooftop"


def test_the_warnings_of_the_newest_file_are_said_and_never_ok(tmp_path: Path) -> None:
    settings = load_settings(stocked_dealer(tmp_path / "store"), {})
    with Store.open(settings.database_url, settings.cipher) as store:
        (warned,) = checks.check_feeds(examined(settings, store, datetime.now(UTC)))
    assert (warned.status, warned.advice) == ("warning", "dealer-agent inventory history")
    assert "stock.json, has 1 warning: " in warned.says


def test_an_automatic_feed_that_is_late_is_named(tmp_path: Path) -> None:
    (tmp_path / "drop").mkdir()
    feed = f'\n[[feeds]]\nname = "vendor"\nlate_after_hours = 5\n[feeds.folder]\npath = "{tmp_path / "drop"}"\n'
    settings = load_settings(stocked_dealer(tmp_path / "store", feed, photographed()), {})
    now = datetime.now(UTC)
    with Store.open(settings.database_url, settings.cipher) as store:
        with store.write(settings.dealer.id, now) as tx:
            put_feeds(tx, feed_rows(settings))
        assert statuses(list(checks.check_feeds(examined(settings, store, now)))) == ["ok"]
        (late,) = checks.check_feeds(examined(settings, store, now + timedelta(hours=6)))
    assert (late.status, late.says) == ("warning", "vendor: no file has arrived")
    assert late.advice == "dealer-agent feeds show vendor"


@pytest.mark.parametrize(
    ("days", "status"), [(0, "ok"), (31, "ok"), (40, "warning")], ids=["new", "just due", "overdue"]
)
def test_a_key_that_is_not_replaced_gets_a_warning(settings: Settings, days: int, status: str) -> None:
    now = datetime.now(UTC) + timedelta(days=days)
    with Store.open(settings.database_url, settings.cipher) as store:
        keyring = store.check_keys(settings.dealer.id).keyring
        with store.write(settings.dealer.id, now) as tx:
            confirm_key_copy(tx, keyring.active)
        found = checks.check_the_keys(examined(settings, store, now))
        assert statuses(list(found)) == [status]


@pytest.mark.parametrize(("seconds", "status"), [(0, "ok"), (60, "ok"), (61, "warning"), (301, "problem")])
def test_clocks_may_differ_by_some_seconds(seconds: int, status: str) -> None:
    assert checks.clock_finding(timedelta(seconds=seconds), "the database server", AlertSettings()).status == status


def test_a_clock_long_before_the_last_run_is_a_problem(settings: Settings) -> None:
    with Store.open(settings.database_url, settings.cipher) as store:
        found = list(checks.check_clock(examined(settings, store, datetime.now(UTC) - timedelta(days=100))))
    assert statuses(found) == ["problem"]


def test_every_zone_has_the_same_rules_in_both_databases_or_is_named(settings: Settings) -> None:
    found = list(checks.check_time_zones(Examined({}, datetime.now(UTC), installation_of(settings, {}), settings)))
    assert found
    assert all("America/" in finding.says for finding in found)


def test_machines_with_other_settings_or_another_version_are_named(settings: Settings) -> None:
    served = installation_of(settings, {})
    dealer_id, own = settings.dealer.id, settings_hash(served)
    now = datetime.now(UTC) + timedelta(hours=1)

    def found(**machines: tuple[str, str]) -> list[DoctorFinding]:
        nonlocal now
        now += timedelta(hours=1)  # The machines of before are forgotten.
        with Store.open(settings.database_url, settings.cipher) as store:
            for machine, (version, hashed) in machines.items():
                with store.write(dealer_id, now) as tx:
                    record_replica(tx, machine, version, hashed)
            return list(checks.check_replicas(examined(settings, store, now)))

    assert statuses(found()) == ["skipped"]
    assert statuses(found(one=(__version__, own), two=(__version__, own))) == ["ok"]
    (other,) = found(one=(__version__, own), two=(__version__, "f" * 16))
    assert (other.status, other.says.startswith("two runs with other settings")) == ("warning", True)
    (versions,) = found(one=(__version__, own), two=("99.0", own))
    assert (versions.status, "99.0" in versions.says) == ("warning", True)


def card(base: str, version: str = __version__) -> bytes:
    """A response with a card that names this address."""
    interfaces = [{"url": base}, {"url": f"{base}/rpc"}]
    body = json.dumps({"supportedInterfaces": interfaces, "version": version})
    date = format_datetime(datetime.now(UTC), usegmt=True)
    return f"HTTP/1.1 200 OK\r\nDate: {date}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


def at(settings: Settings, url: str, now: datetime) -> Examined:
    service = msgspec.structs.replace(settings.service, public_url=url)
    changed = msgspec.structs.replace(settings, service=service)
    return Examined({}, now, installation_of(changed, {}), changed)


def test_the_certificate_of_the_public_address_is_checked(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The certificate of the test is valid for a day."""
    context, trusted = server_certificate(tmp_path)
    with receiving_http(HttpReceiver(always("take")), context) as receiver:
        url = f"https://127.0.0.1:{receiver.port}"
        receiver.answer = card(url)
        (untrusted,) = check_address(at(settings, url, datetime.now(UTC)))
        assert (untrusted.status, "certificate is not valid" in untrusted.says) == ("problem", True), untrusted
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
        now = datetime.now(UTC)
        soon, _, names = check_address(at(settings, url, now))
        assert (soon.status, names.status) == ("warning", "ok")
        receiver.answer = card(url)
        later, *_ = check_address(at(settings, url, now - timedelta(days=20)))
        assert later.status == "ok"


@pytest.mark.parametrize(
    ("answer", "status", "says"),
    [
        (card("https://other.example.com"), "problem", "names https://other.example.com"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", "problem", "names no URL"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n<a", "problem", "names no URL"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno", "problem", "answers 404"),
        (b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", "problem", "answers 302"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n" + bytes(9_000_000), "problem", "answers 200 with"),
    ],
    ids=["another address", "a list", "no JSON", "not found", "a redirect", "too long"],
)
def test_another_answer_than_the_card_is_a_problem(settings: Settings, answer: bytes, status: str, says: str) -> None:
    with receiving_http(HttpReceiver(always("take"))) as receiver:
        receiver.answer = answer
        found = list(check_address(at(settings, f"http://127.0.0.1:{receiver.port}", datetime.now(UTC))))
    assert (found[-1].status, says in found[-1].says) == (status, True), found


def test_an_older_version_behind_the_public_address_gets_a_warning(settings: Settings) -> None:
    with receiving_http(HttpReceiver(always("take"))) as receiver:
        url = f"http://127.0.0.1:{receiver.port}"
        receiver.answer = card(url, "0.0.1")
        found = list(check_address(at(settings, url, datetime.now(UTC))))
    assert (found[-1].status, "0.0.1" in found[-1].says) == ("warning", True)


def test_a_channel_of_a_dealer_of_an_installation_needs_an_allowed_address(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, trusted = server_certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    with receiving_http(HttpReceiver(always("take")), context) as receiver:
        channel = HttpChannel(name="crm", url=f"https://127.0.0.1:{receiver.port}/")
        rooftop = msgspec.structs.replace(settings.dealer.rooftops[0], deliver=Deliver(http=(channel,)))
        dealer = msgspec.structs.replace(settings.dealer, rooftops=(rooftop,))
        of_folder = msgspec.structs.replace(settings, dealer=dealer)
        of_installation = msgspec.structs.replace(of_folder, installation=tmp_path)
        (accepted,) = check_channels(Examined({}, datetime.now(UTC), installation_of(of_folder, {}), of_folder))
        (refused,) = check_channels(Examined({}, datetime.now(UTC), installation_of(of_folder, {}), of_installation))
    assert (accepted.status, refused.status) == ("ok", "problem")
    assert "private_networks" in refused.advice


def test_an_sftp_server_and_metrics_that_answer_are_in_order(settings: Settings) -> None:
    def with_sections(**sections: Any) -> Examined:
        changed = msgspec.structs.replace(settings, **sections)
        return Examined({}, datetime.now(UTC), installation_of(changed, {}), changed)

    behaviour, answer = one_after_the_other("take", "refuse"), b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    with receiving_http(HttpReceiver(behaviour, answer)) as page:
        (metrics,) = check_metrics(with_sections(metrics=MetricsSettings(enabled=True, host="0.0.0.0", port=page.port)))
        (no_sftp,) = check_sftp_server(with_sections(sftp=SftpSettings(enabled=True, port=page.port)))
    assert (metrics.status, no_sftp.status) == ("ok", "problem")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            server.accept()[0].sendall(b"SSH-2.0-AsyncSSH\r\n")

        thread = threading.Thread(target=greet)
        thread.start()
        (sftp,) = check_sftp_server(with_sections(sftp=SftpSettings(enabled=True, port=server.getsockname()[1])))
        thread.join()
    assert sftp.status == "ok"
