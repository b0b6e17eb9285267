"""Appointments that a dealer understands, and what it answers. `lead_defects.py` has those that are refused."""

from datetime import UTC, datetime, timedelta
from typing import Any

from dealer_agent.checker import forms
from dealer_agent.checker.check import check, each_of
from dealer_agent.checker.exchange import Exchange
from dealer_agent.checker.lead_requests import (
    NO_TIME,
    NO_TIME_GIVEN,
    Lead,
    full,
    is_accepted,
    lead,
    of_no_time,
    refusal_code,
    reply_or_skip,
    submit,
    time_at,
    visit_time,
    with_members,
    with_visit,
)
from dealer_agent.checker.outcome import Failed, Skipped, expect
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


async def _first_accepted(target: Target, leads: list[Lead]) -> Exchange:
    """The exchange of the first lead that is accepted, else of the last one."""
    for each in leads[:-1]:
        exchange = await submit(target, each)
        if is_accepted(target, exchange):
            return exchange
    return await submit(target, leads[-1])


async def _with_time(target: Target) -> Exchange:
    """The exchange of a lead with `appointment_at`, of the first one that is accepted."""
    leads = await with_visit(target, appointment_at=visit_time(target))
    return await _first_accepted(target, [await full(target), *leads] if len(leads) > 1 else leads)


async def _windows(target: Target) -> Exchange:
    """The exchange of a lead with a window of three hours, in local times."""
    start = datetime.fromisoformat(visit_time(target))
    first, last = ((each - timedelta(hours=6)).strftime("%Y-%m-%dT%H:%M:%S") for each in (start, start + WINDOW))
    windows = [{"start": first, "end": last}]
    return await _first_accepted(target, await with_visit(target, requested_windows=windows, timezone="Etc/GMT+6"))


def _past(target: Target) -> Lead:
    members = {"appointment_type": "sales", "appointment_at": time_at(target, -30)}
    return lead(target, with_members(appointment=members))


def _is_understood(target: Target, exchange: Exchange) -> None:
    """Raises Failed if a lead with an appointment is refused for another reason than that no time is free."""
    try:
        target.answer(exchange)
    except Failed:
        if refusal_code(target, exchange) != NO_TIME:
            raise


@check("appointments.at")
@check("appointments.at-0.1.0")
async def _(target: Target) -> None:
    _is_understood(target, await _with_time(target))


@check("appointments.past-accepted")
async def _(target: Target) -> None:
    _is_understood(target, await submit(target, _past(target)))


@check("appointments.windows")
@check("appointments.windows-1.0.0")
async def _(target: Target) -> None:
    _is_understood(target, await _windows(target))


def _reply(target: Target, exchange: Exchange) -> Lead:
    if not is_accepted(target, exchange):
        raise Skipped("The lead with an appointment is refused.")
    return target.answer(exchange)


def _appointment(reply: Lead) -> Lead:
    """The `appointment` of a response. Skips the check if there is none."""
    found = reply.get("appointment")
    if not isinstance(found, dict):
        raise Skipped("The response has no `appointment`.")
    return found


@check("appointments.at-answered")
async def _(target: Target) -> None:
    exchange = await _with_time(target)
    has_one = isinstance(_reply(target, exchange).get("appointment"), dict)
    expect(has_one, "The response has no `appointment`.", exchange)


async def _answered(target: Target) -> list[tuple[tuple[Lead, str], Exchange]]:
    """The appointment of the response, and the time that was requested."""
    exchange = await _with_time(target)
    return [((_appointment(_reply(target, exchange)), visit_time(target)), exchange)]


def _confirmed_at(found: tuple[Lead, str]) -> bool | str:
    appointment, requested = found
    confirmed = appointment.get("confirmed_at")
    if appointment.get("status") != "confirmed":
        return confirmed is None or "`confirmed_at` is there, and the status is not confirmed."
    if confirmed is None:
        return "The status is confirmed, and `confirmed_at` is absent."
    same = _instant(confirmed) in (None, _instant(requested))
    return same or f"{confirmed} is confirmed, and {requested} was requested."


def _proposed_times(found: tuple[Lead, str]) -> bool | str:
    appointment, _ = found
    proposed = appointment.get("proposed_times")
    if appointment.get("status") != "proposed":
        return not proposed or "`proposed_times` are there, and the status is not proposed."
    return (isinstance(proposed, list) and bool(proposed)) or "The status is proposed, and no time is proposed."


def _future_times(found: tuple[Lead, str]) -> bool | str:
    proposed = found[0].get("proposed_times")
    all_times: list[Any] = [found[0].get("confirmed_at"), *(proposed if isinstance(proposed, list) else [])]
    times = [each for each in all_times if each is not None]
    if not times:
        raise Skipped("The response has no times.")
    for each in times:
        at = _instant(each)
        if at is None:
            return f"{each!r} is no timestamp with an offset."
        if at <= datetime.now(UTC):
            return f"{each} has passed."
    return True


each_of(
    _answered,
    {
        "appointments.id": lambda found: (
            forms.name(found[0].get("appointment_id")) or "The appointment has no `appointment_id`."
        ),
        "appointments.status": lambda found: (
            found[0].get("status") in STATUSES or f"The status of the appointment is {found[0].get('status')!r}."
        ),
        "appointments.confirmed-at": _confirmed_at,
        "appointments.proposed-times": _proposed_times,
        "appointments.times-future": _future_times,
    },
)


@check("appointments.past")
async def _(target: Target) -> None:
    exchange = await submit(target, _past(target))
    if is_accepted(target, exchange):
        found = _appointment(target.answer(exchange)).get("status")
        expect(found != "confirmed", "A time in the past is confirmed.", exchange)


async def _of_windows(target: Target) -> list[tuple[tuple[Lead, datetime], Exchange]]:
    """The appointment of the response to a window, and the begin of the window."""
    exchange = await _windows(target)
    return [((_appointment(_reply(target, exchange)), datetime.fromisoformat(visit_time(target))), exchange)]


def _window_form(found: tuple[Lead, datetime]) -> bool | str:
    single = [name for name in ("confirmed_at", "proposed_times") if name in found[0]]
    if single:
        return f"The response to windows has {', '.join(single)}."
    expected = {"confirmed": "confirmed_window", "proposed": "proposed_slots"}.get(str(found[0].get("status")))
    return expected is None or bool(found[0].get(expected)) or f"The response has no `{expected}`."


def _window_inside(found: tuple[Lead, datetime]) -> bool | str:
    window, first = found[0].get("confirmed_window"), found[1]
    if not isinstance(window, dict):
        raise Skipped("No window is confirmed.")
    start, end = _instant(window.get("start")), _instant(window.get("end"))
    inside = start is not None and end is not None and first <= start <= end <= first + WINDOW
    return inside or f"The confirmed window {window} is not inside the requested one."


each_of(_of_windows, {"appointments.window-form": _window_form, "appointments.window-confirmed": _window_inside})


@check("appointments.no-time")
async def _(target: Target) -> None:
    exchange, reply = await reply_or_skip(target, of_no_time(target), lead(target, NO_TIME_GIVEN))
    found = _appointment(reply).get("status")
    expect(found == "requested", f"The status is {found!r}, not requested.", exchange)
