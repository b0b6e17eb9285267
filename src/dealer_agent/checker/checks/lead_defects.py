"""Malformed leads and wrong consents, as tables: each row is a defect that a dealer refuses."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from dealer_agent.checker.check import check, check_each
from dealer_agent.checker.exchange import Exchange
from dealer_agent.checker.lead_requests import Lead, lead, refused, submit, time_at, visit_time
from dealer_agent.checker.outcome import Failed, expect, expect_status, skip_if_failed
from dealer_agent.checker.requirement import requirements
from dealer_agent.checker.target import Refusal, Target

Defect = Callable[[Lead, Target], object]

WRITTEN = "written-by-the-customer-7Q"
"""A part of what the customer writes. No answer may repeat it."""
VALIDATION_CODES = ("MISSING_REQUIRED_FIELD", "SCHEMA_VALIDATION_FAILED")
REQUIRED, INVALID = "CONTACT_CONSENT_REQUIRED", "INVALID_CONSENT"
FORBIDDEN = 403


def _set(name: str, value: Any, of: str | None = None) -> Defect:
    """Sets a member of a lead, or of its member `of`."""
    return lambda made, _: (made if of is None else made[of]).update({name: value})


def _without(*names: str, of: str | None = None) -> Defect:
    return lambda made, _: [(made if of is None else made[of]).pop(name, None) for name in names]


def _visit(**members: Any) -> Defect:
    """Sets members of the appointment. Without a type, it is a visit for a sale."""
    return lambda made, _: made.setdefault("appointment", {"appointment_type": "sales"}).update(members)


def _visit_without_type(made: Lead, _: Target) -> None:
    made.setdefault("appointment", {}).pop("appointment_type", None)


def _both_forms(made: Lead, target: Target) -> None:
    start = visit_time(target)
    _visit(appointment_at=start, requested_windows=[{"start": start}])(made, target)


def _window(start: str, end: str) -> Defect:
    return _visit(requested_windows=[{"start": start, "end": end}])


def _backwards(made: Lead, target: Target) -> None:
    _window(time_at(target, 3), time_at(target, 2))(made, target)


def _windows(made: Lead, target: Target) -> None:
    _visit(requested_windows=[{"start": time_at(target, 3)}], timezone="America/Chicago")(made, target)


class Row(NamedTuple):
    """The pointer of a problem, what makes a lead wrong, and the group. None: the lead is sent alone."""

    pointer: str
    defect: Defect
    group: int | None = None


OF_LEADS: Mapping[str, Row] = {
    "leads.first-name": Row("/customer/first_name", _without("first_name", of="customer"), 1),
    "leads.last-name": Row("/customer/last_name", _without("last_name", of="customer"), 1),
    "leads.email": Row("/customer/email", _set("email", WRITTEN, "customer"), 1),
    "leads.phone": Row("/customer/phone", _set("phone", "202 555 0142", "customer"), 1),
    "leads.preferred-contact": Row("/customer/preferred_contact", _set("preferred_contact", WRITTEN, "customer"), 1),
    "leads.customer-unknown-member": Row("/customer/shoe_size", _set("shoe_size", WRITTEN, "customer"), 1),
    "leads.unknown-member": Row("/favourite_colour", _set("favourite_colour", "blue"), 1),
    "leads.source-agent-name": Row("/source_agent/name", _set("source_agent", {"url": "https://agent.example"}), 1),
    "leads.vehicle-condition": Row(
        "/vehicle_of_interest/condition", _set("vehicle_of_interest", {"condition": "good"}), 1
    ),
    "leads.trade-in-condition": Row("/trade_in/condition", _set("trade_in", {"condition": "cpo"}), 1),
    "leads.message-length": Row("/message", _set("message", f"{WRITTEN} ".ljust(4_001, "x")), 1),
    "leads.submitted-at": Row("/submitted_at", _set("submitted_at", "yesterday"), 1),
    "idempotency.empty-key": Row("/idempotency_key", _set("idempotency_key", ""), 1),
    "appointments.type-missing": Row("/appointment/appointment_type", _visit_without_type, 1),
    "appointments.duration": Row("/appointment/duration_minutes", _visit(duration_minutes=14), 1),
    "appointments.unknown-member": Row("/appointment/shoe_size", _visit(shoe_size=9), 1),
    "appointments.notes-length": Row("/appointment/notes", _visit(notes=f"{WRITTEN} ".ljust(2_001, "x")), 1),
    "appointments.no-windows": Row("/appointment/requested_windows", _visit(requested_windows=[]), 1),
    "appointments.zone-unknown": Row("/appointment/timezone", _visit(timezone="Mars/Olympus_Mons"), 1),
    "leads.source-agent-required": Row("/source_agent", _without("source_agent"), 2),
    "leads.message-not-a-string": Row("/message", _set("message", 7), 2),
    "idempotency.key-type": Row("/idempotency_key", _set("idempotency_key", 7), 2),
    "appointments.type-unknown": Row("/appointment/appointment_type", _visit(appointment_type="picnic"), 2),
    "appointments.at-malformed": Row("/appointment/appointment_at", _visit(appointment_at="tomorrow"), 2),
    "leads.customer-required": Row("/customer", _without("customer"), 3),
    "leads.source-agent-string": Row("/source_agent", _set("source_agent", "dealer-agent check"), 3),
    "idempotency.key-too-long": Row("/idempotency_key", _set("idempotency_key", "k" * 129), 3),
    "appointments.at-without-offset": Row(
        "/appointment/appointment_at", _visit(appointment_at="2099-01-05T10:00:00"), 3
    ),
    "leads.contact-point": Row("/customer", _without("email", "phone", of="customer")),
    "appointments.both-forms": Row("/appointment", _both_forms),
    "appointments.window-backwards": Row("/appointment/requested_windows/0/end", _backwards),
    "appointments.window-without-zone": Row(
        "/appointment/timezone", _window("2099-01-05T10:00:00", "2099-01-05T12:00:00")
    ),
    "appointments.windows-refused": Row("/appointment/requested_windows", _windows),
}
"""Dealers have a low rate for malformed leads. So the defects of a group are sent in one lead first. A dealer that
lists all problems needs no more. A defect that is not listed is then sent alone.

