"""A small installation: two dealers with the same invented vehicles, below one address and at hosts of their own."""

from datetime import UTC, datetime
from pathlib import Path

from tests.server.dealership import run_installation as run_installation
from tests.storage.current import make_current
from tests.storage.service_role import admin_of

from dealer_agent.config.installation import Installation, load_installation
from dealer_agent.config.keys import create_key_file
from dealer_agent.feeds.files.reader import read_feed
from dealer_agent.feeds.importing import import_feed
from dealer_agent.storage.installation.dealer_registry import add_dealer, add_host
from dealer_agent.storage.store import Store

PUBLIC_URL = "https://agents.example.com"
DEALERS = ("north-motors", "south-motors")

INSTALLATION_TOML = f"""
[installation]
public_url = "{PUBLIC_URL}"
"""

LOCAL = '\n[service]\nprivate_networks = ["127.0.0.0/8"]\n'
"""The operator lets the settings of dealers name servers of this machine."""

DEALER_TOML = """
id = "{id}"
name = "{name}"
feed_price = "advertised"

[[rooftops]]
name = "{name}"
timezone = "America/New_York"
"""


def dealer_toml(dealer_id: str, more: str = "") -> str:
    """The settings of a dealer with one rooftop."""
    name = dealer_id.replace("-", " ").title()
    return DEALER_TOML.format(id=dealer_id, name=name) + more


def make_installation(folder: Path, toml: str = INSTALLATION_TOML, env: dict[str, str] | None = None) -> Installation:
    """An installation without dealers, with keys and an empty database."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    (folder / "installation.toml").write_text(toml, encoding="utf-8")
    create_key_file(folder)
    installation = load_installation(folder, env or {})
    make_current(installation.database_url)
    return installation


def add(
    installation: Installation, dealer_id: str, feed: bytes = b"", hosts: tuple[str, ...] = (), more: str = ""
) -> None:
    """Adds a dealer with these vehicles and hosts."""
    text = dealer_toml(dealer_id, more)
    settings = installation.dealer_settings(text)
    with Store.open(admin_of(installation.database_url), installation.cipher, many_dealers=True) as store:
        with store.registration(dealer_id) as tx:
            add_dealer(tx, text.encode(), actor="test", listed=True)
            for host in hosts:
                add_host(tx, host)
        if feed:
            import_feed(store, settings.dealer, read_feed(feed), source="feed.csv", at=datetime.now(UTC))
