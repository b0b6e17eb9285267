"""Dealers whose data carry a marker, and every identifier by which a client can ask for something of a dealer.

No identifier contains a marker, so a marker in a response always comes from the data of its dealer.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from tests.acceptance.asking import answer, body, lead
from tests.installation.platform import PUBLIC_URL
from tests.storage.service_role import admin_of

from dealer_agent.config.installation import Installation, load_installation
from dealer_agent.config.keys import create_key_file
from dealer_agent.feeds.files.reader import read_feed
from dealer_agent.feeds.importing import import_feed
from dealer_agent.open_installation import OpenInstallation
from dealer_agent.server.tokens import new_token
from dealer_agent.storage.installation.dealer_registry import add_dealer, add_host
from dealer_agent.storage.store import Store
from dealer_agent.storage.tokens import create_token

LEADS = 6
UNITS = 12
SHARED_VIN = "1HGCY2F57RA000001"
"""A vehicle that each dealer has in stock, with other data."""
AGENTS_HOST = PUBLIC_URL.removeprefix("https://")

INSTALLATION = f"""
[installation]
public_url = "{PUBLIC_URL}"

[rate_limits]
dealer_information = ""
inventory_facets = ""
inventory_search = ""
inventory_vehicle = ""
lead_submit = ""
malformed_leads = ""
address = ""
health = ""
bad_tokens = ""
"""

DEALER = """
id = "{id}"
name = "{marker} Motors"
welcome_message = "Welcome to {marker}"
feed_price = "advertised"

[auth]
mode = "{mode}"

