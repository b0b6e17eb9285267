"""What dealer.information answers from a profile (docs/protocol.md#dealer-information)."""

import json

import msgspec
import pytest

from dealer_agent.dealers.information import dealer_information
from dealer_agent.dealers.opening import Holidays, SpecialDay, WeekHours
from dealer_agent.dealers.profile import DealerRooftop, Geo, Policies, Profile, RooftopAddress
from dealer_agent.protocol.vehicle import Fee


def _profile(*rooftops: DealerRooftop, **members: object) -> Profile:
    return msgspec.structs.replace(
        Profile(id="acme", name="Acme Motors", feed_price="advertised", rooftops=rooftops), **members
    )


def _answer(profile: Profile) -> dict[str, object]:
    answer: dict[str, object] = json.loads(msgspec.json.encode(dealer_information(profile)))
    return answer


FULL = DealerRooftop(
    name="Acme North",
    timezone="America/Chicago",
    feed_ids=("MP1",),
    legal_name="Acme North, LLC",
    website="https://www.example.com/north",
    notes="Parking behind the building.",
    capabilities=("sales", "service"),
    address=RooftopAddress(address_line_1="1 Example Way", city="Nashville", state="TN", zip="37203"),
    geo=Geo(latitude=36.15, longitude=-86.79),
    phones={"sales": "(202) 555-0123", "service": "+1 202 555 0124"},
    emails={"sales": "sales@EXAMPLE.com"},
    hours={"sales": WeekHours(monday="9:00-20:00", sunday="closed")},
    fees=(Fee("Documentation fee", 399),),
)


@pytest.mark.requirement(
    "dealer-name",
    "dealer-welcome-message",
    "dealer-rooftops",
    "rooftop-name",
    "rooftop-contact",
    "rooftop-address",
    "rooftop-schedules",
    "rooftop-timezone",
    "rooftop-notes-capabilities",
    "rooftop-fees",
)
def test_a_full_rooftop_has_every_member_of_the_contract_and_no_feed_ids() -> None:
    assert _answer(_profile(FULL, welcome_message="Hello")) == {
        "name": "Acme Motors",
        "welcome_message": "Hello",
        "rooftops": [
            {
                "name": "Acme North",
                "legal_name": "Acme North, LLC",
                "website": "https://www.example.com/north",
                "geo": {"latitude": 36.15, "longitude": -86.79},
                "emails": [{"name": "sales", "value": "sales@example.com"}],
                "phones": [
                    {"name": "sales", "value": "+12025550123"},
                    {"name": "service", "value": "+12025550124"},
                ],
                "address": {
                    "address_line_1": "1 Example Way",
                    "city": "Nashville",
                    "state": "TN",
                    "zip": "37203",
                    "country": "US",
                },
                "schedules": [
                    {
                        "name": "sales",
                        "value": {
                            "monday": {"open": "09:00", "close": "20:00"},
                            "tuesday": None,
                            "wednesday": None,
                            "thursday": None,
                            "friday": None,
                            "saturday": None,
                            "sunday": None,
                        },
                    }
                ],
                "timezone": "America/Chicago",
                "notes": "Parking behind the building.",
                "capabilities": ["sales", "service"],
                "fees": [{"name": "Documentation fee", "amount": 399}],
            }
        ],
    }


@pytest.mark.requirement("rooftop-contact", "dealer-welcome-message")
def test_what_the_profile_leaves_out_is_absent() -> None:
    bare = DealerRooftop(name="Acme North", timezone="America/Chicago")
    assert _answer(_profile(bare)) == {
        "name": "Acme Motors",
        "rooftops": [{"name": "Acme North", "timezone": "America/Chicago"}],
    }


@pytest.mark.requirement("rooftop-fees")
def test_fees_that_are_none_are_told_from_fees_that_are_unknown() -> None:
    free = DealerRooftop(name="Acme North", timezone="America/Chicago", fees=())
    assert _answer(_profile(free))["rooftops"] == [{"name": "Acme North", "timezone": "America/Chicago", "fees": []}]


