"""A delivery has the current lead: additions, visits, consent (docs/protocol.md#contact-points-with-consent)."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec import UNSET
from tests.delivery.shop import NORTH, REQUEST
from tests.storage.samples import DEALER, MONDAY, TUESDAY, lead

from dealer_agent.dealers.profile import DealerRooftop, Profile
from dealer_agent.leads.consent import channels_of
from dealer_agent.leads.consent_events import ConsentEvent
from dealer_agent.leads.lead_view import LeadView, VisitTime, lead_view
from dealer_agent.leads.records import LeadDetails, LeadEvent, StoredLead, VisitRecord
from dealer_agent.protocol.requests import TradeIn
from dealer_agent.protocol.vehicle import Vehicle

SOUTH = "Ridgeline South"
PROFILE = Profile(
    id=DEALER,
    name="Ridgeline Motors",
    feed_price="advertised",
    rooftops=(
        DealerRooftop(
            name=NORTH,
            timezone="America/Chicago",
            phones={"service": "(202) 555-0141", "sales": "(202) 555-0140"},
            emails={"parts": "parts@example.com"},
            website="https://north.example.com",
        ),
        DealerRooftop(name=SOUTH, timezone="America/Phoenix"),
    ),
)


def agreed(*channels: str, **more: Any) -> ConsentEvent:
    """A consent for these channels at any contact point."""
    values: dict[str, Any] = dict.fromkeys(ConsentEvent.__dataclass_fields__)
    shown = {"number": 1, "kind": "granted", "at": MONDAY, "granted_at": MONDAY, "channels": channels}
    return ConsentEvent(**(values | shown | more))


AGREED = agreed("sms", "email")


def whole_of(stored: StoredLead, *visits: VisitRecord) -> LeadDetails:
    return LeadDetails(stored, visits, TUESDAY)


def view(*visits: VisitRecord, events: Any = (), rooftop: str = NORTH, **request: Any) -> LeadView:
    record = lead("L1", rooftop=rooftop, payload=msgspec.json.encode(REQUEST | request))
    changes = tuple(LeadEvent(f"E{at}", TUESDAY, msgspec.json.encode(change)) for at, change in enumerate(events))
    return lead_view(whole_of(StoredLead(record, (AGREED,), changes), *visits), PROFILE)


def booked(status: str, **more: Any) -> VisitRecord:
    values: dict[str, Any] = {
        "appointment_id": "A1",
        "lead_id": "L1",
        "rooftop": SOUTH,
        "kind": "test_drive",
        "status": status,
        "created_at": MONDAY,
        "reply": b'{"appointment_id":"A1","status":"requested"}',
        "request": b'{"appointment_type":"test_drive"}',
    }
    return VisitRecord(**(values | more))


def test_it_names_who_asks_and_through_whom_and_the_channels_in_one_order() -> None:
    made = view(source_agent={"name": "Example Agent", "url": "https://agent.example.com"})
    assert (made.dealer_name, made.customer.email) == ("Ridgeline Motors", "sam@example.com")
    assert (made.agent.name, made.agent.url) == ("Example Agent", "https://agent.example.com")
    assert made.channels == ("email", "sms")
    assert (made.messages, made.interest, made.trade_in, made.vehicle) == (("Is it still there?",), UNSET, UNSET, None)


@pytest.mark.parametrize(
    ("name", "zone"), [(NORTH, "America/Chicago"), (SOUTH, "America/Phoenix"), ("", "America/Chicago")]
)
def test_a_rooftop_that_is_not_known_any_more_is_the_first(name: str, zone: str) -> None:
    assert view(rooftop=name).rooftop.zone == zone


def test_the_rooftop_is_reached_at_sales_else_at_the_first_there_is() -> None:
    rooftop = view().rooftop
    assert (rooftop.phone, rooftop.email) == ("+12025550140", "parts@example.com")
    assert rooftop.url == "https://north.example.com"


def test_what_duplicates_added_is_in_it_and_the_last_word_on_the_customer_counts() -> None:
    customer = {"first_name": "Sam", "last_name": "Sample", "phone": "+12025550123"}
    trade_in = {"make": "Ford", "year": 2019, "keys": 2}
    made = view(events=({"message": "Still?"}, {"customer": customer}, {"trade_in": trade_in}))
    assert made.messages == ("Is it still there?", "Still?")
    assert made.customer.phone == "+12025550123"
    assert isinstance(made.trade_in, TradeIn)
    assert (made.trade_in.make, made.trade_in_extras) == ("Ford", {"keys": 2})


def test_what_the_protocol_does_not_know_of_a_vehicle_is_kept_beside_it() -> None:
    made = view(vehicle_of_interest={"make": "Honda", "sunroof": True}, trade_in={"make": "Ford", "dents": [1]})
    assert (made.interest_extras, made.trade_in_extras) == ({"sunroof": True}, {"dents": [1]})


def test_the_vehicle_is_the_listing_as_it_was_stored() -> None:
    listing = Vehicle(vehicle_id="V1", status="available", rooftop=NORTH, updated_at=MONDAY, make="Honda")
    record = lead("L1", payload=msgspec.json.encode(REQUEST), vehicle=msgspec.json.encode(listing))
    made = lead_view(whole_of(StoredLead(record, (), ())), PROFILE)
    assert made.vehicle == listing


@pytest.mark.parametrize(
    ("submitted", "at"),
    [({}, None), ({"submitted_at": "2026-03-02T04:30:00-05:00"}, datetime(2026, 3, 2, 9, 30, tzinfo=UTC))],
)
def test_the_view_has_the_time_of_submission_that_the_agent_states(
    submitted: dict[str, Any], at: datetime | None
) -> None:
    assert view(**submitted).submitted_at == at


HOUR = timedelta(hours=1)
THE_VISIT, AN_ADDITION = "A1", "E0"
"""What a delivery can be because of: the id of the visit that `booked` makes, and that of an event of the lead."""
PROPOSED = {"appointment_id": "A1", "status": "proposed"}
SLOT = {"start": "2026-03-02T04:30:00-05:00", "end": "2026-03-02T05:30:00-05:00"}
SLOTS = msgspec.json.encode(PROPOSED | {"proposed_slots": [SLOT]})
TIMES = msgspec.json.encode(PROPOSED | {"proposed_times": [SLOT["start"]]})


@pytest.mark.parametrize(
    ("visit", "status", "times"),
    [
        (booked("requested"), "requested", ()),
        (
            booked("confirmed", starts_at=TUESDAY, ends_at=TUESDAY + HOUR),
            "confirmed",
            (VisitTime(TUESDAY, TUESDAY + HOUR),),
        ),
        (
            booked("proposed", reply=SLOTS),
            "proposed",
            (VisitTime(MONDAY.replace(second=0, microsecond=0), MONDAY.replace(second=0, microsecond=0) + HOUR),),
        ),
        (booked("proposed", reply=TIMES), "proposed", (VisitTime(MONDAY.replace(second=0, microsecond=0)),)),
        (
            booked("cancelled", starts_at=TUESDAY, ends_at=TUESDAY + HOUR, cancelled_at=TUESDAY),
            "cancelled",
            (VisitTime(TUESDAY, TUESDAY + HOUR),),
        ),
        (booked("cancelled", reply=SLOTS, cancelled_at=TUESDAY), "cancelled", ()),
        (booked("unavailable"), "unavailable", ()),
    ],
)
def test_a_visit_is_shown_with_its_status_on_the_clock_of_its_rooftop(
    visit: VisitRecord, status: str, times: tuple[VisitTime, ...]
) -> None:
    (shown,) = view(visit).visits
    assert (shown.status, shown.times, shown.rooftop.zone) == (status, times, "America/Phoenix")
    assert shown.appointment_id == (None if status == "unavailable" else "A1")
    assert shown.changed_at == (visit.cancelled_at or MONDAY)


def test_a_replaced_visit_is_not_shown() -> None:
    assert view(booked("replaced")).visits == ()


def test_a_visit_that_was_moved_names_the_times_before_and_no_others() -> None:
    """Each took the place of the one that ended when it was made; what took place, or was something else, did not."""
    at = [MONDAY + number * HOUR for number in range(5)]

    def timed(name: str, status: str, made: int, **more: Any) -> VisitRecord:
        return booked(status, appointment_id=name, created_at=at[made], starts_at=TUESDAY, ends_at=TUESDAY, **more)

    first = timed("A1", "replaced", 0, cancelled_at=at[1])
    second = timed("A2", "replaced", 1, cancelled_at=at[3])
    other_kind = timed("A3", "replaced", 0, cancelled_at=at[3], kind="trade_in")
    asked_only = booked("replaced", appointment_id="A4", cancelled_at=at[3])
    took_place = timed("A5", "confirmed", 0)
    last = timed("A6", "confirmed", 3)
    later = timed("A7", "confirmed", 4)
    shown = view(first, second, other_kind, asked_only, took_place, last, later).visits
    assert [(one.appointment_id, len(one.replaces)) for one in shown] == [("A5", 0), ("A6", 1), ("A7", 0)]
    (before,) = shown[1].replaces
    assert (before.appointment_id, before.status, before.changed_at) == ("A2", "cancelled", at[3])
    (before,) = before.replaces
    assert (before.appointment_id, before.replaces) == ("A1", ())


def test_a_visit_that_was_booked_and_moved_in_one_moment_does_not_replace_itself() -> None:
    one = booked("replaced", starts_at=TUESDAY, ends_at=TUESDAY, cancelled_at=MONDAY)
    (shown,) = view(one, booked("confirmed", appointment_id="A2", starts_at=TUESDAY, ends_at=TUESDAY)).visits
    assert shown.replaces == ()


@pytest.mark.parametrize(
    ("status", "because_of", "resend", "named"),
    [
        ("cancelled", THE_VISIT, True, True),
        ("done", THE_VISIT, True, True),
        ("no_show", THE_VISIT, True, True),
        ("cancelled", AN_ADDITION, True, False),
        ("confirmed", THE_VISIT, True, False),
        ("cancelled", THE_VISIT, False, False),
    ],
)
def test_a_lead_that_is_sent_again_because_a_visit_has_ended_names_the_visit(
    status: str, because_of: str, resend: bool, named: bool
) -> None:
    visit = booked(status, starts_at=TUESDAY, ends_at=TUESDAY + HOUR, cancelled_at=TUESDAY)
    whole = whole_of(StoredLead(lead("L1", payload=msgspec.json.encode(REQUEST)), (), ()), visit)
    made = lead_view(whole, PROFILE, resend=resend, because_of=because_of)
    assert made.ended_visit == (made.visits[0] if named else None)


def test_of_a_forgotten_customer_there_is_no_view() -> None:
    record = replace(lead("L1"), customer=None, payload=None, erased_at=TUESDAY)
    with pytest.raises(ValueError, match="nothing is left"):
        lead_view(whole_of(StoredLead(record, (), ())), PROFILE)


@pytest.mark.requirement("contact-points-with-consent")
def test_the_channels_of_a_lead_are_those_of_the_contact_points_that_it_has_now() -> None:
    """The commands show them, and a delivery holds no other contact points."""
    before, after = ({"first_name": "Sam", "last_name": "Sample", "phone": f"+1202555012{digit}"} for digit in "34")
    record = lead("L1", payload=msgspec.json.encode(REQUEST), customer=msgspec.json.encode(before))
    consents = (agreed("phone", customer=msgspec.json.encode(before)),)
    change = LeadEvent("E1", TUESDAY, msgspec.json.encode({"customer": after}))
    assert channels_of(StoredLead(record, consents, ()), TUESDAY) == ("phone",)
    assert channels_of(StoredLead(record, consents, (change,)), TUESDAY) == ()
    assert channels_of(StoredLead(replace(record, customer=None, payload=None), consents, ()), TUESDAY) == ("phone",)
