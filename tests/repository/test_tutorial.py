"""The tutorials work: their files are written and their commands are run, in the order of the page."""

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

import pytest
from tests.acceptance.running import PATIENCE_SECONDS, environment, eventually, free_port

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "tutorial.md").read_text("utf-8")
FIRST_HOUR = (DOCS / "first-hour.md").read_text("utf-8")
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)


@contextmanager
def left_running(command: str, folder: Path, env: dict[str, str], output: Path) -> Iterator[None]:
    """The command of a terminal that stays open."""
    with output.open("wb") as out:
        process = subprocess.Popen(["sh", "-c", f"exec {command}"], cwd=folder, env=env, stdout=out)
    try:
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


def follow(page: str, folder: Path, ports: tuple[str, ...]) -> list[str]:
    """Follows a page, with other ports. Returns what each block of commands printed.

    The blocks with a title are files, or commands of another terminal; the others run in the third terminal. The
    output of another terminal is in a file of its name. A block that lists the files of feeds runs until they are
    imported, as a person would look again.
    """
    chosen = {port: str(free_port()) for port in ports}
    page = re.sub(rf"\b({'|'.join(ports)})\b", lambda found: chosen[found[0]], page)
    env = environment({"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"})
    printed: list[str] = []

    def run(text: str) -> str:
        done = subprocess.run(
            ["sh", "-e", "-c", text], cwd=folder, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
        return done.stdout

    with ExitStack() as terminals:
        for language, title, text in BLOCK.findall(page):
            match language, title:
                case "sh", "install":  # scripts/release installs the package into an empty environment.
                    continue
                case "sh", "":
                    if "feeds files" in text:
                        eventually("the file is imported", lambda: re.search(r"stock\.csv.*imported", run(text)))  # noqa: B023
                    printed.append(run(text))
                    assert '"error"' not in printed[-1]
                case "sh", terminal:
                    terminals.enter_context(left_running(text.strip(), folder, env, folder / terminal))
                    if "serve" in text:
                        listening = [chosen[port] for port in ports if port in ("8080", "2222")]
                    else:
                        listening = [chosen[port] for port in ports if port in ("9000", "1025")]
                    for port in listening:
                        eventually(f"{terminal} listens", partial(_listens, int(port)))
                case _:
                    (folder / title).write_text(text, encoding="utf-8")
        first = folder / "first terminal"
        assert eventually("the receiver has the lead", lambda: "Is it still available?" in first.read_text("utf-8"))
    return printed


def test_the_tutorial_brings_a_lead_into_a_crm(tmp_path: Path) -> None:
    search, lead, listed = follow(PAGE, tmp_path, ("8080", "9000"))[-3:]
    assert '"total":2' in search
    assert '"status":"received"' in lead
    assert "Jordan" in listed


@pytest.mark.soak
@pytest.mark.skipif(shutil.which("sftp") is None, reason="GAP: sftp is missing (openssh-client)")
def test_the_first_hour_ends_with_a_restored_backup(tmp_path: Path) -> None:
    printed = follow(FIRST_HOUR, tmp_path, ("8080", "1025", "2222"))
    _, _, _, feed, lead, alert, _, doctor, restored = printed
    assert "imported" in feed
    assert "values_absent: photos" in feed
    assert '"status":"received"' in lead
    assert "owner@example.com" in alert
    assert "0 problems" in doctor
    assert "Jordan" in restored
    mails = (tmp_path / "first terminal").read_text("utf-8")
    assert all(f"To: {receiver}@example.com" in mails for receiver in ("sales", "owner"))


def _listens(port: int) -> bool:
    with closing(socket.socket()) as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("title", ["install", "stock.csv", "crm.py", "first terminal", "second terminal"])
def test_the_tutorial_has_every_part(title: str) -> None:
    assert title in {found[1] for found in BLOCK.findall(PAGE)}
