"""The tutorial works: its files are written and its commands are run, in the order of the page."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest
from tests.acceptance.running import PATIENCE_SECONDS, environment, eventually, free_port

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text("utf-8")
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


def test_the_tutorial_brings_a_lead_into_a_crm(tmp_path: Path) -> None:
    """The blocks with a title are files, or commands of another terminal; the others run in the third terminal."""
    ports = {"8080": str(free_port()), "9000": str(free_port())}
    page = re.sub(r"\b(8080|9000)\b", lambda found: ports[found[0]], PAGE)
    env = environment({"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"})
    printed: list[str] = []
    with ExitStack() as terminals:
        for language, title, text in BLOCK.findall(page):
            match language, title:
                case "sh", "install":  # scripts/release installs the package into an empty environment.
                    continue
                case "sh", "":
                    done = subprocess.run(
                        ["sh", "-e", "-c", text], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
                    )
                    assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
                    assert '"error"' not in done.stdout
                    printed.append(done.stdout)
                case "sh", terminal:
                    terminals.enter_context(left_running(text.strip(), tmp_path, env, tmp_path / terminal))
                    url = f"http://127.0.0.1:{ports['8080' if 'serve' in text else '9000']}"
                    eventually(f"{terminal} listens", partial(_listens, url))
                case _:
                    (tmp_path / title).write_text(text, encoding="utf-8")
        crm = tmp_path / "first terminal"
        assert eventually("the CRM has the lead", lambda: "Is it still available?" in crm.read_text("utf-8"))
    search, lead, listed = printed[-3:]
    assert '"total":2' in search
    assert '"status":"received"' in lead
    assert "Jordan" in listed


def _listens(url: str) -> bool:
    return subprocess.run(["curl", "-sS", "-o", os.devnull, url], capture_output=True, check=False).returncode in (
        0,
        52,
    )


@pytest.mark.parametrize("title", ["install", "stock.csv", "crm.py", "first terminal", "second terminal"])
def test_the_tutorial_has_every_part(title: str) -> None:
    assert title in {found[1] for found in BLOCK.findall(PAGE)}
