"""Visits in hours of several spans, past midnight, on special days and holidays (docs/protocol.md#confirmation)."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.skills.intake_setup import IntakeSetup
from tests.skills.visiting import LOT, NOW, PROFILE, at, lead_with_visit, visit

from dealer_agent.dealers.opening import Holidays, SpecialDay, WeekHours
from dealer_agent.dealers.profile import VisitRules

OpenIntake = Callable[..., IntakeSetup]

LATE = replace(
    PROFILE.rooftops[0],
    hours={"sales": WeekHours(*["09:00-12:00, 13:00-18:00, 20:00-02:00"] * 7)},
    closed_dates=("2026-03-06",),
    special_days=(
        SpecialDay(date="2026-03-04", hours="closed"),
        SpecialDay(date="2026-03-05", hours="10:00-11:00"),
        SpecialDay(holiday="Good Friday", hours="closed"),
    ),
    holidays=Holidays(country="US", subdivision="TN"),
    visits={"test_drive": VisitRules(horizon_days=60, closed_dates=("2026-03-09",))},
)
LATE_PROFILE = replace(PROFILE, rooftops=(LATE, *PROFILE.rooftops[1:]))


@pytest.mark.requirement("confirm-in-hours")
def test_a_visit_lies_inside_one_stretch_of_the_hours_of_its_day(new_intake: OpenIntake) -> None:
    intake = new_intake(LATE_PROFILE)
    asked = {
        at("11:00"): "confirmed",
        at("11:30"): "proposed",
        at("12:30"): "proposed",
        at("13:00"): "confirmed",
        # Past midnight: a span belongs to the day on which it begins, and 4 March is closed.
        at("23:30"): "confirmed",
        at("01:00", 4): "confirmed",
        at("01:30", 4): "proposed",
        at("10:00", 4): "proposed",
        at("00:30", 5): "proposed",
        at("10:00", 5): "confirmed",
        at("10:30", 5): "proposed",
        at("14:00", 6): "proposed",
        # In the night of the 8th the clock shows 03:00 instead of 02:00.
        at("01:00", 8): "confirmed",
        "2026-03-08T03:00:00-05:00": "proposed",
        # No test drives begin on the 9th, and the night of the 8th ends at its time.
        "2026-03-09T01:00:00-05:00": "confirmed",
        "2026-03-09T09:00:00-05:00": "proposed",
        # Good Friday, a public holiday in Tennessee.
        "2026-04-02T17:00:00-05:00": "confirmed",
        "2026-04-03T10:00:00-05:00": "proposed",
    }
    given = {time: intake.take(lead_with_visit(visit(time)), NOW, LOT)["appointment"]["status"] for time in asked}
    assert given == asked


def test_the_message_names_the_closing_time_after_midnight_and_the_opening_after_a_break(
    new_intake: OpenIntake,
) -> None:
    intake = new_intake(LATE_PROFILE)
    told = {}
    for hours_later in (3.5, 12, 16, 48):
        now = NOW + timedelta(hours=hours_later)
        message = intake.answer(lead_with_visit(visit(kind="service")), now, LOT).message
        assert message is not None
        told[hours_later] = message.split("service visit. ")[1]
    assert told == {
        3.5: "We open again on Monday, March 2 at 1:00 PM (Central time).",
        12: "We are open until 2:00 AM tomorrow (Central time).",
        16: "We are open until 2:00 AM today (Central time).",
        48: "We open again on Thursday, March 5 at 10:00 AM (Central time).",
    }
