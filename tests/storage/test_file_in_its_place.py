"""A SQLite file is moved, deleted or replaced while it is open (docs/protocol.md#durable-before-answer)."""

import shutil
from pathlib import Path

import pytest
from sqlalchemy import URL
from tests.storage.calls import list_leads, read
from tests.storage.current import make_current
from tests.storage.samples import CIPHER, DEALER, consent, lead

from dealer_agent.storage.errors import DatabaseUnreachable
from dealer_agent.storage.leads.lead_writer import LeadWriter
from dealer_agent.storage.leads.stored_leads import record_lead
from dealer_agent.storage.stock.reading import read_revision
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction


def keep(writer: LeadWriter, lead_id: str) -> None:
    def job(tx: Transaction) -> None:
        record_lead(tx, lead(lead_id), consent(), contacts=["email:sam@example.com"], vehicle_key=None)

    writer.submit(DEALER, job).result(timeout=60)


def kept(url: str) -> list[str]:
    with Store.open(url, CIPHER) as store:
        return [record.lead_id for record in read(store, DEALER, list_leads, 10)]


@pytest.fixture
def file(sqlite_url: str, tmp_path: Path) -> Path:
    make_current(sqlite_url)
    return tmp_path / "dealer.db"


def test_no_lead_is_taken_into_a_file_that_was_moved_away(sqlite_url: str, file: Path) -> None:
    with Store.open(sqlite_url, CIPHER) as store:
        writer = store.lead_writer()
        keep(writer, "first")
        file.rename(file.with_name("elsewhere.db"))
        with pytest.raises(DatabaseUnreachable):
            keep(writer, "second")
        with pytest.raises(DatabaseUnreachable):
            read(store, DEALER, read_revision)
        assert not file.exists(), "an empty database in its place would be taken for the dealer's"
        file.with_name("elsewhere.db").rename(file)
        keep(writer, "third")
        writer.close()
    assert set(kept(sqlite_url)) == {"first", "third"}


def test_a_file_put_in_its_place_is_used_from_then_on(sqlite_url: str, file: Path) -> None:
    saved = file.with_name("saved.db")
    shutil.copy(file, saved)
    with Store.open(sqlite_url, CIPHER) as store:
        writer = store.lead_writer()
        keep(writer, "before")
        for part in file.parent.glob("dealer.db*"):
            part.unlink()
        saved.rename(file)
        keep(writer, "after")
        assert [record.lead_id for record in read(store, DEALER, list_leads, 10)] == ["after"]
        writer.close()
    assert kept(sqlite_url) == ["after"]


@pytest.mark.parametrize("name", ["a b.db", "50%.db", "what?.db", "a#b.db", "Škoda.db"])
def test_a_database_file_may_have_any_name(tmp_path: Path, name: str) -> None:
    url = URL.create("sqlite", database=str(tmp_path / name)).render_as_string()
    make_current(url)
    assert kept(url) == []
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
