"""Leads of many dealers are delivered, and no dealer delays another (docs/reference/delivery.md)."""

import itertools
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.asking import lead as lead_members
from tests.acceptance.running import eventually
from tests.delivery.receivers import HttpReceiver, always, receiving_http
from tests.installation.platform import INSTALLATION_TOML, LOCAL, add, dealer_toml, make_installation, run_installation
from tests.server.dealership import Dealership, message
from tests.soak import SQLITE_FIRST
from tests.storage.calls import read, write
from tests.storage.samples import consent, lead
from tests.storage.service_role import admin_of, prepared_schema

from dealer_agent.config.installation import Installation
from dealer_agent.dealers.routing import NewDelivery
from dealer_agent.delivery import loop as loops
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.storage.deliveries import outbox
from dealer_agent.storage.deliveries.outbox import DeliveryRecord, list_deliveries
from dealer_agent.storage.installation.dealer_registry import change_settings, remove_dealer, set_state
from dealer_agent.storage.leads.stored_leads import record_lead
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

pytestmark = pytest.mark.outside_protocol("many dealers in one service")

HANGS, REFUSES, WORKS = "hanging-motors", "refusing-motors", "working-motors"
BURST = 100
"""Leads of the dealer whose CRM hangs: more than it may have in progress."""
PAYLOAD = json.dumps(
    {
        "type": "lead.submit.request",
        "customer": {"first_name": "Sam", "last_name": "Sample", "email": "sam@example.com"},
        "source_agent": "Example Agent",
        "message": "Is it still there?",
    }
).encode()
on_postgresql = pytest.mark.parametrize(
    "installation", ["postgresql", pytest.param("sqlite", marks=pytest.mark.soak)], indirect=True
)
"""For a test of much at once."""
RETRIES = """
[delivery]
first_retry_seconds = 1
breaker_seconds = 1
"""


def crm(url: str, more: str = "") -> str:
    """The channel of a dealer's only rooftop."""
    return f'[[rooftops.deliver.http]]\nname = "crm"\nurl = "{url}"\ntimeout_seconds = 100\n{more}'


@pytest.fixture(autouse=True)
def quick_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "STOP_SECONDS", 0.3)


@pytest.fixture
def receivers() -> Iterator[dict[str, HttpReceiver]]:
    """One receiver for each dealer, which does what the dealer's name says."""
    behaviours = {HANGS: "hang", REFUSES: "fail", WORKS: "take"}
    with ExitStack() as running:
        yield {
            dealer_id: running.enter_context(receiving_http(HttpReceiver(always(behaviour))))
            for dealer_id, behaviour in behaviours.items()
        }


@pytest.fixture(params=SQLITE_FIRST)
def installation(
    request: pytest.FixtureRequest, tmp_path: Path, receivers: dict[str, HttpReceiver]
) -> Iterator[Installation]:
    """Three dealers."""
    with ExitStack() as closing:
        env = {}
        if request.param == "postgresql":
            schemas = prepared_schema(request.getfixturevalue("postgresql_server"))
            _, env["DATABASE_URL"] = closing.enter_context(schemas)
        made = make_installation(tmp_path / "installation", INSTALLATION_TOML + RETRIES + LOCAL, env)
        for dealer_id, receiver in receivers.items():
            add(made, dealer_id, more=crm(receiver.url))
        yield made


@contextmanager
def opened(installation: Installation) -> Iterator[Store]:
    with Store.open(admin_of(installation.database_url), installation.cipher, many_dealers=True) as store:
        yield store


