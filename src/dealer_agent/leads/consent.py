"""The consent of a lead: its check, and the channels that it allows (docs/protocol.md#consent). Pure.

`consent_terms` says how a dealer asks for it before a tool sends a lead (docs/how-to/mcp.md#consent).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from dealer_agent.leads.consent_events import GRANTED, ConsentEvent, channels_allowed
from dealer_agent.leads.plain_text import one_line
from dealer_agent.leads.records import LeadContent, StoredLead
from dealer_agent.mcp_tools.consent import ConsentTerms
from dealer_agent.mcp_tools.consent import one_line as line_for_models
from dealer_agent.protocol.errors import ContactConsentRequired, InvalidConsent
from dealer_agent.protocol.formats import normal_email, normal_phone
from dealer_agent.protocol.problems import Problem, message_and_details
from dealer_agent.protocol.published_versions import SCOPE, PublishedVersion
from dealer_agent.protocol.request_problems import Checker, list_problems
from dealer_agent.protocol.requests import Channel, Consent, Customer
from dealer_agent.protocol.schemas import consent_schema
from dealer_agent.protocol.timestamps import is_timestamp, parse_timestamp
from dealer_agent.protocol.version_payloads import consent_checker

EMAIL: Final = "email"
PHONE: Final = "phone"
SMS: Final = "sms"


class ChannelWords(NamedTuple):
    """The words for a channel: inside a sentence, and as a label on a page."""

    prose: str
    label: str


CHANNELS: Final[Mapping[Channel, ChannelWords]] = {
    EMAIL: ChannelWords("e-mail", "E-mail"),
    PHONE: ChannelWords("phone", "Phone calls"),
    SMS: ChannelWords("text message", "Text messages"),
}
"""By the word in requests and settings. The order is that of every list of channels."""


def contact_point(customer: Customer, channel: Channel) -> str | UnsetType:
    """The e-mail address or phone number that the channel uses."""
    return customer.email if channel == EMAIL else customer.phone


def can_reach(customer: Customer, channels: Iterable[str]) -> bool:
    """Whether the customer has a contact point for one of the channels."""
    known = set(channels)
    return any(contact_point(customer, channel) is not UNSET for channel in CHANNELS if channel in known)


def usable_channels(customer: Customer, consents: Sequence[ConsentEvent], now: datetime) -> tuple[Channel, ...]:
    """The channels by which the customer may be contacted at the current contact points.

    A consent covers the contact points that came with it, so a phone number that is added later needs its own consent.
    A channel without a contact point is included if any consent allows it.
    """
    return tuple(
        channel
        for channel in CHANNELS
        if channel in channels_allowed((event for event in consents if _covers(event, customer, channel)), now)
    )


def channels_of(lead: StoredLead, now: datetime) -> tuple[Channel, ...]:
    """The `usable_channels` of a lead; if its customer is erased, the channels that its consent allows."""
    if lead.lead.customer is None:
        allowed = channels_allowed(lead.consents, now)
        return tuple(channel for channel in CHANNELS if channel in allowed)
    return usable_channels(LeadContent.of(lead).customer, lead.consents, now)


def with_allowed_contact_points(customer: Customer, channels: Sequence[Channel]) -> Customer:
    """The customer without the contact points and the preferred channel that `channels` do not allow."""
    preferred = customer.preferred_contact
    return msgspec.structs.replace(
        customer,
        email=customer.email if EMAIL in channels else UNSET,
        phone=customer.phone if PHONE in channels or SMS in channels else UNSET,
        preferred_contact=preferred if preferred in (*channels, "any") else UNSET,
    )


def _covers(event: ConsentEvent, customer: Customer, channel: Channel) -> bool:
    """Whether an event applies to the channel's contact point. Only a grant can be for other contact points."""
    current = contact_point(customer, channel)
    if event.kind != GRANTED or event.customer is None or current is UNSET:
        return True
    granted = contact_point(msgspec.json.decode(event.customer, type=Customer), channel)
    normal = normal_email if channel == EMAIL else normal_phone
    return granted == current or (granted is not UNSET and normal(granted) == normal(current))


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


