"""A year of daily feeds in which nothing is wrong: none is refused, and a dealer gets at most one warning a month."""

from collections import Counter
from collections.abc import Sequence

import pytest
from tests.feeds.simulated_year import KINDS, Alarm, Kind, year_of

pytestmark = pytest.mark.outside_protocol("feeds")

DAYS = 35
FEW = [kind for kind in KINDS if kind.name in ("luxury", "young-used", "small")]


def check(alarms: Sequence[Alarm]) -> None:
    assert [alarm for alarm in alarms if alarm.action == "refuse" or alarm.check.startswith("units_held")] == []
    by_month = Counter((alarm.dealer, alarm.day.year, alarm.day.month) for alarm in alarms)
    assert [(key, [alarm.sentence for alarm in alarms]) for key, count in by_month.items() if count > 1] == []


def test_five_weeks_of_three_dealers_raise_no_false_alarm() -> None:
    """Dear units, a stock that is sold fast, and a small one."""
    assert len(FEW) == 3
    check([alarm for kind in FEW for alarm in year_of(kind, DAYS)])


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_a_year_of_each_dealer_raises_at_most_one_false_warning_a_month(kind: Kind) -> None:
    check(list(year_of(kind)))
