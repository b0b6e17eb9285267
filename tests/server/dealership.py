"""A running dealership: the real application on SQLite, driven in this process through ASGI."""

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from anyio.from_thread import BlockingPortal, start_blocking_portal
from tests.logs import in_background
from tests.protocol.bodies import payload, request_type, response_type
from tests.storage.calls import write_at
from tests.storage.current import make_current

from dealer_agent.bootstrap import application
from dealer_agent.bootstrap.composition import serving
from dealer_agent.config import load_settings
from dealer_agent.config.installation import Installation, load_served
from dealer_agent.config.keys import KEY_FILE_NAME, create_key_file
from dealer_agent.feeds.files.reader import read_feed
from dealer_agent.feeds.importing import import_feed
from dealer_agent.self_test.dealer import NO_LIMITS as NO_LIMITS
from dealer_agent.server.app import DealerApp
from dealer_agent.server.service import Service
from dealer_agent.server.tokens import new_token
from dealer_agent.storage.store import Store
from dealer_agent.storage.tokens import create_token

DATABASE = "dealer-agent.db"
LISTENS_AT = "http://127.0.0.1:8080"
ENVIRONMENT: dict[str, str] = {}
"""The environment of every application that is started. The fixture `limits_kept` changes it."""

ACCORD, LEAF, SOLD = "1HGCY2F57RA000001", "1N4AZ1CP8KC300001", "1FTEW1EP0LFA00001"
"""In stock at North, in stock at South, and sold."""

DEALER_TOML = """
id = "test-motors"
name = "Test Motors"
welcome_message = "Welcome to Test Motors."
feed_price = "advertised"

[[rooftops]]
name = "Test Motors North"
timezone = "America/Chicago"
fees = [{name = "Documentation fee", amount = 399}]
[rooftops.phones]
sales = "+1 202 555 0140"

[[rooftops]]
name = "Test Motors South"
timezone = "America/Chicago"

[[area_offers]]
zip_prefixes = ["372"]
amount_off = 500
"""

LOT: list[dict[str, Any]] = [
    {"vin": ACCORD, "stock": "N-7", "rooftop": "Test Motors North", "year": 2024, "make": "Honda", "model": "Accord",
     "condition": "used", "price": 28500, "mileage": 9000, "photos": ["https://example.com/a.jpg"], "lot_row": "B"},
    {"vin": LEAF, "stock": "S-9", "rooftop": "Test Motors South", "year": 2019, "make": "Nissan", "model": "Leaf",
     "condition": "cpo", "price": 15900, "mileage": 31000, "fuel": "bev", "electric_range_mi": 226.5,
     "dc_fast_charge": True, "charge_port": "chademo"},
    *({"stock": f"T-{number:03}", "rooftop": "Test Motors South", "vehicle_type": "trailer", "year": 2020,
       "make": "Big Tex", "model": "70TV", "condition": "new", **({"price": 3000 + number} if number % 3 else {})}
      for number in range(120)),
]  # fmt: skip
GONE: dict[str, Any] = {"vin": SOLD, "stock": "N-1", "rooftop": "Test Motors North", "year": 2020, "make": "Ford"}


def lead(**members: Any) -> dict[str, Any]:
    """A lead with a consent of one minute ago."""
    sent = payload("lead.submit", **members)
    sent["consent"]["granted_at"] = (datetime.now(UTC) - timedelta(minutes=1)).isoformat()
    return sent


def message(skill: str, vendor: str = "proto", /, **members: Any) -> dict[str, Any]:
    """A valid body of `POST /message:send` for this moment."""
    data = lead(**members) if skill == "lead.submit" else payload(skill, **members)
    return {
        "message": {
            "messageId": "buyer-1",
            "role": "ROLE_USER",
            "parts": [{"data": data, "mediaType": request_type(skill, vendor)}],
        },
        "configuration": {"acceptedOutputModes": [response_type(skill, vendor)]},
    }


def error_of(response: httpx.Response) -> dict[str, Any]:
    """The protocol error payload of a response of either binding. Also checks the envelope around it."""
    error: dict[str, Any] = response.json()["error"]
    if "jsonrpc" in response.json():
        data = error["data"]
        return dict(data[1] if isinstance(data, list) else data)
    assert set(response.json()) == {"error"}
    assert set(error) == {"code", "message", "details"}
    assert error["code"] == response.status_code
    info, answer = error["details"]
    assert info["reason"] == answer["code"]
    return dict(answer)