def store_leads(store: Store, dealer_id: str, count: int, channel: str = "crm") -> list[str]:
    """Stores leads for a channel of a dealer, and returns their ids."""
    rooftop = dealer_id.replace("-", " ").title()
    ids = [new_ulid() for _ in range(count)]
    store.check_keys(dealer_id)

    def job(tx: Transaction) -> None:
        for lead_id in ids:
            record = lead(lead_id, tx.now, rooftop=rooftop, payload=PAYLOAD)
            agreed = consent(tx.now, channels=("email",))
            record_lead(tx, record, agreed, contacts=[f"{lead_id}@example.com"], vehicle_key=None)
            outbox.enqueue(tx, lead_id, [NewDelivery("lead", rooftop, channel)])

    writer = store.lead_writer()
    try:
        writer.submit(dealer_id, job).result(120)
    finally:
        writer.close()
    return ids


def rows(store: Store, dealer_id: str) -> list[DeliveryRecord]:
    return read(store, dealer_id, list_deliveries, 10_000)


def states(store: Store, dealer_id: str) -> set[str]:
    return {row.state for row in rows(store, dealer_id)}


def send_lead(platform: Dealership, dealer_id: str, number: int = 1) -> str:
    """Sends a lead to a dealer, and returns its id."""
    members = lead_members(number)
    members.pop("vehicle_of_interest", None)
    posted = platform.post(message("lead.submit", **members), f"/d/{dealer_id}/message:send")
    assert posted.status_code == 200, posted.text
    lead_id: str = posted.json()["message"]["parts"][0]["data"]["data"]["lead_id"]
    return lead_id


@on_postgresql
def test_a_burst_at_a_hanging_crm_and_a_refusing_one_delay_no_other_dealer(
    installation: Installation, receivers: dict[str, HttpReceiver]
) -> None:
    with opened(installation) as store:
        store_leads(store, HANGS, BURST)
        store_leads(store, REFUSES, 5)
        with run_installation(installation) as platform:
            eventually("the slots of the CRM are in use", lambda: receivers[HANGS].did["hang"])
            lead_id = send_lead(platform, WORKS)
            eventually("the lead arrives", lambda: receivers[WORKS].taken)
            eventually("it is settled", lambda: states(store, WORKS) == {"sent"})
            eventually("the refusal is recorded", lambda: any(row.problem for row in rows(store, REFUSES)))
            # Nothing of the burst has ended.
            assert states(store, HANGS) == {"waiting"}
            assert receivers[HANGS].did["hang"] <= loops.CHANNEL_CONCURRENCY
        (row,) = rows(store, WORKS)
        assert row.lead_id == lead_id
        (taken,) = receivers[WORKS].taken
        assert taken.headers["x-delivery-id"] == row.delivery_id


@on_postgresql
def test_what_waits_at_the_start_is_delivered_for_every_dealer(
    installation: Installation, receivers: dict[str, HttpReceiver]
) -> None:
    receivers[HANGS].behaviour = receivers[REFUSES].behaviour = always("take")
    with opened(installation) as store:
        for dealer_id in receivers:
            store_leads(store, dealer_id, 3)
        with run_installation(installation):
            eventually("everything is sent", lambda: all(states(store, dealer) == {"sent"} for dealer in receivers))
            for dealer_id, receiver in receivers.items():
                sent = {row.delivery_id for row in rows(store, dealer_id)}
                assert {posted.headers["x-delivery-id"] for posted in receiver.taken} == sent


