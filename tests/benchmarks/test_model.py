"""The model of an installation: its arithmetic, where its costs come from, and its table in the documentation."""

import json
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from benchmarks.costs import Costs, missing
from benchmarks.installation_points import InstallationCosts, Loaded, Point, RowCost, StoredBytes, two_costs
from benchmarks.model import main
from benchmarks.model_check import compared
from benchmarks.model_needs import Assumptions, Needs, needs
from benchmarks.model_page import BEGIN, END, SCALING, STEPS, documented, write_page
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import FIGURES

STORED = msgspec.json.decode(FIGURES.read_bytes())
COSTS = Costs(
    request=100,
    lead=1_500,
    lead_database=900,
    delivery=2_800,
    delivery_database=600,
    changed_row=400,
    changed_row_database=100,
    unchanged_row=200,
    unchanged_row_database=50,
    idle_worker=0.01,
    idle_dealer=1e-6,
    idle_worker_database=0.002,
    poll=0.1,
    worker_mib=140,
    registered_mib=0.001,
    loaded_mib=0.2,
    unit_mib=0.001,
    file_mib=0.0006,
    connections=4,
    ready_seconds=3,
    ready_cpu=1.4,
    ready_dealer=0.0001,
    first_answer_ms=20,
    unit_bytes=1_400,
    dealer_bytes=4_000,
    version_bytes=600,
    feed_bytes=1_000,
    lead_bytes=7_000,
    delivery_bytes=4_000,
)
DEALERS = st.integers(0, 200_000)
SOME = st.floats(0, 10_000)
SHARE = st.floats(0, 1)
ASSUMED = st.builds(
    Assumptions,
    units=st.floats(0, 5_000),
    requests_a_day=SOME,
    leads_a_day=st.floats(0, 100),
    feeds_a_day=st.floats(0, 48),
    changed_rows=SHARE,
    busiest_hour=SHARE,
    cores=st.integers(1, 64),
    memory_gib=st.floats(4, 512),
    full=st.floats(0.1, 1),
    lost=st.integers(0, 3),
)


def total(found: Needs) -> float:
    """All cores of the service."""
    return found.requests + found.leads + found.deliveries + found.imports + found.idle


@given(DEALERS, ASSUMED)
def test_twice_the_dealers_never_need_less(dealers: int, assumed: Assumptions) -> None:
    one, two = needs(COSTS, assumed, dealers), needs(COSTS, assumed, 2 * dealers)
    # No number of machines is enough for the larger one if each dealer alone takes memory in every worker.
    assert two.machines >= one.machines or two.machines == 0
    if two.machines:
        for name in ("requests", "leads", "deliveries", "imports", "stored_gb", "growth_gb"):
            assert getattr(two, name) >= getattr(one, name)


@given(DEALERS, ASSUMED)
def test_no_work_needs_no_time_for_it(dealers: int, assumed: Assumptions) -> None:
    quiet = replace(assumed, requests_a_day=0, leads_a_day=0, feeds_a_day=0)
    found = needs(COSTS, quiet, dealers)
    assert (found.requests, found.leads, found.deliveries, found.imports, found.growth_gb) == (0, 0, 0, 0, 0)
    assert found.lost_requests == 0


@given(DEALERS, ASSUMED)
def test_the_machines_that_are_left_have_room_for_everything(dealers: int, assumed: Assumptions) -> None:
    found = needs(COSTS, assumed, dealers)
    if found.machines:
        left = found.machines - assumed.lost
        assert found.workers <= assumed.cores
        idle_of_lost = assumed.lost * found.workers * COSTS.idle_worker
        assert total(found) - idle_of_lost <= left * found.workers * assumed.full * (1 + 1e-9)
        assert found.memory_routed <= assumed.memory_gib * 1024 * assumed.full * (1 + 1e-9)


@given(DEALERS, ASSUMED)
def test_routing_by_name_never_needs_more_memory(dealers: int, assumed: Assumptions) -> None:
    found = needs(COSTS, assumed, dealers)
    assert found.memory_routed <= found.memory_round_robin


