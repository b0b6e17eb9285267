"""The dealer that is measured: the demo's profile with as many made-up vehicles as wanted, in a folder of its own."""

from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.stock_maker import stock
from dealer_agent.config import load_settings
from dealer_agent.config.keys import create_key_file
from dealer_agent.demo import demo_dealer_toml
from dealer_agent.inventory.feeds import read_feed
from dealer_agent.stock_room import import_feed
from dealer_agent.storage.migrate import migrate
from dealer_agent.storage.store import Store

RATES = ("dealer_information", "inventory_facets", "inventory_search", "inventory_vehicle", "lead_submit", "address")
RATE = "1000000000/minute"
"""Every request is counted, and nobody is refused: a load from one address is nobody's usual traffic."""

ROOFTOPS = ("Juniper Hollow Nashville", "Juniper Hollow Knoxville")


def make_dealer(directory: Path, vehicles: int) -> None:
    """Settings, keys and stock, as `init` and `inventory import` leave them; the rates raised, all else by default."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    rates = "\n".join(f'{name} = "{RATE}"' for name in RATES)
    (directory / "dealer.toml").write_text(f"{demo_dealer_toml()}\n[rate_limits]\n{rates}\n", encoding="utf-8")
    create_key_file(directory)
    settings = load_settings(directory, {})
    migrate(settings.database_url, settings.vault)
    feed = read_feed(msgspec.json.encode(feed_units(vehicles)))
    with Store.open(settings.database_url, settings.vault) as store:
        import_feed(store, settings.dealer, feed, source="benchmark", at=datetime.now(UTC))


def feed_units(vehicles: int) -> list[dict[str, Any]]:
    """The made-up stock as records of the service's own feed, shared out among the dealer's rooftops."""
    units = []
    for number, listing in enumerate(islice(stock(vehicles), vehicles)):
        unit = msgspec.json.decode(listing.json, type=dict[str, Any])
        for ours in ("vehicle_id", "dealer_id", "changed_at"):
            unit.pop(ours, None)
        units.append({**unit, "rooftop": ROOFTOPS[number % len(ROOFTOPS)]})
    return units
