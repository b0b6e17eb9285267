"""Appointments that a dealer understands, and what it answers. `lead_defects.py` has those that are refused."""

from datetime import UTC, datetime, timedelta

from dealer_agent.checker.check import Skipped, check, expect
from dealer_agent.checker.checks.leads import appointment_of, is_understood
from dealer_agent.checker.exchange import Exchange
from dealer_agent.checker.lead_requests import (
    NO_TIME_GIVEN,
    Lead,
    full,
    is_accepted,
    lead,
    of_no_time,
    reply_or_skip,
    submit,
    time_at,
    visit_time,
    with_members,
    with_visit,
)
from dealer_agent.checker.target import Target

STATUSES = ("requested", "proposed", "confirmed", "rejected")
WINDOW = timedelta(hours=3)


def _instant(text: object) -> datetime | None:
    """The time of a timestamp with an offset; None if it is none."""
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None


async def _with_time(target: Target) -> Exchange:
    """The exchange of a lead with `appointment_at`, of the first one that is accepted."""
    leads = await with_visit(target, appointment_at=visit_time(target))
    if len(leads) > 1:
        leads = [await full(target), *leads]
    return await _first_accepted(target, leads)


async def _first_accepted(target: Target, leads: list[Lead]) -> Exchange:
    """The exchange of the first lead that is accepted, else of the last one."""
    for each in leads[:-1]:
        exchange = await submit(target, each)
        if is_accepted(target, exchange):
            return exchange
    return await submit(target, leads[-1])


async def _answered(target: Target) -> tuple[Exchange, Lead]:
    exchange = await _with_time(target)
    if not is_accepted(target, exchange):
        raise Skipped("The lead with an appointment is refused.")
    return exchange, appointment_of(target.answer(exchange))


@check("appointments.at")
async def times_are_understood(target: Target) -> None:
    """Sends a lead with a time in some days."""
    is_understood(target, await _with_time(target))


@check("appointments.at-0.1.0")
async def times_are_understood_at_0_1_0(target: Target) -> None:
    """Sends a lead with a time in some days."""
    is_understood(target, await _with_time(target))


@check("appointments.at-answered")
async def replies_have_the_appointment(target: Target) -> None:
    """Looks at the reply."""
    exchange = await _with_time(target)
    if not is_accepted(target, exchange):
        raise Skipped("The lead with an appointment is refused.")
    reply = target.answer(exchange)
    expect(isinstance(reply.get("appointment"), dict), "The reply has no `appointment`.", exchange)


@check("appointments.id")
async def appointments_have_an_id(target: Target) -> None:
    """Looks at the reply."""
    exchange, appointment = await _answered(target)
    found = appointment.get("appointment_id")
    expect(isinstance(found, str) and found, "The appointment has no `appointment_id`.", exchange)


@check("appointments.status")
async def appointments_have_a_status(target: Target) -> None:
    """Looks at the reply."""
    exchange, appointment = await _answered(target)
    found = appointment.get("status")
    expect(found in STATUSES, f"The status of the appointment is {found!r}.", exchange)


@check("appointments.confirmed-at")
async def the_requested_time_is_confirmed(target: Target) -> None:
    """Looks at the reply."""
    exchange, appointment = await _answered(target)
    confirmed = appointment.get("confirmed_at")
    if appointment.get("status") != "confirmed":
        expect(confirmed is None, "`confirmed_at` is there, and the status is not confirmed.", exchange)
        return
    expect(confirmed is not None, "The status is confirmed, and `confirmed_at` is absent.", exchange)
    at = _instant(confirmed)
    same = at is None or at == _instant(visit_time(target))
    expect(same, f"{confirmed} is confirmed, and {visit_time(target)} was requested.", exchange)


@check("appointments.proposed-times")
async def proposals_have_times(target: Target) -> None:
    """Looks at the reply."""
    exchange, appointment = await _answered(target)
    proposed = appointment.get("proposed_times")
    if appointment.get("status") != "proposed":
        expect(not proposed, "`proposed_times` are there, and the status is not proposed.", exchange)
        return
    expect(isinstance(proposed, list) and proposed, "The status is proposed, and no time is proposed.", exchange)


