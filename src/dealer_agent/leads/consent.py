"""Consent to be contacted: judged here and nowhere else (specification, part 7; contract, part 10). Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any, NoReturn

import jsonschema_rs
import msgspec
from msgspec import UNSET, UnsetType

from dealer_agent.protocol.errors import ContactConsentRequired, InvalidConsent, Problem, told
from dealer_agent.protocol.formats import parse_timestamp
from dealer_agent.protocol.problems import compile_schema, list_problems
from dealer_agent.protocol.requests import Consent
from dealer_agent.protocol.schemas import consent_schema

SCOPE = "lead_submission"
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


def judge_consent(consent: object, preferred_contact: str | UnsetType, now: datetime) -> Grant:
    """The grant in a request's `consent`.

    Raises ContactConsentRequired when it is absent, its scope is absent or lacks `lead_submission`, or the preferred
    channel is not allowed; InvalidConsent for every other defect. What the customer agreed to is never repeated.
    """
    if consent is UNSET:
        _required("", "required", "is required: a lead needs the customer's consent")
    if isinstance(consent, dict):
        _refuse_insufficient(consent, preferred_contact)
    problems = [
        Problem("/consent" + problem.pointer, problem.keyword, problem.message)
        for problem in list_problems(_checker(), consent)
    ]
    if problems:
        _invalid(problems)
    return _granted(msgspec.convert(consent, Consent), now)


@cache
def _checker() -> jsonschema_rs.Draft202012Validator:
    return compile_schema(consent_schema())


def _refuse_insufficient(consent: dict[str, Any], preferred_contact: str | UnsetType) -> None:
    if "scope" not in consent:
        _required("/scope", "required", f"is required and must hold {SCOPE}")
    scope = consent["scope"]
    if _strings(scope) and SCOPE not in scope:
        _required("/scope", "contains", f"must hold {SCOPE}")
    channels = consent.get("allowed_channels", [])
    if preferred_contact in ("email", "phone", "sms") and _strings(channels) and preferred_contact not in channels:
        _required("/allowed_channels", "contains", f"must hold the preferred channel, {preferred_contact}")


def _strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _granted(consent: Consent, now: datetime) -> Grant:
    granted_at = _moment(consent.granted_at)
    expires_at = None if isinstance(consent.expires_at, UnsetType) else _moment(consent.expires_at)
    if not consent.consent_text.strip():
        _invalid([Problem("/consent/consent_text", "minLength", "must not be empty")])
    if granted_at > now + CLOCK_GRACE:
        _invalid([Problem("/consent/granted_at", "formatMaximum", "lies in the future")])
    if expires_at is not None and expires_at <= now:
        _invalid([Problem("/consent/expires_at", "formatMinimum", "has passed: the consent is expired")])
    return Grant(
        granted_at=granted_at,
        channels=tuple(consent.allowed_channels),
        scope=tuple(consent.scope),
        text=consent.consent_text,
        source_agent=None if isinstance(consent.source_agent, UnsetType) else consent.source_agent,
        expires_at=expires_at,
    )


def _moment(text: str) -> datetime:
    moment = parse_timestamp(text)
    assert moment is not None, "the schema let only timestamps through"
    return moment


def _required(pointer: str, keyword: str, message: str) -> NoReturn:
    raise ContactConsentRequired(*told([Problem("/consent" + pointer, keyword, message)], "payload"))


def _invalid(problems: list[Problem]) -> NoReturn:
    raise InvalidConsent(*told(problems, "payload"))
