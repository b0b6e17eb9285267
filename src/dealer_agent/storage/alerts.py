"""Stores alerts: which conditions were observed, and the messages about them. Jobs check and send (`alerts.jobs`).

Also: of which keys a person has confirmed a copy.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from sqlalchemy import Integer, and_, bindparam, delete, func, insert, literal, select, update

from dealer_agent.feeds.files.checks import new_findings
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.storage.columns import UtcTime
from dealer_agent.storage.jobs import add_jobs
from dealer_agent.storage.schema import alert_checks, alert_messages, alerts, jobs, key_copies
from dealer_agent.storage.statements import of_dealer, rows_of, upsert
from dealer_agent.storage.stock.reading import ImportRecord, list_imports
from dealer_agent.storage.transaction import Transaction

MessageKind = Literal["change", "digest", "test"]
Receiver = Literal["mail", "webhook"]
MessageState = Literal["waiting", "sent", "failed"]

MOST_IMPORTS = 50
"""The newest imports in which the last one of each feed is looked for."""
ALERT_CHECK = "alert check"
"""The kind of the job that checks the conditions of an owner: a dealer, or ALL_DEALERS."""
MESSAGE_KINDS: Mapping[Receiver, str] = {"mail": "alert mail", "webhook": "alert webhook"}
"""The kinds of the jobs that send messages, by receiver. Their subject is the id of the message."""


class AlertState(NamedTuple):
    """A condition of a subject, such as a channel. The subject is empty if the condition has only one.

    `seen_at`: since when it is observed without a break. `cleared_at`: since when an open alert is not observed any
    more. The newest alert began at `started_at`; it is open while it has no `ended_at`. `reported_at` is the last
    message that names it. `start_reported`: a message named its start at once. `unreported` counts the starts and ends
    that no message has named. `amount`, `since` and `detail` are facts for the message: `detail` is the reason, in
    lines.
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
    detail: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """The condition and the subject: what identifies a state among those of its owner."""
        return self.condition, self.subject

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


READ_CHECK = rows_of(alert_checks, CheckRecord)

STORE_DIGEST = upsert(alert_checks, "UPDATE SET digest_at = excluded.digest_at")

TOUCH_CHECK = upsert(alert_checks, "UPDATE SET failed_leads = alert_checks.failed_leads")

COUNT_FAILED_LEADS = upsert(
    alert_checks,
    "UPDATE SET lead_failed_at = excluded.lead_failed_at, failed_leads = excluded.failed_leads + "
    "CASE WHEN alert_checks.lead_failed_at > :quiet THEN alert_checks.failed_leads ELSE 0 END",
    bindparam("quiet", type_=UtcTime),
)

READ_ALERTS = rows_of(alerts, AlertState).order_by(alerts.c.condition, alerts.c.subject)

STORE_ALERT = upsert(alerts, "UPDATE SET " + ", ".join(f"{name} = excluded.{name}" for name in AlertState._fields[2:]))

DELETE_ALERT = delete(alerts).where(of_dealer(alerts, condition="of_condition", subject="of_subject"))

COUNT_CHANGES = select(func.count(alert_messages.c.message_id.distinct())).where(
    of_dealer(alert_messages), alert_messages.c.kind == "change", alert_messages.c.created_at > bindparam("from_time")
)

ADD_MESSAGE = insert(alert_messages)

_WAITING_MESSAGE = (
    of_dealer(alert_messages, message_id="of_message", receiver="of_receiver"),
    alert_messages.c.state == "waiting",
)

READ_DOCUMENT = select(alert_messages.c.document).where(*_WAITING_MESSAGE)

NOTE_ATTEMPT = (
    update(alert_messages)
    .where(*_WAITING_MESSAGE)
    .values(
        state=bindparam("new_state"),
        settled_at=bindparam("at"),
        problem=bindparam("words"),
        attempts=bindparam("made", type_=Integer),
    )
)

DELETE_OLD_MESSAGES = delete(alert_messages).where(
    of_dealer(alert_messages), alert_messages.c.created_at < bindparam("before")
)

# The job of a message counts also the attempts whose process died.
READ_MESSAGES = (
    select(
        *(
            func.coalesce(jobs.c.attempts, alert_messages.c.attempts) if name == "attempts" else alert_messages.c[name]
            for name in MessageRecord._fields
        )
    )
    .join(
        jobs,
        and_(
            jobs.c.dealer_id == alert_messages.c.dealer_id,
            jobs.c.kind == literal("alert ").concat(alert_messages.c.receiver),
            jobs.c.subject == alert_messages.c.message_id,
        ),
        isouter=True,
    )
    .where(of_dealer(alert_messages))
    .order_by(alert_messages.c.message_id.desc(), alert_messages.c.receiver)
    .limit(bindparam("most"))
)

