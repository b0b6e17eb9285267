"""The jobs of alerts: checks of a dealer or of the operator, and messages."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from dealer_agent.alerts.checking import FIRST_PAUSE, LONGEST_PAUSE, Watch, run_check, send_message
from dealer_agent.alerts.watches import watch_of_dealer
from dealer_agent.jobs.loop import JobResult, Kind
from dealer_agent.open_installation import OpenInstallation
from dealer_agent.storage.alerts import ALERT_CHECK, MESSAGE_KINDS, Receiver
from dealer_agent.storage.isolation import ALL_DEALERS
from dealer_agent.storage.jobs import Job
from dealer_agent.storage.store import Store

CHECK_SECONDS = 60.0
"""How often the conditions of one dealer, and those of the operator, are checked."""
SECONDS_A_DEALER = 0.5
"""Checks of many dealers are spread, so that their cost stays bounded: 1,000 dealers are checked every 8 minutes."""
UNWATCHED_SECONDS = 3600.0
UNWATCHED_SECONDS_A_DEALER = 3.0
"""How soon a dealer without receivers of alerts is looked at again: after an hour, or later with many dealers."""
MOST_SENDING = 32
"""The most messages to each kind of receiver that a process sends at the same time. Those of the operator do not count.
Each receiver of a dealer gets its messages one after the other."""
LONGEST_CHECK_WAIT = timedelta(days=2)
"""A check that is due later was stored while the clock was wrong. The checks of 10,000 dealers without receivers are 8
hours apart."""


def alert_kinds(opened: OpenInstallation, watch: Watch | None) -> list[Kind]:
    """The kinds of jobs with which a process checks conditions and sends alerts.

    `watch` is that of the owner of the installation: of its only dealer, or of the operator. The watch of any other
    dealer is made from the dealer's settings.
    """

    def find_watch(owner: str) -> Watch | None:
        """The watch of a dealer id, or of ALL_DEALERS, which means the operator."""
        return watch if owner == opened.owner else watch_of_dealer(opened.settings_of(owner))

    return AlertJobs(opened.store, find_watch, opened.count).kinds


@dataclass(frozen=True)
class AlertJobs:
    """The alerts of the dealers of a process. `find_watch` makes the watch of an owner; None without receivers.

    It raises StorageError and SettingsError.
    """

    store: Store
    find_watch: Callable[[str], Watch | None]
    count_dealers: Callable[[], int] = lambda: 1

    @property
    def kinds(self) -> list[Kind]:
        """The kinds of jobs."""
        check = Kind(ALERT_CHECK, self._check, longest_wait=LONGEST_CHECK_WAIT, at_once=20, is_recurring=True)
        return [check, *(self._messages(receiver, name) for receiver, name in MESSAGE_KINDS.items())]

    async def _check(self, job: Job) -> JobResult:
        """Checks the conditions of an owner, and says when the next check is due.

        Without a watch, only looks again later.
        """
        watch = await asyncio.to_thread(self.find_watch, job.dealer_id)
        # The checks of the operator are not spread over time, because there is one operator.
        dealers = 0 if job.dealer_id == ALL_DEALERS else self.count_dealers()
        if watch is None:
            seconds = max(UNWATCHED_SECONDS, UNWATCHED_SECONDS_A_DEALER * dealers)
            return JobResult(job.now + timedelta(seconds=seconds))
        has_messages = await asyncio.to_thread(run_check, self.store, watch, job)
        seconds = max(CHECK_SECONDS, SECONDS_A_DEALER * dealers)
        return JobResult(job.now + timedelta(seconds=seconds), has_new_jobs=has_messages)

    def _messages(self, receiver: Receiver, name: str) -> Kind:
        """The kind of jobs that send messages to one kind of receiver."""

        async def send(job: Job) -> JobResult:
            watch = await asyncio.to_thread(self.find_watch, job.dealer_id)
            return await send_message(self.store, watch, receiver, job)

        return Kind(name, send, FIRST_PAUSE, LONGEST_PAUSE, longest_wait=2 * LONGEST_PAUSE, at_once=MOST_SENDING)
