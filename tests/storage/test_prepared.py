"""Statements that the driver runs itself give what SQLAlchemy would: values, counts and errors."""

from contextlib import nullcontext
from datetime import datetime, timedelta
from functools import partial

import pytest
from sqlalchemy import Column, MetaData, String, Table, bindparam, func, insert, select, update
from tests.storage.samples import DEALER, MONDAY

from dealer_agent.storage.errors import AlreadyStored, StorageError
from dealer_agent.storage.leads.prepared_statements import (
    Prepared,
    collect_rows,
    find_absent_keys,
    run_without_parameters,
)
from dealer_agent.storage.schema import idempotency, refusals, units
from dealer_agent.storage.statements import of_dealer, upsert
from dealer_agent.storage.store import Store

ADD = Prepared(insert(units))
FIND = Prepared(
    select(units.c.vehicle_id, units.c.stock, units.c.document_hash, units.c.changed_at, units.c.sold_at)
    .where(of_dealer(units), units.c.first_seen >= bindparam("since"))
    .order_by(units.c.vehicle_id)
    .limit(2)
)

ADD_ONCE = Prepared(upsert(refusals, "NOTHING"))
FIND_REFUSALS = Prepared(select(refusals.c.code).where(refusals.c.refusal_id == bindparam("refusal_id")))
ADD_RESPONSE = Prepared(insert(idempotency))
FIND_RESPONSE = Prepared(
    select(idempotency.c.fingerprint).where(
        of_dealer(idempotency), idempotency.c.fingerprint == bindparam("fingerprint")
    )
)
COUNT_UNITS = select(func.count()).select_from(units)
SET_STOCK = Prepared(
    update(units)
    .where(units.c.vehicle_id == bindparam("vehicle"), units.c.stock == bindparam("stock_before"))
    .values(stock=bindparam("new_stock"))
)


NOWHERE = Table("nowhere", MetaData(), Column("name", String))


def refusal(refusal_id: str, at: datetime = MONDAY) -> dict[str, object]:
    return {"refusal_id": refusal_id, "at": at, "code": "X"}


def unit(vehicle_id: str, seen: datetime = MONDAY) -> dict[str, object]:
    return {
        "vehicle_id": vehicle_id,
        "stock": "A\0B",
        "revision": 1,
        "action": "added",
        "digest": "d",
        "document_hash": b"\x00\xff",
        "first_seen": seen,
        "changed_at": seen,
        "updated_at": seen,
    }


def test_values_come_back_as_they_do_from_sqlalchemy(store: Store) -> None:
    sought = {"since": MONDAY}
    with store.write(DEALER) as tx:
        assert ADD.write(tx, unit("one")) == 1
        for each in (unit("too early", MONDAY - timedelta(seconds=1)), unit("three"), unit("two")):
            ADD.add(tx, each)
        found = FIND.read(tx, sought)
        assert found == [tuple(row) for row in tx.execute(FIND.statement, sought)]
    # What has no value is empty, text is kept as the columns' own types keep it, and the limit is the statement's.
    assert found == [(name, "A\N{REPLACEMENT CHARACTER}B", b"\x00\xff", MONDAY, None) for name in ("one", "three")]


def test_adding_an_existing_row_raises_already_stored(store: Store) -> None:
    with store.write(DEALER) as tx:
        ADD.add(tx, unit("one"))
        with pytest.raises(AlreadyStored):
            ADD.add(tx, unit("one"))
        tx.connection.rollback()


def test_an_error_says_nothing_of_what_was_to_be_stored(store: Store) -> None:
    broken = Prepared(insert(NOWHERE))
    with pytest.raises(StorageError) as caught, store.write(DEALER) as tx:
        broken.write(tx, {"name": "Jordan"})
    assert "Jordan" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_time_without_an_offset_is_refused(store: Store) -> None:
    with pytest.raises(ValueError, match="offset"), store.write(DEALER) as tx:
        ADD_ONCE.write(tx, refusal("r", MONDAY.replace(tzinfo=None)))


