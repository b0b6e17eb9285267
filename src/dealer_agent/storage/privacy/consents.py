"""Stores consent and its withdrawal (docs/protocol.md#consent).

Events are only added, to the dealer's hash chain (`event_chain`). The caller of a function that adds one holds
the dealer's lock.
"""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import bindparam, exists, select, update

from dealer_agent.encryption.errors import DecryptionFailed, UnknownKey
from dealer_agent.leads.consent_events import (
    DISPOSED,
    ERASED,
    GRANTED,
    REFUSED,
    WITHDRAWN,
    ChannelEvent,
    ConsentEvent,
    ConsentRecord,
    channels_allowed,
    without_refused,
)
from dealer_agent.storage.leads.prepared_statements import Prepared
from dealer_agent.storage.privacy.event_chain import (
    BODY,
    CONSENTS,
    ChainReport,
    append,
    check_rows,
    commitment,
    end_problem,
)
from dealer_agent.storage.privacy.withdrawals import CONTACT_POINTS, NO_CONTACTS, record_withdrawal
from dealer_agent.storage.schema import consent_events, consent_proofs, leads
from dealer_agent.storage.statements import of_dealer, of_lead, of_leads, rows_of, same_lead
from dealer_agent.storage.transaction import Transaction

SALT_BYTES = 32

REVOKED_BEFORE = "revoked on another lead after this consent was given"
"""The reason of an event that repeats a withdrawal."""


class _Body(Struct, omit_defaults=True, rename={"consent_text": "text"}):
    """The encrypted part of an event."""

    salt: bytes
    consent_text: str | None = None
    request_hash: bytes | None = None
    customer: bytes | None = None
    by: str | None = None
    reason: str | None = None
    scope: tuple[str, ...] = ()
    agent: str | None = None
    caller: str | None = None


EVENTS_OF_DEALER = select(consent_events).where(of_dealer(consent_events))

READ_EVENTS = Prepared(
    EVENTS_OF_DEALER.where(consent_events.c.lead_id == bindparam("of_lead")).order_by(consent_events.c.number)
)

READ_CHANNELS = rows_of(consent_events, ChannelEvent, lead_id="of_lead").order_by(consent_events.c.number)

# `proof` is the body of an event whose customer is erased, if it was kept as proof.
_WITH_PROOFS = select(consent_events, consent_proofs.c.body.label("proof")).outerjoin_from(
    consent_events,
    consent_proofs,
    (consent_proofs.c.dealer_id == consent_events.c.dealer_id) & (consent_proofs.c.number == consent_events.c.number),
)

READ_CHAIN = (
    _WITH_PROOFS.where(of_dealer(consent_events)).order_by(consent_events.c.number).execution_options(yield_per=500)
)

# Without ORDER BY: with it, SQLite reads the whole chain.
READ_EVENTS_WITH_PROOFS = _WITH_PROOFS.where(of_leads(consent_events))

FIND_LEAD_WITHOUT_CONSENT = (
    select(leads.c.lead_id).where(of_dealer(leads), ~exists().where(same_lead(consent_events, leads))).limit(1)
)

DELETE_BODIES = (
    update(consent_events).where(of_lead(consent_events), consent_events.c.body.is_not(None)).values(body=None)
)

TOUCH_LEAD = update(leads).where(of_lead(leads), leads.c.used_at < bindparam("at")).values(used_at=bindparam("at"))


def record_consent(tx: Transaction, lead_id: str, consent: ConsentRecord) -> None:
    """Adds a new consent of the customer of an earlier lead. Raises StorageError if there is no such lead."""
    grant(tx, lead_id, consent)
    touch_lead(tx, lead_id, consent.received_at)


def touch_lead(tx: Transaction, lead_id: str, at: datetime) -> None:
    """Records a use of a lead's data: disposal by age counts from the last use."""
    tx.execute(TOUCH_LEAD, {"of_lead": lead_id, "at": at})


