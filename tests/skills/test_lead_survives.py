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

with open_sample_dealer(sys.argv[1]) as sample_dealer:
    answers = [sample_dealer.send(a_lead()), *sample_dealer.send_together([a_lead() for _ in range(20)])]
    for answer in answers:
        print(answer.data["lead_id"])
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.requirement("durable-before-answer")
def test_what_was_answered_outlives_the_process_that_answered_it(database_url: str) -> None:
    process = subprocess.run(
        [sys.executable, "-c", TAKES_A_LEAD_AND_DIES, database_url],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert process.returncode == -signal.SIGKILL, process.stderr
    answered = process.stdout.split()
    assert len(answered) == 21
    with Store.open(database_url, CIPHER) as store:
        assert {lead.lead_id for lead in read(store, "ridgeline", list_leads, 1000)} == set(answered)
