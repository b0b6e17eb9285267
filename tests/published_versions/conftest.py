"""`published` is one dealer that serves every published version, with stock that no version can show as it is."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from tests.published_versions.talking import VERSIONS
from tests.server.conftest import open_dealership, stocked
from tests.server.dealership import DATABASE, LOT, NO_LIMITS, Dealership, run_dealership, set_up

from dealer_agent.config import load_settings
from dealer_agent.config.keys import KEY_FILE_NAME
from dealer_agent.feeds.files.checks import EVERY_CHECK
from dealer_agent.feeds.files.reader import read_feed
from dealer_agent.feeds.importing import import_feed
from dealer_agent.storage.store import Store

__all__ = ["open_dealership", "stocked"]  # fixtures

ODD: list[dict[str, Any]] = [
    {"vin": "SHORT-VIN-7", "stock": "O-1", "rooftop": "Test Motors North", "year": 1886, "make": "Benz",
     "model": "Motorwagen", "price": 90000, "photos": ["https://example.com/a|b.jpg", "https://example.com/ok.jpg"],
     "vdp_url": "https://example.com/a|b", "zip": "Nashville", "offered_price": "ask us"},
    {"vin": "1AMSA20N4RP001234", "stock": "O-2", "rooftop": "Test Motors South", "vehicle_type": "motorcycle",
     "year": 2024, "make": "Acme Moto", "model": "Electric Standard", "price": 11999, "fuel": "bev",
     "electric_range_mi": 113, "battery_kwh": 10.5, "motor_power_hp": 84, "dc_fast_charge": False,
     "charge_port": "nacs", "displacement_cc": 0, "condition": "new"},
    {"vin": "1AM1KRM19NB654321", "stock": "O-3", "rooftop": "Test Motors South", "vehicle_type": "motorcycle",
     "year": 2024, "make": "Acme Moto", "model": "Grand Tourer", "price": 25999, "displacement_cc": 1868,
     "condition": "new", "status": "intransit"},
]  # fmt: skip
"""Units with values that the published schemas do not allow, and with members that old versions do not know."""

HOURS = """
[rooftops.hours.sales]
monday = "00:00-24:00"
tuesday = "00:00-24:00"
wednesday = "00:00-24:00"
thursday = "00:00-24:00"
friday = "00:00-24:00"
saturday = "00:00-24:00"
sunday = "00:00-24:00"
[rooftops.visits.test_drive]
places = 1000
"""
"""For the last rooftop: it is always open, and has test drives."""

SERVED = f"\n[published_versions]\nserved = {json.dumps(VERSIONS)}\n"


def open_published(folder: Path, extra: str = NO_LIMITS) -> None:
    """Sets up the dealer in a folder. `extra` is added to its `dealer.toml`."""
    with TemporaryDirectory() as stocked:
        for name, content in _filled().items():
            (Path(stocked) / name).touch(0o600)
            (Path(stocked) / name).write_bytes(content)
        set_up(folder, extra + SERVED, stocked=Path(stocked))
    file = folder / "dealer.toml"
    file.write_text(file.read_text("utf-8").replace("\n[[area_offers]]", HOURS + "\n[[area_offers]]"), "utf-8")


@cache
def _filled() -> dict[str, bytes]:
    """The database with the stock, and the keys."""
    with TemporaryDirectory() as folder:
        _fill(Path(folder))
        return {name: (Path(folder) / name).read_bytes() for name in (DATABASE, KEY_FILE_NAME)}


def _fill(folder: Path) -> None:
    set_up(folder)
    settings = load_settings(folder, {})
    feed = read_feed(json.dumps([*LOT, *ODD]).encode())
    with Store.open(settings.database_url, settings.cipher) as store:
        import_feed(store, settings.dealer, feed, source="lot.json", at=datetime.now(UTC), accept=EVERY_CHECK)


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dealership]:
    folder = tmp_path_factory.mktemp("published")
    open_published(folder)
    with run_dealership(folder) as opened:
        yield opened
