"""Alerts: which conditions were observed, when they are checked next, and the messages about them.

One process at a time checks a dealer: it claims the check until it is due again. A claim is the time at which it ends.
`store_check` changes nothing if another process has claimed the check meanwhile.

A clock may be set back. So a time that is further in the future than it can be counts as past.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from sqlalchemy import bindparam, delete, func, insert, or_, select, update

from dealer_agent.protocol.ids import new_ulid
from dealer_agent.storage.columns import UtcTime
from dealer_agent.storage.schema import (
    alert_checks,
    alert_messages,
    alerts,
    key_copies,
    of_dealer,
    outbox,
    registered_dealers,
    upsert,
)
from dealer_agent.storage.transaction import InstallationTransaction, Transaction

LONGEST_PAUSE = timedelta(hours=2)
"""Every pause between two attempts to send a message is shorter."""

MessageKind = Literal["change", "digest", "test"]
Receiver = Literal["mail", "webhook"]
MessageState = Literal["waiting", "sent", "failed"]


class AlertState(NamedTuple):
    """A condition of a subject, such as a channel. The subject is empty if the condition has only one.

    `seen_at`: since when it is observed without a break. `cleared_at`: since when an open alert is not observed any
    more. The newest alert began at `started_at`; it is open while it has no `ended_at`. `reported_at` is the last
    message that names it. `start_reported`: a message named its start at once. `unreported` counts the starts and ends
    that no message has named. `amount` and `since` are facts for the message.
    """

    condition: str
    subject: str
    seen_at: datetime | None = None
    cleared_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    reported_at: datetime | None = None
    start_reported: bool = False
    unreported: int = 0
    amount: int | None = None
    since: datetime | None = None

    @property
    def is_open(self) -> bool:
        """Whether the alert has started and not ended."""
        return self.started_at is not None and self.ended_at is None


class CheckRecord(NamedTuple):
    """What the checks of a dealer remember. `failed_leads` counts since the last day without one."""

    digest_at: datetime | None
    lead_failed_at: datetime | None
    failed_leads: int


class NewMessage(NamedTuple):
    """A message, with a document for each receiver."""

    kind: MessageKind
    documents: Mapping[Receiver, bytes]


class DueMessage(NamedTuple):
    """A message that was claimed: send it now, then record the result. `attempts` counts this one too."""

    message_id: str
    receiver: Receiver
    attempts: int
    document: bytes


class MessageRecord(NamedTuple):
    """A message to a receiver, for a list."""

    message_id: str
    receiver: Receiver
    kind: MessageKind
    state: MessageState
    created_at: datetime
    attempts: int
    settled_at: datetime | None
    problem: str | None


class Backlog(NamedTuple):
    """Deliveries of one channel, and the oldest of their times."""

    rooftop: str
    channel: str
    deliveries: int
    oldest: datetime


_NOW, _LATEST = bindparam("now", type_=UtcTime), bindparam("latest", type_=UtcTime)

FIND_DUE_CHECKS = (
    select(registered_dealers.c.dealer_id, registered_dealers.c.settings_number)
    .join(alert_checks, alert_checks.c.dealer_id == registered_dealers.c.dealer_id, isouter=True)
    .where(
        registered_dealers.c.enabled,
        or_(alert_checks.c.due_at.is_(None), alert_checks.c.due_at <= _NOW, alert_checks.c.due_at > _LATEST),
    )
    .order_by(alert_checks.c.due_at, registered_dealers.c.dealer_id)
    .limit(bindparam("most"))
)

CLAIM_CHECK = upsert(
    alert_checks,
    "UPDATE SET due_at = excluded.due_at WHERE alert_checks.due_at <= :now OR alert_checks.due_at > :latest",
    _NOW,
    _LATEST,
).returning(alert_checks.c.digest_at, alert_checks.c.lead_failed_at, alert_checks.c.failed_leads)

CONFIRM_CLAIM = (
    update(alert_checks)
    .where(of_dealer(alert_checks), alert_checks.c.due_at == bindparam("claimed"))
    .values(digest_at=bindparam("last_digest"))
)

COUNT_FAILED_LEADS = upsert(
    alert_checks,
    "UPDATE SET lead_failed_at = excluded.lead_failed_at, failed_leads = excluded.failed_leads + "
    "CASE WHEN alert_checks.lead_failed_at > :quiet THEN alert_checks.failed_leads ELSE 0 END",
    bindparam("quiet", type_=UtcTime),
)

READ_ALERTS = (
    select(*(alerts.c[name] for name in AlertState._fields))
    .where(of_dealer(alerts))
    .order_by(alerts.c.condition, alerts.c.subject)
)

STORE_ALERT = upsert(alerts, "UPDATE SET " + ", ".join(f"{name} = excluded.{name}" for name in AlertState._fields[2:]))

DELETE_ALERT = delete(alerts).where(
    of_dealer(alerts), alerts.c.condition == bindparam("of_condition"), alerts.c.subject == bindparam("of_subject")
)

COUNT_CHANGES = select(func.count(alert_messages.c.message_id.distinct())).where(
    of_dealer(alert_messages), alert_messages.c.kind == "change", alert_messages.c.created_at > bindparam("from_time")
)

ADD_MESSAGE = insert(alert_messages)

FIND_DUE_MESSAGES = (
    select(*(alert_messages.c[name] for name in DueMessage._fields))
    .where(
        of_dealer(alert_messages),
        alert_messages.c.state == "waiting",
        or_(alert_messages.c.due_at <= _NOW, alert_messages.c.due_at > _LATEST),
    )
    .order_by(alert_messages.c.message_id)
    .limit(bindparam("most"))
)

_ONE_MESSAGE = (
    of_dealer(alert_messages),
    alert_messages.c.message_id == bindparam("of_message"),
    alert_messages.c.receiver == bindparam("of_receiver"),
    alert_messages.c.state == "waiting",
)

CLAIM_MESSAGE = (
    update(alert_messages)
    .where(*_ONE_MESSAGE, alert_messages.c.attempts == bindparam("before"))
    .values(attempts=alert_messages.c.attempts + 1, due_at=bindparam("next_due"))
)

NOTE_PROBLEM = update(alert_messages).where(*_ONE_MESSAGE).values(problem=bindparam("words"))

SETTLE_MESSAGE = (
    update(alert_messages)
    .where(*_ONE_MESSAGE)
    .values(state=bindparam("new_state"), settled_at=bindparam("at"), problem=bindparam("words"))
)

DELETE_OLD_MESSAGES = delete(alert_messages).where(
    of_dealer(alert_messages), alert_messages.c.created_at < bindparam("before")
)

READ_MESSAGES = (
    select(*(alert_messages.c[name] for name in MessageRecord._fields))
    .where(of_dealer(alert_messages))
    .order_by(alert_messages.c.message_id.desc(), alert_messages.c.receiver)
    .limit(bindparam("most"))
)

CONFIRM_COPY = upsert(key_copies, "UPDATE SET confirmed_at = excluded.confirmed_at")

READ_COPIES = select(key_copies.c.key_id, key_copies.c.confirmed_at).where(of_dealer(key_copies))

_CHANNEL = (outbox.c.rooftop, outbox.c.channel)

READ_OLD_WAITING = (
    select(*_CHANNEL, func.count(), func.min(outbox.c.created_at, type_=UtcTime))
    .where(of_dealer(outbox), outbox.c.state == "waiting", outbox.c.created_at <= bindparam("before"))
    .group_by(*_CHANNEL)
    .order_by(*_CHANNEL)
)

READ_PARKED = (
    select(*_CHANNEL, func.count(), func.min(outbox.c.settled_at, type_=UtcTime))
    .where(of_dealer(outbox), outbox.c.state == "parked")
    .group_by(*_CHANNEL)
    .order_by(*_CHANNEL)
)


def find_due_checks(tx: InstallationTransaction, now: datetime, longest: timedelta, most: int) -> list[tuple[str, int]]:
    """Up to `most` enabled dealers whose check is due, with the number of their settings, the longest overdue first.

    `longest` is the longest time of a claim.
    """
    sought = {"now": now, "latest": now + 2 * longest, "most": most}
    return [(row.dealer_id, row.settings_number) for row in tx.execute(FIND_DUE_CHECKS, sought)]


def claim_check(tx: Transaction, until: datetime, longest: timedelta | None = None) -> CheckRecord | None:
    """Claims the dealer's check if it is due. It is due again at `until`. None if it is not due now.

    `longest` is the longest time of a claim; by default it is that of this one.
    """
    latest = tx.now + 2 * (longest or until - tx.now)
    values = {"due_at": until, "now": tx.now, "latest": latest, "failed_leads": 0}
    row = tx.execute(CLAIM_CHECK, values).one_or_none()
    return None if row is None else CheckRecord(*row)


def count_failed_leads(tx: Transaction, count: int, quiet: timedelta) -> None:
    """Counts leads that failed now. The count starts again after a time `quiet` without one."""
    values = {"failed_leads": count, "lead_failed_at": tx.now, "due_at": tx.now, "quiet": tx.now - quiet}
    tx.execute(COUNT_FAILED_LEADS, values)


def read_alerts(tx: Transaction) -> list[AlertState]:
    """All that is remembered about the dealer's conditions."""
    return [AlertState(*row) for row in tx.execute(READ_ALERTS)]


