"""Two buyers at once never get one place, nor is one request taken twice: real service, two workers, both databases.

See docs/protocol.md#confirmation. One round on PostgreSQL in a normal run, twenty on both databases in the long one.
"""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, time, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import httpx
import pytest
from tests.acceptance.asking import answer, error_payload, lead
from tests.acceptance.crowd import send_at_once
from tests.acceptance.dealers import HONDA_VIN, stock_of_three, stocked_dealer
from tests.acceptance.running import serving
from tests.soak import SOAK
from tests.storage.calls import read
from tests.storage.databases import fresh_schema

from dealer_agent.config import load_settings
from dealer_agent.storage.leads.stored_leads import get_lead
from dealer_agent.storage.leads.visits import list_booked, visits_of
from dealer_agent.storage.store import Store

ROUNDS = 20 if SOAK else 1
BUYERS = 64
PLACES = 10
COPIES = 100
DEALER = "acceptance"
CLOCK = ZoneInfo("America/New_York")

_EVERY_DAY = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_OPEN_ALL_DAY = "\n".join(f'{day} = "00:00-23:59"' for day in _EVERY_DAY)
_HOUR = 18 if 7 <= datetime.now(CLOCK).hour < 13 else 10
"""Hours away: when it comes, the time of today is gone and the one of tomorrow is there, in the middle of a test."""
_ONE_HOUR = "\n".join(f'{day} = "{_HOUR}:00-{_HOUR + 1}:00"' for day in _EVERY_DAY)
BOOKS = f"""
[[rooftops]]
name = "Acceptance Motors West"
timezone = "{CLOCK.key}"
feed_ids = ["WEST"]
[rooftops.hours.sales]
{_OPEN_ALL_DAY}
[rooftops.hours.handover]
{_ONE_HOUR}
[rooftops.visits.test_drive]
places = {PLACES}
[rooftops.visits.handover]
hours = "handover"
places = {PLACES}
notice_minutes = 0
horizon_days = 1
"""
"""Handovers are for one hour of the day, and no further ahead than a day: there is one time, or it is full."""


class Booking(NamedTuple):
    """A service with two workers, and the database behind it."""

    url: str
    store: Store


@pytest.fixture(scope="module", params=["postgresql", pytest.param("sqlite", marks=pytest.mark.soak)])
def booking(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Booking]:
    with ExitStack() as opened:
        environment: dict[str, str] = {}
        if request.param == "postgresql":
            server = request.getfixturevalue("postgresql_server")
            environment["DATABASE_URL"] = opened.enter_context(fresh_schema(server))
        units = [stock_of_three()[0] | {"dealer_id": "WEST"}]
        folder = stocked_dealer(tmp_path_factory.mktemp("books"), BOOKS, units, **environment)
        settings = load_settings(folder, environment)
        running = opened.enter_context(serving(folder, workers=2, **environment))
        store = opened.enter_context(Store.open(settings.database_url, settings.cipher))
        yield Booking(running.url, store)


def status_of(response: httpx.Response) -> str:
    """What the buyer got: the visit's status, or the code of the refusal."""
    if response.status_code != 200:
        return str(error_payload(response)["code"])
    return str(answer(response, "lead.submit")["appointment"]["status"])


def noon(days: int) -> str:
    """Noon at the rooftop, so many days from now."""
    return datetime.combine(datetime.now(CLOCK).date() + timedelta(days=days), time(12), CLOCK).isoformat()


@pytest.mark.requirement("confirm-free-place", "propose-three")
@pytest.mark.parametrize("turn", range(ROUNDS))
def test_of_many_who_ask_for_one_time_as_many_get_it_as_there_are_places(booking: Booking, turn: int) -> None:
    wish = {"appointment_type": "test_drive", "appointment_at": noon(2 + turn)}
    crowd = [lead(turn * BUYERS + number, appointment=wish) for number in range(BUYERS)]
    responses = send_at_once(booking.url, crowd)
    assert Counter(map(status_of, responses)) == {"confirmed": PLACES, "proposed": BUYERS - PLACES}
    appointments = [answer(response, "lead.submit")["appointment"] for response in responses]
    confirmed = {one["appointment_id"] for one in appointments if one["status"] == "confirmed"}
    for one in appointments:
        if one["status"] == "confirmed":
            assert one["confirmed_at"] == wish["appointment_at"]
        else:
            assert len(one["proposed_times"]) == 3
            assert wish["appointment_at"] not in one["proposed_times"]
    # The answers to the buyers decide what must be stored: these visits at that time, and no others.
    at = datetime.fromisoformat(wish["appointment_at"])
    stored = {
        listed.appointment.appointment_id
        for listed in read(booking.store, DEALER, list_booked, at)
        if listed.appointment.starts_at == at
    }
    assert stored == confirmed