CONFIRM_COPY = upsert(key_copies, "UPDATE SET confirmed_at = excluded.confirmed_at")

READ_COPIES = select(key_copies.c.key_id, key_copies.c.confirmed_at).where(of_dealer(key_copies))


def read_check(tx: Transaction) -> CheckRecord:
    """What the checks of the dealer remember."""
    return tx.find(CheckRecord, READ_CHECK) or CheckRecord(None, None, 0)


def store_digest_time(tx: Transaction, digest_at: datetime | None) -> None:
    """Stores the time of the dealer's last digest."""
    tx.execute(STORE_DIGEST, {"digest_at": digest_at, "failed_leads": 0})


def count_failed_leads(tx: Transaction, count: int, quiet: timedelta) -> None:
    """Counts leads that failed now. The count starts again after a time `quiet` without one."""
    values = {"failed_leads": count, "lead_failed_at": tx.now, "quiet": tx.now - quiet}
    tx.execute(COUNT_FAILED_LEADS, values)


def check_that_writing_works(tx: Transaction) -> None:
    """Writes without a change: this fails on a full disk."""
    tx.execute(TOUCH_CHECK, {"failed_leads": 0})


def list_alerts(tx: Transaction) -> list[AlertState]:
    """The alerts that have started: first the open ones, then those that ended last."""
    states = [state for state in read_alerts(tx) if state.started_at is not None]
    return sorted(states, key=lambda state: (not state.is_open, -(state.ended_at or tx.now).timestamp()))


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


def add_message(tx: Transaction, message: NewMessage) -> None:
    """Adds a message, with a job for each receiver."""
    message_id = new_ulid()
    for receiver, document in message.documents.items():
        values = {
            "message_id": message_id,
            "receiver": receiver,
            "kind": message.kind,
            "state": "waiting",
            "created_at": tx.now,
            "attempts": 0,
            "document": document,
        }
        tx.execute(ADD_MESSAGE, values)
        add_jobs(tx, MESSAGE_KINDS[receiver], [message_id])


def waiting_document(tx: Transaction, message_id: str, receiver: Receiver) -> bytes | None:
    """The document of a message that waits; None if it does not wait."""
    document: bytes | None = tx.execute(READ_DOCUMENT, _message_of_receiver(message_id, receiver)).scalar()
    return document


def note_attempt(
    tx: Transaction, message_id: str, receiver: Receiver, state: MessageState, attempts: int, problem: str | None
) -> None:
    """Records the result of an attempt to send a message: it was sent, failed for good, or waits for another one."""
    values = {
        "new_state": state,
        "at": None if state == "waiting" else tx.now,
        "words": problem,
        "made": attempts,
    }
    tx.execute(NOTE_ATTEMPT, _message_of_receiver(message_id, receiver) | values)


def delete_old_messages(tx: Transaction, before: datetime) -> None:
    """Deletes the messages that were made before a time."""
    tx.execute(DELETE_OLD_MESSAGES, {"before": before})


def list_messages(tx: Transaction, most: int) -> list[MessageRecord]:
    """The newest messages first, one record for each receiver."""
    return [MessageRecord(*row) for row in tx.execute(READ_MESSAGES, {"most": most})]


def warned_imports(tx: Transaction, *, only_new: bool = False) -> dict[str | None, ImportRecord]:
    """The newest import of each feed, if the checks have warned about it. None is an import by a person, if it is the
    newest of all.

    `only_new`: without the warnings that the import before it had too (`new_findings`).
    """
    newest: dict[str | None, list[ImportRecord]] = {}
    for number, record in enumerate(list_imports(tx, MOST_IMPORTS)):
        if record.kind == "import" and (record.feed is not None or number == 0 or None in newest):
            newest.setdefault(record.feed, []).append(record)
    warned = {feed: records[0] for feed, records in newest.items()}
    if only_new:
        for feed, (record, *others) in newest.items():
            earlier = others[0].findings if others else ()
            warned[feed] = record._replace(findings=new_findings(record.findings, earlier))
    return {feed: record for feed, record in warned.items() if record.findings}


def confirm_key_copy(tx: Transaction, key_id: str) -> None:
    """Records that a person has a copy of a key."""
    tx.execute(CONFIRM_COPY, {"key_id": key_id, "confirmed_at": tx.now})


def confirmed_copies(tx: Transaction) -> dict[str, datetime]:
    """The keys of which a person has confirmed a copy, and when."""
    return {row.key_id: row.confirmed_at for row in tx.execute(READ_COPIES)}


def _message_of_receiver(message_id: str, receiver: Receiver) -> dict[str, str]:
    return {"of_message": message_id, "of_receiver": receiver}
