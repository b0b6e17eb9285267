"""Imports and reads of the stock, on both databases (docs/protocol.md#listings)."""

import threading
from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from tests.soak import sqlite_first
from tests.storage.calls import read
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
)

from dealer_agent.feeds.files.checks import FeedFinding
from dealer_agent.feeds.files.counts import FeedShape
from dealer_agent.feeds.files.import_plan import Plan
from dealer_agent.inventory.listing import Unit
from dealer_agent.protocol.vehicle import Fee
from dealer_agent.storage.errors import FeedRefused
from dealer_agent.storage.stock.reading import (
    MOST_REFUSED_IMPORTS,
    ChangeCounters,
    find_refused_import,
    list_imports,
    list_refused_imports,
    read_revision,
    read_stock,
    record_refused_import,
)
from dealer_agent.storage.stock.stock_import import FeedReview, Scope, StockBefore
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

YEARS_LATER = datetime(2029, 1, 1, tzinfo=UTC)


def prices(store: Store) -> dict[str, object]:
    stock = stock_of(store, DEALER, remember_days=90, now=WEDNESDAY)
    return {unit.vehicle_id: unit.unit.selling_price for unit in stock.live}


@sqlite_first()
def test_a_dealer_without_an_import_has_an_empty_stock_at_revision_zero(store: Store) -> None:
    stock = stock_of(store, DEALER, remember_days=90, now=MONDAY)
    assert (stock.revision, stock.live, stock.gone) == (0, [], [])
    assert read(store, DEALER, read_revision) == ChangeCounters(stock=0, tokens=0)


@sqlite_first()
def test_a_unit_comes_back_from_the_database_as_it_went_in(store: Store) -> None:
    unit = Unit(
        vin="1FTFW1E50NFA00001",
        stock="S-1",
        rooftop_hints=("17", "Ridgeline North"),
        selling_price=2**63 - 1,
        fees=(Fee("Doc fee", 199),),
        electric_range_mi=12.5,
        dc_fast_charge=False,
        features=("Heated seats", "Zm\u00e4rt \N{AUTOMOBILE}"),
        description="line\nbreak and \0 nul",
        inventory_date=date(2026, 2, 1),
        feed_updated_at=datetime(2026, 3, 1, 12, 0, tzinfo=UTC),
        extras={"lot": 3, "demo": True},
    )
    import_rows(store, [ImportRow(unit, "v1", "d")])
    assert stock_of(store, DEALER, remember_days=90, now=MONDAY).live[0].unit == unit


@sqlite_first()
def test_times_come_back_in_utc_to_the_microsecond(store: Store) -> None:
    import_rows(store, [row("V1")], at=MONDAY.astimezone(timezone(timedelta(hours=-5))))
    seen = stock_of(store, DEALER, remember_days=90, now=MONDAY).live[0].first_seen
    assert seen == MONDAY
    assert seen.tzinfo is UTC


@sqlite_first()
def test_a_time_without_an_offset_is_not_taken(store: Store) -> None:
    with pytest.raises(ValueError, match="without an offset"):
        import_rows(store, [row("V1")], at=MONDAY.replace(tzinfo=None))


@sqlite_first()
def test_an_import_says_what_was_added_changed_confirmed_sold_and_is_back(store: Store) -> None:
    import_rows(store, [row("RETURNS"), row("SAME")], at=MONDAY)
    import_rows(store, [row("SAME"), row("DEARER"), row("SELLS")], at=MONDAY)
    outcome = import_rows(store, [row("SAME"), row("DEARER", price=31_000), row("RETURNS"), row("NEW")], at=TUESDAY)
    assert outcome.added == ("id-NEW",)
    assert outcome.changed == ("id-DEARER",)
    assert outcome.unchanged == ("id-SAME",)
    assert outcome.sold == ("id-SELLS",)
    assert outcome.back == ("id-RETURNS",)
    assert (outcome.before, outcome.after, outcome.revision) == (3, 4, 3)
    assert prices(store) == {"id-SAME": 30_000, "id-DEARER": 31_000, "id-RETURNS": 30_000, "id-NEW": 30_000}


