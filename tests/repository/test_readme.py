"""The commands of the README work: they are run as they are written."""

import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from tests.acceptance.running import eventually, free_port, succeed_here

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")


def _blocks() -> list[list[str]]:
    """The shell blocks, as commands without their comments."""
    found = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    return [[line.partition("#")[0].strip() for line in block.splitlines() if line.strip()] for block in found]


def test_the_first_screen_has_the_two_commands() -> None:
    first_screen = README.splitlines()[:25]
    assert any(line.startswith("make demo") for line in first_screen)
    assert any(line.startswith("make test") for line in first_screen)
    assert _blocks()[0] == ["make demo", "make test"]


def test_the_first_screen_says_the_port_the_leads_and_the_time_of_the_tests() -> None:
    first_screen = "\n".join(README.splitlines()[:30])
    found = re.search(r"`make demo (DEMO_ARGS='(--port \d+)')`", first_screen)
    assert found is not None
    if (make := shutil.which("make")) is not None:
        asked = [make, "-n", "-C", str(ROOT), "demo", *shlex.split(found[1])]
        assert found[2] in subprocess.run(asked, check=True, capture_output=True, text=True).stdout
    assert "`demo-store/leads`" in first_screen
    assert re.search(r"about \d+ minutes on 2 free cores", first_screen)


@pytest.mark.parametrize("target", ["demo", "test-fast", "test", "check", "docs", "bench", "soak"])
def test_every_make_target_that_the_readme_names_exists(target: str) -> None:
    assert f"make {target}" in README
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)


def test_the_commands_for_your_own_store_work_in_order(tmp_path: Path) -> None:
    """The tutorial starts the same commands as processes, in the order of its page."""
    # The commands are typed in the folder of the source, and make a new one there.
    (tmp_path / "src").symlink_to(ROOT / "src")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"} | {"PATH": path}
    *commands, serve = _blocks()[1]
    for command in commands:
        program, *words = shlex.split(command)
        assert program == "dealer-agent"
        succeed_here(*words, cwd=tmp_path)
    port = free_port()
    server = subprocess.Popen([*shlex.split(serve), "--port", str(port)], cwd=tmp_path, env=env)
    try:
        assert b'"vehicles":354' in _ready(port)
    finally:
        server.terminate()
        assert server.wait(120) == 0


@pytest.mark.soak
def test_a_developer_of_a_buyer_agent_pastes_the_commands(tmp_path: Path) -> None:
    port, folder = free_port(), Path(sys.executable).parent
    url = f"http://127.0.0.1:{port}"
    blocks = re.findall(r"```sh\n(.*?)```", README.partition("## For buyer agents")[2].partition("\n## ")[0], re.DOTALL)
    find, ask, call, check = (
        block.replace("http://127.0.0.1:8080", url).replace(".venv/bin", str(folder)) for block in blocks
    )
    demo = subprocess.Popen([folder / "dealer-agent", "demo", "--port", str(port)], cwd=tmp_path)

    keyboard, terminal = pty.openpty()

    def pasted(block: str) -> str:
        done = subprocess.run(
            ["sh", "-e", "-c", block], cwd=tmp_path, stdin=terminal, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    try:
        _ready(port)
        assert re.search(r"\d{4} Honda \w+ \d+", pasted(find))
        os.write(keyboard, b"y\n")
        asked = pasted(ask)
        assert "Honda" in asked
        assert "The dealer has the lead" in asked
        assert re.search(r"\d+ vehicles match", pasted(call))
        pasted(check)
        assert "<html" in (tmp_path / "report.html").read_text("utf-8")
    finally:
        os.close(keyboard)
        os.close(terminal)
        demo.send_signal(signal.SIGINT)
        assert demo.wait(120) == 0


def _ready(port: int) -> bytes:
    """What /readyz says once the service is ready."""

    def ready() -> bytes | None:
        got = httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=60)
        return got.content if got.status_code == 200 else None

    return bytes(eventually("the service starts", ready))
