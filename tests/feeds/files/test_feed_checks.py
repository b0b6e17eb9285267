"""The thresholds and actions of the checks of a feed (docs/reference/feeds.md#checks-of-a-feed)."""

import string
from typing import Any

import pytest
from msgspec.structs import replace

from dealer_agent.feeds.files.checks import CHECK_BY_ID, CHECKS, Action, CheckRun, FeedChecks, FeedFinding, refusals
from dealer_agent.feeds.files.counts import Comparison, FileCounts
from dealer_agent.inventory.listing import Unit

pytestmark = pytest.mark.outside_protocol("feeds")

SOLD = "{:,} of {:,} units that are for sale are not in the file."


@pytest.mark.parametrize(
    ("count", "total", "actions"),
    [
        (22, 100, ["warn"]),
        (23, 100, ["refuse"]),
        (14, 100, []),
        (15, 100, ["warn"]),
        (1572, 10_000, ["refuse"]),
        (1570, 10_000, ["warn"]),
        (860, 10_000, []),
        (1, 1, []),
        (2, 2, ["refuse"]),
        (2, 3, ["refuse"]),
        (3, 10, ["warn"]),
        (4, 10, ["refuse"]),
        (0, 0, []),
    ],
)
def test_more_than_a_share_may_be_lost_of_a_small_stock_than_of_a_large_one(
    count: int, total: int, actions: list[Action]
) -> None:
    judge = CheckRun(FeedChecks())
    judge.share("units_lost", count, total)
    judge.share("units_lost_warning", count, total)
    assert [(found.action, found.sentence) for found in judge.findings] == [
        (action, SOLD.format(count, total)) for action in actions
    ]


@pytest.mark.parametrize(
    ("settings", "accepted", "action"),
    [
        (FeedChecks(), (), "refuse"),
        (FeedChecks(), ("units_lost",), "warn"),
        (FeedChecks(), ("prices_lost",), "refuse"),
        (replace(FeedChecks(), units_lost=0.6), (), None),
        (FeedChecks(actions={"units_lost": "warn"}), (), "warn"),
        (FeedChecks(actions={"units_lost": "off"}), (), None),
        (FeedChecks(actions={"units_lost": "off"}), ("units_lost",), None),
    ],
)
def test_settings_and_a_person_decide_what_a_check_does(
    settings: FeedChecks, accepted: tuple[str, ...], action: Action | None
) -> None:
    judge = CheckRun(settings, accepted)
    judge.share("units_lost", 5, 10)
    assert [found.action for found in judge.findings] == ([] if action is None else [action])
    assert bool(refusals(judge.findings)) == (action == "refuse")


def test_findings_are_in_the_order_of_the_checks() -> None:
    judge = CheckRun(FeedChecks())
    judge.add("truncated", reason="The end is missing.")
    judge.share("prices_lost", 5, 10)
    judge.share("units_lost", 1234, 2000)
    assert judge.findings == (
        FeedFinding("units_lost", "refuse", "1,234 of 2,000 units that are for sale are not in the file."),
        FeedFinding("prices_lost", "refuse", "5 of 10 units would lose their price."),
        FeedFinding("truncated", "refuse", "The end is missing."),
    )


def test_every_check_has_a_sentence_and_a_threshold_that_is_a_setting() -> None:
    settings = FeedChecks()
    for check in CHECKS:
        names = {name for _, name, _, _ in string.Formatter().parse(check.sentence) if name}
        words = dict.fromkeys(names, "x")
        judge = CheckRun(FeedChecks(actions={check.id: "warn"}))
        judge.add(check.id, **words)
        assert judge.findings[0].sentence.endswith(".") or check.id in (
            "truncated",
            "columns_missing",
            "details_missing",
        )
        assert settings.threshold(check) == (check.threshold or 0.0)
        assert settings.action(check) in ("warn", "refuse")
    assert len(CHECK_BY_ID) == len(CHECKS)


def car(**members: Any) -> Unit:
    identity: dict[str, Any] = {"vin": "1HGCM82633A004352", "year": 2003, "make": "Honda", "model": "Accord"}
    return Unit(**identity | members)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ({"mileage": 9000}, {}, "mileage: 10 of 10 units would lose it."),
        ({"trim": "EX"}, {}, "trim: 10 of 10 units would lose it."),
        ({"trim": "EX"}, {"trim": "LX"}, "trim: 10 of 10 units would get another value."),
        ({"selling_price": 9000}, {"selling_price": 9500}, "10 of 10 prices would change by more than 5 %."),
        ({"selling_price": 9000}, {"selling_price": 9440}, None),
        (
            {"photos": ("a", "b", "c")},
            {"photos": ("a",)},
            "10 of 10 units would lose photos: more than half of theirs.",
        ),
        ({"photos": ("a", "b")}, {"photos": ("b",)}, None),
        (
            {"condition": "cpo"},
            {"condition": "new"},
            "condition, used to new: 10 of 10 units of the stock would get another value.",
        ),
        ({"vdp_url": "https://a.example/1"}, {"vdp_url": "https://a.example/2"}, None),
        (
            {"description": "Très propre"},
            {"description": "Tr?s propre"},
            "10 texts in 10 rows have characters that were lost or decoded wrongly, such as Ã© for é. "
            "Export the file as UTF-8, and correct the texts that are wrong in the inventory system too.",
        ),
        ({}, {"mileage": 9000}, None),
    ],
)
def test_known_units_are_compared_member_by_member(
    old: dict[str, object], new: dict[str, object], sentence: str | None
) -> None:
    comparison, file, judge = Comparison(), FileCounts(), CheckRun(FeedChecks())
    for _ in range(10):
        comparison.add(car(**old), car(**new), moves=False)
        file.add(car(**new))
    comparison.check(judge, file, unchanged=0, scale=1.0)
    sentences = [found.sentence for found in judge.findings]
    assert sentences == [] if sentence is None else sentence in sentences


def test_units_that_do_not_change_count_as_known_units() -> None:
    """Of 100 units, 10 change and lose the mileage that all have: that is a tenth."""
    comparison, file, judge = Comparison(), FileCounts(), CheckRun(replace(FeedChecks(), values_lost=0.09))
    for _ in range(10):
        comparison.add(car(mileage=5), car(), moves=False)
    for number in range(100):
        file.add(car() if number < 10 else car(mileage=5))
    comparison.check(judge, file, unchanged=90, scale=1.0)
    assert [found.sentence for found in judge.findings] == ["mileage: 10 of 91 units would lose it."]


def test_of_a_sample_the_numbers_are_those_of_all_units() -> None:
    comparison, file, judge = Comparison(), FileCounts(), CheckRun(FeedChecks())
    for _ in range(10):
        comparison.add(car(mileage=5), car(), moves=False)
    comparison.check(judge, file, unchanged=0, scale=3.0)
    assert [found.sentence for found in judge.findings] == ["mileage: 30 of 30 units would lose it."]