@sqlite_first()
@pytest.mark.requirement("changed-at", "updated-at")
def test_changed_at_moves_only_on_change_and_updated_at_with_every_confirmation(store: Store) -> None:
    import_rows(store, [row("SAME"), row("DEARER"), row("RETURNS")], at=MONDAY)
    import_rows(store, [row("SAME"), row("DEARER", price=1)], at=TUESDAY)
    import_rows(store, [row("SAME"), row("DEARER", price=1), row("RETURNS")], at=WEDNESDAY)
    live = stock_of(store, DEALER, remember_days=90, now=WEDNESDAY).live
    assert {unit.vehicle_id: (unit.first_seen, unit.changed_at, unit.updated_at) for unit in live} == {
        "id-SAME": (MONDAY, MONDAY, WEDNESDAY),
        "id-DEARER": (MONDAY, TUESDAY, WEDNESDAY),
        "id-RETURNS": (MONDAY, WEDNESDAY, WEDNESDAY),
    }


@sqlite_first()
def test_what_buyers_do_not_see_is_stored_without_counting_as_a_change(store: Store) -> None:
    import_rows(store, [row("V1", feed_updated_at=MONDAY)], at=MONDAY)
    outcome = import_rows(store, [row("V1", feed_updated_at=TUESDAY)], at=TUESDAY)
    assert outcome.unchanged == ("id-V1",)
    (unit,) = stock_of(store, DEALER, remember_days=90, now=TUESDAY).live
    assert unit.unit.feed_updated_at == TUESDAY
    assert unit.changed_at == MONDAY


@sqlite_first()
@pytest.mark.requirement("sold-remembered")
def test_sold_units_are_remembered_with_the_time_for_as_long_as_asked(store: Store) -> None:
    import_rows(store, [row("V1", "S1"), row("V2", "S2")], at=MONDAY)
    import_rows(store, [row("V2", "S2")], at=TUESDAY)
    (gone,) = stock_of(store, DEALER, remember_days=1, now=WEDNESDAY).gone
    assert gone == ("id-V1", "V1", "S1", TUESDAY)
    assert stock_of(store, DEALER, remember_days=1, now=WEDNESDAY + timedelta(seconds=1)).gone == []


def test_an_import_forgets_units_that_were_sold_too_long_ago(store: Store) -> None:
    import_rows(store, [row("V1"), row("V2")], at=MONDAY)
    import_rows(store, [row("V2")], at=TUESDAY)
    import_rows(store, [row("V2")], at=WEDNESDAY, remember_days=1)
    assert len(stock_of(store, DEALER, remember_days=9999, now=WEDNESDAY).gone) == 1
    import_rows(store, [row("V2")], at=WEDNESDAY + timedelta(seconds=1), remember_days=1)
    assert stock_of(store, DEALER, remember_days=9999, now=WEDNESDAY).gone == []


@sqlite_first()
def test_a_unit_that_returns_after_a_long_time_is_back_rather_than_forgotten(store: Store) -> None:
    import_rows(store, [row("V1")], at=MONDAY)
    import_rows(store, [], at=TUESDAY)
    outcome = import_rows(store, [row("V1")], at=YEARS_LATER, remember_days=90)
    assert outcome.back == ("id-V1",)


def of_rooftops(*rooftops: str) -> Scope:
    return Scope(rooftops, lambda hints: not set(rooftops).isdisjoint(hints))


def at_rooftop(rooftop: str, vin: str | None = None, stock: str | None = None, price: int = 30_000) -> ImportRow:
    return row(vin, stock, price, rooftop_hints=(rooftop,))


