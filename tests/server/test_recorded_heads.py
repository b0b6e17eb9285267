"""The heads of both chains in a file outside the database."""

from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import text
from tests.logs import captured_logs
from tests.storage.calls import lock_at
from tests.storage.current import make_current
from tests.storage.samples import CIPHER, DEALER, MONDAY, NO_NOTICES, storing

from dealer_agent.privacy.chain_heads import read_heads, record_heads, repair_withdrawals
from dealer_agent.storage.deliveries.notices import withdraw
from dealer_agent.storage.errors import StorageError
from dealer_agent.storage.privacy.accesses import log_access
from dealer_agent.storage.store import Store

MINUTE = timedelta(minutes=1)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    url = f"sqlite:///{tmp_path}/dealer.db"
    make_current(url)
    opened = Store.open(url, CIPHER)
    lock_at(MONDAY, opened, DEALER, log_access, "Alex", "leads list", leads=1)
    return opened


@pytest.mark.requirement("recorded-head")
def test_heads_are_written_to_the_log_and_to_a_private_file(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "heads.log"
    with captured_logs() as lines:
        heads = record_heads(store, DEALER, file, MONDAY)
    assert [line["head"] for line in lines] == [str(head) for head in heads] == file.read_text().splitlines()
    assert file.stat().st_mode & 0o777 == 0o600
    before = file.read_bytes()
    lock_at(MONDAY, store, DEALER, log_access, "Alex", "leads list", leads=1)
    record_heads(store, DEALER, file, MONDAY)
    assert file.read_bytes().startswith(before)
    assert [(head.chain, head.rows) for head in read_heads(file)] == [("consents", 0), ("accesses", 1), ("accesses", 2)]


def test_workers_that_start_together_record_one_head(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "heads.log"
    for _ in range(4):
        record_heads(store, DEALER, file, MONDAY)
    assert len(file.read_text().splitlines()) == 2
    record_heads(store, DEALER, file, MONDAY + MINUTE)
    assert len(file.read_text().splitlines()) == 4


def test_a_line_cut_off_by_a_full_disk_does_not_affect_later_lines(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "heads.log"
    file.write_text("ridgeline consents 1")
    record_heads(store, DEALER, file, MONDAY)
    with pytest.raises(ValueError, match=r"line 1 of .*heads.log is not a head"):
        list(read_heads(file))
    file.write_text("".join(file.read_text().splitlines(keepends=True)[1:]))
    assert len(list(read_heads(file))) == 2


def test_a_file_that_cannot_be_written_is_named(store: Store, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"cannot be written to .*heads_file under \[privacy\]"):
        record_heads(store, DEALER, tmp_path / "nowhere" / "heads.log", MONDAY)


@pytest.mark.requirement("withdrawal-checked")
def test_the_maintenance_writes_withdrawals_again_if_the_chain_is_whole(store: Store, tmp_path: Path) -> None:
    """The log names the change. Nothing is written from a chain that somebody changed."""
    lock_at(MONDAY, store, DEALER, storing("L1", contacts=["email:sam@example.com"]))
    lock_at(MONDAY + MINUTE, store, DEALER, withdraw, "L1", ["sms"], by="Alex", reason=None, profile=NO_NOTICES)
    with captured_logs() as lines:
        repair_withdrawals(store, NO_NOTICES, MONDAY)
    assert lines == []

    def delete_rows(*statements: str) -> None:
        with store.write(DEALER) as tx:
            for statement in ("DELETE FROM withdrawals", *statements):
                tx.connection.execute(text(statement))

    restored = []
    for statements in ((), ("UPDATE consent_events SET purpose = ''",)):
        delete_rows(*statements)
        with captured_logs() as lines:
            repair_withdrawals(store, NO_NOTICES, MONDAY + MINUTE)
        (line,) = lines
        assert (line["log_level"], "1 missing" in line["problem"]) == ("error", True)
        with store.read(DEALER) as tx:
            rows = tx.connection.execute(text("SELECT count(*) FROM withdrawals")).scalar_one()
        restored.append((line["restored"], rows))
    assert restored == [(True, 1), (False, 0)]
