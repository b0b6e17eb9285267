"""A small dealer on the air: the real application on a real database, called in this process."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import httpx
from anyio.from_thread import BlockingPortal, start_blocking_portal
from sqlalchemy import create_engine, select
from tests.storage.calls import list_leads, read, write_at
from tests.storage.current import make_current

from dealer_agent.bootstrap import application
from dealer_agent.config import load_settings
from dealer_agent.config.installation import installation_of
from dealer_agent.encryption import Cipher, Keyring
from dealer_agent.feeds.files.checks import EVERY_CHECK
from dealer_agent.feeds.files.reader import read_feed
from dealer_agent.feeds.importing import import_feed
from dealer_agent.leads.records import LeadRecord, StoredLead, VisitRecord
from dealer_agent.server.app import DealerApp
from dealer_agent.server.tokens import new_token
from dealer_agent.storage.database_url import database_url as parsed_url
from dealer_agent.storage.deliveries.outbox import DeliveryRecord, list_deliveries
from dealer_agent.storage.leads.stored_leads import get_lead
from dealer_agent.storage.leads.visits import visits_of
from dealer_agent.storage.schema import (
    appointments,
    consent_events,
    idempotency,
    lead_contacts,
    lead_events,
    leads,
    outbox,
    places,
    refusals,
)
from dealer_agent.storage.store import Store
from dealer_agent.storage.tokens import create_token

ACCORD, TACOMA, SOLD = "1HGCY2F57RA000001", "3TYLD4S86VD100909", "1FTEW1EP0LFA00001"
"""The first is at North, the second at South, the third was sold. A trailer without a VIN has stock number T-1."""

UNKNOWN = "WBA00000000000003"

DEALER_TOML = """
id = "ridgeline"
name = "Ridgeline Motors"
feed_price = "advertised"

[[rooftops]]
name = "Ridgeline North"
timezone = "America/Chicago"
[rooftops.phones]
service = "+1 202 555 0141"
sales = "+1 202 555 0140"

[[rooftops]]
name = "Ridgeline South"
timezone = "America/Chicago"

[[area_offers]]
zip_prefixes = ["372"]
amount_off = 500

[rate_limits]
lead_submit = ""
malformed_leads = ""

