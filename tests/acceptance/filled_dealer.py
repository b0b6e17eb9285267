"""A dealer whose every table has rows, with values that are as long as real ones get. All of it is invented."""

import asyncio
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import create_engine, update
from tests.acceptance.dealers import stocked_dealer
from tests.skills.sample_dealers import a_lead
from tests.skills.visiting import listing

from dealer_agent.callers import ANONYMOUS, Caller
from dealer_agent.config import Settings, load_settings
from dealer_agent.encryption.card_signer import CardSigner
from dealer_agent.feeds.collection.collection import feed_rows
from dealer_agent.holds import HoldRequest, HoldRules, begin_hold
from dealer_agent.inventory.catalogue import Catalogue
from dealer_agent.lead_intake.intake import LeadIntake
from dealer_agent.leads.received_lead import PreparedLead
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.protocol.skill import LeadSubmitRequest
from dealer_agent.protocol.timestamps import utc_text
from dealer_agent.storage.alerts import AlertState, NewMessage, add_message, store_alert
from dealer_agent.storage.database_url import database_url
from dealer_agent.storage.jobs import claim_job
from dealer_agent.storage.offers import StoredQuote, add_quote
from dealer_agent.storage.schema import outbox
from dealer_agent.storage.stock.feeds import add_file, finish_file, put_feeds, read_feed
from dealer_agent.storage.store import Store

NORTH, SOUTH = "Acceptance Motors North", "Acceptance Motors South"
STOCK = tuple(f"S{number}" for number in range(20))
"""The stock numbers of the vehicles, enough for a vehicle for each test drive."""
LOT = Catalogue.build([listing(stock, SOUTH) for stock in STOCK])
LONG_NAME = "Wolfeschlegelsteinhausenbergerdorff-Featherstonehaugh"
AGENT = "ExampleShoppingAgentOfACompany-AssistantEdition/2026.11 (example.com)"
PROBLEM = "crm.example.com answered 503 Service Unavailable, which may be a fault of the receiver or of its proxy"

EVERY_DAY = "\n".join(
    f'{day} = "00:00-24:00"' for day in ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
)
BOOKS = f"""
[rooftops.deliver]
notify = ["sales@example.com"]
[[rooftops.deliver.directory]]
name = "the-crm-of-the-southern-store"
path = "leads"
format = "json"
[rooftops.hours.sales]
{EVERY_DAY}
[rooftops.visits.test_drive]
places = 50
notice_minutes = 0
grid_minutes = 15
"""
MAIL = """
[mail]
host = "127.0.0.1"
security = "none"
from_address = "leads@example.com"
confirm_appointments = true
[[feeds]]
name = "the-nightly-export-of-the-inventory-vendor"
[feeds.folder]
path = "incoming"
pattern = "*.csv"
"""
QUOTE_SIGNER = CardSigner(b"1" * 32, "https://dealer.example/.well-known/jwks.json")
FEED = "the-nightly-export-of-the-inventory-vendor"


