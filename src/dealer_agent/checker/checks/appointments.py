"""Checks appointments of leads that a dealer accepts: their times, and what the responses say about them."""

from datetime import UTC, datetime
from typing import Any

from dealer_agent.checker import forms
from dealer_agent.checker.check import check, each_of, judge_each
from dealer_agent.checker.checks.lead_defects import Lead, customer_of, lead, submit, time_at
from dealer_agent.checker.checks.leads import (
    NO_TIME_GIVEN,
    VISITOR,
    accepted_first,
    accepted_or_skip,
    full,
    of_no_time,
)
from dealer_agent.checker.checks.visits import (
    Asked,
    one_time,
    scheduled,
    three_windows,
    visit,
    windows_of,
    with_visit,
)
from dealer_agent.checker.exchange import Exchange, at
from dealer_agent.checker.outcome import Failed, Skipped, expect, has, skip_unless
from dealer_agent.checker.reply import code, data_of, is_answered, refusal_of
from dealer_agent.checker.target import Target
from dealer_agent.checker.visit_times import Span


@check("appointments.not-asked-for")
async def _(target: Target) -> None:
    """A duplicate may be of a lead that had an appointment, so only a new lead counts. That with a key has none."""
    exchange = await accepted_first(target)
    reply = data_of(exchange)
    skip_unless(reply.get("status") == "received", "The lead is not new.")
    status = at(reply, "appointment.status")
    expect(
        status not in ("confirmed", "proposed"),
        f"The lead asks for no appointment, but the response has one with the status {status}.",
        exchange,
    )


STATUS = forms.one_of("requested", "proposed", "confirmed", "rejected")


def instant(text: object) -> datetime | None:
    """The time of a timestamp with an offset; None for another text."""
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return moment if moment is not None and moment.tzinfo is not None else None


async def for_a_time(target: Target) -> Asked:
    """The lead with `appointment_at` of most checks (a test drive, if a listing has a VIN), and its exchange."""
    leads = await with_visit(target, VISITOR, one_time)
    return await scheduled(target, *([await full(target), *leads] if len(leads) > 1 else leads))


async def _for_windows(target: Target) -> Asked:
    return await scheduled(target, *await with_visit(target, "with windows", three_windows))


async def with_time(target: Target) -> Exchange:
    """The exchange of a lead with `appointment_at`."""
    return (await for_a_time(target))[1]


async def _windows(target: Target) -> Exchange:
    """The exchange of a lead with windows, in local times."""
    return (await _for_windows(target))[1]


async def _past(target: Target) -> Exchange:
    past = {"appointment_type": "sales", "appointment_at": time_at(target, -30)}
    return await submit(target, lead(target, person="late", appointment=past))


def _is_understood(exchange: Exchange) -> bool | str:
    """Whether a lead with an appointment is accepted, or refused because no time is free."""
    return is_answered(exchange) or code("APPOINTMENT_TIME_UNAVAILABLE")(exchange)


def _data(exchange: Exchange) -> Lead:
    """The data of a response. Skips the check if the lead is refused."""
    skip_unless(is_answered(exchange), "The lead with an appointment is refused.")
    return data_of(exchange)


def appointment_of(exchange: Exchange) -> Lead:
    """The `appointment` of a response. Skips the check if there is none."""
    appointment: Lead | None = _data(exchange).get("appointment")
    if not isinstance(appointment, dict):
        raise Skipped("The response has no `appointment`.")
    return appointment


judge_each(
    {
        "appointments.at": (with_time, _is_understood),
        "appointments.at-0.1.0": (with_time, _is_understood),
        "appointments.past-accepted": (_past, _is_understood),
        "appointments.windows": (_windows, _is_understood),
        "appointments.windows-1.0.0": (_windows, _is_understood),
        "appointments.at-answered": (
            with_time,
            lambda exchange: has("appointment", forms.an_object)(_data(exchange)),
        ),
        "appointments.past": (
            _past,
            lambda exchange: (
                not is_answered(exchange)
                or appointment_of(exchange).get("status") != "confirmed"
                or "A time in the past is confirmed."
            ),
        ),
    }
)


async def _answered(target: Target) -> tuple[dict[str, Any], str]:
    """The appointment of the response, and the time that was requested."""
    sent, exchange = await for_a_time(target)
    return appointment_of(exchange), sent["appointment"]["appointment_at"]


def _confirmed_at(answer: tuple[dict[str, Any], str]) -> bool | str:
    appointment, requested = answer
    confirmed = appointment.get("confirmed_at")
    if appointment.get("status") != "confirmed":
        return confirmed is None or "`confirmed_at` is there, and the status is not confirmed."
    if confirmed is None:
        return "The status is confirmed, and `confirmed_at` is absent."
    same = instant(confirmed) in (None, instant(requested))
    return same or f"{confirmed} is confirmed, and {requested} was requested."


