"""Whatever happens to the conditions, to the processes and to the receivers, messages stay within the rule.

Several processes check one dealer. Each may be killed between any two of its transactions and requests.
"""

import asyncio
import os
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from itertools import pairwise
from random import Random

import pytest
from tests.alerts.watched import DAY, MINUTE, Watched, check_without_sending, claim_check, claim_messages, do_jobs
from tests.storage.calls import read
from tests.storage.samples import DEALER

from dealer_agent.alerts import checking
from dealer_agent.alerts.rules import MOST_CHANGES
from dealer_agent.delivery.attempt import NotDelivered
from dealer_agent.storage.alerts import Receiver, list_messages, waiting_document
from dealer_agent.storage.jobs import Job

pytestmark = pytest.mark.outside_protocol("alerts")

STEPS = int(os.environ.get("SOAK_CASES", "50"))
NOW = datetime(2026, 3, 2, 16, 0, tzinfo=UTC)


def test_messages_stay_within_the_rule_in_any_story(dealer: Watched) -> None:
    seed = Random().getrandbits(32)
    chance, draw = Random(seed), Random(seed + 1)
    dealer.mail.behaviour = dealer.hook.behaviour = lambda: draw.choice(("take", "take", "fail", "cut", "die"))
    for number in range(3):
        dealer.add_delivery(NOW, f"L{number}", f"crm-{number}")
    now = NOW
    try:
        for _ in range(STEPS):
            now += chance.choice((1, 5, 20, 240, 1500)) * MINUTE
            dealer.set_deliveries(state=chance.choice(("undeliverable", "sent")), settled_at=now)
            watch = dealer.watch()
            end = chance.choice(("whole", "whole", "whole", "claimed", "decided", "sent"))
            if end == "claimed":
                claim_check(dealer.store, DEALER, now)
            elif end == "whole":
                do_jobs(dealer.store, watch, now)
            elif check_without_sending(dealer.store, watch, now) and end == "sent":
                for job in claim_messages(dealer.store, DEALER, now):
                    # The process is killed before it can note that the message was sent.
                    asyncio.run(_try(dealer, watch, job))
        _check_rule(dealer)
    except AssertionError as failure:
        failure.add_note(f"seed {seed}")
        raise


async def _try(dealer: Watched, watch: checking.Watch, job: Job) -> None:
    receiver: Receiver = "mail" if job.kind == "alert mail" else "webhook"
    document = read(dealer.store, DEALER, waiting_document, job.subject, receiver)
    if document is not None and job.attempts <= checking.MOST_ATTEMPTS:
        with suppress(NotDelivered):
            await watch.receivers.send(receiver, job.subject, document, job.now)


def _check_rule(dealer: Watched) -> None:
    records = read(dealer.store, DEALER, list_messages, 10_000)
    made = {each.message_id: each for each in reversed(records)}
    digests = sorted(each.created_at for each in made.values() if each.kind == "digest")
    assert all(later - earlier >= DAY for earlier, later in pairwise(digests))
    changes = sorted(each.created_at for each in made.values() if each.kind == "change")
    assert all(sum(start <= at < start + DAY for at in changes) <= MOST_CHANGES for start in changes)
    arrived = Counter(str(mailed.message["Message-ID"]).strip("<>").partition("@")[0] for mailed in dealer.mail.taken)
    assert set(arrived) <= set(made), "no mail without a message"
    attempts = {each.message_id: each.attempts for each in records if each.receiver == "mail"}
    assert all(count <= attempts[message_id] <= checking.MOST_ATTEMPTS for message_id, count in arrived.items())
    starts: dict[str, list[str]] = {}
    for posted in dealer.posted():
        for entry in posted["data"]["started"]:
            starts.setdefault(entry["subject"], []).append(posted["timestamp"])
    for times in starts.values():
        found = sorted(map(datetime.fromisoformat, set(times)))
        assert all(later - earlier >= DAY for earlier, later in pairwise(found))
