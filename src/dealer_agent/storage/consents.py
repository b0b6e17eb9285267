"""Consent and its withdrawal, as statements on the caller's transaction (contract, part 10).

Events are only ever added, to the dealer's chain (`storage.chain`). The dealer is locked by whoever adds one.
"""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, Row, bindparam, exists, select, update

from dealer_agent.encryption.cipher import Cipher
from dealer_agent.encryption.errors import DecryptionFailed, UnknownKey
from dealer_agent.storage.contact_points import KNOWN_BY
from dealer_agent.storage.event_chain import (
    NOTHING_BEFORE,
    ChainEnd,
    append,
    body_context,
    commitment,
    end_problem,
    link_problem,
)
from dealer_agent.storage.prepared_statements import Prepared
from dealer_agent.storage.schema import consent_events, consent_proofs, leads
from dealer_agent.storage.withdrawals import note_withdrawal

GRANTED: Final = "granted"
REVOKED: Final = "revoked"
REVOKED_ELSEWHERE: Final = "revoked on another lead"
"""The customer withdrew consent on another lead, and it counts for this one. The sender of this one is not told."""
KEPT_AS_PROOF: Final = "kept as proof"
"""The person was erased. The texts of the lead's events are kept apart, as proof (`storage.proofs`)."""
ERASED: Final = "erased"
"""The texts of the lead's events were deleted, because the person asked for it."""
DISPOSED: Final = "disposed"
"""The texts were deleted by age."""

FORGOTTEN = (KEPT_AS_PROOF, ERASED, DISPOSED)
KINDS = (GRANTED, REVOKED, REVOKED_ELSEWHERE, *FORGOTTEN)

EVEN_EXPIRED: Final = datetime.min.replace(tzinfo=UTC)
"""As the time of `allowed_channels`: the channels that were not withdrawn, also where the consent has expired."""

SALT_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsentRecord:
    """What the customer agreed to. `request_hash` is the SHA-256 of the request as received.

    `source_agent` is the agent that got the consent, `token_id` the token that the request came with.

    `customer` is who agreed (JSON in UTF-8): the law wants it kept with the consent, longer than the lead itself. Where
    a lead and its consent are recorded together it may be left out: then it is the lead's.
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
    token_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsentEvent:
    """One event of the dealer's chain; `kind` is one of KINDS.

    `granted_at`, `expires_at`, `scope`, `agent`, `token_id` and `request_hash` belong to grants; `by` and `reason` (who
    revoked and why) to revocations. Once the person is forgotten, `scope` is empty, and `agent`, `token_id`,
    `consent_text`, `request_hash`, `customer`, `by` and `reason` are None.
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
    token_id: str | None = None


class _Agreed(NamedTuple):
    """The part of a consent event that says which channels are allowed."""

    kind: str
    at: datetime
    granted_at: datetime | None
    expires_at: datetime | None
    channels: tuple[str, ...]


class ChainReport(NamedTuple):
    """What a check of a dealer's chain found: how many events, and of how many the person is forgotten.

    `first_broken` is the number of the first event that is not as it was written, and `problem` says in plain words
    what is wrong with it; both are None for a chain that is whole.
    """

    events: int
    erased: int
    first_broken: int | None
    problem: str | None


class _Body(Struct, omit_defaults=True):
    """The sealed part of an event."""

    salt: bytes
    text: str | None = None
    request_hash: bytes | None = None
    customer: bytes | None = None
    by: str | None = None
    reason: str | None = None
    scope: tuple[str, ...] = ()
    agent: str | None = None
    token: str | None = None


READ_EVENTS = Prepared(
    select(consent_events)
    .where(consent_events.c.dealer_id == bindparam("dealer_id"), consent_events.c.lead_id == bindparam("lead_id"))
    .order_by(consent_events.c.number)
)

READ_CHANNELS = (
    select(*(consent_events.c[name] for name in ("kind", "at", "granted_at", "expires_at", "channels")))
    .where(consent_events.c.dealer_id == bindparam("dealer_id"), consent_events.c.lead_id == bindparam("lead_id"))
    .order_by(consent_events.c.number)
)

