"""Statements that the driver runs itself give what SQLAlchemy would: values, counts and errors."""

from datetime import datetime, timedelta

import pytest
from sqlalchemy import bindparam, insert, select, text
from tests.storage.samples import DEALER, MONDAY

from dealer_agent.storage import Store
from dealer_agent.storage.errors import AlreadyStored, StorageError
from dealer_agent.storage.prepared import Prepared
from dealer_agent.storage.schema import refusals, units

ADD = Prepared(insert(units))
FIND = Prepared(
    select(units.c.vehicle_id, units.c.stock, units.c.document_hash, units.c.changed_at, units.c.sold_at)
    .where(units.c.dealer_id == bindparam("dealer_id"), units.c.first_seen >= bindparam("since"))
    .order_by(units.c.vehicle_id)
    .limit(2)
)


def unit(vehicle_id: str, seen: datetime = MONDAY) -> dict[str, object]:
    return {
        "dealer_id": DEALER,
        "vehicle_id": vehicle_id,
        "stock": "A\0B",
        "digest": "d",
        "document_hash": b"\x00\xff",
        "first_seen": seen,
        "changed_at": seen,
        "updated_at": seen,
    }


def test_values_come_back_as_they_do_from_sqlalchemy(store: Store) -> None:
    sought = {"dealer_id": DEALER, "since": MONDAY}
    with store._writer.begin() as connection:
        assert ADD.write(connection, unit("one")) == 1
        ADD.write_all(connection, [unit("too early", MONDAY - timedelta(seconds=1)), unit("three"), unit("two")])
        found = FIND.read(connection, sought)
        assert found == [tuple(row) for row in connection.execute(FIND.statement, sought)]
    # What has no value is empty, text is kept as the columns' own types keep it, and the limit is the statement's.
    assert found == [(name, "A\N{REPLACEMENT CHARACTER}B", b"\x00\xff", MONDAY, None) for name in ("one", "three")]


def test_a_row_that_is_there_already_is_told_as_itself(store: Store) -> None:
    with pytest.raises(AlreadyStored), store._writer.begin() as connection:
        ADD.write_all(connection, [unit("one"), unit("one")])


def test_an_error_says_nothing_of_what_was_to_be_stored(store: Store) -> None:
    broken = Prepared(text("INSERT INTO nowhere (name) VALUES (:name)"))
    with pytest.raises(StorageError) as caught, store._writer.begin() as connection:
        broken.write(connection, {"name": "Jordan"})
    assert "Jordan" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_time_without_an_offset_is_refused(store: Store) -> None:
    refusal = {"dealer_id": DEALER, "refusal_id": "r", "at": MONDAY.replace(tzinfo=None), "code": "X"}
    with pytest.raises(ValueError, match="offset"), store._writer.begin() as connection:
        Prepared(insert(refusals)).write(connection, refusal)
