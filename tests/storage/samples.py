"""Made-up units and leads."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, NamedTuple

from msgspec import UNSET
from sqlalchemy import Connection

from dealer_agent.encryption import Cipher, Keyring
from dealer_agent.inventory.unit import Unit
from dealer_agent.storage import (
    ConsentRecord,
    GoneUnit,
    IdempotencyRecord,
    ImportOutcome,
    ImportRow,
    LeadRecord,
    LiveUnit,
    Stock,
    Store,
    record_idempotency,
    record_lead,
)

DEALER = "ridgeline"
MONDAY = datetime(2026, 3, 2, 9, 30, 0, 123456, tzinfo=UTC)
KEYRING = Keyring((("k-first", bytes(range(32))),), lasting=bytes(range(64, 96)))
VAULT = Cipher(KEYRING)
TUESDAY = MONDAY + timedelta(days=1)
WEDNESDAY = MONDAY + timedelta(days=2)


def row(vin: str | None = None, stock: str | None = None, price: int = 30_000, **more: Any) -> ImportRow:
    """A row of a file; its digest is told by its price."""
    unit = Unit(vin=vin or UNSET, stock=stock or UNSET, selling_price=price, make="Ford", **more)
    return ImportRow(unit, vehicle_id=f"id-{vin or stock}", digest=f"{vin}/{stock}/{price}")


class WholeStock(NamedTuple):
    """A stock that was read to its end."""

    revision: int
    live: list[LiveUnit]
    gone: list[GoneUnit]

    @classmethod
    def of(cls, stock: Stock) -> "WholeStock":
        return cls(stock.mark.revision, list(stock.live), stock.gone)


def stock_of(store: Store, dealer_id: str, *, remember_days: int, now: datetime) -> WholeStock:
    """The stock in the store."""
    with store.reading_stock(dealer_id, remember_days=remember_days, now=now) as stock:
        return WholeStock.of(stock)


def import_rows(store: Store, rows: Sequence[ImportRow], at: datetime = MONDAY, **more: Any) -> ImportOutcome:
    """An import of a full file, with no check for shrinking unless asked for."""
    options = {"source": "stock.csv", "layout": "canonical", "max_shrink": None, "dry_run": False}
    return store.apply_import(DEALER, rows, at=at, **(options | more))


def lead(lead_id: str, received_at: datetime = MONDAY, **more: Any) -> LeadRecord:
    values: dict[str, Any] = {
        "dealer_id": DEALER,
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


def first_answer(
    key: str, at: datetime = MONDAY, scope: str = "token", reply: bytes = b"{}", lead_id: str | None = None
) -> IdempotencyRecord:
    return IdempotencyRecord(
        scope=scope, key=key, payload_hash=sha256(b"payload").digest(), reply=reply, at=at, lead_id=lead_id
    )


def storing(
    lead_id: str,
    received_at: datetime = MONDAY,
    contacts: Sequence[str] = ("sam@example.com",),
    vehicle_key: str | None = None,
    idempotency: IdempotencyRecord | None = None,
    cipher: Cipher = VAULT,
) -> Callable[[Connection], str]:
    """A job that stores a lead and returns its id."""

    def job(connection: Connection) -> str:
        first = lead(lead_id, received_at)
        record_lead(connection, cipher, first, consent(received_at), contacts=contacts, vehicle_key=vehicle_key)
        if idempotency is not None:
            record_idempotency(connection, cipher, DEALER, replace(idempotency, lead_id=lead_id))
        return lead_id

    return job
