"""One check of the conditions of one owner, and one attempt to send a message. Both are jobs.

What a check decides and its messages are stored in one transaction, with the jobs that send them. A process that dies
before it has changed nothing; after it, another process sends the messages.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import structlog

from dealer_agent.alerts import observing
from dealer_agent.alerts.conditions import CONDITIONS, begins_after
from dealer_agent.alerts.observing import PublicAddress
from dealer_agent.alerts.observing_agents import observe_agents, quarantine_doubtful_agents
from dealer_agent.alerts.receivers import Receivers
from dealer_agent.alerts.rules import DAY, KEPT, Observation, Timing, check
from dealer_agent.config.agent_settings import AgentsSettings
from dealer_agent.config.alert_settings import AlertSettings
from dealer_agent.delivery.attempt import NotDelivered
from dealer_agent.jobs.loop import JobResult
from dealer_agent.storage.alerts import (
    CheckRecord,
    MessageState,
    Receiver,
    add_message,
    count_changes,
    delete_old_messages,
    forget_alert,
    note_attempt,
    read_alerts,
    read_check,
    store_alert,
    store_digest_time,
    waiting_document,
)
from dealer_agent.storage.isolation import ALL_DEALERS
from dealer_agent.storage.jobs import Job, hold_job
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

log = structlog.get_logger()

MOST_ATTEMPTS = 12
"""After so many failed attempts a message is given up. That takes about 9 hours."""
FIRST_PAUSE = timedelta(minutes=3)
"""The pause after the first attempt. It doubles up to LONGEST_PAUSE."""
LONGEST_PAUSE = timedelta(hours=1)


@dataclass(frozen=True)
class Watch:
    """What is checked for one owner: a dealer, or ALL_DEALERS for the operator of an installation.

    `shares_machine`: the conditions of the machine belong to this owner. `address` is checked if it is set.
    """

    owner: str
    settings: AlertSettings
    receivers: Receivers
    folder: Path
    shares_machine: bool
    address: PublicAddress | None = None
    agents: AgentsSettings = field(default_factory=AgentsSettings)

    @property
    def is_dealer(self) -> bool:
        """Whether it has the conditions of a dealer."""
        return self.owner != ALL_DEALERS

    def timing_of(self, condition: str) -> Timing:
        """How long a condition is observed before its alert starts, and not observed before it ends."""
        row = CONDITIONS[condition]
        return Timing(begins_after(row, self.settings), row.quiet)


def run_check(store: Store, watch: Watch, job: Job) -> bool:
    """Checks the conditions of an owner. Returns whether it made messages. Raises StorageError, also LeaseLost."""
    started, now = time.monotonic(), job.now
    with store.write(watch.owner, now) as tx:
        hold_job(tx, job)
        record = read_check(tx)
        if watch.is_dealer:
            for agent in quarantine_doubtful_agents(tx, watch.agents):
                log.warning("agent quarantined", dealer=watch.owner, agent=agent)
    with store.read(watch.owner, now) as tx:
        seen = dict(_observe_database(tx, watch, record))
        before, changes = read_alerts(tx), count_changes(tx, now - DAY)
    seconds = time.monotonic() - started
    if watch.shares_machine:
        seen |= observing.observe_speed(seconds, watch.settings)
        seen |= observing.observe_disk(watch.folder, watch.settings)
        if watch.address is not None and "public_address_failing" not in watch.settings.off:
            seen |= observing.observe_address(watch.address, watch.settings, now)
    result = check(
        [state for state in before if state.condition in CONDITIONS],
        seen,
        watch.timing_of,
        now=now,
        digest_at=record.digest_at,
        changes_today=changes,
        off=watch.settings.off,
    )
    if not (result.stored or result.forgotten or result.messages):
        return False
    with store.write(watch.owner, now) as tx:
        hold_job(tx, job)
        store_digest_time(tx, result.digest_at)
        for state in result.stored:
            store_alert(tx, state)
        for state in result.forgotten:
            forget_alert(tx, state)
        for message in result.messages:
            add_message(tx, watch.receivers.message(message, now))
        if result.messages:
            delete_old_messages(tx, now - KEPT)
    for state in result.stored:
        if now in (state.started_at, state.ended_at):
            words = "alert started" if state.is_open else "alert ended"
            log.warning(words, dealer=watch.owner, condition=state.condition, subject=state.subject)
    return bool(result.messages)


def _observe_database(
    tx: Transaction, watch: Watch, record: CheckRecord
) -> Iterator[tuple[str, Sequence[Observation]]]:
    """The observations that need the database, by condition: those of the dealer, and those of the machine."""
    if watch.is_dealer:
        yield from observing.observe_dealer(tx, watch.settings, record, watch.folder).items()
        yield from observe_agents(tx, watch.agents).items()
    if watch.shares_machine:
        yield from observing.observe_keys(tx, watch.settings).items()
        yield from observing.observe_clock(tx, watch.settings).items()
        yield from observing.observe_proxy(tx).items()


async def send_message(store: Store, watch: Watch | None, receiver: Receiver, job: Job) -> JobResult:
    """Sends the message of a job, and records the result. Raises StorageError.

    Without a watch, nobody gets alerts any more.
    """

    def note(state: MessageState, problem: str | None) -> None:
        with store.write(job.dealer_id, job.now) as tx:
            note_attempt(tx, job.subject, receiver, state, min(job.attempts, MOST_ATTEMPTS), problem)

    def read() -> bytes | None:
        with store.read(job.dealer_id, job.now) as tx:
            return waiting_document(tx, job.subject, receiver)

    document = await asyncio.to_thread(read)
    if document is None:
        return JobResult(None)
    if watch is None or job.attempts > MOST_ATTEMPTS:
        problem = "nobody gets alerts any more" if watch is None else "the result of the last attempt is unknown"
        await asyncio.to_thread(note, "failed", problem)
        return JobResult(None)
    try:
        await watch.receivers.send(receiver, job.subject, document, job.now)
    except NotDelivered as failure:
        gives_up = job.attempts >= MOST_ATTEMPTS
        log.error("alert not sent", dealer=watch.owner, to=receiver, problem=failure.problem, gives_up=gives_up)
        await asyncio.to_thread(note, "failed" if gives_up else "waiting", failure.problem)
        return JobResult(None, failed=not gives_up)
    await asyncio.to_thread(note, "sent", None)
    return JobResult(None)