def test_collected_rows_are_written_before_a_statement_that_could_find_them(store: Store) -> None:
    with store.write(DEALER) as tx, collect_rows(tx.connection) as rows:
        ADD.add(tx, unit("one"))
        ADD_ONCE.add(tx, refusal("r"), keys=[b"r"])
        assert rows.touched == 2
        assert FIND_REFUSALS.read(tx, {"refusal_id": "r"}, [b"another"]) == []
        assert FIND_REFUSALS.read(tx, {"refusal_id": "r"}, [b"r"]) == [("X",)]
        ADD.add(tx, unit("two"))
        assert len(FIND.read(tx, {"since": MONDAY})) == 2
        ADD.add(tx, unit("three"))
        assert tx.execute(COUNT_UNITS).scalar() == 3


def test_a_row_is_found_whose_key_was_absent_when_the_group_looked(store: Store) -> None:
    def found(key: bytes) -> list[tuple[bytes]]:
        return FIND_RESPONSE.read(tx, {"fingerprint": key}, [key])

    def response(key: bytes) -> dict[str, object]:
        return {"fingerprint": key, "at": MONDAY, "reply": b""}

    with store.write(DEALER) as tx, collect_rows(tx.connection) as rows:
        ADD_RESPONSE.write(tx, response(b"old"))
        find_absent_keys(tx, {idempotency.c.fingerprint: [b"old", *(b"%d" % number for number in range(300))]})
        assert b"old" not in rows.absent
        assert rows.absent.issuperset([b"0", b"299"])
        assert found(b"old") == [(b"old",)]
        assert found(b"7") == []
        ADD_RESPONSE.add(tx, response(b"7"), keys=[b"7"])
        assert found(b"7") == [(b"7",)]
        # Any other statement may add rows.
        tx.execute(insert(idempotency), response(b"8"))
        assert found(b"8") == [(b"8",)]


def test_collected_rows_that_are_discarded_are_not_written(store: Store) -> None:
    with store.write(DEALER) as tx:
        with collect_rows(tx.connection) as rows:
            ADD.add(tx, unit("one"))
            rows.discard()
            rows.write()
        assert tx.execute(COUNT_UNITS).scalar() == 0


@pytest.mark.parametrize("collected", [True, False])
def test_a_row_that_conflicts_says_so_in_the_words_given(store: Store, collected: bool) -> None:
    with store.write(DEALER) as tx:
        ADD_ONCE.write(tx, refusal("r"))
        with collect_rows(tx.connection) if collected else nullcontext() as rows:
            ADD_ONCE.add(tx, refusal("q"), conflict="it was refused")
            again = partial(ADD_ONCE.add, tx, refusal("r"), conflict="it was refused")
            if rows is not None:
                again()
            with pytest.raises(AlreadyStored, match="it was refused"):
                again() if rows is None else rows.write()


def test_several_changes_of_one_row_are_written_as_one(store: Store) -> None:
    """From the first `before` to the last `after`: the database has never stored the values between them."""
    with store.write(DEALER) as tx:
        ADD.write(tx, unit("one") | {"stock": "0"})
        with collect_rows(tx.connection) as rows:
            for number in range(3):
                before, after = {"vehicle": "one", "stock_before": str(number)}, {"new_stock": str(number + 1)}
                assert SET_STOCK.replace_if_unchanged(tx, before, after)
            rows.write()
        seen = [row[1] for row in FIND.read(tx, {"since": MONDAY})]
    assert seen == ["3"]


def test_a_change_of_a_row_that_another_has_changed_is_refused(store: Store) -> None:
    before, after = {"vehicle": "one", "stock_before": "other"}, {"new_stock": "mine"}
    with store.write(DEALER) as tx:
        ADD.write(tx, unit("one"))
        assert not SET_STOCK.replace_if_unchanged(tx, before, after)
        with collect_rows(tx.connection) as rows:
            assert SET_STOCK.replace_if_unchanged(tx, before, after)
            with pytest.raises(AlreadyStored):
                rows.write()


def test_a_connection_collects_only_within_the_block(store: Store) -> None:
    broken = Prepared(select(NOWHERE.c.name))
    with store.write(DEALER) as tx:
        run_without_parameters(tx.connection, "SAVEPOINT lead_write")
        with collect_rows(tx.connection):
            ADD.add(tx, unit("lost"))
            with pytest.raises(StorageError):
                broken.read(tx, {})
        run_without_parameters(tx.connection, "ROLLBACK TO SAVEPOINT lead_write")
        ADD.add(tx, unit("kept"))
    with store.read(DEALER) as tx:
        assert tx.connection.execute(select(units.c.vehicle_id)).scalars().all() == ["kept"]