@dataclass
class Filled:
    """A folder with a dealer, without a running service."""

    folder: Path
    settings: Settings

    def take(
        self,
        now: datetime | None = None,
        drive_at: datetime | None = None,
        caller: Caller = ANONYMOUS,
        quarantined: bool = False,
        **members: Any,
    ) -> tuple[str, str | None]:
        """Stores a lead that arrives at `now`. Returns its id and that of its visit."""
        now = now or datetime.now(UTC)
        if drive_at is not None:
            members["appointment"] = {"appointment_type": "test_drive", "appointment_at": drive_at.isoformat()}
        agreed = {"granted_at": (now - timedelta(minutes=1)).isoformat()}
        lead = a_lead(source_agent=AGENT, **members)
        lead["consent"] |= agreed
        prepared = PreparedLead.of(msgspec.convert(lead, LeadSubmitRequest), lead, caller, b"", quarantined=quarantined)
        settings = self.settings
        with (
            Store.open(settings.database_url, settings.cipher) as store,
            closing(store.lead_writer()) as writer,
        ):
            intake = LeadIntake(settings.dealer, writer, confirms_by_mail=True)
            answer = asyncio.run(intake.submit(prepared, LOT, now, 120))
        data = msgspec.json.decode(answer.data)
        return data["lead_id"], data.get("appointment", {}).get("appointment_id")

    def take_feed_and_alert(self) -> None:
        """A refused file of the feed, an alert about it, and a message about the alert."""
        settings, now = self.settings, datetime.now(UTC)
        with Store.open(settings.database_url, settings.cipher) as store, store.lock(settings.dealer.id, now) as tx:
            put_feeds(tx, feed_rows(settings))
            job = claim_job(tx, "feed", FEED, timedelta(days=8))
            assert job is not None
            claimed = read_feed(tx, job)
            assert claimed is not None
            name = f"{'export-' * 9}.csv"
            file = add_file(tx, claimed, new_ulid(), name=name, size=1_234_567, content_hash=b"h", received_at=now)
            finish_file(tx, claimed, file, state="refused", problem=PROBLEM)
            store_alert(tx, AlertState("feed_refused", FEED, seen_at=now, started_at=now, unreported=1, since=now))
            add_message(tx, NewMessage("change", {"webhook": b"{}"}))

    def hold(self, vehicle_id: str) -> tuple[dict[str, Any], str]:
        """An agent holds a vehicle. Returns its quote, which QUOTE_SIGNER has signed, and the id of the hold."""
        line = {"label": "Vehicle price", "kind": "vehicle_price", "payee": "dealer", "amount": 25_000, "firm": True}
        tax = {"label": "State sales tax", "kind": "tax", "payee": "government", "amount": 1812.5, "firm": False}
        settings, now = self.settings, datetime.now(UTC)
        ends = now + timedelta(hours=2)
        quote: dict[str, Any] = {
            "quote_id": new_ulid(),
            "vehicle": {"vehicle_id": vehicle_id, "year": 2024, "make": "Honda", "model": "Accord"},
            "lines": [line, tax],
            "price": 25_000,
            "total": 26_812.5,
            "complete": False,
            "missing": ["title", "registration"],
            "jurisdiction": {"of": "rooftop", "state": "UT"},
            "currency": "USD",
            "created_at": utc_text(now),
            "valid_until": utc_text(ends),
            "terms": "The price is kept until then.",
        }
        quote["signature"] = QUOTE_SIGNER.signature_of(quote, "https://dealer.example/.well-known/offer-keys.json")
        agent, quote_id = "https://agent.example", str(quote["quote_id"])
        with Store.open(settings.database_url, settings.cipher) as store, store.lock(settings.dealer.id, now) as tx:
            add_quote(tx, StoredQuote(quote_id, vehicle_id, agent, now, ends, msgspec.json.encode(quote)))
            asked = HoldRequest(agent, quote_id, quote_id.encode(), b"request")
            held = begin_hold(tx, asked, HoldRules(timedelta(hours=2), 9, 9), lambda _: True)
        return quote, held.hold.hold_id

    def settle(self, lead_id: str, **values: Any) -> list[str]:
        """Changes the deliveries of a lead, as the service would. Returns their ids."""
        change = update(outbox).where(outbox.c.lead_id == lead_id).values(**values).returning(outbox.c.delivery_id)
        with create_engine(database_url(self.settings.database_url)).begin() as connection:
            return list(connection.execute(change).scalars())


def quarter(at: datetime) -> datetime:
    """The quarter of an hour that has begun."""
    return at.replace(minute=at.minute // 15 * 15, second=0, microsecond=0)


def customer(number: int, last_name: str = LONG_NAME) -> dict[str, Any]:
    """A customer with an e-mail address and a phone number of their own."""
    return {
        "first_name": "Maximiliana",
        "last_name": last_name,
        "email": f"customer{number}@example.com",
        "phone": f"+1202555{100 + number:04}",
    }


def open_dealer(folder: Path) -> Filled:
    """The dealer, with its stock of three, and without leads and files of feeds."""
    stocked_dealer(folder, MAIL)
    toml = folder / "dealer.toml"
    text = toml.read_text(encoding="utf-8")
    toml.write_text(text.replace('feed_ids = ["SOUTH"]\n', f'feed_ids = ["SOUTH"]\n{BOOKS}'), encoding="utf-8")
    (folder / "incoming").mkdir(mode=0o700)
    return Filled(folder, load_settings(folder, {}))


def filled_dealer(folder: Path) -> Filled:
    """The dealer, with a refused file of its feed, an alert about it, and without leads."""
    filled = open_dealer(folder)
    filled.take_feed_and_alert()
    return filled