@pytest.mark.requirement("one-vehicle-one-buyer")
def test_of_many_who_want_to_drive_one_vehicle_at_one_time_one_gets_it(booking: Booking) -> None:
    """Although the rooftop has more places."""
    wish = {"appointment_type": "test_drive", "appointment_at": noon(28)}
    vehicle = {"vin": HONDA_VIN}
    crowd = [lead(40_000 + number, appointment=wish, vehicle_of_interest=vehicle) for number in range(PLACES)]
    responses = send_at_once(booking.url, crowd)
    assert Counter(map(status_of, responses)) == {"confirmed": 1, "proposed": PLACES - 1}


@pytest.mark.requirement("confirm-free-place", "no-time-available")
def test_of_many_who_ask_for_the_only_time_all_others_are_refused_and_kept_as_leads(booking: Booking) -> None:
    now = datetime.now(UTC)
    window = {"start": now.isoformat(), "end": (now + timedelta(days=3)).isoformat()}
    wish = {"appointment_type": "handover", "requested_windows": [window]}
    crowd = [lead(10_000 + number, appointment=wish, idempotency_key=f"only-{number}") for number in range(BUYERS)]
    responses = send_at_once(booking.url, crowd)
    assert Counter(map(status_of, responses)) == {
        "confirmed": PLACES,
        "APPOINTMENT_TIME_UNAVAILABLE": BUYERS - PLACES,
    }
    kept = {
        error_payload(response)["details"]["lead_id"]
        if response.status_code == 409
        else answer(response, "lead.submit")["lead_id"]
        for response in responses
    }
    assert len(kept) == BUYERS
    assert all(read(booking.store, DEALER, get_lead, lead_id) for lead_id in kept)


def without_message_id(response: httpx.Response) -> bytes:
    body, ids = re.subn(rb'"messageId":"[0-9A-Z]{26}"', b"", response.content)
    assert ids == 1
    return body


def copies(booking: Booking, number: int, **members: Any) -> list[httpx.Response]:
    """One request of a test drive, sent a hundred times at one moment."""
    wish = {"appointment_type": "test_drive", "appointment_at": noon(29)}
    return send_at_once(booking.url, [lead(number, appointment=wish, **members)] * COPIES)


@pytest.mark.requirement("idempotency-same-payload")
def test_a_hundred_copies_with_one_key_are_one_lead_with_one_answer(booking: Booking) -> None:
    responses = copies(booking, 20_000, idempotency_key="copies")
    assert len({without_message_id(response) for response in responses}) == 1
    answered = answer(responses[0], "lead.submit")
    assert (answered["status"], answered["appointment"]["status"]) == ("received", "confirmed")
    stored = read(booking.store, DEALER, get_lead, answered["lead_id"])
    assert stored is not None
    assert (len(stored.consents), len(stored.events)) == (1, 0)
    assert len(read(booking.store, DEALER, visits_of, answered["lead_id"])) == 1


@pytest.mark.requirement("duplicate-no-token")
def test_a_hundred_copies_without_a_key_are_one_lead_with_one_visit(booking: Booking) -> None:
    answers = [answer(response, "lead.submit") for response in copies(booking, 30_000)]
    assert Counter(one["status"] for one in answers) == {"received": 1, "duplicate": COPIES - 1}
    assert len({one["lead_id"] for one in answers}) == 1
    assert Counter(one["appointment"]["status"] for one in answers) == {"confirmed": 1, "requested": COPIES - 1}
    stored = read(booking.store, DEALER, get_lead, answers[0]["lead_id"])
    assert stored is not None
    assert (len(stored.consents), len(stored.events)) == (1, 0), "the same consent is recorded once"
    visits = read(booking.store, DEALER, visits_of, answers[0]["lead_id"])
    assert sorted(one.status for one in visits) == ["confirmed", "replaced"], "the copies are noted once"