def grant(tx: Transaction, lead_id: str, consent: ConsentRecord) -> None:
    """Adds the consent that came with a lead."""
    event = _plain_event(tx, lead_id, GRANTED) | {
        "at": consent.received_at,
        "granted_at": consent.granted_at,
        "expires_at": consent.expires_at,
        "channels": msgspec.json.encode(consent.channels),
        "purpose": consent.purpose,
    }
    body = _Body(
        salt=secrets.token_bytes(SALT_BYTES),
        consent_text=consent.consent_text,
        request_hash=consent.request_hash,
        customer=consent.customer,
        scope=consent.scope,
        agent=consent.source_agent,
        caller=consent.caller,
    )
    append(tx, event, msgspec.msgpack.encode(body))


def record_withdrawal_event(
    tx: Transaction,
    lead_id: str,
    channels: Sequence[str],
    *,
    by: str,
    reason: str | None,
    kind: str = WITHDRAWN,
    known_by: tuple[str, ...] = CONTACT_POINTS,
) -> int:
    """Adds an event that a customer withdrew consent for these channels, which may not be used from now on.

    The withdrawal also applies to later leads with one of the contact points of this lead, even after this lead is
    erased (`withdrawals`). `by` is who recorded it. Returns the event's number. Raises StorageError if there is
    no such lead.
    """
    contacts = record_withdrawal(tx, lead_id, channels, known_by)
    return repeat_withdrawal_event(tx, lead_id, channels, by=by, reason=reason, kind=kind, contacts=contacts)


def repeat_withdrawal_event(
    tx: Transaction,
    lead_id: str,
    channels: Sequence[str],
    *,
    by: str,
    reason: str | None,
    kind: str = WITHDRAWN,
    contacts: str = NO_CONTACTS,
) -> int:
    """Adds an earlier withdrawal of the customer to a lead. It does not change the time of the withdrawal."""
    event = _plain_event(tx, lead_id, kind) | {"channels": msgspec.json.encode(tuple(channels)), "purpose": contacts}
    body = _Body(salt=secrets.token_bytes(SALT_BYTES), by=by, reason=reason)
    return append(tx, event, msgspec.msgpack.encode(body))


def refuse_consents(tx: Transaction, lead_id: str, since: datetime, *, by: str, reason: str) -> None:
    """Adds an event that a person refused the consents of a lead that were recorded at `since` or later, if any were.

    It is no withdrawal of the customer: it applies to nothing else, and no sender learns of it.
    """
    standing = without_refused(channel_events(tx, lead_id))
    if any(event.kind == GRANTED and event.at >= since for event in standing):
        event = _plain_event(tx, lead_id, REFUSED) | {"granted_at": since}
        append(tx, event, msgspec.msgpack.encode(_Body(salt=secrets.token_bytes(SALT_BYTES), by=by, reason=reason)))


def erase_consents(tx: Transaction, lead_id: str, kind: str) -> int:
    """Deletes the texts of a lead's events, and adds an event about it (`kind`). Returns the number of texts."""
    deleted = tx.execute(DELETE_BODIES, {"of_lead": lead_id}).rowcount
    if deleted:
        record_erasure(tx, lead_id, kind)
    return deleted


def record_erasure(tx: Transaction, lead_id: str, kind: str) -> None:
    """Adds an event that the texts of a lead's events were deleted or moved: `kind` is one of ERASURES."""
    append(tx, _plain_event(tx, lead_id, kind))


def consents_of(tx: Transaction, lead_id: str) -> tuple[ConsentEvent, ...]:
    """A lead's events, oldest first."""
    return consents_in(tx, READ_EVENTS.read(tx, {"of_lead": lead_id}))


def consents_in(tx: Transaction, rows: Iterable[Any]) -> tuple[ConsentEvent, ...]:
    """The events in rows of READ_EVENTS."""
    bodies = ((row, None if row.body is None else tx.decrypt(row.body, BODY, str(row.number))) for row in rows)
    return tuple(event_of(row._asdict(), body) for row, body in bodies)


def allowed_channels(tx: Transaction, lead_id: str, at: datetime) -> frozenset[str]:
    """The channels by which the customer may be contacted at a time, by `channels_allowed`."""
    return channels_allowed(channel_events(tx, lead_id), at)


def channel_events(tx: Transaction, lead_id: str) -> list[ChannelEvent]:
    """The part of a lead's events that says which channels are allowed, oldest first. Needs no key."""
    rows = tx.execute(READ_CHANNELS, {"of_lead": lead_id})
    return [ChannelEvent(row.kind, row.at, row.granted_at, row.expires_at, _words(row.channels)) for row in rows]


