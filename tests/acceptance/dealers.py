"""Dealers' folders and stock for the tests, all of them invented."""

import json
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.storage.current import make_current

from dealer_agent.config import load_settings
from dealer_agent.config.keys import create_key_file
from dealer_agent.feeds.files.reader import read_feed
from dealer_agent.feeds.importing import import_feed
from dealer_agent.storage.store import Store

HONDA_VIN, FORD_VIN, TESLA_VIN = "1HGCY2F57RA000001", "1FTFW1E50PFA00002", "5YJ3E1EA8PF000003"

DEALER_TOML = """
id = "acceptance"
name = "Acceptance Motors"
feed_price = "advertised"

[[rooftops]]
name = "Acceptance Motors North"
timezone = "America/New_York"
feed_ids = ["NORTH"]

[rooftops.hours.sales]
monday = "09:00-20:00"
saturday = "09:00-18:00"

[[rooftops]]
name = "Acceptance Motors South"
timezone = "America/Chicago"
feed_ids = ["SOUTH"]

[rate_limits]
dealer_information = ""
inventory_facets = ""
inventory_search = ""
inventory_vehicle = ""
lead_submit = ""
malformed_leads = ""
address = ""
health = ""
"""
"""Without limits, so that a stream of requests is answered; a test of limits adds its own."""


def stock_of_three() -> list[dict[str, Any]]:
    """Three units with everything that the tests look at."""
    return [
        {
            "vin": HONDA_VIN,
            "stock": "H1",
            "dealer_id": "NORTH",
            "condition": "used",
            "year": 2024,
            "make": "Honda",
            "model": "Accord Hybrid",
            "price": 28040,
            "mileage": 14210,
            "fuel": "hybrid",
        },
        {
            "vin": FORD_VIN,
            "stock": "F1",
            "dealer_id": "SOUTH",
            "condition": "new",
            "year": 2026,
            "make": "Ford",
            "model": "F-150",
            "price": 51200,
            "driveline": "4wd",
        },
        {
            "vin": TESLA_VIN,
            "stock": "T1",
            "dealer_id": "SOUTH",
            "condition": "cpo",
            "year": 2023,
            "make": "Tesla",
            "model": "Model 3",
            "fuel": "bev",
            "mileage": 20100,
        },
    ]


def generation(number: int, size: int) -> list[dict[str, Any]]:
    """A stock whose every unit says in its description which one it is of, and which has its own size."""
    return [
        {
            "vin": f"1HGCY2F5XRA{place:06}",
            "stock": f"G{place}",
            "condition": "used",
            "year": 2020,
            "make": "Honda",
            "model": "Civic",
            "price": 20_000 + place,
            "description": f"generation {number}",
        }
        for place in range(size)
    ]


def write_feed(path: Path, units: list[dict[str, Any]]) -> Path:
    path.write_text(json.dumps(units), encoding="utf-8")
    return path


def write_dealer(folder: Path, settings: str = "") -> Path:
    """A dealer's folder with its key, as `init` makes it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / "dealer.toml").write_text(DEALER_TOML + settings, encoding="utf-8")
    with suppress(FileExistsError):
        create_key_file(folder)
    return folder


def stocked_dealer(
    folder: Path, settings: str = "", units: list[dict[str, Any]] | None = None, **environment: str
) -> Path:
    """A dealer's folder with its stock in the database: the folder's own, or the one that `environment` names."""
    write_dealer(folder, settings)
    loaded = load_settings(folder, environment)
    make_current(loaded.database_url)
    feed = read_feed(json.dumps(units if units is not None else stock_of_three()).encode())
    with Store.open(loaded.database_url, loaded.cipher) as store:
        import_feed(store, loaded.dealer, feed, source="stock.json", at=datetime.now(UTC))
    return folder