# `proof` is the body of an event whose customer is erased, where it is kept apart.
_WITH_PROOFS = select(consent_events, consent_proofs.c.body.label("proof")).outerjoin_from(
    consent_events,
    consent_proofs,
    (consent_proofs.c.dealer_id == consent_events.c.dealer_id) & (consent_proofs.c.number == consent_events.c.number),
)

READ_CHAIN = (
    _WITH_PROOFS.where(consent_events.c.dealer_id == bindparam("dealer_id"))
    .order_by(consent_events.c.number)
    .execution_options(yield_per=500)
)

# Without ORDER BY: with it, SQLite reads the whole chain.
READ_EVENTS_WITH_PROOFS = _WITH_PROOFS.where(
    consent_events.c.dealer_id == bindparam("dealer_id"),
    consent_events.c.lead_id.in_(bindparam("lead_ids", expanding=True)),
)

FIND_LEAD_WITHOUT_CONSENT = (
    select(leads.c.lead_id)
    .where(
        leads.c.dealer_id == bindparam("dealer_id"),
        ~exists().where(consent_events.c.dealer_id == leads.c.dealer_id, consent_events.c.lead_id == leads.c.lead_id),
    )
    .limit(1)
)

DROP_BODIES = (
    update(consent_events)
    .where(
        consent_events.c.dealer_id == bindparam("in_dealer"),
        consent_events.c.lead_id == bindparam("of_lead"),
        consent_events.c.body.is_not(None),
    )
    .values(body=None)
)

TOUCH_LEAD = (
    update(leads)
    .where(
        leads.c.dealer_id == bindparam("in_dealer"),
        leads.c.lead_id == bindparam("of_lead"),
        leads.c.used_at < bindparam("at"),
    )
    .values(used_at=bindparam("at"))
)


def record_consent(connection: Connection, cipher: Cipher, dealer_id: str, lead_id: str, consent: ConsentRecord) -> int:
    """Adds a new consent of the customer of an earlier lead. Returns the event's number.

    Raises StorageError where there is no such lead.
    """
    number = grant(connection, cipher, dealer_id, lead_id, consent)
    touch_lead(connection, dealer_id, lead_id, consent.received_at)
    return number


def touch_lead(connection: Connection, dealer_id: str, lead_id: str, at: datetime) -> None:
    """Records a use of a lead's data: disposal by age counts from the last use."""
    connection.execute(TOUCH_LEAD, {"in_dealer": dealer_id, "of_lead": lead_id, "at": at})


def grant(connection: Connection, cipher: Cipher, dealer_id: str, lead_id: str, consent: ConsentRecord) -> int:
    """Adds the consent that came with a lead."""
    event = {
        "lead_id": lead_id,
        "kind": GRANTED,
        "at": consent.received_at,
        "granted_at": consent.granted_at,
        "expires_at": consent.expires_at,
        "channels": msgspec.json.encode(consent.channels),
        "purpose": consent.purpose,
    }
    body = _Body(
        salt=_salt(),
        text=consent.consent_text,
        request_hash=consent.request_hash,
        customer=consent.customer,
        scope=consent.scope,
        agent=consent.source_agent,
        token=consent.token_id,
    )
    return append(connection, cipher, dealer_id, event, msgspec.msgpack.encode(body))


def record_revocation(
    connection: Connection,
    cipher: Cipher,
    dealer_id: str,
    lead_id: str,
    channels: Sequence[str],
    at: datetime,
    *,
    by: str,
    reason: str | None,
    kind: str = REVOKED,
    known_by: tuple[str, ...] = KNOWN_BY,
) -> int:
    """Adds an event that a customer withdrew consent for these channels, which are not used from then on.

    It also counts for later leads with one of the `contact_points_of` this one, and outlives it
    (`storage.withdrawals`). `by` is who noted it. Returns the event's number. Raises StorageError where there is no
    such lead.
    """
    note_withdrawal(connection, cipher, dealer_id, lead_id, channels, at, known_by)
    return repeat_revocation(connection, cipher, dealer_id, lead_id, channels, at, by=by, reason=reason, kind=kind)