@given(st.integers(1, 200_000), ASSUMED)
def test_each_machine_that_may_be_lost_is_one_more(dealers: int, assumed: Assumptions) -> None:
    found = needs(COSTS, assumed, dealers)
    more = needs(COSTS, replace(assumed, lost=assumed.lost + 1), dealers)
    assert more.machines == (found.machines + 1 if found.machines else 0)


def test_a_known_installation_needs_what_a_person_calculates() -> None:
    """36,000 requests in the busiest hour are 10 a second, of 100 µs each: a thousandth of a core."""
    assumed = Assumptions(requests_a_day=3_600, busiest_hour=0.1, leads_a_day=0, feeds_a_day=0, units=0, lost=1)
    found = needs(COSTS, assumed, 100)
    assert found.requests == pytest.approx(0.001)
    assert (found.machines, found.workers, found.connections, found.pooler) == (2, 1, 20, False)
    # HAProxy sends half of 10 requests a second to the lost machine, for 9 seconds.
    assert found.lost_requests == pytest.approx(45)
    assert found.stored_gb == pytest.approx(100 * 4_000 / 1e9)
    assert found.memory_routed == pytest.approx(140 + 100 * 0.001 + 100 * 0.2)


def test_more_connections_than_the_server_has_need_a_pooler() -> None:
    found = needs(COSTS, Assumptions(server_connections=19), 1)
    assert found.pooler
    assert found.first_limit == "connections"


def test_a_machine_that_is_too_small_for_a_worker_is_never_enough() -> None:
    assert needs(COSTS, Assumptions(memory_gib=0.1), 1).machines == 0
    assert needs(COSTS, Assumptions(full=0.01), 1).machines == 0


def test_every_cost_has_a_source_and_its_part_is_named_if_it_was_not_measured() -> None:
    assert Costs.sources().keys() == {each.name for each in fields(Costs)}
    assert missing({}) == [*Costs.sources().values()]
    assert Costs.of({}) == Costs()
    assert all(value >= 0 for value in asdict(Costs.of(STORED)).values())