def store_alert(tx: Transaction, state: AlertState) -> None:
    """Stores what is remembered about a condition of a subject."""
    tx.execute(STORE_ALERT, state._asdict())


def forget_alert(tx: Transaction, state: AlertState) -> None:
    """Deletes what is remembered about a condition of a subject."""
    tx.execute(DELETE_ALERT, {"of_condition": state.condition, "of_subject": state.subject})


def count_changes(tx: Transaction, since: datetime) -> int:
    """The messages about starts and ends that were made after a time."""
    return int(tx.execute(COUNT_CHANGES, {"from_time": since}).scalar_one())


def confirm_claim(tx: Transaction, claimed: datetime, digest_at: datetime | None) -> bool:
    """Whether the check is still claimed until `claimed`. Stores the time of the last digest. Locks the check."""
    return tx.execute(CONFIRM_CLAIM, {"claimed": claimed, "last_digest": digest_at}).rowcount == 1


def add_message(tx: Transaction, message: NewMessage) -> str:
    """Adds a message that is due now. Returns its id."""
    message_id = new_ulid()
    for receiver, document in message.documents.items():
        values = {
            "message_id": message_id,
            "receiver": receiver,
            "kind": message.kind,
            "state": "waiting",
            "created_at": tx.now,
            "due_at": tx.now,
            "attempts": 0,
            "document": document,
        }
        tx.execute(ADD_MESSAGE, values)
    return message_id