class MissingTexts:
    """Finds texts that are gone although no erasure of their lead follows. It sees all events of leads in order."""

    def __init__(self) -> None:
        # By lead id, the number of its first event whose text is gone.
        self._first_of_lead: dict[str, int] = {}

    def see(self, event: Mapping[Any, Any], body: bytes | None) -> None:
        """Notes an event. `body` is None if it is neither in the chain nor kept as proof."""
        if event["kind"] in (ERASED, DISPOSED):
            self._first_of_lead.pop(event["lead_id"], None)
        elif event["commitment"] and body is None:
            self._first_of_lead.setdefault(event["lead_id"], event["number"])

    @property
    def first(self) -> int | None:
        """The number of the first event whose text is missing."""
        return min(self._first_of_lead.values(), default=None)


TEXT_MISSING = "its text is missing, although its lead was not erased"


def verify_chain(tx: Transaction, recorded: Mapping[int, bytes] | None = None) -> ChainReport:
    """Checks every event of the dealer's chain, and its end. `recorded` has recorded hashes by event number.

    Finds changed, added, missing, removed and swapped events, texts and proofs that were changed or deleted without an
    erasure, and a chain that was rewritten without the key. Only recorded heads show that the newest events were
    removed together with the end in the dealer's row, or that the whole database was restored.
    """
    recorded = recorded or {}
    erased, texts = 0, MissingTexts()

    def text_problem(row: Mapping[Any, Any]) -> str | None:
        """Why the text of an event does not fit the chain; None if it does. Notes erased and missing texts."""
        nonlocal erased
        try:
            body = decrypted_body(tx, row)
        except UnknownKey as problem:
            return f"its text is encrypted with the key {problem.key_id}, which is not among the keys here"
        except DecryptionFailed:
            return "its text was changed"
        if body is not None and commitment(body) != row["commitment"]:
            return "its text is not the one that the chain was made with"
        erased += bool(row["commitment"] and row["body"] is None)
        texts.see(row, body)
        return None

    end, problem = check_rows(tx.execute(READ_CHAIN).mappings(), CONSENTS, recorded, content_problem=text_problem)
    if problem is None and texts.first is not None:
        return ChainReport(end.rows, erased, texts.first, TEXT_MISSING)
    problem = problem or end_problem(tx, end, recorded)
    if problem is None and (lead_id := tx.execute(FIND_LEAD_WITHOUT_CONSENT).scalar()) is not None:
        problem = f"the lead {lead_id} has no event in the chain"
    return ChainReport(end.rows, erased, None if problem is None else end.rows + 1, problem)


def decrypted_body(tx: Transaction, row: Mapping[Any, Any]) -> bytes | None:
    """The body in a row of READ_CHAIN; None if it was deleted. Raises UnknownKey and DecryptionFailed."""
    if row["body"] is not None:
        return tx.decrypt(row["body"], BODY, str(row["number"]))
    return None if row["proof"] is None else tx.decrypt(row["proof"], consent_proofs.c.body, str(row["number"]))


def _plain_event(tx: Transaction, lead_id: str, kind: str) -> dict[str, Any]:
    """The columns of an event without a consent of its own."""
    return {
        "lead_id": lead_id,
        "kind": kind,
        "at": tx.now,
        "granted_at": None,
        "expires_at": None,
        "channels": b"[]",
        "purpose": "",
    }


def _words(document: bytes) -> tuple[str, ...]:
    return msgspec.json.decode(document, type=tuple[str, ...])


def event_of(row: Mapping[Any, Any], body: bytes | None) -> ConsentEvent:
    """An event from its columns and its decrypted body."""
    content = msgspec.structs.asdict(_Body(b"") if body is None else msgspec.msgpack.decode(body, type=_Body))
    del content["salt"]
    columns = {name: row[name] for name in ("number", "kind", "at", "lead_id", "granted_at", "expires_at")}
    # In other events, the column has the hashes of `storage.privacy.withdrawals`.
    purpose = row["purpose"] if row["kind"] == GRANTED else ""
    return ConsentEvent(**columns, **content, purpose=purpose, channels=_words(row["channels"]))