The order of a group matters: a defect of a member of the appointment comes after the one that makes it.
"""


def _exists(requirement_id: str, target: Target) -> bool:
    revisions = requirements()[requirement_id].revisions
    return not revisions or target.revision.name in revisions


async def _group(target: Target, group: int) -> tuple[Exchange, set[str]]:
    """The exchange of a lead with all defects of a group, and the pointers that the error lists."""
    made = lead(target)
    for requirement_id, row in OF_LEADS.items():
        if row.group == group and _exists(requirement_id, target):
            row.defect(made, target)
    exchange = await submit(target, made)
    try:
        listed = target.refusal(exchange).problems(target.revision)
    except Failed:
        return exchange, set()
    return exchange, {pointer for pointer, _ in listed}


async def _error_of(target: Target, *defects: Defect) -> Refusal:
    """The error that a lead with defects gets. Raises Failed if it is accepted."""
    made = lead(target)
    for defect in defects:
        defect(made, target)
    return await refused(target, made)


@check_each(OF_LEADS)
async def _(target: Target, pointer: str, defect: Defect, group: int | None) -> None:
    if group is None or pointer not in (await _group(target, group))[1]:
        await _error_of(target, defect)


async def _group_error(target: Target) -> Refusal:
    """The error of the first group. Skips the check if the lead is accepted: other checks fail for that."""
    exchange, _ = await _group(target, 1)
    with skip_if_failed():
        return target.refusal(exchange)


@check("leads.refusal-code")
async def _(target: Target) -> None:
    (await _group_error(target)).expect_code(*VALIDATION_CODES, target.revision.condition_code)


@check("leads.personal-data")
async def _(target: Target) -> None:
    error = await _group_error(target)
    expect(WRITTEN.encode() not in error.exchange.body, "The error repeats what the customer wrote.", error.exchange)


@check("leads.condition-code")
async def _(target: Target) -> None:
    with skip_if_failed():
        error = await _error_of(target, OF_LEADS["leads.trade-in-condition"].defect)
    error.expect_code(target.revision.condition_code)


def _of_consent(**members: Any) -> Defect:
    return lambda made, _: made["consent"].update(members)


def _at(name: str, days: int) -> Defect:
    return lambda made, target: made["consent"].update({name: time_at(target, days)})


def _prefers_phone(made: Lead, _: Target) -> None:
    made["customer"]["preferred_contact"] = "phone"
    made["consent"]["allowed_channels"] = ["email"]


def _cannot_be_reached(made: Lead, _: Target) -> None:
    del made["customer"]["phone"]
    made["consent"]["allowed_channels"] = ["phone"]


OF_CONSENTS: Mapping[str, tuple[Defect, *tuple[str, ...]]] = {
    "consent.missing": (_without("consent"), REQUIRED),
    "consent.scope": (_of_consent(scope=["marketing"]), REQUIRED),
    "consent.scope-published": (_of_consent(scope=["marketing"]), INVALID),
    "consent.expired": (_at("expires_at", -1), INVALID),
    "consent.granted-at-malformed": (_of_consent(granted_at="yesterday"), INVALID),
    "consent.granted-at-missing": (_without("granted_at", of="consent"), INVALID, REQUIRED),
    "consent.future": (_at("granted_at", 2), INVALID),
    "consent.text-empty": (_of_consent(consent_text=""), INVALID),
    "consent.text-missing": (_without("consent_text", of="consent"), INVALID, REQUIRED),
    "consent.no-channels": (_of_consent(allowed_channels=[]), INVALID, REQUIRED),
    "consent.unknown-channel": (_of_consent(allowed_channels=["email", "pigeon"]), INVALID),
    "consent.channel-type": (_of_consent(allowed_channels="email"), INVALID),
    "consent.unknown-member": (_of_consent(only_on_sundays=True), INVALID),
    "consent.not-an-object": (_set("consent", value=True), INVALID),
    "consent.preferred-channel": (_prefers_phone, REQUIRED),
    "consent.unreachable": (_cannot_be_reached, REQUIRED),
}
"""What makes the consent of a lead wrong, and the codes that may answer it."""


@check_each(OF_CONSENTS)
async def _(target: Target, defect: Defect, *codes: str) -> None:
    (await _error_of(target, defect)).expect_code(*codes)


@check_each({"consent.missing-status": "consent.missing", "consent.invalid-status": "consent.expired"})
async def _(target: Target, defect: str) -> None:
    with skip_if_failed():
        error = await _error_of(target, OF_CONSENTS[defect][0])
    expect_status(error.exchange, FORBIDDEN)


@check("consent.other-defects-first")
async def _(target: Target) -> None:
    with skip_if_failed():
        error = await _error_of(target, _without("consent"), _set("last_name", 7, "customer"))
    expect(error.code not in (REQUIRED, INVALID), f"The code is {error.code}.", error.exchange)