def check_consent(consent: object, customer: Customer, now: datetime, version: PublishedVersion | None = None) -> Grant:
    """The grant in a request's `consent`, by the rules of `version`; None: by those of docs/protocol.md.

    Raises ContactConsentRequired and InvalidConsent, which list all defects and repeat nothing of the consent.
    """
    if consent is UNSET:
        absent = Problem(("consent",), "is required: a lead needs the customer's consent", "required")
        raise ContactConsentRequired(*message_and_details([absent], "payload"))
    # What is missing makes CONTACT_CONSENT_REQUIRED; all other defects make INVALID_CONSENT. A published version allows
    # exactly one value of `scope`, so every other one is invalid, not missing.
    missing = _missing_scope(consent) if version is None else []
    missing += _missing_channels(consent, customer)
    paths_reported = {problem.path for problem in missing}
    checker = _checker() if version is None else consent_checker(version)
    malformed = [
        replace(problem, received=None)
        for problem in (found.below("consent") for found in list_problems(checker, consent))
        if problem.path not in paths_reported
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
    return Checker(consent_schema())


def _missing_scope(consent: object) -> list[Problem]:
    """What `scope` lacks, by docs/protocol.md. A `scope` that is not an array is a defect of the schema."""
    if not isinstance(consent, dict):
        return []
    if "scope" not in consent:
        return [Problem(("consent", "scope"), f"is required and must hold {SCOPE}", "required")]
    if isinstance(consent["scope"], list) and SCOPE not in consent["scope"]:
        return [Problem(("consent", "scope"), f"must hold {SCOPE}", "contains")]
    return []


def _missing_channels(consent: object, customer: Customer) -> list[Problem]:
    """What `allowed_channels` lacks: the preferred channel, or one that reaches the customer.

    Channels that are not an array are a defect of the schema.
    """
    if not isinstance(consent, dict):
        return []
    preferred = customer.preferred_contact if customer.preferred_contact in CHANNELS else None
    allowed = consent.get("allowed_channels")
    if preferred is not None and "allowed_channels" not in consent:
        words = f"is required and must hold the preferred channel, {preferred}"
        return [Problem(_CHANNELS_AT, words, "required")]
    if not isinstance(allowed, list):
        return []
    if preferred is not None and preferred not in allowed:
        return [Problem(_CHANNELS_AT, f"must hold the preferred channel, {preferred}", "contains")]
    known = [channel for channel in CHANNELS if channel in allowed]
    if known and not can_reach(customer, known):
        words = (
            "must hold a channel that reaches the customer: email needs customer.email; phone, sms need customer.phone"
        )
        return [Problem(_CHANNELS_AT, words, "contains")]
    return []


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
    return parse_timestamp(value) if isinstance(value, str) and is_timestamp(value) else None


def _grant(consent: Consent) -> Grant:
    """The consent of a lead as a grant, which the record keeps."""
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


LONGEST_NAME = 100
"""Characters of a dealer's name in texts for a model."""


def consent_terms(about: Mapping[str, Any], text: str, page: str) -> ConsentTerms:
    """How a dealer asks. `about` is the `data` of dealer.information. `page` is a URL that a person can open."""
    # A foreign dealer agent may send any name. Models read it.
    dealer = line_for_models(about["name"], LONGEST_NAME)
    ways = [f"call {each['value']}" for each in _contacts(about, "phones")[:1]]
    ways += [f"write to {each['value']}" for each in _contacts(about, "emails")[:1]]
    ways.append(f"open {next((each['website'] for each in about['rooftops'] if 'website' in each), page)}")
    return ConsentTerms(
        dealer=dealer,
        text=text,
        channels={channel: words.label for channel, words in CHANNELS.items()},
        scope=SCOPE,
        other_ways=f"The person can reach {dealer} directly: {', or '.join(ways)}.",
        zones={each["name"]: each["timezone"] for each in about["rooftops"] if "timezone" in each},
    )


def _contacts(about: Mapping[str, Any], kind: str) -> list[Mapping[str, str]]:
    """The phone numbers or e-mail addresses of all rooftops; those of the sales department come first."""
    found = [each for rooftop in about["rooftops"] for each in rooftop.get(kind, ())]
    return sorted(found, key=lambda each: each["name"] != "sales")
