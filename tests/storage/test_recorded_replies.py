"""The batches of the record of replies, on both databases."""

from datetime import UTC, datetime, timedelta
from hashlib import sha256

import pytest
from sqlalchemy import text
from tests.soak import sqlite_first
from tests.storage.samples import DEALER

from dealer_agent.protocol import ids
from dealer_agent.storage.stock.recorded_replies import (
    MOST_TOGETHER,
    ReplyRow,
    add_replies,
    find_reply,
    newest_replies,
    prune_replies,
    read_reply_settings,
    time_of_id,
)
from dealer_agent.storage.store import Store

NOW = datetime(2026, 3, 2, 15, tzinfo=UTC)
SETTINGS = b'{"version":"1"}'
SETTINGS_ID = sha256(SETTINGS).hexdigest()
MANY = 1_000_000


def rows_at(monkeypatch: pytest.MonkeyPatch, at: datetime, number: int) -> list[ReplyRow]:
    monkeypatch.setattr(ids, "time_ns", lambda: int(at.timestamp() * 1e9))
    made = sorted(ids.new_ulid() for _ in range(number))
    return [ReplyRow(each, "anonymous", "", "http+json", "", "inventory.search", "", b"{}", bytes(8)) for each in made]


def add(store: Store, rows: list[ReplyRow], now: datetime = NOW, most: int = MANY, dealer: str = DEALER) -> int:
    with store.write(dealer, now) as tx:
        return add_replies(tx, rows, 7, SETTINGS_ID, SETTINGS, most)


def test_every_reply_is_found_by_its_id_and_by_its_dealer_only(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_at(monkeypatch, NOW, MOST_TOGETHER + 3)
    assert add(store, rows) == len(rows)
    with store.read(DEALER) as tx:
        for row in (rows[0], rows[MOST_TOGETHER], rows[-1]):
            found = find_reply(tx, row.reply_id)
            assert found is not None
            assert (found.row, found.revision, found.settings_id, found.at) == (row, 7, SETTINGS_ID, NOW)
        assert [each.row for each in newest_replies(tx, 5)] == rows[::-1][:5]
        assert read_reply_settings(tx, SETTINGS_ID) == SETTINGS
    with store.read("another-dealer") as tx:
        assert find_reply(tx, rows[0].reply_id) is None
        assert newest_replies(tx, 5) == []
        assert read_reply_settings(tx, SETTINGS_ID) is None


@pytest.mark.parametrize("name", ["", "x", "U" * 26, "01KE7", "Z" * 26, "01ke7aaaaaaaaaaaaaaaaaaaaa", "\0" * 26])
def test_a_text_that_is_no_id_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not the id of a reply"):
        time_of_id(name)


@sqlite_first()
def test_a_day_has_a_bound_for_each_dealer(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_at(monkeypatch, NOW, 5)
    assert add(store, rows[:3], most=4) == 3
    assert add(store, rows[3:], most=4) == 1
    assert add(store, rows_at(monkeypatch, NOW, 1), most=4) == 0
    assert add(store, rows_at(monkeypatch, NOW, 2), most=4, dealer="another-dealer") == 2
    later = NOW + timedelta(days=1)
    assert add(store, rows_at(monkeypatch, later, 2), later, most=4) == 2


def test_old_batches_and_the_settings_that_only_they_need_are_deleted(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = rows_at(monkeypatch, NOW, 2), rows_at(monkeypatch, NOW + timedelta(days=40), 2)
    add(store, old)
    add(store, new, NOW + timedelta(days=40))
    other = b'{"version":"0"}'
    with store.write(DEALER, NOW) as tx:
        add_replies(tx, rows_at(monkeypatch, NOW, 1), 7, sha256(other).hexdigest(), other, MANY)
    now = NOW + timedelta(days=50)
    assert prune_replies(store, DEALER, now=now, keep_days=30) == 2
    assert prune_replies(store, DEALER, now=now, keep_days=30) == 0
    with store.read(DEALER) as tx:
        assert find_reply(tx, old[0].reply_id) is None
        assert find_reply(tx, new[0].reply_id) is not None
        assert read_reply_settings(tx, SETTINGS_ID) == SETTINGS
        assert read_reply_settings(tx, sha256(other).hexdigest()) is None
        assert tx.connection.execute(text("SELECT count(*) FROM recorded_replies")).scalar_one() == 1
