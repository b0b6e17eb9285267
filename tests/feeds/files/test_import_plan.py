"""Which vehicle of a feed is which vehicle of the stock (docs/protocol.md#vehicle-id)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.storage.samples import MONDAY

from dealer_agent.feeds.files.import_plan import FileUnit, KnownUnit, Plan, plan_import


def known(vehicle_id: str, vin: str | None = None, stock: str | None = None, sold: bool = False) -> KnownUnit:
    digest = f"{vin}/{stock}/30000"
    return KnownUnit(vehicle_id, vin, stock, digest, b"same", MONDAY, MONDAY, MONDAY if sold else None)


def row(vin: str | None = None, stock: str | None = None, price: int = 30_000) -> FileUnit:
    return FileUnit(vin, stock, f"id-{vin or stock}", f"{vin}/{stock}/{price}", b"same")


def plan(stock: list[KnownUnit], rows: list[FileUnit]) -> Plan:
    return plan_import(stock, rows)


def added(found: Plan) -> list[tuple[str, int]]:
    return [(row.vehicle_id, row.position) for row in found.added]


def kept_ids(found: Plan) -> dict[int, str]:
    """The vehicle id of each row that is a known unit."""
    return {row.position: row.vehicle_id for row in (*found.changed, *found.back)}


CASES = [
    pytest.param([known("a", "V1", "S1")], [row("V1", "S2")], {0: "a"}, id="by VIN, whatever the stock number"),
    pytest.param([known("a", None, "S1")], [row(None, "S1", 1)], {0: "a"}, id="by stock number where no VIN is known"),
    pytest.param([known("a", None, "S1")], [row(None, "s1", 1)], {0: "a"}, id="stock numbers without regard to case"),
    pytest.param([known("a", None, "S1")], [row("V1", "S1")], {0: "a"}, id="a VIN that came later"),
    pytest.param([known("a", "V1", "S1")], [row(None, "S1")], {0: "a"}, id="a VIN that the feed lost"),
    pytest.param([known("a", "V1", "S1")], [row("V2", "S1")], {}, id="two VINs are two units"),
    pytest.param([known("a", "V1", "S1", sold=True)], [row("V1", "S9")], {0: "a"}, id="a sold unit returns by its VIN"),
    pytest.param([known("a", None, "S1", sold=True)], [row(None, "S1")], {0: "a"}, id="it returns by its stock number"),
    pytest.param([known("a", "V1", "S1", sold=True)], [row(None, "S1")], {}, id="a stock number used again"),
    pytest.param([known("a", None, "S1", sold=True)], [row("V1", "S1")], {}, id="a stock number used for a VIN"),
    pytest.param([known("a", "V1")], [row("V2")], {}, id="no stock number is not a common stock number"),
    pytest.param(
        [known("a", None, "S1")],
        [row("V1", "S1"), row(None, "S1", 1)],
        {1: "a"},
        id="the row that is like the known unit comes before the one with a new VIN",
    ),
    pytest.param(
        [known("a", "V1", "S1")],
        [row(None, "S1"), row("V1", "S1", 1)],
        {1: "a"},
        id="the VIN comes first",
    ),
    pytest.param(
        [known("old", None, "S1", sold=True), known("new", None, "S1")],
        [row(None, "S1", 1)],
        {0: "new"},
        id="a unit for sale comes before a sold one",
    ),
]


@pytest.mark.parametrize(("stock", "rows", "ids"), CASES)
@pytest.mark.requirement("vehicle-id")
def test_a_unit_keeps_its_vehicle_id(stock: list[KnownUnit], rows: list[FileUnit], ids: dict[int, str]) -> None:
    assert kept_ids(plan(stock, rows)) == ids


def test_of_rows_for_one_unit_the_last_counts() -> None:
    found = plan([], [row("V1", price=1), row(None, "S1"), row("V1", price=2), row(None, "s1")])
    assert added(found) == [("id-V1", 2), ("id-s1", 3)]
    assert found.repeated == 2


def test_a_new_unit_never_gets_the_id_of_another() -> None:
    stock = [known("id-S1", "V1", "S9"), known("id-S1-2", "V2", sold=True)]
    assert added(plan(stock, [row("V1", "S9"), row(None, "S1")])) == [("id-S1-3", 1)]


vins = st.none() | st.sampled_from(["V1", "V2", "V3"])
stocks = st.none() | st.sampled_from(["S1", "s1", "S2"])
identities = st.tuples(vins, stocks).filter(any)


@given(
    st.lists(st.tuples(identities, st.booleans()), unique_by=lambda unit: unit[0][0] or object(), max_size=6),
    st.lists(identities, max_size=6),
    st.sets(st.integers(0, 5)),
)
def test_every_row_and_every_known_unit_has_one_fate(
    stock: list[tuple[tuple[str | None, str | None], bool]], rows: list[tuple[str | None, str | None]], far: set[int]
) -> None:
    units = [known(f"u{n}", vin, number, sold) for n, ((vin, number), sold) in enumerate(stock)]
    outside = {f"u{n}" for n in far}
    found = plan_import(units, [row(vin, number) for vin, number in rows], outside)
    for_sale = {unit.vehicle_id for unit in units if unit.sold_at is None}
    sold = {unit.vehicle_id for unit in units if unit.sold_at is not None}
    now_sold = [unit.vehicle_id for unit in found.sold]
    confirmed = [row.vehicle_id for row in found.changed] + found.unchanged
    added = [row.vehicle_id for row in found.added]
    back = [row.vehicle_id for row in found.back]
    assert len(confirmed) + len(added) + len(back) + found.repeated == len(rows)
    assert len(set(confirmed + added + back + now_sold)) == len(confirmed + added + back + now_sold)
    assert set(back) <= sold
    assert not set(added) & (for_sale | sold)
    assert set(confirmed) <= for_sale
    assert set(now_sold) == for_sale - outside - set(confirmed)
    assert (found.before, found.after) == (len(for_sale - outside), len(confirmed + added + back))


@given(st.lists(identities, max_size=6))
def test_the_same_file_again_changes_nothing(rows: list[tuple[str | None, str | None]]) -> None:
    file = [row(vin, number) for vin, number in rows]
    first = plan([], file)
    units = [known(vehicle_id, *rows[position]) for vehicle_id, position in added(first)]
    again = plan(units, file)
    assert sorted(again.unchanged) == sorted(unit.vehicle_id for unit in units)
    assert (again.added, again.changed, again.back, again.sold, again.refreshed) == ([], [], [], [], [])