@sqlite_first()
@pytest.mark.requirement("feeds-of-rooftops")
def test_an_import_of_one_rooftop_sells_only_units_of_this_rooftop(store: Store) -> None:
    import_rows(store, [at_rooftop("North", "V1"), at_rooftop("North", "V2"), at_rooftop("South", "V3")])
    outcome = import_rows(store, [at_rooftop("North", "V2", price=5)], at=TUESDAY, scope=of_rooftops("North"))
    assert (outcome.sold, outcome.changed, outcome.unchanged) == (("id-V1",), ("id-V2",), ())
    assert (outcome.before, outcome.after) == (2, 1)
    assert prices(store) == {"id-V2": 5, "id-V3": 30_000}
    assert read(store, DEALER, list_imports, 1)[0].rooftops == ("North",)


def test_an_import_confirms_the_units_of_its_rooftops(store: Store) -> None:
    rows = [at_rooftop("North", "V1"), at_rooftop("South", "V2")]
    import_rows(store, rows, at=MONDAY)
    import_rows(store, rows[:1], at=TUESDAY, scope=of_rooftops("North"))
    with store.read(DEALER, WEDNESDAY) as tx:
        stock = read_stock(tx, 90)
    assert [stock.confirmed_at(name) for name in ("North", "South", None)] == [TUESDAY, MONDAY, MONDAY]
    import_rows(store, rows, at=WEDNESDAY)
    with store.read(DEALER, WEDNESDAY) as tx:
        stock = read_stock(tx, 90)
    assert [stock.confirmed_at(name) for name in ("North", "South", None)] == [WEDNESDAY] * 3


@sqlite_first()
def test_a_stock_number_of_another_rooftop_is_another_unit_and_a_vin_is_the_same(store: Store) -> None:
    import_rows(store, [at_rooftop("South", stock="S1"), at_rooftop("South", "V1")])
    rows = [at_rooftop("North", stock="S1"), at_rooftop("North", "V1", price=1)]
    outcome = import_rows(store, rows, at=TUESDAY, scope=of_rooftops("North"))
    assert (outcome.added, outcome.changed, outcome.sold) == (("id-S1-2",), ("id-V1",), ())
    assert import_rows(store, rows, at=TUESDAY, scope=of_rooftops("North")).unchanged == ("id-S1-2", "id-V1")


REFUSAL = FeedFinding("units_lost", "refuse", "2 of 3 units that are for sale are not in the file.")
WARNING = FeedFinding("details_lost", "warn", "trim: 2 of 3 units would lose it.")
SHAPE = FeedShape({"vin": ("VIN",)}, line_end=True)


@pytest.mark.parametrize("dry_run", [False, True])
def test_an_import_that_its_review_refuses_changes_nothing(store: Store, dry_run: bool) -> None:
    import_rows(store, [row(f"V{n}") for n in range(3)], at=MONDAY)
    before = (stock_of(store, DEALER, remember_days=90, now=WEDNESDAY), read(store, DEALER, list_imports, 10))
    with pytest.raises(FeedRefused) as refusal:
        import_rows(
            store, [row("V1")], at=TUESDAY, dry_run=dry_run, review=lambda *_: FeedReview((REFUSAL, WARNING), SHAPE)
        )
    assert refusal.value.findings == (REFUSAL, WARNING)
    assert str(refusal.value) == REFUSAL.sentence
    assert (stock_of(store, DEALER, remember_days=90, now=WEDNESDAY), read(store, DEALER, list_imports, 10)) == before


@sqlite_first()
def test_a_review_sees_the_plan_the_stored_units_and_the_last_file_of_the_same_rooftops(store: Store) -> None:
    seen: list[tuple[int, list[str], object]] = []

    def review(plan: Plan, before: StockBefore) -> FeedReview:
        stored = {key: unit for some in before.units([f"id-V{n}" for n in range(600)]) for key, unit in some.items()}
        seen.append((len(plan.sold), sorted({str(unit.trim) for unit in stored.values()}), before.last_shape))
        assert len(stored) == (600 if len(seen) > 1 else 0)
        return FeedReview((WARNING,), SHAPE)

    rows = [row(f"V{n}", trim="SE", rooftop_hints=("North",)) for n in range(600)]
    assert import_rows(store, rows, at=MONDAY, review=review).findings == (WARNING,)
    import_rows(store, rows[:500], at=TUESDAY, review=review)
    import_rows(store, rows[:500], at=WEDNESDAY, scope=of_rooftops("North"), review=review)
    import_rows(store, rows[:500], at=WEDNESDAY, scope=of_rooftops("North"), review=review)
    assert seen == [(0, [], None), (100, ["SE"], SHAPE), (0, ["SE"], None), (0, ["SE"], SHAPE)]
    assert [record.findings for record in read(store, DEALER, list_imports, 9)] == [(WARNING,)] * 4