def repeat_revocation(
    connection: Connection,
    cipher: Cipher,
    dealer_id: str,
    lead_id: str,
    channels: Sequence[str],
    at: datetime,
    *,
    by: str,
    reason: str | None,
    kind: str = REVOKED,
) -> int:
    """Adds an earlier withdrawal of its customer to a lead. It does not change the time of the withdrawal."""
    event = _plain_event(lead_id, kind, at) | {"channels": msgspec.json.encode(tuple(channels))}
    body = _Body(salt=_salt(), by=by, reason=reason)
    return append(connection, cipher, dealer_id, event, msgspec.msgpack.encode(body))


def is_same_consent(event: ConsentEvent, consent: ConsentRecord) -> bool:
    """Whether an event already records this consent: agents send the same one with every request."""
    same = ("granted_at", "expires_at", "channels", "scope", "purpose", "consent_text", "customer", "token_id")
    return (
        event.kind == GRANTED
        and event.agent == consent.source_agent
        and all(getattr(event, name) == getattr(consent, name) for name in same)
    )


def forget_consents(
    connection: Connection, cipher: Cipher, dealer_id: str, lead_id: str, at: datetime, kind: str
) -> int:
    """Deletes the texts of a lead's events, and adds an event about it (`kind`); the number of texts."""
    dropped = connection.execute(DROP_BODIES, {"in_dealer": dealer_id, "of_lead": lead_id}).rowcount
    if dropped:
        note_forgotten(connection, cipher, dealer_id, lead_id, at, kind)
    return dropped


def note_forgotten(
    connection: Connection, cipher: Cipher, dealer_id: str, lead_id: str, at: datetime, kind: str
) -> None:
    """Adds an event that the texts of a lead's events were deleted or moved: `kind` is one of FORGOTTEN."""
    append(connection, cipher, dealer_id, _plain_event(lead_id, kind, at))


def consents_of(connection: Connection, cipher: Cipher, dealer_id: str, lead_id: str) -> tuple[ConsentEvent, ...]:
    """A lead's events, oldest first."""
    return consents_in(cipher, READ_EVENTS.read(connection, {"dealer_id": dealer_id, "lead_id": lead_id}))


def consents_in(cipher: Cipher, rows: Iterable[Any]) -> tuple[ConsentEvent, ...]:
    """The events in rows of READ_EVENTS."""
    return tuple(_event(cipher, row) for row in rows)


def allowed_channels(connection: Connection, dealer_id: str, lead_id: str, now: datetime) -> frozenset[str]:
    """The channels by which the customer may be contacted now, by `channels_allowed`."""
    found = connection.execute(READ_CHANNELS, {"dealer_id": dealer_id, "lead_id": lead_id})
    events = (_Agreed(row.kind, row.at, row.granted_at, row.expires_at, _words(row.channels)) for row in found)
    return channels_allowed(events, now)


def channels_allowed(events: Iterable[ConsentEvent | _Agreed], now: datetime) -> frozenset[str]:
    """The channels that a lead's consent events, oldest first, allow now.

    A channel is allowed when it was granted, unless the grant has expired or the channel was revoked afterwards. A
    consent that was given after the revocation allows it again. A consent from before it, which an agent sends once
    more, does not.
    """
    allowed: set[str] = set()
    revoked_at: dict[str, datetime] = {}
    for event in events:
        if event.kind == GRANTED:
            if event.expires_at is None or event.expires_at > now:
                assert event.granted_at is not None, "a grant has a time"
                for channel in event.channels:
                    if channel not in revoked_at or event.granted_at > revoked_at[channel]:
                        allowed.add(channel)
        elif event.kind in (REVOKED, REVOKED_ELSEWHERE):
            allowed.difference_update(event.channels)
            revoked_at.update(dict.fromkeys(event.channels, event.at))
        else:
            allowed.clear()
    return frozenset(allowed)


