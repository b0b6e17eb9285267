"""`dealer-agent deliveries`, and `serve` that refuses a channel without what it needs (docs/reference/delivery.md)."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.acceptance.dealers import stocked_dealer
from tests.acceptance.running import command_here, succeed_here
from tests.storage.calls import at_time

from dealer_agent.config import load_settings
from dealer_agent.dealers.routing import NewDelivery
from dealer_agent.leads.consent_events import ConsentRecord
from dealer_agent.leads.records import LeadRecord
from dealer_agent.storage.deliveries import outbox
from dealer_agent.storage.deliveries.outbox import Receiver
from dealer_agent.storage.leads.stored_leads import record_lead
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

pytestmark = pytest.mark.outside_protocol("the command `deliveries`")

NORTH = "Acceptance Motors North"


@dataclass
class Outbox:
    """A dealer's folder whose outbox holds one delivery in each state."""

    folder: Path
    ids: dict[str, str]

    def run(self, *words: str) -> str:
        return succeed_here("deliveries", *words, "--dir", self.folder)

    def refused(self, *words: str) -> str:
        done = command_here("deliveries", *words, "--dir", self.folder)
        assert done.returncode != 0
        return " ".join(done.stderr.split())


@pytest.fixture
def sent_and_not(tmp_path: Path) -> Outbox:
    folder = stocked_dealer(tmp_path / "store")
    settings = load_settings(folder, {})
    dealer, cipher, now = settings.dealer.id, settings.cipher, datetime.now(UTC)
    assert cipher is not None
    with Store.open(settings.database_url, cipher) as store:
        store.check_keys(dealer)
        writer = store.lead_writer()
        record = LeadRecord(
            lead_id="01LEAD",
            received_at=now,
            source_agent="Example Agent",
            status="received",
            rooftop=NORTH,
            customer=b'{"first_name":"Sam","last_name":"Sample","email":"sam@example.com"}',
            payload=b'{"type":"lead.submit.request"}',
        )
        consent = ConsentRecord(
            received_at=now,
            granted_at=now,
            channels=("email",),
            scope=("lead_submission",),
            purpose="lead",
            consent_text="I agree.",
            request_hash=b"hash",
        )

        def job(tx: Transaction) -> dict[str, str]:
            record_lead(tx, record, consent, contacts=[], vehicle_key=None)
            made: dict[str, str] = {}
            for number, state in enumerate(("waiting", "sent", "undeliverable", "dropped", "being sent")):
                at = now + timedelta(milliseconds=number)
                receiver: Receiver = (NORTH, "web" if state == "undeliverable" else "crm")
                (made[state],) = outbox.enqueue(at_time(tx, at), "01LEAD", [NewDelivery("lead", *receiver)])
                if state == "waiting":
                    continue
                claimed = outbox.claim(at_time(tx, at), timedelta(hours=1), receiver, 10)
                mine = next(delivery for delivery in claimed if delivery.delivery_id == made[state])
                others = [delivery for delivery in claimed if delivery is not mine]
                for other in others:
                    outbox.release(tx, other)
                match state:
                    case "sent":
                        outbox.settle_sent(at_time(tx, now), mine)
                    case "undeliverable":
                        outbox.give_up(at_time(tx, now), mine, "answered 503")
                    case "dropped":
                        outbox.drop(at_time(tx, now), mine, "the customer's data was erased")
            return made

        ids = writer.submit(dealer, job).result(60)
        writer.close()
    return Outbox(folder, ids)


def test_a_list_tells_of_each_where_it_goes_and_what_became_of_it(sent_and_not: Outbox) -> None:
    said = sent_and_not.run("list")
    rows = {line.split()[0]: line for line in said.splitlines() if "01LEAD" in line}
    for state, delivery_id in sent_and_not.ids.items():
        assert state in rows[delivery_id]
        assert NORTH in rows[delivery_id]
    assert "answered 503" in rows[sent_and_not.ids["undeliverable"]]
    assert "Sam" not in said


@pytest.mark.parametrize(
    ("asked", "states"),
    [
        (("--state", "undeliverable"), {"undeliverable"}),
        (("--state", "sent"), {"sent"}),
        (("--state", "waiting"), {"waiting", "being sent"}),
        (("--channel", "web"), {"undeliverable"}),
        (("--state", "sent", "--channel", "web"), set()),
        (("--lead", "01OTHER"), set()),
        (("--limit", "1"), {"being sent"}),
    ],
)
def test_a_list_can_be_asked_for_less(sent_and_not: Outbox, asked: tuple[str, ...], states: set[str]) -> None:
    said = sent_and_not.run("list", *asked)
    assert {state for state, delivery_id in sent_and_not.ids.items() if delivery_id in said} == states
    assert bool(states) != ("No such deliveries." in said)


