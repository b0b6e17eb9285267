"""An import writes in parts: readers see the old stock or the new one, also after a crash between two parts."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.soak import examples, sqlite_first
from tests.storage.calls import list_leads, read
from tests.storage.samples import (
    DEALER,
    MONDAY,
    TUESDAY,
    WEDNESDAY,
    ImportRow,
    WholeStock,
    import_rows,
    row,
    stock_of,
    storing,
)

from dealer_agent.storage.connections import Engines
from dealer_agent.storage.leads.lead_writer import LeadWriter
from dealer_agent.storage.stock.reading import has_more_live_units, list_imports
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

SAME_STORE = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=examples(40)
)


class CrashError(Exception):
    """The process ends."""


class Watched(Store):
    """A store that calls a function after each transaction that writes, and crashes before the one after `most`."""

    def __init__(self, store: Store, after_each: Callable[[], object] = lambda: None, most: int = 10**9) -> None:
        super().__init__(Engines(store._leads, store._writer, store._reader), store._ciphers)
        self.after_each = after_each
        self.left = most

    @contextmanager
    def write(self, dealer_id: str, now: datetime | None = None) -> Iterator[Transaction]:
        if self.left == 0:
            raise CrashError
        self.left -= 1
        with super().write(dealer_id, now) as tx:
            yield tx
        self.after_each()


def whole(store: Store, dealer: str) -> tuple[WholeStock, list[bool]]:
    """The stock, and whether it has more than some numbers of units."""
    stock = stock_of(store, dealer, remember_days=90, now=WEDNESDAY)
    return stock, [read(store, dealer, has_more_live_units, than) for than in range(8)]


files = st.dictionaries(st.sampled_from("ABCDEF"), st.tuples(st.integers(1, 3), st.booleans()), max_size=6)


def rows_of(file: dict[str, tuple[int, bool]]) -> list[ImportRow]:
    """Units by VIN, with a price. The flag changes what buyers do not see."""
    return [
        row(vin, price=price, feed_updated_at=MONDAY if is_early else TUESDAY)
        for vin, (price, is_early) in file.items()
    ]


def imported(store: Store, dealer: str, earlier: Sequence[dict[str, tuple[int, bool]]]) -> None:
    for file in earlier:
        import_rows(store, rows_of(file), at=MONDAY, dealer=dealer)


numbers = count()


@SAME_STORE
@given(st.lists(files, max_size=2), files)
def test_a_reader_sees_the_old_stock_or_the_new_between_all_parts(
    store: Store, earlier: list[dict[str, tuple[int, bool]]], file: dict[str, tuple[int, bool]]
) -> None:
    dealer = f"dealer-{next(numbers)}"
    imported(store, dealer, earlier)
    old = whole(store, dealer)
    seen: list[tuple[WholeStock, list[bool]]] = []
    import_rows(Watched(store, lambda: seen.append(whole(store, dealer))), rows_of(file), at=TUESDAY, dealer=dealer)
    new = whole(store, dealer)
    switch = seen.index(new)
    assert seen == [old] * switch + [new] * (len(seen) - switch)
    assert {unit.unit.vin: unit.unit.selling_price for unit in new[0].live} == {
        vin: price for vin, (price, _) in file.items()
    }


@sqlite_first()
@SAME_STORE
@given(st.lists(files, max_size=2), files, st.integers(0, 9), files)
def test_an_import_that_crashes_leaves_the_old_stock_or_the_new_and_the_next_one_continues(
    store: Store,
    earlier: list[dict[str, tuple[int, bool]]],
    file: dict[str, tuple[int, bool]],
    parts: int,
    later: dict[str, tuple[int, bool]],
) -> None:
    crashing, whole_one = f"dealer-{next(numbers)}", f"dealer-{next(numbers)}"
    for dealer in (crashing, whole_one):
        imported(store, dealer, earlier)
    old = whole(store, crashing)
    with suppress(CrashError):
        import_rows(Watched(store, most=parts), rows_of(file), at=TUESDAY, dealer=crashing)
    left = whole(store, crashing)
    if left != old:
        import_rows(store, rows_of(file), at=TUESDAY, dealer=whole_one)
        assert left == whole(store, whole_one)
    rehearsed = import_rows(store, rows_of(later), at=WEDNESDAY, dealer=crashing, dry_run=True)
    outcome = import_rows(store, rows_of(later), at=WEDNESDAY, dealer=crashing)
    assert outcome == import_rows(store, rows_of(later), at=WEDNESDAY, dealer=whole_one)
    assert rehearsed.added == outcome.added
    assert whole(store, crashing) == whole(store, whole_one)
    assert read(store, crashing, list_imports, 9) == read(store, whole_one, list_imports, 9)


def test_leads_are_stored_between_the_parts_of_a_large_import(store: Store, writer: LeadWriter) -> None:
    parts = count(1)

    def submit() -> None:
        lead_id = f"L{next(parts)}"
        writer.submit(DEALER, storing(lead_id, contacts=[f"{lead_id}@example.com"])).result(60)

    import_rows(Watched(store, submit), [row(f"V{n}") for n in range(5_000)])
    assert len(read(store, DEALER, list_leads, 1_000)) == next(parts) - 1 > 5


@pytest.mark.parametrize("shown", [False, True])
def test_a_crash_leaves_no_change_behind_after_the_next_import(store: Store, shown: bool) -> None:
    rows = [row(f"V{n}") for n in range(100)]
    with pytest.raises(CrashError):
        # The claim of the dealer, then two parts of 50 or more units, or one part and the switch.
        import_rows(Watched(store, most=3), rows if not shown else rows[:50])
    assert len(stock_of(store, DEALER, remember_days=1, now=MONDAY).live) == (50 if shown else 0)
    import_rows(store, rows, at=TUESDAY)
    with store.read(DEALER) as tx:
        assert tx.connection.exec_driver_sql("SELECT count(*) FROM unit_changes").scalar() == 0
        assert tx.connection.exec_driver_sql("SELECT count(*) FROM units").scalar() == 100
