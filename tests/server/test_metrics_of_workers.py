"""The metrics of `dealer-agent serve` with several worker processes, which are killed and stopped."""

import os
import re
import signal
import socket
from pathlib import Path

import httpx
import pytest
from tests.acceptance.asking import ask, lead
from tests.acceptance.dealers import stocked_dealer
from tests.acceptance.running import PATIENCE_SECONDS, Running, eventually, free_port, serving, started

pytestmark = pytest.mark.outside_protocol("metrics")


def settings(port: int) -> str:
    return f"\n[metrics]\nenabled = true\nport = {port}\n"


def scraped(port: int) -> str:
    return httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_SECONDS).text


def value(port: int, line: str) -> float:
    """The value of a series, given as Prometheus shows it; 0 before its first value."""
    found = re.search(rf"^{re.escape(line)} (\S+)$", scraped(port), re.MULTILINE)
    return float(found[1]) if found else 0.0


def searches(port: int) -> float:
    return value(
        port, 'dealer_agent_requests_total{caller="anonymous",code="OK",dealer="acceptance",skill="inventory.search"}'
    )


def search(running: Running, times: int) -> None:
    for _ in range(times):
        assert ask(running.url, "inventory.search").status_code == 200


def test_the_counts_of_all_workers_are_one_whatever_happens_to_a_worker(tmp_path: Path) -> None:
    port = free_port()
    with serving(stocked_dealer(tmp_path / "store", settings(port)), workers=2) as running:
        eventually("both workers are seen", lambda: value(port, "dealer_agent_workers") == 2)
        search(running, 20)
        assert searches(port) == 20
        assert ask(running.url, "lead.submit", **lead()).status_code == 200
        cpu = value(port, "process_cpu_seconds_total")
        assert cpu > 0

        first, *_ = running.workers()
        os.kill(first, signal.SIGSTOP)
        try:
            assert searches(port) == 20, "it keeps its last counts"
            assert value(port, "dealer_agent_workers") == 2
        finally:
            os.kill(first, signal.SIGKILL)
        eventually("it has ended", lambda: first not in running.workers())
        assert searches(port) == 20
        assert value(port, 'dealer_agent_leads_total{dealer="acceptance",result="accepted"}') == 1
        assert value(port, "process_cpu_seconds_total") >= cpu
        eventually("another has started", lambda: value(port, "dealer_agent_workers") == 2)
        search(running, 10)
        assert searches(port) == 30


def test_an_address_in_use_ends_the_command_with_the_setting_to_change(tmp_path: Path) -> None:
    port, said = free_port(), tmp_path / "said"
    folder = stocked_dealer(tmp_path / "store", settings(port))
    with socket.create_server(("127.0.0.1", port)):
        process = started(["serve", "--dir", str(folder), "--port", str(free_port())], tmp_path / "out", said)
        assert process.wait(PATIENCE_SECONDS) == 1
    message = (
        f"Cannot listen for metrics on 127.0.0.1:{port}: Address already in use. Change host or port under [metrics]"
    )
    assert message in " ".join(said.read_text("utf-8").split())