[logs]
level = "error"
access = false
"""

_LOT: list[dict[str, Any]] = [
    {"vin": ACCORD, "stock": "N-7", "rooftop": "Ridgeline North", "year": 2024, "make": "Honda", "model": "Accord",
     "trim": "EX", "condition": "used", "price": 28500, "mileage": 9000, "zip": "99999", "lot_row": "B"},
    {"vin": TACOMA, "stock": "S-9", "rooftop": "Ridgeline South", "year": 2027, "make": "Toyota", "model": "Tacoma",
     "condition": "new", "status": "intransit"},
    {"stock": "T-1", "rooftop": "Ridgeline South", "vehicle_type": "trailer", "year": 2020, "make": "Big Tex",
     "model": "70TV", "condition": "used", "price": 3100},
]  # fmt: skip
_SOLD = {"vin": SOLD, "stock": "N-1", "rooftop": "Ridgeline North", "year": 2020, "make": "Ford", "model": "F-150"}

KEYS = "k-shop:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8,lasting:QEFCQ0RFRkdISUpLTE1OT1BRUlNUVVZXWFlaW1xdXl8"
CIPHER = Cipher(Keyring.parse(KEYS))

_customers = count(1)

BINDINGS = ("http", "json-rpc")


def ago(**span: float) -> str:
    """A timestamp that long ago."""
    return (datetime.now(UTC) - timedelta(**span)).isoformat()


def a_lead(**members: Any) -> dict[str, Any]:
    """A lead that is taken, of a customer who never wrote before. `...` leaves a member out.

    Its consent is good for each contact point of the customer.
    """
    payload: dict[str, Any] = {
        "type": "lead.submit.request",
        "customer": {
            "first_name": "Jordan",
            "last_name": "Example",
            "email": f"jordan.{next(_customers)}@example.com",
        },
        "source_agent": "Example Agent",
    }
    who = members.get("customer")
    points = [name for name in ("email", "phone") if name in who] if isinstance(who, dict) else []
    payload["consent"] = consent(allowed_channels=points or ["email"])
    return {name: value for name, value in (payload | members).items() if value is not ...}


def consent(**members: Any) -> dict[str, Any]:
    """A consent that is good for e-mail. `...` leaves a member out."""
    given = {
        "granted_at": ago(minutes=2),
        "allowed_channels": ["email"],
        "consent_text": "I agree to be contacted about this vehicle.",
        "scope": ["lead_submission"],
    }
    return {name: value for name, value in (given | members).items() if value is not ...}


def customer(**members: Any) -> dict[str, Any]:
    """A customer with a name and nothing else yet."""
    return {"first_name": "Jordan", "last_name": "Example"} | members


@dataclass(frozen=True)
class Outcome:
    """A response of either binding: `data` of a success, `error` (part 2.8) of a refusal."""

    status: int
    raw: bytes
    data: dict[str, Any] | None
    message: str | None
    error: dict[str, Any] | None

    @property
    def code(self) -> str | None:
        return self.error["code"] if self.error else None

    @property
    def pointer(self) -> str | None:
        return self.error["details"].get("instancePath") if self.error else None


def replaced_first(visits: list[VisitRecord]) -> list[VisitRecord]:
    """Visits, the replaced ones first. In a test, several are of one moment, so their times do not order them."""
    return sorted(visits, key=lambda visit: visit.status != "replaced")


@dataclass
class SampleDealer:
    """The application between its start and its end, and the database behind it. `token` is that of a sender."""

    url: str
    token: str
    _portal: BlockingPortal
    _client: httpx.AsyncClient

    def send(self, payload: Any, binding: str = "http", *, token: str | None = None) -> Outcome:
        """The response to one payload."""
        outcome: Outcome = self._portal.call(self._send, payload, binding, token)
        return outcome

    def send_together(self, payloads: list[Any], binding: str = "http") -> list[Outcome]:
        """The answers to payloads that are under way at the same time."""
        return self._portal.call(self._send_together, payloads, binding)

    def send_raw(self, body: bytes, binding: str = "http") -> httpx.Response:
        return self._portal.call(self._post, body, binding, None)

    def get_lead(self, lead_id: str) -> StoredLead:
        """What `leads show` shows."""
        with Store.open(self.url, CIPHER) as store:
            found = read(store, "ridgeline", get_lead, lead_id)
        assert found is not None
        return found

    def list_leads(self) -> list[LeadRecord]:
        """What `leads list` lists."""
        with Store.open(self.url, CIPHER) as store:
            return read(store, "ridgeline", list_leads, 1000)

    def visits_of(self, lead_id: str) -> list[VisitRecord]:
        """The visits that a lead asked for, oldest first."""
        with Store.open(self.url, CIPHER) as store:
            return replaced_first(read(store, "ridgeline", visits_of, lead_id))

    def deliveries(self) -> list[DeliveryRecord]:
        """What is to be sent, newest first."""
        with Store.open(self.url) as store:
            return read(store, "ridgeline", list_deliveries, 1000)

    async def _send_together(self, payloads: list[Any], binding: str) -> list[Outcome]:
        outcomes: dict[int, Outcome] = {}

        async def one(index: int, payload: Any) -> None:
            outcomes[index] = await self._send(payload, binding, None)

        async with anyio.create_task_group() as group:
            for index, payload in enumerate(payloads):
                group.start_soon(one, index, payload)
        return [outcomes[index] for index in range(len(payloads))]

    async def _send(self, payload: Any, binding: str, token: str | None) -> Outcome:
        response = await self._post(request_body(payload, binding), binding, token)
        answer = response.json()
        if binding == "http":
            refused = answer["error"]["details"][1] if "error" in answer else None
        else:
            refused = answer["error"]["data"][1] if "error" in answer else None
            answer = answer.get("result", answer)
        if refused is not None:
            return Outcome(response.status_code, response.content, None, None, refused)
        part = answer["message"]["parts"][0]["data"]
        return Outcome(response.status_code, response.content, part["data"], part.get("message"), None)

    async def _post(self, body: bytes, binding: str, token: str | None) -> httpx.Response:
        headers = {"content-type": "application/json"}
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        return await self._client.post("/message:send" if binding == "http" else "/rpc", content=body, headers=headers)


def request_body(payload: Any, binding: str = "http") -> bytes:
    """The body that carries a payload over a binding."""
    kind = payload["type"].removesuffix(".request").replace(".", "-") if isinstance(payload.get("type"), str) else "x"
    media_type = f"application/vnd.proto.{kind.replace('inventory-vehicle', 'vehicle-detail')}-request+json"
    body: dict[str, Any] = {
        "message": {
            "messageId": "01KE7AQEH2P4R6S8T1V3X5Z7AE",
            "role": "ROLE_USER",
            "parts": [{"data": payload, "mediaType": media_type}],
        },
        "configuration": {"acceptedOutputModes": ["application/json"]},
    }
    if binding == "json-rpc":
        body = {"jsonrpc": "2.0", "id": 7, "method": "SendMessage", "params": body}
    return json.dumps(body).encode()


@contextmanager
def open_sample_dealer(
    url: str, more_settings: str = "", *, rooftop_settings: str = "", stocked: bool = True
) -> Iterator[SampleDealer]:
    """The dealer on the air, at the database `url`; `stocked` fills an empty one first.

    `rooftop_settings` are of the first rooftop.
    """
    # Each sample dealer has its own folder: the service takes another one at the same database for another process.
    with tempfile.TemporaryDirectory() as folder:
        first, bracket, rest = DEALER_TOML.rpartition("[[rooftops]]")
        toml = "".join((first, rooftop_settings, bracket, rest, more_settings))
        (Path(folder) / "dealer.toml").write_text(toml, encoding="utf-8")
        settings = load_settings(Path(folder), {"DATABASE_URL": url, "DEALER_AGENT_KEYS": KEYS})
        if stocked:
            _stock(url, toml)
        secret = new_token()
        with Store.open(url, settings.cipher) as store:
            token = secret.text(
                write_at(datetime.now(UTC), store, "ridgeline", create_token, "buyer", secret.secret_hash)
            )
        with start_blocking_portal() as portal:
            app = application(installation_of(settings, {}, "http://127.0.0.1:8080"))
            with portal.wrap_async_context_manager(_running(app)) as client:
                yield SampleDealer(url, token, portal, client)


def _stock(url: str, toml: str) -> None:
    """Fills the database of a dealer with these settings. A new SQLite file is a copy of one that was filled before."""
    file = Path(str(parsed_url(url).database))
    if url.startswith("sqlite:") and not file.exists():
        file.touch(0o600)
        file.write_bytes(_sqlite_file(toml))
        return
    make_current(url)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "dealer.toml").write_text(toml, encoding="utf-8")
        dealer = load_settings(Path(folder), {"DATABASE_URL": url, "DEALER_AGENT_KEYS": KEYS}).dealer
    with Store.open(url, CIPHER) as store:
        import_stock(store, dealer, [*_LOT, _SOLD])
        import_stock(store, dealer, _LOT)


@cache
def _sqlite_file(toml: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "dealer.db"
        make_current(f"sqlite:///{file}")
        _stock(f"sqlite:///{file}", toml)
        return file.read_bytes()


def import_stock(store: Store, dealer: Any, lot: list[dict[str, Any]]) -> None:
    """A full feed of these vehicles."""
    feed = read_feed(json.dumps(lot).encode())
    assert len(feed.units) == len(lot)
    import_feed(store, dealer, feed, source="lot.json", at=datetime.now(UTC), accept=EVERY_CHECK)


class _running:  # noqa: N801 - a context manager, called as a function
    """The application's lifespan around a client of it."""

    def __init__(self, app: DealerApp) -> None:
        self._app = app

    async def __aenter__(self) -> httpx.AsyncClient:
        self._to_app, self._for_app = anyio.create_memory_object_stream[dict[str, Any]](2)
        self._from_app, self._for_us = anyio.create_memory_object_stream[Any](2)
        self._group = await anyio.create_task_group().__aenter__()
        self._group.start_soon(self._app, {"type": "lifespan"}, self._for_app.receive, self._from_app.send)
        await self._to_app.send({"type": "lifespan.startup"})
        assert (await self._for_us.receive())["type"] == "lifespan.startup.complete"
        self._client = httpx.AsyncClient(transport=httpx.ASGITransport(self._app), base_url="http://dealer.test")
        return self._client

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()
        await self._to_app.send({"type": "lifespan.shutdown"})
        assert (await self._for_us.receive())["type"] == "lifespan.shutdown.complete"
        await self._group.__aexit__(None, None, None)
        for stream in (self._to_app, self._for_app, self._from_app, self._for_us):
            stream.close()


def stored_refusals(url: str) -> list[tuple[str, datetime]]:
    """Code and time of every refusal; complete once the sample dealer is closed."""
    with _engine(url).connect() as connection:
        rows = connection.execute(select(refusals.c.code, refusals.c.at).order_by(refusals.c.at, refusals.c.refusal_id))
        return [(row.code, row.at) for row in rows]


def everything_stored(url: str) -> str:
    """All that the tables around leads hold, as one text."""
    about_leads = (leads, consent_events, lead_events, lead_contacts, idempotency, refusals)
    tables = (*about_leads, appointments, places, outbox)
    with _engine(url).connect() as connection:
        return "\n".join(str(row) for table in tables for row in connection.execute(select(table)))


@contextmanager
def table_away(url: str, name: str) -> Iterator[None]:
    """The database without one of its tables, for a while: whatever writes to it fails."""
    for old, new in ((name, f"{name}_away"), (f"{name}_away", name)):
        with _engine(url).begin() as connection:
            connection.exec_driver_sql(f"ALTER TABLE {old} RENAME TO {new}")
        if old == name:
            yield


def _engine(url: str) -> Any:
    return create_engine(parsed_url(url))
