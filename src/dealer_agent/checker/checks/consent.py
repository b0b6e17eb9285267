"""Consents that a dealer refuses, as a table."""

from collections.abc import Callable
from typing import Any, NamedTuple

from dealer_agent.checker.check import Failed, Skipped, check, expect
from dealer_agent.checker.lead_requests import Lead, lead, refused, time_at
from dealer_agent.checker.target import Refusal, Target

Defect = Callable[[Lead, Target], object]

REQUIRED, INVALID = "CONTACT_CONSENT_REQUIRED", "INVALID_CONSENT"
FORBIDDEN = 403


class Row(NamedTuple):
    """A requirement, what makes the consent of a lead wrong, and the codes that may answer it."""

    id: str
    defect: Defect
    codes: tuple[str, ...]


def _set(**members: Any) -> Defect:
    return lambda made, _: made["consent"].update(members)


def _without(name: str) -> Defect:
    return lambda made, _: made["consent"].pop(name)


def _at(name: str, days: int) -> Defect:
    return lambda made, target: made["consent"].update({name: time_at(target, days)})


def _prefers_phone(made: Lead, _: Target) -> None:
    made["customer"]["preferred_contact"] = "phone"
    made["consent"]["allowed_channels"] = ["email"]


def _cannot_be_reached(made: Lead, _: Target) -> None:
    del made["customer"]["phone"]
    made["consent"]["allowed_channels"] = ["phone"]


ROWS = (
    Row("consent.missing", lambda made, _: made.pop("consent"), (REQUIRED,)),
    Row("consent.scope", _set(scope=["marketing"]), (REQUIRED,)),
    Row("consent.scope-published", _set(scope=["marketing"]), (INVALID,)),
    Row("consent.expired", _at("expires_at", -1), (INVALID,)),
    Row("consent.granted-at-malformed", _set(granted_at="yesterday"), (INVALID,)),
    Row("consent.granted-at-missing", _without("granted_at"), (INVALID, REQUIRED)),
    Row("consent.future", _at("granted_at", 2), (INVALID,)),
    Row("consent.text-empty", _set(consent_text=""), (INVALID,)),
    Row("consent.text-missing", _without("consent_text"), (INVALID, REQUIRED)),
    Row("consent.no-channels", _set(allowed_channels=[]), (INVALID, REQUIRED)),
    Row("consent.unknown-channel", _set(allowed_channels=["email", "pigeon"]), (INVALID,)),
    Row("consent.channel-type", _set(allowed_channels="email"), (INVALID,)),
    Row("consent.unknown-member", _set(only_on_sundays=True), (INVALID,)),
    Row("consent.not-an-object", lambda made, _: made.update(consent=True), (INVALID,)),
    Row("consent.preferred-channel", _prefers_phone, (REQUIRED,)),
    Row("consent.unreachable", _cannot_be_reached, (REQUIRED,)),
)


def _with_defect(target: Target, requirement_id: str) -> Lead:
    row = next(each for each in ROWS if each.id == requirement_id)
    made = lead(target)
    row.defect(made, target)
    return made


def _check_of(row: Row) -> None:
    @check(row.id)
    async def run(target: Target) -> None:
        error = await refused(target, _with_defect(target, row.id))
        expected = " or ".join(row.codes)
        expect(error.code in row.codes, f"The code is {error.code or 'absent'}, not {expected}.", error.exchange)


for _row in ROWS:
    _check_of(_row)


async def _refused_or_skipped(target: Target, requirement_id: str) -> Refusal:
    try:
        return await refused(target, _with_defect(target, requirement_id))
    except Failed as accepted:
        raise Skipped(accepted.sentence) from None


@check("consent.missing-status")
async def absent_consents_have_403(target: Target) -> None:
    """Sends a lead without consent."""
    error = await _refused_or_skipped(target, "consent.missing")
    expect(error.status == FORBIDDEN, f"The status is {error.status}, not 403.", error.exchange)


@check("consent.invalid-status")
async def invalid_consents_have_403(target: Target) -> None:
    """Sends a lead with an expired consent."""
    error = await _refused_or_skipped(target, "consent.expired")
    expect(error.status == FORBIDDEN, f"The status is {error.status}, not 403.", error.exchange)


@check("consent.other-defects-first")
async def other_defects_are_answered_first(target: Target) -> None:
    """Sends a lead without consent and with a wrong name."""
    made = lead(target)
    del made["consent"]
    made["customer"]["last_name"] = 7
    try:
        error = await refused(target, made)
    except Failed as accepted:
        raise Skipped(accepted.sentence) from None
    expect(error.code not in (REQUIRED, INVALID), f"The code is {error.code}.", error.exchange)