def test_refused_imports_are_listed_newest_first(store: Store) -> None:
    def refuse(at: datetime, layout: str | None, rooftops: tuple[str, ...]) -> None:
        source = "/home/someone/feeds/vauto.csv"
        record_refused_import(store, DEALER, [REFUSAL], at=at, source=source, layout=layout, rooftops=rooftops)

    refuse(MONDAY, "vauto", ())
    refuse(TUESDAY, None, ("North",))
    newest, oldest = read(store, DEALER, list_refused_imports, 10)
    assert newest[:-1] == (TUESDAY, "vauto.csv", None, (REFUSAL,), ("North",), None)
    assert oldest[:-1] == (MONDAY, "vauto.csv", "vauto", (REFUSAL,), None, None)
    assert read(store, DEALER, find_refused_import, oldest.refusal_id) == oldest
    assert read(store, DEALER, list_refused_imports, 1) == [newest]
    assert read(store, "lakeside", list_refused_imports, 10) == []


@sqlite_first()
def test_the_history_keeps_the_newest_refused_imports(store: Store) -> None:
    for minute in range(MOST_REFUSED_IMPORTS + 2):
        at = MONDAY + timedelta(minutes=minute)
        record_refused_import(store, DEALER, [REFUSAL], at=at, source="a.csv", layout=None, rooftops=())
    kept = read(store, DEALER, list_refused_imports, 2 * MOST_REFUSED_IMPORTS)
    assert (len(kept), kept[-1].at) == (MOST_REFUSED_IMPORTS, MONDAY + timedelta(minutes=2))


@sqlite_first()
def test_a_dry_run_finds_the_same_outcome_and_changes_nothing(store: Store) -> None:
    import_rows(store, [row("V1"), row("V2"), row("V3")])
    before = (stock_of(store, DEALER, remember_days=90, now=TUESDAY), read(store, DEALER, list_imports, 10))
    rows = [row("V1"), row("V2", price=1), row("V4")]
    rehearsed = import_rows(store, rows, at=TUESDAY, dry_run=True)
    assert (stock_of(store, DEALER, remember_days=90, now=TUESDAY), read(store, DEALER, list_imports, 10)) == before
    done = import_rows(store, rows, at=TUESDAY)
    assert rehearsed.revision is None
    for name in ("added", "changed", "unchanged", "sold", "back", "before", "after", "repeated"):
        assert getattr(rehearsed, name) == getattr(done, name)


@sqlite_first()
def test_a_dry_run_for_an_unknown_dealer_leaves_no_trace(store: Store) -> None:
    import_rows(store, [row("V1")], dry_run=True)
    assert read(store, DEALER, read_revision) == ChangeCounters(0, 0)


@sqlite_first()
@pytest.mark.requirement("vehicle-id")
def test_a_unit_known_by_its_stock_number_keeps_its_id_when_its_vin_comes(store: Store) -> None:
    import_rows(store, [row(stock="S1")], at=MONDAY)
    outcome = import_rows(store, [row("V1", "s1")], at=TUESDAY)
    assert outcome.changed == ("id-S1",)
    assert import_rows(store, [row("V1", "S9")], at=WEDNESDAY).changed == ("id-S1",)
    (unit,) = stock_of(store, DEALER, remember_days=90, now=WEDNESDAY).live
    assert (unit.vehicle_id, unit.unit.vin, unit.unit.stock, unit.first_seen) == ("id-S1", "V1", "S9", MONDAY)


