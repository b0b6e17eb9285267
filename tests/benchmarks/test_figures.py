"""What the benchmark makes of what it measured: wrong arithmetic here would be a wrong claim in the README."""

import pytest
from benchmarks.answers import Agreement, Reply, WrongAnswerError, agreement, check_refusals, check_replies
from benchmarks.buyers import Ask
from benchmarks.in_process import Compared
from benchmarks.metrics import SEARCH, VEHICLE, MetricsFigures
from benchmarks.targets import Target, metrics_targets
from benchmarks.wire import OURS, SDK, Plan, _turns
from benchmarks.wrk import Load, load_of, median_load

PRINTED = """Running 2s test @ http://127.0.0.1:8080
FIGURES {"answered": 4000, "microseconds": 2000000, "refused": 3, "broken": 0, "p50": 1500, "p99": 6000}
"""


def _load(per_second: float = 1.0, answered: int = 100, refused: int = 0, broken: int = 0) -> Load:
    return Load(per_second, answered, refused, broken, p50=1.0, p99=2.0, cpu=10.0, kernel_cpu=5.0)


def test_figures_of_a_run_are_in_their_units() -> None:
    load = load_of(PRINTED, cpu_seconds=1.0, kernel_seconds=0.25)
    assert load == Load(2000.0, 4000, 3, 0, p50=1.5, p99=6.0, cpu=250.0, kernel_cpu=62.5)
    assert load.tail == 4.0


def test_a_run_without_figures_is_no_figure() -> None:
    with pytest.raises(ValueError, match="unable to connect"):
        load_of("unable to connect to 127.0.0.1:1", 0, 0)


def test_a_run_in_which_nothing_was_answered_is_no_figure() -> None:
    with pytest.raises(ValueError, match="no request was answered"):
        load_of(PRINTED.replace("4000", "0"), 1.0, 0.25)


def test_the_median_of_rounds_is_of_each_figure_and_counts_are_sums() -> None:
    load = median_load([_load(1, 10, 1), _load(100, 20, 2), _load(3, 30, 3)])
    assert (load.per_second, load.answered, load.refused) == (3, 60, 6)


def _asks(*statuses: int) -> list[Ask]:
    return [Ask("search", "inventory.search", b"{}", status) for status in statuses]


def _page(total: int) -> Reply:
    data = b'{"type":"inventory.search.response","data":{"total":%d}}' % total
    return Reply(200, b'{"message":{"parts":[{"data":%b}]}}' % data)


def test_an_answer_with_another_status_or_of_another_skill_ends_the_run() -> None:
    check_replies(_asks(200, 422), [_page(1), Reply(422, b"")])
    with pytest.raises(WrongAnswerError):
        check_replies(_asks(422), [_page(1)])
    with pytest.raises(WrongAnswerError):
        check_replies(_asks(200), [Reply(200, b'{"type":"inventory.facets.response"}')])


@pytest.mark.parametrize(("answered", "refused"), [(4, 1), (8, 2), (10, 3), (400, 100), (400, 102)])
def test_as_many_refusals_as_the_requests_that_were_sent_ask_for_are_right(answered: int, refused: int) -> None:
    """The first of four is invalid; two connections may be under way."""
    check_refusals(_asks(422, 200, 200, 200), _load(answered=answered, refused=refused), 2)


@pytest.mark.parametrize(("refused", "broken"), [(97, 0), (103, 0), (100, 1)])
def test_other_refusals_and_broken_connections_end_the_run(refused: int, broken: int) -> None:
    with pytest.raises(WrongAnswerError):
        check_refusals(_asks(422, 200, 200, 200), _load(answered=400, refused=refused, broken=broken), 2)


def test_equal_totals_of_two_servers_are_counted_and_those_of_free_text_apart() -> None:
    asked = [*_asks(200, 200), Ask("free text", "inventory.search", b'{"query":"suv"}')]
    found = agreement(asked, [_page(1), _page(2), _page(3)], [_page(1), _page(9), _page(3)])
    assert found == Agreement(asked=2, agreed=1, text_asked=1, text_agreed=1)
    # Only one of the servers accepts the request.
    with pytest.raises(WrongAnswerError):
        agreement(_asks(200), [_page(1)], [Reply(400, b"")])


def test_every_round_loads_ours_right_before_the_bare_server() -> None:
    plan = Plan(1_000, ("mix",), rounds=3, seconds=1, sdk_rounds=1, sdk_seconds=1)
    turns = list(_turns(plan))
    assert [number for number, name in turns if name == OURS] == [1, 2, 3]
    assert [number for number, name in turns if name == SDK] == [1]


@pytest.mark.parametrize(
    ("target", "met"),
    [
        (Target("rate", 0.5, least=0.5), True),
        (Target("rate", 0.49, least=0.5), False),
        (Target("tail", 4.0, most=4), True),
        (Target("tail", 4.1, most=4), False),
    ],
)
def test_a_target_is_met_within_its_bound(target: Target, met: bool) -> None:
    assert target.met is met


@pytest.mark.parametrize(("ratio", "milliseconds", "met"), [(1.02, 30, True), (1.029, 30, False), (1.031, 0, False)])
def test_counting_a_search_and_reading_the_metrics_cost_at_most_three_percent(
    ratio: float, milliseconds: float, met: bool
) -> None:
    """30 ms every 15 s are 0.2 % of a core."""
    figures = [Compared(load, 100, 100 * ratio, ratio, ratio, ratio, 0) for load in (VEHICLE, SEARCH)]
    (target,) = metrics_targets(MetricsFigures(figures, milliseconds))
    assert target.met == met
