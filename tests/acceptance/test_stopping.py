"""A service that is told to stop answers what it has taken, refuses nobody half-way, and exits with 0."""

import signal
import sys
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest
from tests.acceptance.dealers import stocked_dealer
from tests.acceptance.raw import begun_upload, read_to_the_end, search_body
from tests.acceptance.running import PATIENCE_SECONDS, eventually, serving
from tests.acceptance.senders import Senders
from tests.storage.calls import list_leads, read

from dealer_agent.config import load_settings
from dealer_agent.storage.store import Store

pytestmark = pytest.mark.outside_protocol("how the service stops")


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.soak), 2])
def test_what_was_begun_before_the_stop_is_answered_and_what_was_stored_was_answered(
    tmp_path: Path, workers: int
) -> None:
    """Slow uploads get their whole answer after SIGTERM. Of the leads under way each is answered, or not kept."""
    folder = stocked_dealer(tmp_path / "store", "\n[service]\nrequest_timeout_seconds = 300\n")
    settings = load_settings(folder, {})
    content = search_body()
    with serving(folder, workers=workers) as running:
        uploads = [begun_upload(running.url, content) for _ in range(4)]
        for upload in uploads:
            upload.sendall(content[:40])
        senders = Senders(running.url, 4)
        senders.wait_for(21)
        running.signal(signal.SIGTERM)
        eventually("nobody new is let in", running.refuses_connections)
        senders.join()
        assert running.process.poll() is None, "it did not wait for the uploads"
        for upload in uploads:
            with upload:
                upload.sendall(content[40:])
                status, headers, told = read_to_the_end(upload)
            assert status == 200
            assert headers["connection"] == "close"
            assert told["message"]["parts"][0]["data"]["data"]["total"] == 3
        # At the end of the block the exit code is seen to be 0.
    with Store.open(settings.database_url, settings.cipher) as store:
        kept = {lead.lead_id for lead in read(store, settings.dealer.id, list_leads, 10**6)}
    assert kept == set(senders.answered.values())


WAITING = """
from dealer_agent.cli import main
from dealer_agent.server import connection

connection.LAST_REQUEST_SECONDS = 3600
main()
"""
"""The command with a service that keeps idle connections open for an hour when it stops."""


def test_a_request_that_was_on_its_way_at_the_stop_is_answered(tmp_path: Path) -> None:
    """As of a load balancer that uses an idle connection just before it sees the stop."""
    with serving(stocked_dealer(tmp_path / "store"), program=(sys.executable, "-c", WAITING)) as running:
        idle = [HTTPConnection("127.0.0.1", running.port, timeout=PATIENCE_SECONDS) for _ in range(3)]
        for connection in idle[:2]:
            assert status_and_header(connection) == (200, None)
        idle[2].connect()
        running.signal(signal.SIGTERM)
        eventually("nobody new is accepted", running.refuses_connections)
        for connection in idle:
            with closing(connection):
                assert status_and_header(connection) == (200, "close")


def status_and_header(connection: HTTPConnection) -> tuple[int, str | None]:
    """The status of a search on this connection, and the header Connection."""
    connection.request("POST", "/message:send", search_body(), {"Content-Type": "application/json"})
    with connection.getresponse() as got:
        got.read()
        return got.status, got.getheader("Connection")


def test_ctrl_c_stops_it_as_well_and_an_idle_connection_does_not_keep_it_from_stopping(tmp_path: Path) -> None:
    with (
        serving(stocked_dealer(tmp_path / "store")) as running,
        closing(HTTPConnection("127.0.0.1", running.port, timeout=PATIENCE_SECONDS)) as idle,
    ):
        assert status_and_header(idle) == (200, None)
        running.signal(signal.SIGINT)
        assert running.process.wait(PATIENCE_SECONDS) == 0
        assert "Aborted" not in running.stderr()
