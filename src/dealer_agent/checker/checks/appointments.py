"""Appointments that a dealer understands, and what it answers. `lead_defects.py` has those that are refused."""

from datetime import UTC, datetime, timedelta
from typing import Any

from dealer_agent.checker import forms
from dealer_agent.checker.check import check, each_of, each_request
from dealer_agent.checker.exchange import Exchange, at
from dealer_agent.checker.lead_requests import (
    NO_TIME_GIVEN,
    Lead,
    accepted_or_skip,
    first_answered,
    full,
    lead,
    of_no_time,
    submit,
    time_at,
    visit_time,
    with_visit,
)
from dealer_agent.checker.outcome import expect, has, need
from dealer_agent.checker.reply import code, data_of, is_answered
from dealer_agent.checker.target import Target

STATUS = forms.one_of("requested", "proposed", "confirmed", "rejected")
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
    return await first_answered(target, *([await full(target), *leads] if len(leads) > 1 else leads))


async def _windows(target: Target) -> Exchange:
    """The exchange of a lead with a window of three hours, in local times."""
    start = datetime.fromisoformat(visit_time(target))
    first, last = ((each - timedelta(hours=6)).strftime("%Y-%m-%dT%H:%M:%S") for each in (start, start + WINDOW))
    windows = [{"start": first, "end": last}]
    return await first_answered(target, *await with_visit(target, requested_windows=windows, timezone="Etc/GMT+6"))


async def _past(target: Target) -> Exchange:
    past = {"appointment_type": "sales", "appointment_at": time_at(target, -30)}
    return await submit(target, lead(target, appointment=past))


def _is_understood(exchange: Exchange) -> bool | str:
    """Whether a lead with an appointment is accepted, or refused because no time is free."""
    return is_answered(exchange) or code("APPOINTMENT_TIME_UNAVAILABLE")(exchange)


def _data(exchange: Exchange) -> Lead:
    """The data of a response. Skips the check if the lead is refused."""
    need(is_answered(exchange), "The lead with an appointment is refused.")
    return data_of(exchange)


def _appointment(exchange: Exchange) -> Lead:
    """The `appointment` of a response. Skips the check if there is none."""
    found = _data(exchange).get("appointment")
    need(isinstance(found, dict), "The response has no `appointment`.")
    return dict(found or {})


each_request(
    {
        "appointments.at": (_with_time, _is_understood),
        "appointments.at-0.1.0": (_with_time, _is_understood),
        "appointments.past-accepted": (_past, _is_understood),
        "appointments.windows": (_windows, _is_understood),
        "appointments.windows-1.0.0": (_windows, _is_understood),
        "appointments.at-answered": (
            _with_time,
            lambda exchange: has("appointment", forms.an_object)(_data(exchange)),
        ),
        "appointments.past": (
            _past,
            lambda exchange: (
                not is_answered(exchange)
                or _appointment(exchange).get("status") != "confirmed"
                or "A time in the past is confirmed."
            ),
        ),
    }
)


async def _answered(target: Target) -> list[tuple[tuple[Lead, str], Exchange]]:
    """The appointment of the response, and the time that was requested."""
    exchange = await _with_time(target)
    return [((_appointment(exchange), visit_time(target)), exchange)]


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
    for each in need(times, "The response has no times."):
        at = _instant(each)
        if at is None:
            return f"{each!r} is no timestamp with an offset."
        if at <= datetime.now(UTC):
            return f"{each} has passed."
    return True


each_of(
    _answered,
    {
        "appointments.id": lambda found: has("appointment_id", forms.name)(found[0]),
        "appointments.status": lambda found: has("status", STATUS)(found[0]),
        "appointments.confirmed-at": _confirmed_at,
        "appointments.proposed-times": _proposed_times,
        "appointments.times-future": _future_times,
    },
)


async def _of_windows(target: Target) -> list[tuple[tuple[Lead, datetime], Exchange]]:
    """The appointment of the response to a window, and the begin of the window."""
    exchange = await _windows(target)
    return [((_appointment(exchange), datetime.fromisoformat(visit_time(target))), exchange)]


def _window_form(found: tuple[Lead, datetime]) -> bool | str:
    single = [name for name in ("confirmed_at", "proposed_times") if name in found[0]]
    if single:
        return f"The response to windows has {', '.join(single)}."
    expected = {"confirmed": "confirmed_window", "proposed": "proposed_slots"}.get(str(found[0].get("status")))
    return expected is None or bool(found[0].get(expected)) or f"The response has no `{expected}`."


def _window_inside(found: tuple[Lead, datetime]) -> bool | str:
    window, first = found[0].get("confirmed_window"), found[1]
    need(isinstance(window, dict), "No window is confirmed.")
    start, end = (_instant(at(window, name)) for name in ("start", "end"))
    inside = start is not None and end is not None and first <= start <= end <= first + WINDOW
    return inside or f"The confirmed window {window} is not inside the requested one."


each_of(_of_windows, {"appointments.window-form": _window_form, "appointments.window-confirmed": _window_inside})


@check("appointments.no-time")
async def _(target: Target) -> None:
    exchange = await accepted_or_skip(target, of_no_time(target), lead(target, appointment=NO_TIME_GIVEN))
    found = _appointment(exchange).get("status")
    expect(found == "requested", f"The status is {found!r}, not requested.", exchange)