@dataclass
class Dealership:
    """A started application."""

    folder: Path
    app: DealerApp
    portal: BlockingPortal
    client_address: str = "198.51.100.7"

    @property
    def service(self) -> Service:
        """The dealer's service."""
        (service,) = self.app.dealers.opened.values()
        return service

    def request(
        self,
        method: str,
        path: str,
        *,
        content: bytes | None = None,
        headers: dict[str, str] | list[tuple[str, str]] | None = None,
        address: str | None = None,
    ) -> httpx.Response:
        """The response to one request from a client's address."""
        sender = address or self.client_address
        response: httpx.Response = self.portal.call(self._request, method, path, content, headers, sender)
        return response

    def get(self, path: str, **headers: str) -> httpx.Response:
        """The response to a GET. Write `_` for `-` in the name of a header."""
        return self.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})

    def post(
        self,
        document: object,
        path: str = "/message:send",
        *,
        token: str | None = None,
        headers: dict[str, str] | None = None,
        address: str | None = None,
    ) -> httpx.Response:
        """The response to a JSON body, given as values or as bytes."""
        content = document if isinstance(document, bytes) else json.dumps(document).encode()
        sent = {"content-type": "application/json", **(headers or {})}
        if token is not None:
            sent["authorization"] = f"Bearer {token}"
        return self.request("POST", path, content=content, headers=sent, address=address)

    def ask(self, skill: str, vendor: str = "proto", /, **members: Any) -> dict[str, Any]:
        """The `data` of a skill's successful answer."""
        answer = self.post(message(skill, vendor, **members))
        assert answer.status_code == 200, answer.text
        data: dict[str, Any] = answer.json()["message"]["parts"][0]["data"]["data"]
        return data

    def call_rpc(self, params: object, **kwargs: Any) -> httpx.Response:
        """The response to a JSON-RPC call of SendMessage with these params."""
        return self.post({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}, "/rpc", **kwargs)

    def store(self) -> Store:
        """The dealer's database, as the command line opens it."""
        settings = load_settings(self.folder, ENVIRONMENT)
        return Store.open(settings.database_url, settings.cipher)

    def new_token(self, expires_in: timedelta | None = None) -> tuple[str, str]:
        """A token's id and its text."""
        fresh, now = new_token(), datetime.now(UTC)
        expires_at = None if expires_in is None else now + expires_in
        with self.store() as store:
            token_id = write_at(
                now, store, "test-motors", create_token, "Buyer", fresh.secret_hash, expires_at=expires_at
            )
        return token_id, fresh.text(token_id)

    async def _request(
        self, method: str, path: str, content: bytes | None, headers: Any, address: str
    ) -> httpx.Response:
        transport = httpx.ASGITransport(self.app, client=(address, 40_000))
        async with httpx.AsyncClient(transport=transport, base_url="http://agent.test") as client:
            return await client.request(method, path, content=content, headers=headers)


def set_up(folder: Path, extra: str = NO_LIMITS, *, stocked: Path | None = None) -> None:
    """Writes `dealer.toml` (`extra` behind its sections), makes the database and imports the stock.

    With `stocked`, the folder of another dealership, its database and its keys are copied instead.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / "dealer.toml").write_text(DEALER_TOML + extra, "utf-8")
    if stocked is not None:
        for name in (DATABASE, KEY_FILE_NAME):
            shutil.copy(stocked / name, folder / name)
        return
    with suppress(FileExistsError):
        create_key_file(folder)
    settings = load_settings(folder, ENVIRONMENT)
    make_current(settings.database_url)
    now = datetime.now(UTC)
    with Store.open(settings.database_url, settings.cipher) as store:
        for units, at in (([*LOT, GONE], now - timedelta(hours=1)), (LOT, now)):
            feed = read_feed(json.dumps(units).encode())
            assert not feed.refused
            import_feed(store, settings.dealer, feed, source="lot.json", at=at)


@contextmanager
def run_dealership(folder: Path, listens_at: str = LISTENS_AT) -> Iterator[Dealership]:
    """Starts the application of the dealer in a folder, and shuts it down at the end."""
    with run_installation(load_served(folder, ENVIRONMENT, listens_at)) as dealership:
        yield dealership


@contextmanager
def run_installation(installation: Installation) -> Iterator[Dealership]:
    """Starts the application of an installation, and shuts it down at the end."""
    app = application(installation)
    with ExitStack() as stack:
        portal = stack.enter_context(start_blocking_portal())
        with in_background():
            app.dealers = stack.enter_context(portal.wrap_async_context_manager(serving(installation)))
        yield Dealership(installation.folder, app, portal)
