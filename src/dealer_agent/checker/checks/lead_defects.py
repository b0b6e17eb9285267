"""Checks that a dealer refuses malformed leads and wrong consents: tables of them, and the leads of all checks.

All leads are of marked test customers, who are new in each run and at each card. So each run is the first to a dealer,
which may treat another lead of the same person as a duplicate. Equal leads of one run are sent once, so that checks
share them: the rate of leads is low at most dealers.
"""

from collections.abc import Mapping
from datetime import timedelta, timezone
from hashlib import sha256
from typing import Any, NamedTuple

from dealer_agent.checker.check import check, check_each, judge_each
from dealer_agent.checker.exchange import Exchange
from dealer_agent.checker.outcome import Failed, expect, skip_if_failed, skip_unless, status
from dealer_agent.checker.reply import Refusal, code, if_refused, refusal_of
from dealer_agent.checker.requirement import requirements
from dealer_agent.checker.target import Request, Target, drop, other_interface, put

Lead = dict[str, Any]

AGENT = "dealer-agent check"
MARK = "Lead (dealer-agent check)"
"""The last name of all test customers."""
AREA_CODES = (
    *range(201, 204),
    *range(205, 211),
    *range(212, 220),
    *range(301, 306),
    *range(307, 311),
    *range(312, 322),
)
"""The area codes of telephone numbers in North America."""
CONSONANTS, VOWELS = "bdfgklmnprstvz", "aeiou"
MESSAGE = "This is a test of the dealer agent, sent by dealer-agent check. Nobody waits for a response."
VALIDATION_CODES = ("MISSING_REQUIRED_FIELD", "SCHEMA_VALIDATION_FAILED")


def time_at(target: Target, days: int, *, hours: int = 0) -> str:
    """A time some days from today's noon in UTC, with its offset."""
    return (target.wire.noon + timedelta(days=days, hours=hours)).isoformat().replace("+00:00", "Z")


def seed_of(target: Target, person: str) -> int:
    """A number that is another one in each run, at each card and for each person."""
    text = f"{target.wire.run_id} {target.card.url} {target.revision.name} {person}"
    return int.from_bytes(sha256(text.encode()).digest())


