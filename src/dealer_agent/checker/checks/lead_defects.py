"""Malformed leads, as a table: each row is a defect that a dealer refuses.

Dealers have a low rate for malformed leads. So the defects of a group are sent in one lead first. A dealer that lists
all problems needs no more. A defect that is not listed is then sent alone.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from dealer_agent.checker.check import Failed, Skipped, check, expect
from dealer_agent.checker.exchange import Exchange
from dealer_agent.checker.lead_requests import Lead, lead, submit, time_at, visit_time
from dealer_agent.checker.requirement import requirements
from dealer_agent.checker.target import Refusal, Target

Defect = Callable[[Lead, Target], object]

WRITTEN = "written-by-the-customer-7Q"
"""A part of what the customer writes. No answer may repeat it."""
VALIDATION_CODES = ("MISSING_REQUIRED_FIELD", "SCHEMA_VALIDATION_FAILED")


class Row(NamedTuple):
    """A requirement, the pointer of its problem, what makes a lead wrong, and the group. None: it is sent alone."""

    id: str
    pointer: str
    defect: Defect
    group: int | None


def _set(name: str, value: Any) -> Defect:
    return lambda made, _: made.update({name: value})


def _customer(name: str, value: Any) -> Defect:
    return lambda made, _: made["customer"].update({name: value})


def _vehicle(condition: str) -> Defect:
    return _set("vehicle_of_interest", {"condition": condition})


def _without(name: str) -> Defect:
    return lambda made, _: made.pop(name)


def _without_customer(*names: str) -> Defect:
    return lambda made, _: [made["customer"].pop(name, None) for name in names]


def _visit(**members: Any) -> Defect:
    """Sets members of the appointment. Without a type, it is a visit for a sale."""

    def change(made: Lead, _: Target) -> None:
        made.setdefault("appointment", {"appointment_type": "sales"}).update(members)

    return change


def _visit_without_type(made: Lead, _: Target) -> None:
    made.setdefault("appointment", {}).pop("appointment_type", None)


def _both_forms(made: Lead, target: Target) -> None:
    start = visit_time(target)
    made["appointment"] = {
        "appointment_type": "sales",
        "appointment_at": start,
        "requested_windows": [{"start": start}],
    }


def _window(start: str, end: str) -> Defect:
    return _visit(requested_windows=[{"start": start, "end": end}])


def _backwards(made: Lead, target: Target) -> None:
    _window(time_at(target, 3), time_at(target, 2))(made, target)


def _windows(made: Lead, target: Target) -> None:
    _visit(requested_windows=[{"start": time_at(target, 3)}], timezone="America/Chicago")(made, target)


ROWS = (
    Row("leads.first-name", "/customer/first_name", _without_customer("first_name"), 1),
    Row("leads.last-name", "/customer/last_name", _without_customer("last_name"), 1),
    Row("leads.email", "/customer/email", _customer("email", WRITTEN), 1),
    Row("leads.phone", "/customer/phone", _customer("phone", "202 555 0142"), 1),
    Row("leads.preferred-contact", "/customer/preferred_contact", _customer("preferred_contact", WRITTEN), 1),
    Row("leads.customer-unknown-member", "/customer/shoe_size", _customer("shoe_size", WRITTEN), 1),
    Row("leads.unknown-member", "/favourite_colour", _set("favourite_colour", "blue"), 1),
    Row("leads.source-agent-name", "/source_agent/name", _set("source_agent", {"url": "https://agent.example"}), 1),
    Row(
        "leads.vehicle-condition",
        "/vehicle_of_interest/condition",
        _set("vehicle_of_interest", {"condition": "good"}),
        1,
    ),
    Row("leads.trade-in-condition", "/trade_in/condition", _set("trade_in", {"condition": "cpo"}), 1),
    Row("leads.message-length", "/message", _set("message", f"{WRITTEN} ".ljust(4_001, "x")), 1),
    Row("leads.submitted-at", "/submitted_at", _set("submitted_at", "yesterday"), 1),
    Row("idempotency.empty-key", "/idempotency_key", _set("idempotency_key", ""), 1),
    Row("appointments.type-missing", "/appointment/appointment_type", _visit_without_type, 1),
    Row("appointments.duration", "/appointment/duration_minutes", _visit(duration_minutes=14), 1),
    Row("appointments.unknown-member", "/appointment/shoe_size", _visit(shoe_size=9), 1),
    Row("appointments.notes-length", "/appointment/notes", _visit(notes=f"{WRITTEN} ".ljust(2_001, "x")), 1),
    Row("appointments.no-windows", "/appointment/requested_windows", _visit(requested_windows=[]), 1),
    Row("appointments.zone-unknown", "/appointment/timezone", _visit(timezone="Mars/Olympus_Mons"), 1),
    Row("leads.source-agent-required", "/source_agent", _without("source_agent"), 2),
    Row("leads.message-not-a-string", "/message", _set("message", 7), 2),
    Row("idempotency.key-type", "/idempotency_key", _set("idempotency_key", 7), 2),
    Row("appointments.type-unknown", "/appointment/appointment_type", _visit(appointment_type="picnic"), 2),
    Row("appointments.at-malformed", "/appointment/appointment_at", _visit(appointment_at="tomorrow"), 2),
    Row("leads.customer-required", "/customer", _without("customer"), 3),
    Row("leads.source-agent-string", "/source_agent", _set("source_agent", "dealer-agent check"), 3),
    Row("idempotency.key-too-long", "/idempotency_key", _set("idempotency_key", "k" * 129), 3),
    Row(
        "appointments.at-without-offset",
        "/appointment/appointment_at",
        _visit(appointment_at="2099-01-05T10:00:00"),
        3,
    ),
    Row("leads.contact-point", "/customer", _without_customer("email", "phone"), None),
    Row("appointments.both-forms", "/appointment", _both_forms, None),
    Row("appointments.window-backwards", "/appointment/requested_windows/0/end", _backwards, None),
    Row(
        "appointments.window-without-zone",
        "/appointment/timezone",
        _window("2099-01-05T10:00:00", "2099-01-05T12:00:00"),
        None,
    ),
    Row("appointments.windows-refused", "/appointment/requested_windows", _windows, None),
)
"""The order of a group matters: a defect of a member of the appointment comes after the one that makes it."""


def _exists(row: Row, target: Target) -> bool:
    revisions = requirements()[row.id].revisions
    return not revisions or target.revision.name in revisions


async def _group(target: Target, group: int) -> tuple[Exchange, set[str]]:
    """The exchange of a lead with all defects of a group, and the pointers that the error lists."""
    made = lead(target)
    for row in ROWS:
        if row.group == group and _exists(row, target):
            row.defect(made, target)
    exchange = await submit(target, made)
    try:
        listed = target.refusal(exchange).problems(target.revision)
    except Failed:
        return exchange, set()
    return exchange, {pointer for pointer, _ in listed}


def _check_of(row: Row) -> None:
    @check(row.id)
    async def run(target: Target) -> None:
        if row.group is not None and row.pointer in (await _group(target, row.group))[1]:
            return
        made = lead(target)
        row.defect(made, target)
        target.refusal(await submit(target, made))


for _row in ROWS:
    _check_of(_row)


async def _group_error(target: Target) -> Refusal:
    """The error of the first group. Skips the check if the lead is accepted: other checks fail for that."""
    exchange, _ = await _group(target, 1)
    try:
        return target.refusal(exchange)
    except Failed as accepted:
        raise Skipped(accepted.sentence) from None


@check("leads.refusal-code")
async def malformed_leads_have_a_code(target: Target) -> None:
    """Looks at the error of a lead with many defects."""
    error = await _group_error(target)
    expected = (*VALIDATION_CODES, target.revision.condition_code)
    expect(error.code in expected, f"The code is {error.code or 'absent'}.", error.exchange)


@check("leads.personal-data")
async def refusals_repeat_nothing_personal(target: Target) -> None:
    """Looks for what the customer wrote in the error of a lead with many defects."""
    error = await _group_error(target)
    expect(WRITTEN.encode() not in error.exchange.body, "The error repeats what the customer wrote.", error.exchange)


@check("leads.condition-code")
async def wrong_conditions_have_a_code(target: Target) -> None:
    """Sends a trade-in with a condition of a sale."""
    made = lead(target)
    made["trade_in"] = {"condition": "cpo"}
    try:
        error = target.refusal(await submit(target, made))
    except Failed as accepted:
        raise Skipped(accepted.sentence) from None
    expected = target.revision.condition_code
    expect(error.code == expected, f"The code is {error.code or 'absent'}, not {expected}.", error.exchange)
