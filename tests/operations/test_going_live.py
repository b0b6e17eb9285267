"""From `init` to an open service: what is missing is said where a person looks, with its cure."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.running import command_here, succeed_here
from tests.config.test_readiness import READY
from tests.storage.calls import lock_at
from tests.storage.samples import storing

from dealer_agent.config import load_settings
from dealer_agent.config.readiness import POINTS
from dealer_agent.storage.store import Store

pytestmark = pytest.mark.outside_protocol("going live")


def store_a_customer(folder: Path) -> None:
    settings, now = load_settings(folder, {}), datetime.now(UTC)
    with Store.open(settings.database_url, settings.cipher) as store:
        lock_at(now, store, settings.dealer.id, storing("L1", now))


def public_list(folder: Path) -> tuple[int, dict[str, dict[str, Any]]]:
    done = command_here("doctor", "--public", "--json", "--dir", folder)
    return done.returncode, {row["check"]: row for row in json.loads(done.stdout)}


def test_the_list_shrinks_from_init_to_a_dealer_who_has_stated_all(tmp_path: Path) -> None:
    folder, feed = tmp_path / "my-store", tmp_path / "stock.json"
    feed.write_text('[{"stock": "N1", "year": 2020, "make": "Honda", "condition": "used", "price": 9000}]')
    succeed_here("init", folder)
    # There is one rooftop, and the file names none.
    assert "feed_ids" not in succeed_here("inventory", "import", feed, "--dir", folder)
    code, found = public_list(folder)
    assert code == 1
    for point in POINTS:
        assert found[point.name]["status"] == "problem"
        assert found[point.name]["advice"]
    assert f"dealer-agent alerts test --dir {folder}" in found["alerts"]["advice"]
    assert f"dealer-agent keys confirm-copy --dir {folder}" in found["key copy"]["advice"]

    (folder / "dealer.toml").write_text(READY.replace('"ridgeline"', '"my-store"'))
    _, found = public_list(folder)
    assert {point.name: found[point.name]["status"] for point in POINTS} == {point.name: "ok" for point in POINTS}
    # Nothing answers at this address.
    assert found["public address"]["status"] == "problem"


@pytest.mark.parametrize("name", ["data", "Data", "srv", "dealer-agent"])
def test_the_name_of_a_place_is_not_taken_for_that_of_a_dealer(tmp_path: Path, name: str) -> None:
    refused = command_here("init", tmp_path / name)
    assert (refused.returncode, "--name" in refused.stderr) == (1, True)
    succeed_here("init", tmp_path / name, "--name", "Ridgeline Motors")
    assert 'id = "ridgeline-motors"' in (tmp_path / name / "dealer.toml").read_text()


def test_a_new_key_is_not_advised_where_customer_data_is_encrypted(tmp_path: Path) -> None:
    folder = tmp_path / "my-store"
    succeed_here("init", folder)
    feed = tmp_path / "stock.json"
    feed.write_text('[{"stock": "N1", "year": 2020, "make": "Honda", "condition": "used", "price": 9000}]')
    succeed_here("inventory", "import", feed, "--dir", folder)
    key = folder / "dealer-agent.keys"
    saved = key.read_text()

    def advice() -> str:
        rows = json.loads(command_here("doctor", "--json", "--dir", folder).stdout)
        return next(f"{row['says']}: {row['advice']}" for row in rows if row["check"] == "keys")

    key.unlink()
    assert "dealer-agent keys create" in advice()
    key.write_text(saved)
    key.chmod(0o600)
    store_a_customer(folder)
    key.unlink()
    assert "keys create" not in advice()
    assert "put dealer-agent.keys back" in advice()
