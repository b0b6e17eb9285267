"""A terminal that closes stops the service as Ctrl-C does: nobody is refused half-way."""

import signal
from pathlib import Path

import pytest
from tests.acceptance.dealers import stocked_dealer
from tests.acceptance.raw import begun_upload, connect, read_to_the_end, search_body
from tests.acceptance.running import COMMAND, PATIENCE_SECONDS, eventually, serving

pytestmark = pytest.mark.outside_protocol("how the service stops")


@pytest.mark.parametrize("under_nohup", [False, True])
def test_a_request_under_way_is_answered_when_the_terminal_closes(tmp_path: Path, under_nohup: bool) -> None:
    content = search_body()
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN if under_nohup else signal.SIG_DFL)
    try:
        with serving(stocked_dealer(tmp_path / "store"), program=(COMMAND,)) as running:
            with begun_upload(running.url, content, *(["Connection: close"] if under_nohup else [])) as upload:
                upload.sendall(content[:40])
                running.signal(signal.SIGHUP)
                if not under_nohup:
                    eventually("it is about to stop", running.refuses_connections)
                upload.sendall(content[40:])
                assert read_to_the_end(upload)[0] == 200
            if under_nohup:
                connect(running.url).close()
            else:
                assert running.process.wait(PATIENCE_SECONDS) == 0
    finally:
        signal.signal(signal.SIGHUP, before)
