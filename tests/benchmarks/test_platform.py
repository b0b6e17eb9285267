"""The installation of the benchmark, and what the benchmark makes of its figures."""

from pathlib import Path
from statistics import median

import pytest
from benchmarks.many_dealers import COLD, USUAL, Prepared, dealers_of, prepare, write_installation
from benchmarks.platform import (
    FULL,
    QUICK,
    ColdAnswers,
    FedDealers,
    Idle,
    LargeImport,
    MemoryPoint,
    PlatformFigures,
    Start,
    Visible,
    WarmLoad,
    extent_of,
)
from benchmarks.platform_clients import median_and_p99, post_to
from benchmarks.steady import Steady
from benchmarks.targets import platform_targets
from benchmarks.wrk import Load
from rich.console import Console
from tests.storage.service_role import prepared_schema

from benchmarks import report
from dealer_agent.config.installation import load_installation
from dealer_agent.storage.stock.reading import count_for_sale
from dealer_agent.storage.store import Store

STEADY = Steady(200, 0, 2.0, 6.0, 9.0)
LOAD = Load(1_000.0, 4_000, 0, 0, p50=10.0, p99=20.0, cpu=650.0, kernel_cpu=100.0)
FIGURES = PlatformFigures(
    prepared=Prepared(3_500, 1_000_000, 11_000, 90.0),
    open_files=65_536,
    starts=[Start(1, 2.0, 4.0), Start(3_500, 3.0, 4.5)],
    memory=[MemoryPoint(0, 0, 200.0), MemoryPoint(3_480, 1_000_000, 3_000.0)],
    further_mib=0.8,
    within_budget=590.0,
    idle=Idle(0.005, 0.002),
    warm=[WarmLoad(1, LOAD, 1.0, 1.0), WarmLoad(500, LOAD, 0.92, 0.95)],
    cold=[ColdAnswers(size, 100, 20.0, 50.0, STEADY, STEADY) for size in COLD],
    imports=FedDealers(10, 3_000, STEADY, STEADY, STEADY, 0.97),
    large_import=LargeImport(1_000_000, 40.0, 800.0),
    visible=[Visible("added", 100, 100, 1.2)],
)


@pytest.mark.parametrize("count", [60, 300, 3_500])
def test_an_installation_has_as_many_dealers_as_asked_for(count: int) -> None:
    dealers = dealers_of(count)
    assert len(dealers.sizes()) == count
    assert set(dealers.warm.values()) == {USUAL}
    assert all(dealers.cold[size] for size in COLD)


def test_the_service_reads_the_stock_of_a_prepared_installation(postgresql_server: str, tmp_path: Path) -> None:
    with prepared_schema(postgresql_server) as (admin_url, service_url):
        write_installation(tmp_path, snapshot_memory_mib=64, workers=1)
        made = prepare(tmp_path, admin_url, service_url, {"small": 2, "large": 30})
        assert (made.dealers, made.units) == (2, 32)
        loaded = load_installation(tmp_path, {"DATABASE_URL": service_url})
        with Store.open(loaded.database_url, loaded.cipher, many_dealers=True) as store:
            for dealer_id, units in (("small", 2), ("large", 30)):
                with store.read(dealer_id) as tx:
                    assert count_for_sale(tx) == units


def test_the_full_installation_has_a_million_units_of_log_normal_sizes() -> None:
    dealers = dealers_of(FULL.dealers)
    assert sum(dealers.sizes().values()) == pytest.approx(1_000_000, rel=0.001)
    sizes = list(dealers.others.values())
    assert median(sizes) < sum(sizes) / len(sizes) < max(sizes) / 10


def test_fewer_dealers_mean_fewer_rows() -> None:
    assert extent_of(None, quick=False) == FULL
    assert extent_of(None, quick=True) == QUICK
    small = extent_of(300, quick=False)
    assert (small.dealers, small.rounds) == (300, FULL.rounds)
    assert small.import_rows < FULL.import_rows


def test_a_request_names_its_dealer_in_the_path() -> None:
    assert post_to("north", b"{}").startswith(b"POST /d/north/message:send HTTP/1.1\r\n")


def test_median_and_p99_are_of_the_values() -> None:
    assert median_and_p99([7.0]) == (7.0, 7.0)
    assert median_and_p99([float(number) for number in range(101)]) == (50.0, 99.0)


def test_figures_within_the_bounds_meet_all_targets() -> None:
    assert [target.what for target in platform_targets(FIGURES) if not target.met] == []
    console = Console(width=200, record=True, file=None, quiet=True)
    for table in report.platform_tables(FIGURES):
        console.print(table)
