"""Message types are ready before threads decode them."""

import subprocess
import sys

import pytest
from tests.soak import SOAK

pytestmark = pytest.mark.outside_protocol("decoding in threads")

SCRIPT = """
import sys
import threading

import msgspec

from dealer_agent.bootstrap import prepare_message_types
from dealer_agent.protocol.skill import LeadSubmitRequest

prepare_message_types(msgspec.Struct)
sys.setswitchinterval(1e-6)
together = threading.Barrier(8)


def decode():
    together.wait()
    msgspec.convert({"customer": {"first_name": "Sam"}, "consent": {}}, LeadSubmitRequest)


threading.excepthook = lambda _: None
threads = [threading.Thread(target=decode) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_threads_that_decode_a_type_for_the_first_time_together_do_not_crash() -> None:
    for _ in range(3 if SOAK else 1):
        done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