def verify_chain(
    connection: Connection, cipher: Cipher, dealer_id: str, recorded: Mapping[int, bytes] | None = None
) -> ChainReport:
    """Checks every event of a dealer's chain, and its end; `recorded` are hashes of heads by their number.

    Finds changed, added, missing, removed and swapped events, texts and proofs that were changed or dropped without an
    erasure, and a chain that was written anew without the key. Only recorded heads show that the newest events were
    removed together with the end in the dealer's row, or that the whole database was put back.
    """
    recorded = recorded or {}
    end = ChainEnd(0, NOTHING_BEFORE)
    erased = 0
    forgotten_at: dict[str, int] = {}
    for row in connection.execute(READ_CHAIN, {"dealer_id": dealer_id}):
        problem = _problem(cipher, row, end, recorded)
        if problem is not None:
            return ChainReport(end.events, erased, end.events + 1, problem)
        end = ChainEnd(row.number, row.hash)
        if row.kind in (ERASED, DISPOSED):
            forgotten_at.pop(row.lead_id, None)
        elif row.kind != KEPT_AS_PROOF and row.body is None:
            erased += 1
            if row.proof is None:
                forgotten_at.setdefault(row.lead_id, row.number)
    if forgotten_at:
        problem = "its text is gone, and no erasure of its lead follows"
        return ChainReport(end.events, erased, min(forgotten_at.values()), problem)
    problem = _problem_at_end(connection, cipher, dealer_id, end, recorded)
    return ChainReport(end.events, erased, None if problem is None else end.events + 1, problem)


def _problem(cipher: Cipher, row: Row[Any], before: ChainEnd, recorded: Mapping[int, bytes]) -> str | None:
    """What is wrong with the event after `before`."""
    if wrong := link_problem(row, before, recorded):
        return wrong
    try:
        body = opened_body(cipher, row)
    except UnknownKey as problem:
        return f"its text is sealed with the key {problem.key_id}, which is not among the keys here"
    except DecryptionFailed:
        return "its text was changed"
    if body is None or commitment(body) == row.commitment:
        return None
    return "its text is not the one that the chain was made with"


def opened_body(cipher: Cipher, row: Row[Any]) -> bytes | None:
    """The body of a row of READ_CHAIN; None where it is deleted. Raises UnknownKey and DecryptionFailed."""
    if row.body is not None:
        return cipher.open(row.body, *body_context(row.dealer_id, row.number))
    return None if row.proof is None else cipher.open(row.proof, *proof_context(row.dealer_id, row.number))


def proof_context(dealer_id: str, number: int) -> tuple[str, ...]:
    """What the seal of a body that is kept apart is bound to."""
    return "consent_proofs", "body", dealer_id, str(number)


def _problem_at_end(
    connection: Connection, cipher: Cipher, dealer_id: str, end: ChainEnd, recorded: Mapping[int, bytes]
) -> str | None:
    """What is wrong with the end of a chain whose events are all sound."""
    if problem := end_problem(connection, cipher, dealer_id, end, recorded):
        return problem
    lead_id = connection.execute(FIND_LEAD_WITHOUT_CONSENT, {"dealer_id": dealer_id}).scalar()
    return None if lead_id is None else f"the lead {lead_id} has no event in the chain"


def _plain_event(lead_id: str, kind: str, at: datetime) -> dict[str, Any]:
    return {
        "lead_id": lead_id,
        "kind": kind,
        "at": at,
        "granted_at": None,
        "expires_at": None,
        "channels": b"[]",
        "purpose": "",
    }


def _salt() -> bytes:
    return secrets.token_bytes(SALT_BYTES)


def _words(document: bytes) -> tuple[str, ...]:
    return msgspec.json.decode(document, type=tuple[str, ...])


def _event(cipher: Cipher, row: Any) -> ConsentEvent:
    body = None if row.body is None else cipher.open(row.body, *body_context(row.dealer_id, row.number))
    return event_of(row._asdict(), body)


def event_of(row: Mapping[str, Any], body: bytes | None) -> ConsentEvent:
    """An event from its columns and its opened body."""
    said = _Body(b"") if body is None else msgspec.msgpack.decode(body, type=_Body)
    return ConsentEvent(
        number=row["number"],
        kind=row["kind"],
        at=row["at"],
        lead_id=row["lead_id"],
        granted_at=row["granted_at"],
        expires_at=row["expires_at"],
        channels=_words(row["channels"]),
        scope=said.scope,
        purpose=row["purpose"],
        agent=said.agent,
        consent_text=said.text,
        request_hash=said.request_hash,
        customer=said.customer,
        by=said.by,
        reason=said.reason,
        token_id=said.token,
    )