def due_messages(tx: Transaction, most: int) -> list[DueMessage]:
    """Up to `most` messages that are due, the oldest first, as they are before their next attempt."""
    sought = {"now": tx.now, "latest": tx.now + LONGEST_PAUSE, "most": most}
    return [DueMessage(*row) for row in tx.execute(FIND_DUE_MESSAGES, sought)]


def claim_message(tx: Transaction, message: DueMessage, next_at: datetime) -> DueMessage | None:
    """Claims a message of `due_messages`. Without a result it is due again at `next_at`. None if another process was
    first.
    """
    values = {"before": message.attempts, "next_due": next_at}
    if tx.execute(CLAIM_MESSAGE, _one(message) | values).rowcount != 1:
        return None
    return message._replace(attempts=message.attempts + 1)


def note_problem(tx: Transaction, message: DueMessage, problem: str) -> None:
    """Records why an attempt failed. Another one follows."""
    tx.execute(NOTE_PROBLEM, _one(message) | {"words": problem})


def settle_message(tx: Transaction, message: DueMessage, state: MessageState, problem: str | None) -> None:
    """Records that a message was sent, or that it is given up."""
    tx.execute(SETTLE_MESSAGE, _one(message) | {"new_state": state, "at": tx.now, "words": problem})


def delete_old_messages(tx: Transaction, before: datetime) -> None:
    """Deletes the messages that were made before a time."""
    tx.execute(DELETE_OLD_MESSAGES, {"before": before})


def list_messages(tx: Transaction, most: int) -> list[MessageRecord]:
    """The newest messages first, one record for each receiver."""
    return [MessageRecord(*row) for row in tx.execute(READ_MESSAGES, {"most": most})]


def confirm_copy(tx: Transaction, key_id: str) -> None:
    """Records that a person has a copy of a key."""
    tx.execute(CONFIRM_COPY, {"key_id": key_id, "confirmed_at": tx.now})


def confirmed_copies(tx: Transaction) -> dict[str, datetime]:
    """The keys of which a person has confirmed a copy, and when."""
    return {row.key_id: row.confirmed_at for row in tx.execute(READ_COPIES)}


def old_waiting(tx: Transaction, before: datetime) -> list[Backlog]:
    """The deliveries of each channel that wait since `before` or longer."""
    return [Backlog(*row) for row in tx.execute(READ_OLD_WAITING, {"before": before})]


def parked_deliveries(tx: Transaction) -> list[Backlog]:
    """The parked deliveries of each channel, and when the first was parked."""
    return [Backlog(*row) for row in tx.execute(READ_PARKED)]


def _one(message: DueMessage) -> dict[str, str]:
    return {"of_message": message.message_id, "of_receiver": message.receiver}
