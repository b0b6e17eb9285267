"""The process is killed just before it answers: the lead is stored (docs/protocol.md#durable-before-answer)."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.skills.sample_dealers import CIPHER
from tests.storage.calls import list_leads, read

from dealer_agent.storage.store import Store

ROOT = Path(__file__).parents[2]

TAKES_A_LEAD_AND_DIES = """
import os, signal, sys
from tests.skills.sample_dealers import a_lead, open_sample_dealer

with open_sample_dealer(sys.argv[1]) as sqlite, open_sample_dealer(sys.argv[2]) as postgresql:
    for dealer in (sqlite, postgresql):
        answers = [dealer.send(a_lead()), *dealer.send_together([a_lead() for _ in range(20)])]
        print(*(answer.data["lead_id"] for answer in answers))
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.requirement("durable-before-answer")
def test_what_was_answered_outlives_the_process_that_answered_it(sqlite_url: str, postgresql_url: str) -> None:
    process = subprocess.run(
        [sys.executable, "-c", TAKES_A_LEAD_AND_DIES, sqlite_url, postgresql_url],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert process.returncode == -signal.SIGKILL, process.stderr
    answered = [line.split() for line in process.stdout.splitlines()]
    assert [len(each) for each in answered] == [21, 21]
    for url, lead_ids in zip((sqlite_url, postgresql_url), answered, strict=True):
        with Store.open(url, CIPHER) as store:
            assert {lead.lead_id for lead in read(store, "ridgeline", list_leads, 1000)} == set(lead_ids)