[[rooftops]]
name = "{marker} Motors"
timezone = "America/Chicago"
website = "https://{marker}.example.com"
[rooftops.hours.sales]
monday = "00:00-23:45"
tuesday = "00:00-23:45"
wednesday = "00:00-23:45"
thursday = "00:00-23:45"
friday = "00:00-23:45"
saturday = "00:00-23:45"
sunday = "00:00-23:45"
[rooftops.visits.test_drive]
"""


@dataclass
class MarkedDealer:
    """A dealer, its marker, and its identifiers. `token` is valid for its skills, `calendar` for its calendar.

    `secrets` finds its data in a response: the marker, and the ids that the service made.
    """

    dealer_id: str
    host: str
    marker: str
    needs_token: bool
    token: str = ""
    calendar: str = ""
    vins: Sequence[str] = ()
    stocks: Sequence[str] = ()
    vehicle_ids: Sequence[str] = ()
    lead_ids: Sequence[str] = ()
    appointment_ids: Sequence[str] = ()
    links: Sequence[str] = ()
    keys: Sequence[str] = ()

    def __post_init__(self) -> None:
        self.secrets = re.compile(self.marker.encode())

    def know(self, **found: Any) -> None:
        """Adds identifiers."""
        for name, value in found.items():
            setattr(self, name, value)
        ids = (self.marker, *self.vehicle_ids, *self.lead_ids, *self.appointment_ids)
        self.secrets = re.compile("|".join(map(re.escape, ids)).encode())


def marked_dealers() -> list[MarkedDealer]:
    """Four dealers. Two of them ask for a token."""
    names = (("p7", "Quokkaphant"), ("r2", "Zebrafinchy"), ("k9", "Wombatesque"), ("x4", "Yakalopexic"))
    return [
        MarkedDealer(f"motors-{short}", f"cars.{short}.example", marker, needs_token=number % 2 == 1)
        for number, (short, marker) in enumerate(names)
    ]


def make_marked(
    folder: Path, dealers: Sequence[MarkedDealer], env: dict[str, str], toml: str = INSTALLATION
) -> Installation:
    """The folder, the dealers and their stock. The database has its tables already."""
    folder.mkdir(mode=0o700, parents=True)
    (folder / "installation.toml").write_text(toml, "utf-8")
    create_key_file(folder)
    installation = load_installation(folder, env)
    with Store.open(admin_of(installation.database_url), installation.cipher, many_dealers=True) as store:
        for number, dealer in enumerate(dealers):
            text = DEALER.format(
                id=dealer.dealer_id, marker=dealer.marker, mode="bearer" if dealer.needs_token else "none"
            )
            settings = installation.dealer_settings(text)
            with store.registration(dealer.dealer_id) as tx:
                add_dealer(tx, text.encode(), actor="test", listed=True)
                add_host(tx, dealer.host)
            units = list(_units(number, dealer.marker))
            import_feed(
                store, settings.dealer, read_feed(json.dumps(units).encode()), source="f.json", at=datetime.now(UTC)
            )
            token, calendar = new_token(), new_token()
            with store.write(dealer.dealer_id) as tx:
                token_id = create_token(tx, "Buyer", token.secret_hash)
                create_token(tx, "calendar", calendar.secret_hash, "calendar")
            dealer.know(
                token=token.text(token_id),
                calendar=calendar.secret,
                vins=[unit["vin"] for unit in units if unit["vin"] != SHARED_VIN],
                stocks=[unit["stock"] for unit in units],
            )
    return installation


def _units(number: int, marker: str) -> Iterator[dict[str, Any]]:
    for place in range(UNITS):
        yield {
            "vin": SHARED_VIN if place == 0 else f"1HGCY2F5XRA{number:02}{place:04}",
            "stock": f"{number}-{place}",
            "condition": "used",
            "year": 2015 + place,
            "make": "Honda",
            "model": "Civic",
            "trim": marker,
            "price": 20_000 + 100 * number + place,
            "description": f"Sold by {marker}",
        }


def learn(url: str, installation: Installation, dealers: Sequence[MarkedDealer]) -> None:
    """Submits leads with visits to each dealer of a running service, and notes the ids that it answers with."""
    with Store.open(installation.database_url, installation.cipher, many_dealers=True) as store:
        for dealer in dealers:
            client = DealerClient(url, dealer)
            vehicles = client.ask("inventory.search", pagination={"limit": 100})["vehicles"]
            shared = {each["vehicle_id"] for each in vehicles if each.get("vin") == SHARED_VIN}
            keys = [f"key-{dealer.host}-{number}" for number in range(LEADS)]
            made = [client.ask("lead.submit", **marked_lead(dealer, number, key)) for number, key in enumerate(keys)]
            cipher = store.check_keys(dealer.dealer_id)
            document = DEALER.format(id=dealer.dealer_id, marker=dealer.marker, mode="none")
            links = OpenInstallation(installation, store).customer_links(installation.dealer_settings(document), cipher)
            leads = [each["lead_id"] for each in made]
            visits = [each["appointment"]["appointment_id"] for each in made]
            ends = datetime.now(UTC) + timedelta(days=9)
            dealer.know(
                vehicle_ids=[each["vehicle_id"] for each in vehicles if each["vehicle_id"] not in shared],
                lead_ids=leads,
                appointment_ids=visits,
                keys=keys,
                links=[
                    links.path(purpose, lead_id, visit, ends)
                    for purpose in ("visit", "contact")
                    for lead_id, visit in zip(leads, visits, strict=True)
                ],
            )


def marked_lead(dealer: MarkedDealer, number: int, key: str, **members: Any) -> dict[str, Any]:
    """The members of a lead of an invented customer of a dealer, with a visit."""
    at = datetime.now(UTC).replace(hour=18, minute=0, second=0, microsecond=0) + timedelta(days=2 + number % 20)
    made = lead(
        number,
        idempotency_key=key,
        message=f"From {dealer.marker}",
        appointment={"appointment_type": "test_drive", "appointment_at": at.isoformat()},
        **members,
    )
    made["customer"] = {
        "first_name": "Robin",
        "last_name": dealer.marker,
        "email": f"{dealer.marker}{number}@example.com".lower(),
    }
    return made


class DealerClient:
    """Asks one dealer, with its own token where it needs one."""

    def __init__(self, url: str, dealer: MarkedDealer) -> None:
        self.base, self.dealer = f"{url}/d/{dealer.dealer_id}", dealer

    def ask(self, skill: str, **members: Any) -> dict[str, Any]:
        """The data of a successful answer."""
        headers = {"Authorization": f"Bearer {self.dealer.token}"} if self.dealer.needs_token else {}
        sent = body(skill, **members)
        return answer(
            httpx.post(f"{self.base}/message:send", json=sent, headers=headers, timeout=120, verify=False), skill
        )

    def get(self, path: str) -> httpx.Response:
        """The response to a GET below the dealer's root."""
        return httpx.get(f"{self.base}{path}", timeout=120, verify=False)
