"""The measured dealer: the demo's profile with a generated stock of any size, in its own folder."""

from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.stock_maker import stock
from dealer_agent.config import load_settings
from dealer_agent.config.keys import create_key_file
from dealer_agent.demo import demo_dealer_toml
from dealer_agent.feeds.files.reader import read_feed
from dealer_agent.feeds.importing import import_feed
from dealer_agent.storage.migrate import migrate
from dealer_agent.storage.store import Store

RATES = ("dealer_information", "inventory_facets", "inventory_search", "inventory_vehicle", "lead_submit", "address")
RATE = "1000000000/minute"
"""Every request is counted and none is refused, because the whole load comes from one address."""

LEADS_A_DAY = 1_000_000
"""The most that the settings allow, for the same reason."""

ROOFTOPS = ("Juniper Hollow Nashville", "Juniper Hollow Knoxville")


FOLDER_CHANNEL = """[[rooftops.deliver.directory]]
name = "folder"
path = "leads"
"""
"""The section of the demo's profile that sends leads to a folder."""


def make_dealer(folder: Path, vehicles: int, env: Mapping[str, str] | None = None) -> None:
    """Settings, keys and stock, as `init` and `inventory import` make them. The rate limits are raised; all else is
    default.

    `env` is the environment of the service.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_settings(folder)
    create_key_file(folder)
    settings = load_settings(folder, env or {})
    migrate(settings.database_url)
    feed = read_feed(msgspec.json.encode(feed_units(vehicles)))
    with Store.open(settings.database_url, settings.cipher) as store:
        import_feed(store, settings.dealer, feed, source="benchmark", at=datetime.now(UTC))


def write_settings(folder: Path, channel: str = FOLDER_CHANNEL) -> None:
    """dealer.toml with this channel at each rooftop."""
    rates = "\n".join(f'{name} = "{RATE}"' for name in RATES)
    toml = demo_dealer_toml()
    assert FOLDER_CHANNEL in toml, "the demo's leads go to a folder"
    toml = toml.replace(FOLDER_CHANNEL, channel)
    agents = f"[agents.anonymous]\nleads_a_day = {LEADS_A_DAY}"
    (folder / "dealer.toml").write_text(f"{toml}\n{agents}\n\n[rate_limits]\n{rates}\n", encoding="utf-8")


def feed_units(vehicles: int) -> list[dict[str, Any]]:
    """The generated stock as records in the canonical layout, divided among the dealer's rooftops."""
    units = []
    for number, listing in enumerate(islice(stock(vehicles), vehicles)):
        unit = msgspec.json.decode(listing.json, type=dict[str, Any])
        for ours in ("vehicle_id", "dealer_id", "changed_at"):
            unit.pop(ours, None)
        units.append({**unit, "rooftop": ROOFTOPS[number % len(ROOFTOPS)]})
    return units
