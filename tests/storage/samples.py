"""Made-up units and leads."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, NamedTuple

from msgspec import UNSET
from tests.storage.calls import at_time

from dealer_agent.dealers.profile import DealerRooftop, Profile
from dealer_agent.encryption import Cipher, Keyring
from dealer_agent.feeds.files.import_plan import FileUnit
from dealer_agent.inventory.listing import Unit, document_of
from dealer_agent.leads.consent_events import ConsentRecord
from dealer_agent.leads.records import LeadRecord
from dealer_agent.storage.leads.idempotency import record_idempotency
from dealer_agent.storage.leads.stored_leads import record_lead
from dealer_agent.storage.stock.reading import GoneUnit, LiveUnit, Stock, read_stock
from dealer_agent.storage.stock.stock_import import ImportOutcome, apply_import, document_hash
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

DEALER = "ridgeline"
MONDAY = datetime(2026, 3, 2, 9, 30, 0, 123456, tzinfo=UTC)
KEYRING = Keyring((("k-first", bytes(range(32))),), permanent=bytes(range(64, 96)))
CIPHER = Cipher(KEYRING)
NO_NOTICES = Profile(
    id=DEALER,
    name="Ridgeline Motors",
    feed_price="advertised",
    rooftops=(DealerRooftop(name="Ridgeline North", timezone="America/Chicago"),),
)
"""A dealer without channels: nobody is notified of a withdrawal or an erasure."""
TUESDAY = MONDAY + timedelta(days=1)
WEDNESDAY = MONDAY + timedelta(days=2)


class ImportRow(NamedTuple):
    """One unit of a file, the vehicle id that it gets if it is new, and the digest of its listing."""

    unit: Unit
    vehicle_id: str
    digest: str


def row(vin: str | None = None, stock: str | None = None, price: int = 30_000, **more: Any) -> ImportRow:
    """A row of a file; its digest is told by its price."""
    unit = Unit(vin=vin or UNSET, stock=stock or UNSET, selling_price=price, make="Ford", **more)
    return ImportRow(unit, vehicle_id=f"id-{vin or stock}", digest=f"{vin}/{stock}/{price}")


class WholeStock(NamedTuple):
    """A stock that was read to its end, by vehicle id, with the times at which all rooftops were confirmed."""

    revision: int
    live: list[LiveUnit]
    gone: list[GoneUnit]

    @classmethod
    def of(cls, stock: Stock) -> "WholeStock":
        confirmed = stock.confirmed_at()
        live = [unit._replace(updated_at=confirmed or unit.updated_at) for unit in stock.live]
        return cls(stock.mark.revision, sorted(live, key=lambda unit: unit.vehicle_id), stock.gone)


def stock_of(store: Store, dealer_id: str, *, remember_days: int, now: datetime) -> WholeStock:
    """The stock in the store."""
    with store.read(dealer_id, now) as tx:
        return WholeStock.of(read_stock(tx, remember_days))


def import_rows(
    store: Store, rows: Sequence[ImportRow], at: datetime = MONDAY, dealer: str = DEALER, **more: Any
) -> ImportOutcome:
    """An import of a full file, without checks unless asked for."""
    options: dict[str, Any] = {"source": "stock.csv", "layout": "canonical", "dry_run": False, "remember_days": 90}
    documents = [document_of(row.unit) for row in rows]
    file = [
        FileUnit(row.unit.vin or None, row.unit.stock or None, row.vehicle_id, row.digest, document_hash(document))
        for row, document in zip(rows, documents, strict=True)
    ]
    return apply_import(store, dealer, file, documents.__getitem__, at=at, **options | more)


def lead(lead_id: str, received_at: datetime = MONDAY, **more: Any) -> LeadRecord:
    values: dict[str, Any] = {
        "lead_id": lead_id,
        "received_at": received_at,
        "source_agent": "Example Agent",
        "status": "received",
        "rooftop": "Ridgeline North",
        "customer": b'{"first_name":"Sam","last_name":"Sample","email":"sam@example.com"}',
        "payload": b'{"type":"lead.submit.request"}',
        "used_at": received_at,
    }
    return LeadRecord(**(values | more))


def consent(received_at: datetime = MONDAY, **more: Any) -> ConsentRecord:
    values: dict[str, Any] = {
        "received_at": received_at,
        "granted_at": received_at - timedelta(minutes=2),
        "channels": ("email", "sms"),
        "scope": ("lead_submission",),
        "purpose": "contact about a vehicle",
        "consent_text": "I agree to be contacted about this vehicle. \0 \N{AUTOMOBILE}",
        "request_hash": sha256(b"request").digest(),
    }
    return ConsentRecord(**(values | more))


def first_answer(key: str, at: datetime = MONDAY, scope: str = "token", reply: bytes = b"{}") -> Callable[..., None]:
    """A job that stores the response for a key, which may be that of a lead."""

    def job(tx: Transaction, lead_id: str | None = None) -> None:
        record_idempotency(at_time(tx, at), scope, key, sha256(b"payload").digest(), reply, lead_id)

    return job


def storing(
    lead_id: str,
    received_at: datetime = MONDAY,
    contacts: Sequence[str] = ("sam@example.com",),
    vehicle_key: str | None = None,
    idempotency: Callable[..., None] | None = None,
) -> Callable[[Transaction], str]:
    """A job that stores a lead and returns its id."""

    def job(tx: Transaction) -> str:
        first = lead(lead_id, received_at)
        record_lead(tx, first, consent(received_at), contacts=contacts, vehicle_key=vehicle_key)
        if idempotency is not None:
            idempotency(tx, lead_id)
        return lead_id

    return job
