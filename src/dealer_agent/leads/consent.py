"""Checks the consent of a lead (docs/protocol.md#consent). Pure."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache

import msgspec
from msgspec import UNSET

from dealer_agent.leads.channels import CHANNELS, can_reach
from dealer_agent.leads.plain_text import one_line
from dealer_agent.protocol.errors import ContactConsentRequired, InvalidConsent
from dealer_agent.protocol.formats import is_timestamp, parse_timestamp
from dealer_agent.protocol.problems import Problem, message_and_details
from dealer_agent.protocol.request_problems import Checker, compile_schema, list_problems
from dealer_agent.protocol.requests import Consent, Customer
from dealer_agent.protocol.schemas import consent_schema

SCOPE = "lead_submission"
PURPOSE = "contact about the customer's own request"
"""The purpose in the record of a grant."""
CLOCK_GRACE = timedelta(minutes=5)
"""How far ahead an agent's clock may be."""

_CHANNELS_AT = ("consent", "allowed_channels")


@dataclass(frozen=True, slots=True)
class Grant:
    """A valid consent."""

    granted_at: datetime
    channels: tuple[str, ...]
    scope: tuple[str, ...]
    text: str
    source_agent: str | None
    expires_at: datetime | None


def judge_consent(consent: object, customer: Customer, now: datetime) -> Grant:
    """The grant in a request's `consent`.

    Raises ContactConsentRequired if the consent is absent, its scope is absent or lacks `lead_submission`, it does not
    allow the preferred channel, or no allowed channel reaches the customer. Raises InvalidConsent for other defects.
    Both errors list all defects and repeat nothing of the consent.
    """
    if consent is UNSET:
        absent = Problem(("consent",), "is required: a lead needs the customer's consent", "required")
        raise ContactConsentRequired(*message_and_details([absent], "payload"))
    missing = _missing(consent, customer)
    named = {problem.path for problem in missing}
    malformed = [
        replace(problem, received=None)
        for problem in (found.below("consent") for found in list_problems(_checker(), consent))
        if problem.path not in named
    ]
    problems = missing + malformed + _beyond_schema(consent, now)
    if problems:
        kind = ContactConsentRequired if missing else InvalidConsent
        raise kind(*message_and_details(problems, "payload"))
    return _grant(msgspec.convert(consent, Consent))


def consent_was_withdrawn() -> ContactConsentRequired:
    """The error for a consent of which the customer has withdrawn every channel that reaches them."""
    words = "the customer withdrew these channels after granted_at: ask for a new consent"
    return ContactConsentRequired(*message_and_details([Problem(_CHANNELS_AT, words, "contains")], "payload"))


@cache
def _checker() -> Checker:
    return compile_schema(consent_schema())


def _missing(consent: object, customer: Customer) -> list[Problem]:
    """What the customer did not agree to. A scope or a list of channels that is no array counts as malformed."""
    if not isinstance(consent, dict):
        return []
    problems = []
    if "scope" not in consent:
        problems.append(Problem(("consent", "scope"), f"is required and must hold {SCOPE}", "required"))
    elif isinstance(consent["scope"], list) and SCOPE not in consent["scope"]:
        problems.append(Problem(("consent", "scope"), f"must hold {SCOPE}", "contains"))
    preferred = customer.preferred_contact if customer.preferred_contact in CHANNELS else None
    allowed = consent.get("allowed_channels")
    if preferred is not None and "allowed_channels" not in consent:
        words = f"is required and must hold the preferred channel, {preferred}"
        problems.append(Problem(_CHANNELS_AT, words, "required"))
    elif not isinstance(allowed, list):
        return problems
    elif preferred is not None and preferred not in allowed:
        problems.append(Problem(_CHANNELS_AT, f"must hold the preferred channel, {preferred}", "contains"))
    elif (known := [channel for channel in CHANNELS if channel in allowed]) and not can_reach(customer, known):
        words = (
            "must hold a channel that reaches the customer: email needs customer.email; phone, sms need customer.phone"
        )
        problems.append(Problem(_CHANNELS_AT, words, "contains"))
    return problems


def _beyond_schema(consent: object, now: datetime) -> list[Problem]:
    """The defects that a schema cannot describe: a blank text, a grant from the future, an expired grant."""
    if not isinstance(consent, dict):
        return []
    problems = []
    text = consent.get("consent_text")
    if isinstance(text, str) and text.isspace():
        problems.append(Problem(("consent", "consent_text"), "must not be empty", "minLength"))
    granted_at, expires_at = _moment(consent.get("granted_at")), _moment(consent.get("expires_at"))
    if granted_at is not None and granted_at > now + CLOCK_GRACE:
        problems.append(Problem(("consent", "granted_at"), "lies in the future", "formatMaximum"))
    if expires_at is not None and expires_at <= now:
        problems.append(Problem(("consent", "expires_at"), "has passed: the consent is expired", "formatMinimum"))
    return problems


def _moment(value: object) -> datetime | None:
    """The moment of a timestamp with an offset, else None."""
    return parse_timestamp(value) if isinstance(value, str) and is_timestamp(value) else None


def _grant(consent: Consent) -> Grant:
    granted_at = parse_timestamp(consent.granted_at)
    assert granted_at is not None, "the schema accepts only timestamps"
    agent = consent.source_agent or ""
    return Grant(
        granted_at=granted_at,
        channels=tuple(consent.allowed_channels),
        scope=tuple(consent.scope),
        text=consent.consent_text,
        source_agent=agent if one_line(agent) else None,
        expires_at=parse_timestamp(consent.expires_at) if consent.expires_at else None,
    )
