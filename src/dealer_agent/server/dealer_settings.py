"""Reads the settings of a dealer of an installation from the database."""

from dealer_agent.config import Settings
from dealer_agent.config.installation import Installation
from dealer_agent.storage.dealer_registry import find_dealer, list_hosts, read_settings
from dealer_agent.storage.store import Store


def load_dealer_settings(installation: Installation, store: Store, dealer_id: str) -> Settings:
    """The current settings of a dealer. Raises DealerUnknown, StorageError and SettingsError."""
    with store.read(dealer_id) as tx:
        document = read_settings(tx, find_dealer(tx).settings_number)
        hosts = tuple(list_hosts(tx))
    return installation.dealer_settings(document.decode(), hosts, installation.cipher)
