"""The events of a consent, and the channels that they allow (docs/protocol.md#consent). Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple, TypeVar

GRANTED: Final = "granted"
# The stored words never change.
WITHDRAWN: Final = "revoked"
WITHDRAWN_ELSEWHERE: Final = "revoked on another lead"
"""The customer withdrew consent on another lead, and it applies to this one. Its sender is not informed."""
REFUSED: Final = "refused in quarantine"
"""A person refused what came with these consents (docs/protocol.md#quarantine-refusal). They allow nothing."""
KEPT_AS_PROOF: Final = "kept as proof"
"""The person was erased. The texts of the lead's events moved to `storage.privacy.erasure`."""
ERASED: Final = "erased"
"""The texts of the lead's events were deleted, because the person asked for it."""
DISPOSED: Final = "disposed"
"""The texts were deleted by age."""

ERASURES = (KEPT_AS_PROOF, ERASED, DISPOSED)
KINDS = (GRANTED, WITHDRAWN, WITHDRAWN_ELSEWHERE, REFUSED, *ERASURES)

EVEN_EXPIRED: Final = datetime.min.replace(tzinfo=UTC)
"""As the time of `allowed_channels`: the channels that were not withdrawn, also if the consent has expired."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsentRecord:
    """What the customer agreed to. `request_hash` is the SHA-256 of the request as received.

    `source_agent` is the agent that got the consent. `caller` is the identity of a known sender. `customer` is who
    agreed (JSON in UTF-8): the law requires it with the consent, for longer than the lead itself. If it is None,
    `storage.leads.stored_leads.record_lead` uses the lead's customer.
    """

    received_at: datetime
    granted_at: datetime
    channels: tuple[str, ...]
    scope: tuple[str, ...]
    purpose: str
    consent_text: str
    request_hash: bytes
    customer: bytes | None = None
    source_agent: str | None = None
    expires_at: datetime | None = None
    caller: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsentEvent:
    """One event of the dealer's chain; `kind` is one of KINDS.

    `granted_at`, `expires_at`, `scope`, `agent`, `caller` and `request_hash` belong to grants; `by` and `reason` (who
    did it and why) to withdrawals and refusals. A refusal has in `granted_at` the time from which on its grants were
    recorded. After an erasure, `scope` is empty, and `agent`, `caller`, `consent_text`,
    `request_hash`, `customer`, `by` and `reason` are None.
    """

    number: int
    kind: str
    at: datetime
    lead_id: str
    granted_at: datetime | None
    expires_at: datetime | None
    channels: tuple[str, ...]
    scope: tuple[str, ...]
    purpose: str
    agent: str | None
    consent_text: str | None
    request_hash: bytes | None
    customer: bytes | None
    by: str | None
    reason: str | None
    caller: str | None = None


class ChannelEvent(NamedTuple):
    """The part of a consent event that says which channels are allowed."""

    kind: str
    at: datetime
    granted_at: datetime | None
    expires_at: datetime | None
    channels: tuple[str, ...]


Event = TypeVar("Event", bound=ConsentEvent | ChannelEvent)


def is_same_consent(event: ConsentEvent, consent: ConsentRecord) -> bool:
    """Whether an event already records this consent: agents send the same one with every request."""
    same = ("granted_at", "expires_at", "channels", "scope", "purpose", "consent_text", "customer", "caller")
    return (
        event.kind == GRANTED
        and event.agent == consent.source_agent
        and all(getattr(event, name) == getattr(consent, name) for name in same)
    )


def without_refused(events: Iterable[Event]) -> list[Event]:
    """The events of a lead without the grants that a person refused in quarantine, and without these refusals."""
    given = [*events]
    refused = [
        (event.granted_at, event.at) for event in given if event.kind == REFUSED and event.granted_at is not None
    ]
    if not refused:
        return given
    return [
        event
        for event in given
        if event.kind != REFUSED
        and not (event.kind == GRANTED and any(since <= event.at <= until for since, until in refused))
    ]


def channels_allowed(events: Iterable[ConsentEvent | ChannelEvent], now: datetime) -> frozenset[str]:
    """The channels that a lead's consent events, oldest first, allow now.

    A channel is allowed when it was granted, unless the grant has expired, was refused in quarantine, or the channel
    was withdrawn afterwards. A consent that was given after the withdrawal allows it again. A consent from before it,
    which an agent sends once more, does not.
    """
    allowed: set[str] = set()
    withdrawn_at: dict[str, datetime] = {}
    for event in without_refused(events):
        if event.kind == GRANTED:
            if event.expires_at is None or event.expires_at > now:
                assert event.granted_at is not None, "a grant has a time"
                for channel in event.channels:
                    if channel not in withdrawn_at or event.granted_at > withdrawn_at[channel]:
                        allowed.add(channel)
        elif event.kind in (WITHDRAWN, WITHDRAWN_ELSEWHERE):
            allowed.difference_update(event.channels)
            withdrawn_at.update(dict.fromkeys(event.channels, event.at))
        else:
            allowed.clear()
    return frozenset(allowed)