@sqlite_first()
def test_the_history_of_imports_keeps_the_counts_and_only_the_name_of_the_file(store: Store) -> None:
    import_rows(store, [row("V1"), row("V2")], at=MONDAY)
    import_rows(store, [row("V1", price=1)], at=TUESDAY, source="/home/someone/feeds/vauto.csv", layout="vauto")
    latest, first = read(store, DEALER, list_imports, 10)
    assert latest == (2, TUESDAY, "vauto.csv", "vauto", True, 0, 1, 0, 1, 0, None, (), None, "import")
    assert (first.revision, first.at, first.added) == (1, MONDAY, 2)
    assert read(store, DEALER, list_imports, 1) == [latest]


@sqlite_first()
def test_dealers_do_not_see_each_others_stock(store: Store) -> None:
    import_rows(store, [row("V1")])
    import_rows(store, [row("V1", price=7)], at=TUESDAY, dealer="lakeside")
    assert prices(store) == {"id-V1": 30_000}
    assert read(store, DEALER, read_revision).stock == 1
    assert stock_of(store, "lakeside", remember_days=1, now=TUESDAY).live[0].unit.selling_price == 7


@sqlite_first()
def test_thousands_of_units_are_added_changed_and_sold_by_one_import(store: Store) -> None:
    first = [row(f"V{n}") for n in range(2500)]
    import_rows(store, first, at=MONDAY)
    second = [row(f"V{n}", price=1) for n in range(1200)] + first[1200:1300]
    outcome = import_rows(store, second, at=TUESDAY)
    assert (len(outcome.changed), len(outcome.unchanged), len(outcome.sold)) == (1200, 100, 1200)
    stock = stock_of(store, DEALER, remember_days=90, now=TUESDAY)
    assert len(stock.live) == 1300
    assert {unit.updated_at for unit in stock.live} == {TUESDAY}
    assert len(stock.gone) == 1200


def test_readers_see_the_old_stock_or_the_new_and_never_a_mixture(store: Store) -> None:
    """Every import gives all units the same price: an odd revision n has n times as many units as the others."""
    few = 25
    import_rows(store, [row(f"V{n}", price=1) for n in range(few)])
    finished = threading.Event()
    seen: list[tuple[int, set[object], int, int]] = []

    def look() -> None:
        is_last = False
        while not is_last:
            is_last = finished.is_set()
            stock = stock_of(store, DEALER, remember_days=90, now=MONDAY)
            seen.append((stock.revision, {u.unit.selling_price for u in stock.live}, len(stock.live), len(stock.gone)))

    readers = [threading.Thread(target=look) for _ in range(2)]
    for reader in readers:
        reader.start()
    for turn in range(2, 12):
        size = few * turn if turn % 2 else few
        import_rows(store, [row(f"V{n}", price=turn) for n in range(size)])
    finished.set()
    for reader in readers:
        reader.join()
    assert seen
    for revision, found, live, gone in seen:
        assert found == {revision}
        assert live == (few * revision if revision % 2 else few)
        assert gone == (few * (revision - 2) if revision % 2 == 0 else 0)
    assert read(store, DEALER, read_revision).stock == 11


def _read(tx: Transaction) -> WholeStock:
    return WholeStock.of(read_stock(tx, 90))


@sqlite_first()
def test_all_reads_of_one_transaction_see_one_moment(store: Store) -> None:
    import_rows(store, [row("V1")])
    with store.read(DEALER, MONDAY) as tx:
        before = (read_revision(tx), _read(tx))
        import_rows(store, [row("V2")], at=TUESDAY)
        assert (read_revision(tx), _read(tx)) == before


def test_imports_of_one_dealer_at_once_happen_one_after_the_other(store: Store) -> None:
    sizes = (50, 80, 110, 140)
    threads = [
        threading.Thread(target=import_rows, args=(store, [row(f"V{n}", price=size) for n in range(size)]))
        for size in sizes
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    history = read(store, DEALER, list_imports, 10)
    assert [record.revision for record in history] == [4, 3, 2, 1]
    latest = history[0]
    assert len(set(prices(store).values())) == 1
    assert len(prices(store)) == latest.added + latest.changed + latest.unchanged + latest.back
