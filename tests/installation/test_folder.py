"""A folder with `dealer.toml` is an installation with one dealer, also on a database that other folders use."""

from pathlib import Path

import pytest
from tests.installation.platform import DEALERS, dealer_toml
from tests.storage.current import make_current

from dealer_agent.config.installation import load_served
from dealer_agent.config.keys import create_key_file
from dealer_agent.open_installation import OpenInstallation, open_store
from dealer_agent.server.refresh import Changes
from dealer_agent.server.served_dealers import read_addresses
from dealer_agent.storage.tokens import create_token

pytestmark = pytest.mark.requirement("dealer-addresses")


def folder_of(dealer_id: str, parent: Path) -> Path:
    folder = parent / dealer_id
    folder.mkdir(mode=0o700)
    (folder / "dealer.toml").write_text(dealer_toml(dealer_id), encoding="utf-8")
    create_key_file(folder)
    return folder


def test_a_folder_serves_only_its_dealer_from_a_shared_database(tmp_path: Path, database_url: str) -> None:
    make_current(database_url)
    listens_at = "http://127.0.0.1:8080"
    for dealer_id in DEALERS:
        served = load_served(folder_of(dealer_id, tmp_path), {"DATABASE_URL": database_url}, listens_at)
        with open_store(served) as store:
            opened = OpenInstallation(served, store)
            with store.write(dealer_id) as tx:
                create_token(tx, "Buyer", b"secret hash")
            addresses = read_addresses(opened)
            assert (opened.owner, opened.dealers_with_due()) == (dealer_id, [dealer_id])
            assert opened.enabled == addresses.dealers == frozenset((dealer_id,))
            assert (addresses.only, addresses.public_url) == (dealer_id, listens_at)
            assert opened.settings_of(dealer_id).dealer.id == dealer_id
            assert set(Changes(opened).read()) == {dealer_id}
