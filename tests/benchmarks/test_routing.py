"""The part of the benchmark that routes dealers to replicas, and the one that measures installations for the model."""

from io import StringIO

import pytest
from benchmarks.installation_costs import installation_costs
from benchmarks.routing import BY_DEALER, ROUND_ROBIN, Answers, Routed, RoutingFigures, routing_figures
from rich.console import Console
from tests.servers.haproxy import routing_by_dealer

from benchmarks import report


def test_the_lines_of_the_deployed_file_hash_the_dealer() -> None:
    lines = routing_by_dealer()
    assert "balance hash var(txn.dealer)" in lines
    assert "hash-type consistent sdbm avalanche" in lines
    assert all(line.startswith(("http-request set-var(txn.dealer) ", "balance ", "hash-type ")) for line in lines)


def test_the_table_has_both_ways_of_routing() -> None:
    answers = Answers(100, 20.0, 60.0, 0)
    routed = [
        Routed(name, 400.0, mib, answers, answers, answers) for name, mib in ((ROUND_ROBIN, 900), (BY_DEALER, 600))
    ]
    printed = StringIO()
    Console(width=200, file=printed).print(report.routing_table(RoutingFigures(300, 85_000, 3, routed)))
    assert ROUND_ROBIN in printed.getvalue()
    assert BY_DEALER in printed.getvalue()


@pytest.mark.soak
def test_a_short_run_measures_both_ways_of_routing() -> None:
    found = routing_figures(60, lambda _: None)
    in_turn, by_dealer = found.routed
    assert by_dealer.mib < in_turn.mib
    for routed in found.routed:
        assert routed.gone.count > 0 < routed.returned.count
        assert routed.warm.failed == routed.gone.failed == routed.returned.failed == 0


@pytest.mark.soak
def test_a_short_run_measures_what_the_model_needs() -> None:
    found = installation_costs((1, 20), 1, lambda _: None)
    assert [point.dealers for point in found.points] == [1, 20]
    stored = found.stored
    assert min(stored.unit, stored.dealer, stored.version, stored.feed, stored.lead, stored.delivery) > 0
    assert min(found.changed_row.service, found.unchanged_row.service) > 0
    console = Console(width=200, record=True, file=None, quiet=True)
    for table in report.installation_tables(found):
        console.print(table)
