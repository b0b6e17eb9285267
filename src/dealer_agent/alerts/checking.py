"""One check of one dealer, or of what the dealers of an installation share: look, decide, store, and send what is due.

A check is claimed in the database, so one process of all machines does it at a time. What a check decides and its
messages are stored in one transaction. A process that dies before it has changed nothing; after it, another process
sends the messages.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import structlog

from dealer_agent.alerts import observing
from dealer_agent.alerts.conditions import CONDITIONS, begins_after
from dealer_agent.alerts.observing import PublicAddress
from dealer_agent.alerts.receivers import Receivers
from dealer_agent.alerts.rules import DAY, KEPT, Observation, Timing, check
from dealer_agent.config.alert_settings import AlertSettings
from dealer_agent.delivery.failures import NotDelivered
from dealer_agent.storage.alerts import (
    CheckRecord,
    DueMessage,
    add_message,
    claim_check,
    claim_message,
    confirm_claim,
    count_changes,
    delete_old_messages,
    due_messages,
    forget_alert,
    note_problem,
    read_alerts,
    settle_message,
    store_alert,
)
from dealer_agent.storage.isolation import ALL_DEALERS
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

log = structlog.get_logger()

MOST_ATTEMPTS = 12
"""After so many failed attempts a message is given up. That takes about 9 hours."""
FIRST_PAUSE = timedelta(minutes=3)
"""The pause after the first attempt: longer than an attempt takes. It doubles up to LONGEST_PAUSE."""
LONGEST_PAUSE = timedelta(hours=1)
MOST_DUE = 50
"""The most messages that one check sends."""


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

    @property
    def is_dealer(self) -> bool:
        """Whether it has the conditions of a dealer."""
        return self.owner != ALL_DEALERS

    def timing_of(self, condition: str) -> Timing:
        """How long a condition is observed before its alert starts, and not observed before it ends."""
        found = CONDITIONS[condition]
        return Timing(begins_after(found, self.settings), found.quiet)


def run_check(store: Store, watch: Watch, now: datetime, until: datetime, longest: timedelta | None = None) -> bool:
    """Checks the conditions of an owner at `now`, if its check is due. It is due again at `until`.

    `longest` is the longest time of a claim, as for `claim_check`. Returns whether this process did it. Raises
    StorageError.
    """
    started = time.monotonic()
    with store.write(watch.owner, now) as tx:
        record = claim_check(tx, until, longest)
    if record is None:
        return False
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
        return True
    with store.write(watch.owner, now) as tx:
        if not confirm_claim(tx, until, result.digest_at):
            return False
        for state in result.stored:
            store_alert(tx, state)
        for state in result.forgotten:
            forget_alert(tx, state)
        for message in result.messages:
            add_message(tx, watch.receivers.message(message, now))
            delete_old_messages(tx, now - KEPT)
    for state in result.stored:
        if now in (state.started_at, state.ended_at):
            words = "alert started" if state.is_open else "alert ended"
            log.warning(words, dealer=watch.owner, condition=state.condition, subject=state.subject)
    return True


def _observe_database(
    tx: Transaction, watch: Watch, record: CheckRecord
) -> Iterator[tuple[str, Sequence[Observation]]]:
    if watch.is_dealer:
        yield from observing.observe_dealer(tx, watch.settings, record).items()
    if watch.shares_machine:
        yield from observing.observe_keys(tx, watch.settings).items()
        yield from observing.observe_clock(tx, watch.settings).items()


async def send_due(store: Store, watch: Watch, now: datetime) -> int:
    """Sends the messages that are due at `now`. Returns the number of those that arrived. Raises StorageError.

    Each receiver gets its messages one after the other. A receiver that hangs does not delay the other one.
    """
    started = time.monotonic()

    async def send_each(messages: Iterable[DueMessage]) -> int:
        sent = 0
        for message in messages:
            # Claimed just before it is sent: the messages before it may have taken longer than a claim.
            at = now + timedelta(seconds=time.monotonic() - started)
            claimed = await asyncio.to_thread(_claim, store, watch, message, at)
            if claimed is not None:
                sent += await _send(store, watch, claimed, at)
        return sent

    by_receiver = defaultdict(list)
    for message in await asyncio.to_thread(_due, store, watch, now):
        by_receiver[message.receiver].append(message)
    return sum(await asyncio.gather(*map(send_each, by_receiver.values())))


async def _send(store: Store, watch: Watch, message: DueMessage, now: datetime) -> bool:
    try:
        await watch.receivers.send(message.receiver, message.message_id, message.document, now)
    except NotDelivered as failure:
        await asyncio.to_thread(_note_failure, store, watch, message, now, failure)
        return False
    await asyncio.to_thread(_settle, store, watch, message, now)
    return True


def pause_after(attempts: int) -> timedelta:
    """The pause after so many attempts."""
    doublings: int = 2 ** (attempts - 1)
    return min(LONGEST_PAUSE, FIRST_PAUSE * doublings)


def _due(store: Store, watch: Watch, now: datetime) -> list[DueMessage]:
    with store.read(watch.owner, now) as tx:
        return due_messages(tx, MOST_DUE)


def _claim(store: Store, watch: Watch, message: DueMessage, now: datetime) -> DueMessage | None:
    with store.write(watch.owner, now) as tx:
        if message.attempts >= MOST_ATTEMPTS:
            # The process of the last attempt died.
            settle_message(tx, message, "failed", "the result of the last attempt is unknown")
            return None
        return claim_message(tx, message, now + pause_after(message.attempts + 1))


def _settle(store: Store, watch: Watch, message: DueMessage, now: datetime) -> None:
    with store.write(watch.owner, now) as tx:
        settle_message(tx, message, "sent", None)


def _note_failure(store: Store, watch: Watch, message: DueMessage, now: datetime, failure: NotDelivered) -> None:
    gives_up = message.attempts >= MOST_ATTEMPTS
    log.error("alert not sent", dealer=watch.owner, to=message.receiver, problem=failure.problem, gives_up=gives_up)
    with store.write(watch.owner, now) as tx:
        if gives_up:
            settle_message(tx, message, "failed", failure.problem)
        else:
            note_problem(tx, message, failure.problem)
