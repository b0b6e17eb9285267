"""SIGKILL while a vendor uploads a feed: no half file is imported, and a file that is sent again is imported once.

Only in `make soak`, `SOAK_KILLS` times in its long form.
"""

import asyncio
import json
import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import asyncssh
import pytest
from tests.acceptance.asking import asked
from tests.acceptance.dealers import generation, stocked_dealer, write_feed
from tests.acceptance.running import PATIENCE_SECONDS, Running, eventually, free_port, start, succeed_here
from tests.feeds.collection.uploading import PASSWORD, PASSWORD_HASH, USER
from tests.soak import soak_count

pytestmark = pytest.mark.outside_protocol("uploads of feeds by SFTP")

KILLS = soak_count("SOAK_KILLS", 1)
UNITS = 50


def receiving_dealer(folder: Path, port: int) -> Path:
    """A dealer whose vendor uploads to this port."""
    return stocked_dealer(
        folder,
        f"""
[sftp]
enabled = true
port = {port}
login_seconds = 600
idle_seconds = 3600

[[feeds]]
name = "{USER}"

[feeds.upload]
password_hash = "{PASSWORD_HASH}"
""",
        units=generation(0, UNITS),
    )


def upload(port: int, name: str, content: bytes, *, meanwhile: Callable[[int], None] = lambda sent: None) -> None:
    """Uploads a file in pieces. `meanwhile` gets the number of bytes that the server has confirmed."""

    async def run() -> None:
        connection = await asyncssh.connect(
            "127.0.0.1",
            port,
            username=USER,
            password=PASSWORD,
            client_keys=None,
            known_hosts=None,
            config=None,
            # The server may just start.
            login_timeout=3600,
        )
        async with connection, connection.start_sftp_client() as client:
            file = await client.open(f"{name}.tmp", "wb")
            for begin in range(0, len(content), 4096):
                await file.write(content[begin : begin + 4096], begin)
                await asyncio.to_thread(meanwhile, begin)
            await file.close()
            await asyncio.to_thread(meanwhile, len(content))
            await client.rename(f"{name}.tmp", name)

    asyncio.run(run())


def listening(running: Running) -> int:
    """The process id of the server for uploads, as soon as it runs."""

    def find() -> int | None:
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and _is_upload_process(entry, running.process.pid):
                return int(entry.name)
        return None

    if not Path("/proc/self").exists():
        pytest.skip("GAP: no /proc here, so the process cannot be found")
    found: int = eventually("the process for uploads runs", find)
    return found


def _is_upload_process(entry: Path, parent: int) -> bool:
    try:
        command, status = (entry / "cmdline").read_bytes(), (entry / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return b"upload_process" in command and int(status.rpartition(")")[2].split()[1]) == parent


def results(folder: Path) -> list[tuple[str, str]]:
    """The files that were taken, with their results, the oldest first."""
    files = json.loads(succeed_here("feeds", "files", "--dir", folder, "--json"))
    return [(each["name"], each["state"]) for each in reversed(files)]


def is_on_show(url: str, number: int) -> bool:
    """Whether all units on show are of this generation."""
    page = asked(url, "inventory.search", pagination={"limit": 100})
    return {vehicle["description"] for vehicle in page["vehicles"]} == {f"generation {number}"}


def is_empty(folder: Path) -> bool:
    """Whether a folder has no files."""
    return not any(folder.iterdir())


@pytest.mark.soak
def test_a_killed_upload_is_not_imported_and_the_file_that_is_sent_again_is_imported_once(tmp_path: Path) -> None:
    port = free_port()
    folder = receiving_dealer(tmp_path / "store", port)
    expected: list[tuple[str, str]] = []
    running = start(folder)
    try:
        for turn in range(KILLS):
            name = f"stock-{turn}.json"
            write_feed(folder / name, generation(turn + 1, UNITS))
            content = (folder / name).read_bytes()
            # In the middle of a file, at its end, and between these.
            kill_at = len(content) * (turn % 4 + 1) // 4
            process = listening(running)

            def kill(sent: int, kill_at: int = kill_at, process: int = process, running: Running = running) -> None:
                if sent >= kill_at:
                    os.kill(process, signal.SIGKILL)
                    running.kill_all()

            with pytest.raises((asyncssh.Error, OSError)):
                upload(port, name, content, meanwhile=kill)
            feed = folder / "feeds" / USER
            unfinished = [*feed.glob("incoming/.*.part"), *feed.glob("uploads/*.tmp")]
            assert unfinished, "it was killed too late"
            running = start(folder)
            assert results(folder) == expected
            listening(running)
            upload(port, name, content)
            expected.append((name, "imported"))
            eventually("the file has its result", lambda: results(folder) == expected)
            eventually("the stock is the new one", partial(is_on_show, running.url, turn + 1))
            for name in ("incoming", "uploads"):
                eventually("nothing is left", partial(is_empty, feed / name))
    finally:
        running.kill_all()


def test_the_server_for_uploads_starts_again_when_it_dies_and_stops_with_the_service(tmp_path: Path) -> None:
    port = free_port()
    folder = receiving_dealer(tmp_path / "store", port)
    write_feed(folder / "stock.json", generation(1, UNITS))
    content = (folder / "stock.json").read_bytes()
    running = start(folder)
    try:
        first = listening(running)
        os.kill(first, signal.SIGKILL)
        # The id of the new process, as soon as it is not that of the killed one.
        second = eventually("another process", lambda: (found := listening(running)) != first and found)
        upload(port, "stock.json", content)
        eventually("the file has its result", lambda: results(folder) == [("stock.json", "imported")])
        # It serves strangers, so it has no keys to customer data.
        environment = Path(f"/proc/{second}/environ").read_bytes()
        assert b"DEALER_AGENT_KEYS" not in environment
        running.signal(signal.SIGTERM)
        assert running.process.wait(PATIENCE_SECONDS) == 0, running.stderr()
        assert not Path(f"/proc/{second}").exists()
        assert "Traceback" not in running.stderr()
        assert "Fatal" not in running.stderr()
    finally:
        running.kill_all()