def _proposed_times(answer: tuple[dict[str, Any], str]) -> bool | str:
    appointment, _ = answer
    proposed = appointment.get("proposed_times")
    if appointment.get("status") != "proposed":
        return not proposed or "`proposed_times` are there, and the status is not proposed."
    return (isinstance(proposed, list) and bool(proposed)) or "The status is proposed, and no time is proposed."


@check("appointments.proposals")
async def _(target: Target) -> None:
    """The names of lists of proposals are those of the dealer."""
    for exchange in (await _past(target), await with_time(target), await _windows(target)):
        appointment = at(data_of(exchange), "appointment") if is_answered(exchange) else None
        is_error = isinstance(at(exchange.json, "error"), dict)
        details = at(refusal_of(exchange).payload, "details") if is_error else None
        offered = [name for name in details or () if "propos" in str(name).lower()]
        expect(not offered, f"An error has {offered and offered[0]}: a lead with proposals is no error.", exchange)
        if isinstance(appointment, dict) and appointment.get("status") == "proposed":
            lists = [each for each in appointment.values() if isinstance(each, list) and each]
            expect(lists, "The status is proposed, and nothing is proposed.", exchange)


def _future_times(answer: tuple[dict[str, Any], str]) -> bool | str:
    appointment, _ = answer
    proposed = appointment.get("proposed_times")
    times: list[Any] = [appointment.get("confirmed_at"), *(proposed if isinstance(proposed, list) else [])]
    for text in skip_unless([text for text in times if text is not None], "The response has no times."):
        at = instant(text)
        if at is None:
            return f"{text!r} is not a timestamp with an offset."
        if at <= datetime.now(UTC):
            return f"{text} has passed."
    return True


each_of(
    _answered,
    {
        "appointments.id": lambda answer: has("appointment_id", forms.name)(answer[0]),
        "appointments.status": lambda answer: has("status", STATUS)(answer[0]),
        "appointments.confirmed-at": _confirmed_at,
        "appointments.proposed-times": _proposed_times,
        "appointments.times-future": _future_times,
    },
)


async def _of_windows(target: Target) -> tuple[dict[str, Any], list[Span]]:
    """The appointment of the response to windows, and the windows."""
    sent, exchange = await _for_windows(target)
    return appointment_of(exchange), windows_of(sent)


def _window_form(answer: tuple[dict[str, Any], list[Span]]) -> bool | str:
    single = [name for name in ("confirmed_at", "proposed_times") if name in answer[0]]
    if single:
        return f"The response to windows has {', '.join(single)}."
    expected = {"confirmed": "confirmed_window", "proposed": "proposed_slots"}.get(str(answer[0].get("status")))
    return expected is None or bool(answer[0].get(expected)) or f"The response has no `{expected}`."


def _window_inside(answer: tuple[dict[str, Any], list[Span]]) -> bool | str:
    window = answer[0].get("confirmed_window")
    skip_unless(isinstance(window, dict), "No window is confirmed.")
    start, end = (instant(at(window, name)) for name in ("start", "end"))
    if start is not None and end is not None and any(first <= start <= end <= last for first, last in answer[1]):
        return True
    return f"The confirmed window {window} is not inside the requested ones."


each_of(_of_windows, {"appointments.window-form": _window_form, "appointments.window-confirmed": _window_inside})


async def _expect_appointment(target: Target, exchange: Exchange, other: Lead) -> None:
    """Raises Failed if a response has no `appointment`, and that to another lead has one. Not all dealers send it."""
    if not isinstance(_data(exchange).get("appointment"), dict):
        appointment_of(await submit(target, other))
        raise Failed("The response has no `appointment`, but the response to a similar lead has one.", exchange)


@check("appointments.with-trade-in")
async def _(target: Target) -> None:
    """The other lead is that of another customer, without the trade-in."""
    payload = await full(target)
    alone = {name: value for name, value in payload.items() if name != "trade_in"}
    other = alone | {"customer": customer_of(target, "without trade-in")}
    await _expect_appointment(target, await submit(target, payload), other)


@check("appointments.time-answered")
async def _(target: Target) -> None:
    """If a lead without a time has an appointment, so has one with a time. Both are visits to the sales department."""
    is_window = target.revision.name == "0.1.0"
    _, exchange = await (_for_windows if is_window else for_a_time)(target)
    if is_answered(exchange) and not isinstance(_data(exchange).get("appointment"), dict):
        # It may be a test drive. The other lead is a visit to the sales department, so a lead for one is compared.
        person, times = ("with windows", three_windows) if is_window else (VISITOR, one_time)
        exchange = await submit(target, await visit(target, person, times, drive=False))
    await _expect_appointment(target, exchange, lead(target, person="undecided", appointment=NO_TIME_GIVEN))


@check("appointments.no-time")
async def _(target: Target) -> None:
    exchange = await accepted_or_skip(
        target, of_no_time(target), lead(target, person="undecided", appointment=NO_TIME_GIVEN)
    )
    status = appointment_of(exchange).get("status")
    expect(status == "requested", f"The status is {status!r}, not requested.", exchange)
