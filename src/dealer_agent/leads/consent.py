"""Consent to be contacted: judged here and nowhere else (specification, part 7; contract, part 10). Pure."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache

import msgspec
from msgspec import UNSET, UnsetType

from dealer_agent.leads.plain_text import one_line
from dealer_agent.protocol.errors import ContactConsentRequired, InvalidConsent
from dealer_agent.protocol.formats import is_timestamp, parse_timestamp
from dealer_agent.protocol.problems import Problem, message_and_details
from dealer_agent.protocol.request_problems import Checker, compile_schema, list_problems
from dealer_agent.protocol.requests import Consent, Customer
from dealer_agent.protocol.schemas import consent_schema

SCOPE = "lead_submission"
PURPOSE = "contact about the customer's own request"
"""What a grant is used for, as its record says it."""
CLOCK_GRACE = timedelta(minutes=5)
"""How far ahead of ours the clock of an agent may run."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A valid consent: what was agreed to, when, and for which channels."""

    granted_at: datetime
    channels: tuple[str, ...]
    scope: tuple[str, ...]
    text: str
    source_agent: str | None
    expires_at: datetime | None


def judge_consent(consent: object, customer: Customer, now: datetime) -> Grant:
    """The grant in a request's `consent`.

    Raises ContactConsentRequired when it is absent, its scope is absent or lacks `lead_submission`, the preferred
    channel is not allowed, or no allowed channel reaches the customer, whatever else is wrong; InvalidConsent for every
    other defect. Either reports all defects, and repeats nothing of what the customer agreed to.
    """
    if consent is UNSET:
        absent = Problem("/consent", "required", "is required: a lead needs the customer's consent")
        raise ContactConsentRequired(*message_and_details([absent], "payload"))
    lacking = _lacking(consent, customer)
    named = {problem.pointer for problem in lacking}
    broken = [
        replace(problem, pointer="/consent" + problem.pointer, received=None)
        for problem in list_problems(_checker(), consent)
        if "/consent" + problem.pointer not in named
    ]
    problems = lacking + broken + _unfit(consent, now)
    if problems:
        kind = ContactConsentRequired if lacking else InvalidConsent
        raise kind(*message_and_details(problems, "payload"))
    return _granted(msgspec.convert(consent, Consent))


def reaches(channels: Iterable[str], customer: Customer) -> bool:
    """Whether one of the channels has a contact point of the customer."""
    return any(_POINT_OF[channel](customer) is not UNSET for channel in channels)


def withdrawn() -> ContactConsentRequired:
    """The refusal of a consent that the customer has withdrawn: every channel that could reach them."""
    words = "the customer withdrew these channels after granted_at: ask for a new consent"
    return ContactConsentRequired(*message_and_details([Problem(_CHANNELS_AT, "contains", words)], "payload"))


_CHANNELS_AT = "/consent/allowed_channels"
_POINT_OF: Mapping[str, Callable[[Customer], str | UnsetType]] = {
    "email": lambda customer: customer.email,
    "phone": lambda customer: customer.phone,
    "sms": lambda customer: customer.phone,
}
"""The contact point that each channel needs."""


@cache
def _checker() -> Checker:
    return compile_schema(consent_schema())


def _lacking(consent: object, customer: Customer) -> list[Problem]:
    """What the customer did not agree to. A scope or a list of channels that is no array is malformed instead."""
    if not isinstance(consent, dict):
        return []
    problems = []
    if "scope" not in consent:
        problems.append(Problem("/consent/scope", "required", f"is required and must hold {SCOPE}"))
    elif isinstance(consent["scope"], list) and SCOPE not in consent["scope"]:
        problems.append(Problem("/consent/scope", "contains", f"must hold {SCOPE}"))
    preferred = customer.preferred_contact if customer.preferred_contact in _POINT_OF else None
    allowed = consent.get("allowed_channels")
    if preferred is not None and "allowed_channels" not in consent:
        words = f"is required and must hold the preferred channel, {preferred}"
        problems.append(Problem(_CHANNELS_AT, "required", words))
    elif not isinstance(allowed, list):
        return problems
    elif preferred is not None and preferred not in allowed:
        problems.append(Problem(_CHANNELS_AT, "contains", f"must hold the preferred channel, {preferred}"))
    elif (known := [channel for channel in _POINT_OF if channel in allowed]) and not reaches(known, customer):
        words = (
            "must hold a channel that reaches the customer: email needs customer.email; phone, sms need customer.phone"
        )
        problems.append(Problem(_CHANNELS_AT, "contains", words))
    return problems


def _unfit(consent: object, now: datetime) -> list[Problem]:
    """What no schema can say: a text of spaces only, a grant from the future, a grant that has expired."""
    if not isinstance(consent, dict):
        return []
    problems = []
    text = consent.get("consent_text")
    if isinstance(text, str) and text.isspace():
        problems.append(Problem("/consent/consent_text", "minLength", "must not be empty"))
    granted_at, expires_at = _moment(consent.get("granted_at")), _moment(consent.get("expires_at"))
    if granted_at is not None and granted_at > now + CLOCK_GRACE:
        problems.append(Problem("/consent/granted_at", "formatMaximum", "lies in the future"))
    if expires_at is not None and expires_at <= now:
        problems.append(Problem("/consent/expires_at", "formatMinimum", "has passed: the consent is expired"))
    return problems


def _moment(value: object) -> datetime | None:
    """The moment of a timestamp with an offset; None for whatever else the schema refuses."""
    return parse_timestamp(value) if isinstance(value, str) and is_timestamp(value) else None


def _granted(consent: Consent) -> Grant:
    granted_at = parse_timestamp(consent.granted_at)
    assert granted_at is not None, "the schema lets only timestamps through"
    agent = consent.source_agent or ""
    return Grant(
        granted_at=granted_at,
        channels=tuple(consent.allowed_channels),
        scope=tuple(consent.scope),
        text=consent.consent_text,
        source_agent=agent if one_line(agent) else None,
        expires_at=parse_timestamp(consent.expires_at) if consent.expires_at else None,
    )