def test_a_dealer_with_a_missing_secret_delays_only_itself(
    installation: Installation, receivers: dict[str, HttpReceiver], monkeypatch: pytest.MonkeyPatch
) -> None:
    variable = "DEALER_REFUSING_MOTORS__KEY"
    receivers[REFUSES].behaviour = always("take")
    wrong = dealer_toml(REFUSES, crm(receivers[REFUSES].url, f'secret_env = "{variable}"\n')).encode()
    logged: list[dict[str, Any]] = []
    monkeypatch.setattr(loops, "WRONG_DEALER_SECONDS", 0.1)
    monkeypatch.setattr(loops.log, "error", lambda event, **facts: logged.append({"event": event, **facts}))
    with opened(installation) as store:
        write(store, REFUSES, change_settings, wrong, expected=1, actor="test")
        store_leads(store, REFUSES, 2)
        with run_installation(installation) as platform:
            eventually("it is logged", lambda: logged)
            for number in range(3):
                send_lead(platform, WORKS, number)
            eventually("other leads arrive", lambda: len(receivers[WORKS].taken) == 3)
            assert {(each["event"], each["dealer"]) for each in logged} == {("deliveries of a dealer wait", REFUSES)}
            assert variable in logged[0]["problem"]
            # Once, and once more where the changed settings are noticed only now: not at every attempt.
            assert len(logged) <= 2
            assert states(store, REFUSES) == {"waiting"}
            right = dealer_toml(REFUSES, crm(receivers[REFUSES].url)).encode()
            write(store, REFUSES, change_settings, right, expected=2, actor="test")
            eventually("its leads are sent", lambda: states(store, REFUSES) == {"sent"})


def test_a_changed_address_holds_for_the_next_delivery(
    installation: Installation, receivers: dict[str, HttpReceiver]
) -> None:
    numbers = itertools.count(1)
    with (
        opened(installation) as store,
        receiving_http(HttpReceiver(always("take"))) as new,
        run_installation(installation) as platform,
    ):
        send_lead(platform, WORKS, next(numbers))
        eventually("the first lead arrives", lambda: receivers[WORKS].taken)
        write(store, WORKS, change_settings, dealer_toml(WORKS, crm(new.url)).encode(), expected=1, actor="test")

        def arrives_there() -> bool:
            send_lead(platform, WORKS, next(numbers))
            return bool(new.taken)

        eventually("a lead arrives at the new address", arrives_there, every=0.5)


def test_an_outlet_of_a_dealer_reaches_no_private_address(tmp_path: Path, receivers: dict[str, HttpReceiver]) -> None:
    installation = make_installation(tmp_path / "installation", INSTALLATION_TOML + RETRIES)
    add(installation, WORKS, more=crm(receivers[WORKS].url))
    with opened(installation) as store:
        store_leads(store, WORKS, 1)
        with run_installation(installation):
            problem = eventually("it is refused", lambda: rows(store, WORKS)[0].problem)
    assert "has an address that is not public" in problem
    assert receivers[WORKS].connections == 0


def test_deliveries_of_a_disabled_dealer_wait(installation: Installation, receivers: dict[str, HttpReceiver]) -> None:
    with opened(installation) as store:
        write(store, WORKS, set_state, enabled=False)
        store_leads(store, WORKS, 3)
        store_leads(store, REFUSES, 1)
        with run_installation(installation):
            eventually("others are tried", lambda: any(row.problem for row in rows(store, REFUSES)))
            assert {(row.state, row.attempts) for row in rows(store, WORKS)} == {("waiting", 0)}
            write(store, WORKS, set_state, enabled=True)
            eventually("its leads are sent", lambda: states(store, WORKS) == {"sent"})
    assert len(receivers[WORKS].taken) == 3


@on_postgresql
def test_deliveries_of_a_removed_dealer_end(installation: Installation, receivers: dict[str, HttpReceiver]) -> None:
    with opened(installation) as store:
        store_leads(store, HANGS, BURST)
        with run_installation(installation) as platform:
            eventually("some are tried", lambda: receivers[HANGS].did["hang"])
            remove_dealer(store, HANGS)
            send_lead(platform, WORKS)
            eventually("other leads arrive", lambda: receivers[WORKS].taken)
            assert rows(store, HANGS) == []
    assert receivers[HANGS].did["hang"] <= loops.CHANNEL_CONCURRENCY


def test_a_lead_for_a_channel_that_is_gone_is_undeliverable(installation: Installation) -> None:
    with opened(installation) as store:
        store_leads(store, WORKS, 2, channel="gone")
        with run_installation(installation):
            eventually("they are undeliverable", lambda: states(store, WORKS) == {"undeliverable"})