def test_show_prints_all_about_a_delivery_and_refuses_an_unknown_id(sent_and_not: Outbox) -> None:
    said = sent_and_not.run("show", sent_and_not.ids["undeliverable"])
    for word in ("undeliverable", "01LEAD", NORTH, "web", "tries: 1", "problem: answered 503"):
        assert word in said
    assert "There is no delivery 01NONE" in sent_and_not.refused("show", "01NONE")


def test_one_that_is_undeliverable_is_tried_again(sent_and_not: Outbox) -> None:
    undeliverable = sent_and_not.ids["undeliverable"]
    assert "1 delivery is tried again" in sent_and_not.run("retry", undeliverable)
    said = sent_and_not.run("show", undeliverable)
    assert "waiting" in said.splitlines()[0]
    assert "tries: 0" in said


def test_one_that_was_sent_is_sent_again_under_a_new_id(sent_and_not: Outbox) -> None:
    said = sent_and_not.run("send-again", sent_and_not.ids["sent"])
    (new_id,) = [word for word in said.split() if len(word) == 26]
    assert new_id not in sent_and_not.ids.values()
    assert "resend" in sent_and_not.run("show", new_id)
    assert "There is no delivery and no lead 01NONE" in sent_and_not.refused("send-again", "01NONE")
    assert "deliveries retry" in sent_and_not.refused("send-again", sent_and_not.ids["undeliverable"])


@pytest.mark.parametrize("state", ["sent", "dropped"])
def test_what_was_sent_or_must_not_be_is_not_tried_again(sent_and_not: Outbox, state: str) -> None:
    assert f"was {state}" in sent_and_not.refused("retry", sent_and_not.ids[state])


@pytest.mark.parametrize(
    ("words", "count"), [(("--all",), "3 deliveries are"), (("--all", "--channel", "web"), "1 delivery is")]
)
def test_all_or_those_of_a_channel_are_tried_again(sent_and_not: Outbox, words: tuple[str, ...], count: str) -> None:
    assert f"{count} tried again" in sent_and_not.run("retry", *words)
    assert sent_and_not.ids["undeliverable"] in sent_and_not.run("list", "--state", "waiting")


@pytest.mark.parametrize("words", [(), ("--channel", "web"), ("01A", "--all"), ("01A", "--channel", "web")])
def test_a_retry_says_clearly_what_is_meant(sent_and_not: Outbox, words: tuple[str, ...]) -> None:
    assert "--all" in sent_and_not.refused("retry", *words)
    assert sent_and_not.ids["undeliverable"] in sent_and_not.run("list", "--state", "undeliverable")


def test_a_dealer_without_leads_has_no_deliveries(tmp_path: Path) -> None:
    folder = stocked_dealer(tmp_path / "store")
    assert succeed_here("deliveries", "list", "--dir", folder) == "No deliveries yet.\n"


@pytest.mark.parametrize(
    ("words", "taught"),
    [
        ((), ("list", "show", "retry", "send-again")),
        (("list",), ("--state", "--channel", "--lead", "--limit", "--dir")),
        (("show",), ("deliveries list", "--dir")),
        (("retry",), ("--all", "--channel", "--dir")),
    ],
)
def test_help_of_a_command_names_its_options_and_related_commands(
    words: tuple[str, ...], taught: tuple[str, ...]
) -> None:
    done = command_here("deliveries", *words, "--help")
    assert done.returncode == 0
    for word in taught:
        assert word in done.stdout


def test_serve_refuses_a_channel_without_its_secret_and_names_the_key(tmp_path: Path) -> None:
    folder = stocked_dealer(tmp_path / "store")
    channel = '[[rooftops.deliver.http]]\nname = "web"\nurl = "https://crm.example.com"\nsecret_env = "CRM_SECRET"\n'
    with (folder / "dealer.toml").open("a", encoding="utf-8") as file:
        file.write(channel)
    done = command_here("serve", "--dir", folder)
    assert done.returncode == 1
    told = " ".join(done.stderr.split())
    assert "rooftops[1].deliver.http[0].secret_env: the environment variable CRM_SECRET is not set" in told