def customer_of(target: Target, person: str = "") -> dict[str, str]:
    """A test customer of this run and card. The phone number is one of those that are reserved for fiction."""
    seed = seed_of(target, person)
    letters = []
    for _ in range(4):
        seed, consonant = divmod(seed, len(CONSONANTS))
        seed, vowel = divmod(seed, len(VOWELS))
        letters.append(CONSONANTS[consonant] + VOWELS[vowel])
    name = "".join(letters)
    area = AREA_CODES[seed // 100 % len(AREA_CODES)]
    return {
        "first_name": f"Test {name.capitalize()}",
        "last_name": MARK,
        "email": f"test-lead-{name}@example.com",
        "phone": f"+1{area}55501{seed % 100:02}",
    }


def lead(target: Target, *, person: str = "", **members: Any) -> Lead:
    """A lead with what the revision requires and a message, and with other members. None leaves one out.

    `person` names one of the customers of the run. Leads of one person for one vehicle are duplicates at most dealers.
    """
    consent = {
        "granted_at": time_at(target, -1),
        "allowed_channels": ["email", "phone"],
        "consent_text": "The dealer may contact me about this request.",
        "scope": ["lead_submission"],
    }
    agent_is_object = target.revision.is_published and target.revision.name != "aap/1.0"
    if not agent_is_object:
        consent["source_agent"] = AGENT
    payload: Lead = {
        "type": "lead.submit.request",
        "customer": customer_of(target, person),
        "consent": consent,
        "source_agent": {"name": AGENT} if agent_is_object else AGENT,
        "message": MESSAGE,
        **members,
    }
    return {name: value for name, value in payload.items() if value is not None}


async def submit(target: Target, payload: Lead, *, message_id: str | None = None) -> Exchange:
    """The exchange of a lead. An equal lead of the run is not sent again."""
    members = {} if message_id is None else {"messageId": message_id}
    return await target.send_message(target.message(payload, **members))


# Defects

ABSENT = object()
"""The value of a member that is left out."""
WRITTEN = "written-by-the-customer-7Q"
"""A part of what the customer writes. No answer may repeat it."""
REQUIRED, INVALID = "CONTACT_CONSENT_REQUIRED", "INVALID_CONSENT"


class LeadDefect(NamedTuple):
    """What makes a lead wrong: the value at a path, or a function of the target that returns it.

    With a `group`, it is sent with others first. Then the error lists it with the pointer of the path, or `pointer`.
    """

    path: str
    value: Any
    group: int | None = None
    pointer: str = ""


def _window(start: str, end: str) -> list[dict[str, str]]:
    return [{"start": start, "end": end}]


WRONG_TYPES: Mapping[int, Mapping[str, Any]] = {
    4: {
        "customer.first_name": 7,
        "customer.last_name": 7,
        "customer.email": 7,
        "customer.phone": 12025550142,
        "customer.preferred_contact": 7,
        "customer.address": "1 Example Street",
        "vehicle_of_interest.year": "2020",
        "vehicle_of_interest.make": 7,
        "vehicle_of_interest.vin": 7,
        "trade_in.year": "2018",
        "trade_in.make": 7,
        "trade_in.mileage": "61000",
        "appointment.duration_minutes": "30",
        "appointment.appointment_type": 7,
        "source_agent": 7,
        "submitted_at": 7,
    },
    5: {"vehicle_of_interest": [], "trade_in": [], "appointment": "tomorrow", "customer": "Test"},
}
"""Members of the specification with values of another type, in two leads."""

OF_LEADS: Mapping[str, LeadDefect] = {
    "leads.first-name": LeadDefect("customer.first_name", ABSENT, 1),
    "leads.last-name": LeadDefect("customer.last_name", ABSENT, 1),
    "leads.email": LeadDefect("customer.email", WRITTEN, 1),
    "leads.phone": LeadDefect("customer.phone", "202 555 0142", 1),
    "leads.preferred-contact": LeadDefect("customer.preferred_contact", WRITTEN, 1),
    "leads.customer-unknown-member": LeadDefect("customer.shoe_size", WRITTEN, 1),
    "leads.unknown-member": LeadDefect("favourite_colour", "blue", 1),
    "leads.source-agent-name": LeadDefect("source_agent", {"url": "https://agent.example"}, 1, "/source_agent/name"),
    "leads.vehicle-condition": LeadDefect("vehicle_of_interest.condition", "good", 1),
    "leads.trade-in-condition": LeadDefect("trade_in.condition", "cpo", 1),
    "leads.message-length": LeadDefect("message", f"{WRITTEN} ".ljust(4_001, "x"), 1),
    "leads.submitted-at": LeadDefect("submitted_at", "yesterday", 1),
    "idempotency.empty-key": LeadDefect("idempotency_key", "", 1),
    "appointments.type-missing": LeadDefect("appointment.appointment_type", ABSENT, 1),
    "appointments.duration": LeadDefect("appointment.duration_minutes", 14, 1),
    "appointments.unknown-member": LeadDefect("appointment.shoe_size", 9, 1),
    "appointments.notes-length": LeadDefect("appointment.notes", f"{WRITTEN} ".ljust(2_001, "x"), 1),
    "appointments.no-windows": LeadDefect("appointment.requested_windows", [], 1),
    "appointments.zone-unknown": LeadDefect("appointment.timezone", "Mars/Olympus_Mons", 1),
    "leads.source-agent-required": LeadDefect("source_agent", ABSENT, 2),
    "leads.message-not-a-string": LeadDefect("message", 7, 2),
    "idempotency.key-type": LeadDefect("idempotency_key", 7, 2),
    "appointments.type-unknown": LeadDefect("appointment.appointment_type", "picnic", 2),
    "appointments.at-malformed": LeadDefect("appointment.appointment_at", "tomorrow", 2),
    "leads.customer-required": LeadDefect("customer", ABSENT, 3),
    "leads.source-agent-string": LeadDefect("source_agent", "dealer-agent check", 3),
    "idempotency.key-too-long": LeadDefect("idempotency_key", "k" * 129, 3),
    "appointments.at-without-offset": LeadDefect("appointment.appointment_at", "2099-01-05T10:00:00", 3),
    "leads.contact-point": LeadDefect("customer", {"first_name": "Test", "last_name": MARK}),
    **{
        f"leads-type.{path.replace('.', '-').replace('_', '-')}": LeadDefect(path, value, group)
        for group, rows in WRONG_TYPES.items()
        for path, value in rows.items()
    },
    "appointments.both-forms": LeadDefect(
        "appointment",
        lambda target: {
            "appointment_type": "sales",
            "appointment_at": time_at(target, 3),
            "requested_windows": [{"start": time_at(target, 3)}],
        },
    ),
    "appointments.window-backwards": LeadDefect(
        "appointment.requested_windows", lambda target: _window(time_at(target, 3), time_at(target, 2))
    ),
    "appointments.window-without-zone": LeadDefect(
        "appointment.requested_windows", _window("2099-01-05T10:00:00", "2099-01-05T12:00:00")
    ),
    "appointments.windows-refused": LeadDefect(
        "appointment",
        lambda target: {
            "appointment_type": "sales",
            "requested_windows": [{"start": time_at(target, 3)}],
            "timezone": "America/Chicago",
        },
    ),
}
"""Dealers have a low rate for malformed leads. So the defects of a group are sent in one lead first. A dealer that
lists all problems needs no more. A defect that is not listed is then sent alone.

The order of a group matters: the first defect of an appointment, `type-missing`, removes its type.
"""


def change_lead(payload: Lead, target: Target, path: str, value: Any) -> None:
    """Puts a value of a defect or of VALID at its path of a lead, or removes the member."""
    value = value(target) if callable(value) else value
    (drop(path) if value is ABSENT else put(path, value))(payload)


PARTS: tuple[Lead, ...] = (
    {},
    {"trade_in": {"year": 2018, "make": "Honda", "model": "Civic"}},
    {"vehicle_of_interest": {"make": "Honda"}, "appointment": {"appointment_type": "sales"}},
)


def defective(target: Target, *rows: LeadDefect) -> Lead:
    """A lead with these defects. One of an appointment is in a lead with an appointment."""
    # The rules of consents hold whatever else a lead has.
    is_about_consent = all(row.path.startswith("consent") for row in rows)
    turn = len(rows[0].path) + target.revision.snake_case
    payload = lead(target, **(PARTS[turn % len(PARTS)] if is_about_consent else {}))
    for row in rows:
        if row.path.startswith("appointment."):
            payload.setdefault("appointment", {"appointment_type": "sales"})
        change_lead(payload, target, row.path, row.value)
    return payload


def _send(*rows: LeadDefect) -> Request:
    """Returns a function that sends a lead with these defects."""
    return lambda target: submit(target, defective(target, *rows))


async def _send_group(target: Target, group: int) -> Exchange:
    """The exchange of a lead with all defects of a group that the revision knows."""
    known = requirements()
    rows = [row for name, row in OF_LEADS.items() if row.group == group and known[name].applies_to(*target.variant)]
    return await _send(*rows)(target)


async def expect_refused(target: Target, row: LeadDefect) -> None:
    """A lead with the defect is refused.

    Defects of one group are sent in one lead, to save requests: if its error lists the pointer of this defect, no lead
    of its own is sent.
    """
    if row.group is not None:
        exchange = await _send_group(target, row.group)
        try:
            listed = refusal_of(exchange).problems(target.revision)
        except Failed:
            listed = []
        if (row.pointer or f"/{row.path.replace('.', '/')}") in {pointer for pointer, _ in listed}:
            return
    refusal_of(await _send(row)(target))


check_each({requirement_id: (row,) for requirement_id, row in OF_LEADS.items()})(expect_refused)


async def _group_error(target: Target) -> Refusal:
    """The error of the first group. Skips the check if the lead is accepted: other checks fail for that."""
    with skip_if_failed():
        return refusal_of(await _send_group(target, 1))


@check("leads.refusal-code")
async def _(target: Target) -> None:
    (await _group_error(target)).expect_code(*VALIDATION_CODES, target.revision.condition_code)


@check("leads.personal-data")
async def _(target: Target) -> None:
    error = await _group_error(target)
    expect(WRITTEN.encode() not in error.exchange.body, "The error repeats what the customer wrote.", error.exchange)


_expired = LeadDefect("consent.expires_at", lambda target: time_at(target, -1))


EAST = timezone(timedelta(hours=5))


def _an_hour_ago(target: Target) -> str:
    """A time that looks like one in the future to a reader who ignores its offset."""
    return (target.wire.began - timedelta(hours=1)).astimezone(EAST).isoformat()


MALFORMED_CONSENTS = {
    "consent.expired": _expired,
    "consent.expired-offset": LeadDefect("consent.expires_at", _an_hour_ago),
    "consent.granted-at-malformed": LeadDefect("consent.granted_at", "yesterday"),
    "consent.channel-type": LeadDefect("consent.allowed_channels", "email"),
    "consent.not-an-object": LeadDefect("consent", value=True),
    "consent.scope-type": LeadDefect("consent.scope", "lead_submission"),
    "consent.text-type": LeadDefect("consent.consent_text", 7),
    "consent.source-agent-type": LeadDefect("consent.source_agent", 7),
}


@check("leads.other-interface")
async def _(target: Target) -> None:
    """Another check fails for a wrong lead that both interfaces accept."""
    twin = other_interface(target)
    consents = LeadDefect("consent", ABSENT), LeadDefect("consent.scope", ["marketing"]), _expired
    for row in (*consents, LeadDefect("customer", ABSENT), LeadDefect("customer.last_name", 7)):
        exchange = await _send(row)(target)
        if exchange.is_refusal:
            refusal_of(await _send(row)(twin)).expect_code(refusal_of(exchange).code)


@check_each({name: (row,) for name, row in MALFORMED_CONSENTS.items()})
async def _(target: Target, row: LeadDefect) -> None:
    # Such a consent also breaks its schema. Only the published versions say which of the two codes comes first.
    codes = (INVALID,) if target.revision.is_published else (INVALID, REQUIRED, "SCHEMA_VALIDATION_FAILED")
    refusal_of(await _send(row)(target)).expect_code(*codes)


@check("leads.condition-code")
async def _(target: Target) -> None:
    """The code is that of the revision. That such a lead is refused at all has a check of its own."""
    with skip_if_failed():
        error = refusal_of(await _send(OF_LEADS["leads.trade-in-condition"])(target))
    error.expect_code(target.revision.condition_code)


_without_consent = LeadDefect("consent", ABSENT)


def _forbids_a_consent(exchange: Exchange) -> bool | str:
    skip_unless(refusal_of(exchange).code == INVALID, "The code is another one.")
    return status(403)(exchange)


def _consent(name: str, value: Any, *codes: str) -> tuple[Request, Any]:
    """A lead with this value of a member of the consent, and the codes that may answer it."""
    return _send(LeadDefect(f"consent.{name}", value)), code(*codes)


judge_each(
    {
        "consent.missing": (_send(_without_consent), code(REQUIRED)),
        "consent.scope": _consent("scope", ["marketing"], REQUIRED),
        "consent.scope-absent": _consent("scope", ABSENT, REQUIRED, INVALID, *VALIDATION_CODES),
        "consent.scope-empty": _consent("scope", [], REQUIRED, INVALID, *VALIDATION_CODES),
        "consent.null": (_send(LeadDefect("consent", None)), code(REQUIRED, INVALID, *VALIDATION_CODES)),
        "consent.empty": (_send(LeadDefect("consent", {})), code(REQUIRED, INVALID, *VALIDATION_CODES)),
        "consent.scope-published": _consent("scope", ["marketing"], INVALID),
        "consent.granted-at-missing": _consent("granted_at", ABSENT, INVALID, REQUIRED),
        "consent.future": _consent("granted_at", lambda target: time_at(target, 2), INVALID),
        "consent.text-empty": _consent("consent_text", "", INVALID),
        "consent.text-missing": _consent("consent_text", ABSENT, INVALID, REQUIRED),
        "consent.no-channels": _consent("allowed_channels", [], INVALID, REQUIRED),
        "consent.unknown-channel": _consent("allowed_channels", ["email", "pigeon"], INVALID),
        "consent.unknown-member": _consent("only_on_sundays", True, INVALID),
        "consent.preferred-channel": (
            _send(LeadDefect("customer.preferred_contact", "phone"), LeadDefect("consent.allowed_channels", ["email"])),
            code(REQUIRED),
        ),
        "consent.unreachable": (
            _send(LeadDefect("customer.phone", ABSENT), LeadDefect("consent.allowed_channels", ["phone"])),
            code(REQUIRED),
        ),
        "consent.malformed-code": (
            _send(MALFORMED_CONSENTS["consent.granted-at-malformed"]),
            if_refused(code(INVALID)),
        ),
        "consent.missing-status": (_send(_without_consent), if_refused(status(403))),
        "consent.invalid-status": (_send(_expired), if_refused(_forbids_a_consent)),
        "consent.other-defects-first": (
            _send(_without_consent, LeadDefect("customer.last_name", 7)),
            if_refused(
                lambda exchange: (
                    (found := refusal_of(exchange).code) not in (REQUIRED, INVALID) or f"The code is {found}."
                )
            ),
        ),
    }
)