@pytest.mark.requirement("rooftop-schedules")
def test_each_day_of_the_week_keeps_its_own_hours() -> None:
    days = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
    week = WeekHours(**{day: f"0{hour}:00-20:00" for hour, day in enumerate(days)})
    rooftop = DealerRooftop(name="Acme North", timezone="America/Chicago", hours={"service": week})
    schedule = dealer_information(_profile(rooftop)).rooftops[0].schedules
    assert schedule
    value = msgspec.to_builtins(schedule[0].value)
    assert [value[day]["open"] for day in days] == [f"0{hour}:00" for hour in range(7)]


@pytest.mark.requirement("rooftop-schedules")
def test_each_further_span_of_a_day_is_in_a_schedule_of_its_own_and_midnight_is_a_time_of_the_next_day() -> None:
    week = WeekHours(monday="09:00-12:00, 13:00-18:00", friday="09:00-12:00, 18:00-02:00", saturday="00:00-24:00")
    hours = {"sales": week, "service": WeekHours(monday="7:00-24:00")}
    rooftop = DealerRooftop(name="Acme North", timezone="America/Chicago", hours=hours)
    schedules = msgspec.to_builtins(dealer_information(_profile(rooftop)).rooftops[0].schedules)
    told = {
        schedule["name"]: {day: f"{span['open']}-{span['close']}" for day, span in schedule["value"].items() if span}
        for schedule in schedules
    }
    assert told == {
        "sales": {"monday": "09:00-12:00", "friday": "09:00-12:00", "saturday": "00:00-00:00"},
        "sales (second hours)": {"monday": "13:00-18:00", "friday": "18:00-02:00"},
        "service": {"monday": "07:00-00:00"},
    }
    assert all(len(schedule["value"]) == 7 for schedule in schedules)


@pytest.mark.requirement("rooftop-notes-capabilities")
def test_special_days_are_told_in_the_notes() -> None:
    rooftop = msgspec.structs.replace(
        FULL,
        closed_dates=("2026-12-25",),
        special_days=(
            SpecialDay(holiday="Thanksgiving Day", hours="closed"),
            SpecialDay(date="2026-12-24", hours="9:00-14:00", departments=("sales", "parts")),
        ),
        holidays=Holidays(country="US", subdivision="TN", hours="10:00-12:00, 13:00-16:00"),
    )
    assert dealer_information(_profile(rooftop)).rooftops[0].notes == (
        "Parking behind the building.\n\n"
        "Special hours. 2026-12-24 (sales, parts): 09:00-14:00. 2026-12-25: closed. Thanksgiving Day: closed. "
        "Other public holidays (US, TN): 10:00-12:00, 13:00-16:00."
    )


@pytest.mark.requirement("rooftop-notes-capabilities")
def test_the_houses_policies_follow_the_notes_of_every_rooftop() -> None:
    plain = DealerRooftop(name="Acme South", timezone="America/Chicago")
    told = dealer_information(_profile(FULL, plain, policies=Policies(text="Five-day return.")))
    assert [rooftop.notes for rooftop in told.rooftops] == [
        "Parking behind the building.\n\nFive-day return.",
        "Five-day return.",
    ]


@pytest.mark.requirement("rooftop-address")
def test_a_second_address_line_and_a_country_are_kept() -> None:
    address = RooftopAddress(
        address_line_1="1 Example Way",
        address_line_2="Suite 4",
        city="Toronto",
        state="ON",
        zip="M4B 1B3",
        country="CA",
    )
    rooftop = DealerRooftop(name="Acme North", timezone="America/Toronto", address=address)
    assert msgspec.to_builtins(dealer_information(_profile(rooftop)).rooftops[0].address) == {
        "address_line_1": "1 Example Way",
        "address_line_2": "Suite 4",
        "city": "Toronto",
        "state": "ON",
        "zip": "M4B 1B3",
        "country": "CA",
    }
