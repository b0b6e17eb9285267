"""The benchmark of leads runs, and says what it found."""

import shutil
from datetime import UTC, datetime

import pytest
from benchmarks.lead_requests import LEADS, lead_requests
from benchmarks.leads import Arrivals, DatabaseFigures, Deliveries, LeadFigures, _middle, lead_figures
from benchmarks.steady import Steady
from benchmarks.targets import lead_targets
from benchmarks.wrk import Load
from rich.console import Console

from benchmarks import report

LOAD = Load(1_000.0, 4_000, 0, 0, p50=10.0, p99=20.0, cpu=650.0, kernel_cpu=100.0)
FIGURES = DatabaseFigures(
    database="SQLite",
    bare=LOAD,
    leads=LOAD,
    of_bare=0.5,
    database_cpu=0.0,
    deliveries=Deliveries(200.0, 1_500.0, 0.0),
    steady=Arrivals(Steady(400, 0, 5.0, 9.0), 4.0, 396, 0.1, 2_500.0, 0.0),
    beside=LOAD,
    beside_database_cpu=0.0,
    beside_deliveries=90.0,
)


def test_no_two_leads_are_of_one_customer() -> None:
    requests = set(lead_requests(["1HGCY2F57RA000001"], datetime(2026, 3, 2, tzinfo=UTC)))
    assert len(requests) == LEADS


def test_the_median_of_rounds_is_of_each_figure() -> None:
    rounds = [Deliveries(rate, rate * 2, 0.0) for rate in (1.0, 9.0, 3.0)]
    assert _middle(rounds) == Deliveries(3.0, 6.0, 0.0)


def test_a_target_is_met_by_figures_within_its_bound() -> None:
    found = {target.what: target.met for target in lead_targets(LeadFigures([FIGURES], LOAD))}
    assert len(found) == 4
    assert all(found.values())


@pytest.mark.soak
@pytest.mark.skipif(shutil.which("wrk") is None, reason="GAP: wrk is not installed")
def test_a_short_run_measures_both_databases(monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"leads.DELIVERIES": 20, "leads.STEADY_RATE": 10, "leads.VEHICLES": 20, "leads.WORKERS": 1}
    for name, value in (small | {"leads.LEADS": 9_000, "lead_requests.LEADS": 9_000}).items():
        monkeypatch.setattr(f"benchmarks.{name}", value)
    try:
        found = lead_figures(1, 1, lambda _: None)
    except ValueError:  # A busy machine answers nothing within a second.
        found = lead_figures(1, 10, lambda _: None)
    assert [figures.database for figures in found.databases] == ["SQLite", "PostgreSQL"]
    for figures in found.databases:
        assert figures.leads.answered > 0
        assert figures.steady.leads.answered == 10
        assert min(figures.leads.cpu, figures.deliveries.cpu, figures.steady.cpu) > 0
    assert found.databases[0].database_cpu == 0 < found.databases[1].database_cpu
    console = Console(width=200, record=True, file=None, quiet=True)
    for table in report.lead_tables(found):
        console.print(table)