@check("appointments.times-future")
async def times_are_in_the_future(target: Target) -> None:
    """Looks at the times of the reply."""
    exchange, appointment = await _answered(target)
    proposed = appointment.get("proposed_times")
    times = [appointment.get("confirmed_at"), *(proposed if isinstance(proposed, list) else [])]
    times = [each for each in times if each is not None]
    if not times:
        raise Skipped("The reply has no times.")
    for each in times:
        at = _instant(each)
        expect(at is not None, f"{each!r} is no timestamp with an offset.", exchange)
        expect(at is not None and at > datetime.now(UTC), f"{each} has passed.", exchange)


def _past(target: Target) -> Lead:
    members = {"appointment_type": "sales", "appointment_at": time_at(target, -30)}
    return lead(target, with_members(appointment=members))


@check("appointments.past")
async def past_times_are_not_confirmed(target: Target) -> None:
    """Sends a lead with a time of last month."""
    exchange = await submit(target, _past(target))
    if not is_accepted(target, exchange):
        return
    found = appointment_of(target.answer(exchange)).get("status")
    expect(found != "confirmed", "A time in the past is confirmed.", exchange)


@check("appointments.past-accepted")
async def past_times_do_not_refuse_the_lead(target: Target) -> None:
    """Sends a lead with a time of last month."""
    is_understood(target, await submit(target, _past(target)))


async def _windows(target: Target) -> Exchange:
    """The exchange of a lead with a window of three hours, in local times."""
    start = _instant(visit_time(target))
    assert start is not None
    local = [(each - timedelta(hours=6)).strftime("%Y-%m-%dT%H:%M:%S") for each in (start, start + WINDOW)]
    windows = [{"start": local[0], "end": local[1]}]
    return await _first_accepted(target, await with_visit(target, requested_windows=windows, timezone="Etc/GMT+6"))


@check("appointments.windows")
async def windows_are_understood(target: Target) -> None:
    """Sends a lead with a window of three hours."""
    is_understood(target, await _windows(target))


@check("appointments.windows-1.0.0")
async def windows_are_understood_at_1_0_0(target: Target) -> None:
    """Sends a lead with a window of three hours."""
    is_understood(target, await _windows(target))


async def _of_windows(target: Target) -> tuple[Exchange, Lead]:
    exchange = await _windows(target)
    if not is_accepted(target, exchange):
        raise Skipped("The lead with windows is refused.")
    return exchange, appointment_of(target.answer(exchange))


@check("appointments.window-form")
async def windows_are_answered_with_windows(target: Target) -> None:
    """Looks at the reply to a window."""
    exchange, appointment = await _of_windows(target)
    single = [name for name in ("confirmed_at", "proposed_times") if name in appointment]
    expect(not single, f"The reply to windows has {', '.join(single)}.", exchange)
    expected = {"confirmed": "confirmed_window", "proposed": "proposed_slots"}.get(str(appointment.get("status")))
    expect(expected is None or appointment.get(expected), f"The reply has no `{expected}`.", exchange)


@check("appointments.window-confirmed")
async def the_confirmed_window_is_inside(target: Target) -> None:
    """Compares the confirmed window with the requested one."""
    exchange, appointment = await _of_windows(target)
    window = appointment.get("confirmed_window")
    if not isinstance(window, dict):
        raise Skipped("No window is confirmed.")
    start, end = _instant(window.get("start")), _instant(window.get("end"))
    first = _instant(visit_time(target))
    inside = start and end and first and first <= start <= end <= first + WINDOW
    expect(inside, f"The confirmed window {window} is not inside the requested one.", exchange)


@check("appointments.no-time")
async def no_time_is_requested(target: Target) -> None:
    """Sends a lead with an appointment without a time."""
    exchange, reply = await reply_or_skip(target, of_no_time(target), lead(target, NO_TIME_GIVEN))
    found = appointment_of(reply).get("status")
    expect(found == "requested", f"The status is {found!r}, not requested.", exchange)