def point(dealers: int, units: int) -> Point:
    """An installation of two workers that costs exactly what COSTS says."""

    def after(loaded: int, of_units: int) -> Loaded:
        workers = 2 * (COSTS.worker_mib + dealers * COSTS.registered_mib + (loaded - 1) * COSTS.loaded_mib)
        mib = workers + (of_units - 300) * COSTS.unit_mib
        return Loaded(loaded, of_units, mib, of_units * COSTS.file_mib)

    steps = [after(dealers // 2, units // 3)] if dealers > 1 else []
    first_dealer = 20
    return Point(
        dealers=dealers,
        units=units,
        ready_seconds=COSTS.ready_seconds,
        ready_cpu=COSTS.ready_cpu + dealers * COSTS.ready_dealer,
        registered_mib=2 * (COSTS.worker_mib + dealers * COSTS.registered_mib) - first_dealer,
        loaded=[*steps, after(dealers, units)],
        idle_service=2 * COSTS.idle_worker + dealers * COSTS.idle_dealer,
        idle_database=2 * COSTS.idle_worker_database,
        connections=8,
        poll=80 + dealers * COSTS.poll,
    )


def figures(*points: Point) -> dict[str, Any]:
    """Stored figures of the part."""
    stored = StoredBytes(unit=1_400, dealer=4_000, version=600, feed=1_000, lead=7_000, delivery=4_000)
    found = InstallationCosts(2, 65_536, list(points), RowCost(400, 100), RowCost(200, 50), stored)
    return {"installation": {"circumstances": {"commit": "abc"}, "figures": msgspec.to_builtins(found)}}


def test_costs_are_those_of_the_measured_installations() -> None:
    found = Costs.of(figures(point(1, 300), point(300, 90_000)))
    for name in (
        "registered_mib",
        "loaded_mib",
        "unit_mib",
        "file_mib",
        "idle_dealer",
        "poll",
        "connections",
        "version_bytes",
    ):
        assert getattr(found, name) == pytest.approx(getattr(COSTS, name), rel=0.01), name


def test_a_larger_installation_is_compared_and_not_learned_from() -> None:
    rows = compared(figures(point(1, 300), point(300, 90_000), point(3_500, 1_000_000)))
    tested = {(row.what, row.dealers) for row in rows if not row.fitted}
    assert {("memory, 1,750 loaded", 3_500), ("memory, 3,500 loaded", 3_500), ("idle, service", 300)} <= tested
    assert ("memory, 300 loaded", 300) not in tested
    assert all(row.within for row in rows), rows


def test_a_measured_value_far_from_the_model_is_outside_the_goal() -> None:
    larger = msgspec.structs.replace(point(3_500, 1_000_000), connections=20)
    rows = compared(figures(point(1, 300), point(300, 90_000), larger))
    outside = {(row.what, row.dealers) for row in rows if not row.within}
    # The largest number counts for all.
    assert outside == {("connections, idle", 1), ("connections, idle", 300)}


def test_memory_is_not_compared_where_a_worker_has_closed_dealers() -> None:
    few = figures(point(1, 300), point(300, 90_000), point(3_500, 1_000_000))
    few["installation"]["figures"]["open_files"] = 10_000
    assert "memory, 3,500 loaded" not in {row.what for row in compared(few)}
    assert "memory, 1,750 loaded" in {row.what for row in compared(few)}


@given(st.floats(0, 100), st.floats(0, 1))
def test_two_costs_are_found_in_points_that_they_make(dealer: float, unit: float) -> None:
    rows = [(a, b, a * dealer + b * unit) for a, b in ((10.0, 500.0), (20.0, 9_000.0), (300.0, 90_000.0))]
    assert two_costs(rows) == pytest.approx((dealer, unit), rel=1e-6, abs=1e-6)


def test_a_cost_is_never_negative() -> None:
    assert min(two_costs([(1.0, 100.0, 5.0), (2.0, 100.0, 3.0)])) >= 0
    assert two_costs([]) == (0.0, 0.0)


@pytest.mark.parametrize("name", ["Needs", "Check", "Routing"])
def test_the_page_about_scaling_has_the_tables_of_the_program(name: str) -> None:
    """After new figures: `python -m benchmarks.model --write`."""
    page = SCALING.read_text("utf-8")
    written = page.partition(BEGIN.format(name))[2].partition(END.format(name))[0]
    assert written.strip() == documented(STORED)[name].strip()


def test_writing_the_page_again_changes_nothing(tmp_path: Path) -> None:
    copy = tmp_path / "scaling.md"
    copy.write_text(SCALING.read_text("utf-8"), "utf-8")
    write_page(copy, STORED)
    assert copy.read_text("utf-8") == SCALING.read_text("utf-8")


def test_the_program_prints_the_table_the_costs_and_the_check(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    table = capsys.readouterr().out
    assert all(f"{dealers:,}" in table for dealers in STEPS)
    assert STORED["platform"]["circumstances"]["commit"] in table
    main(["--costs"])
    assert "processor time of a lead" in capsys.readouterr().out
    main(["--check"])
    assert "Difference" in capsys.readouterr().out


def test_the_program_prints_json_for_any_assumption(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--json", "--dealers", "10", "--requests-a-day", "0", "--busiest-hour", "0.5"])
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["dealers"], found["requests"]) == (10, 0)
    main(["--json", "--check"])
    assert isinstance(json.loads(capsys.readouterr().out), list)


def test_the_help_names_every_assumption_with_its_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    said = " ".join(capsys.readouterr().out.split())
    for each in fields(Assumptions):
        assert f"--{each.name.replace('_', '-')} N {each.metadata['what']} (default: {each.default:g})" in said


@pytest.mark.parametrize(
    "option",
    [("--units", "-1"), ("--full", "1.5"), ("--cores", "0.5"), ("--cores", "0"), ("--years", "inf"), ("--full", "nan")],
)
def test_an_impossible_assumption_is_refused(option: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(option)
    assert option[0] in capsys.readouterr().err
