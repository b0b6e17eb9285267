"""`dealer-agent demo`: the card's address and three commands that work when they are pasted into a shell."""

import json
import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.acceptance.running import COMMAND, PATIENCE_SECONDS, command_here, environment, eventually, free_port

pytestmark = pytest.mark.outside_protocol("the command `demo`")


def pasted(command_line: str) -> dict[str, Any]:
    """The data of the response that the command prints."""
    done = subprocess.run(["sh", "-c", command_line], capture_output=True, check=True, timeout=PATIENCE_SECONDS)
    data: dict[str, Any] = json.loads(done.stdout)["message"]["parts"][0]["data"]["data"]
    return data


def test_the_demo_prints_a_card_and_three_commands_that_work_when_pasted(tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("GAP: no curl here, so the demo's commands were not tried")
    port = free_port()
    said = tmp_path / "said"
    with said.open("wb") as out:
        # Another database in the environment, or another dealer's key, must not affect the demo.
        demo = subprocess.Popen(
            [COMMAND, "demo", "--dir", tmp_path / "demo-store", "--port", str(port)],
            env=environment(
                {"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none", "DEALER_AGENT_KEYS": f"k-other:{'A' * 43}"}
            ),
            stdout=out,
            stderr=subprocess.PIPE,
        )
    try:
        text = str(eventually("it says how to stop it", lambda: "Ctrl-C" in said.read_text() and said.read_text()))
        found = re.search(r"http://\S+/\.well-known/agent-card\.json", text)
        assert found is not None
        # The socket of the demo is open already. A request that comes too early waits there.
        card = httpx.get(found[0], timeout=PATIENCE_SECONDS).json()
        assert card["supportedInterfaces"][1]["url"] == f"http://127.0.0.1:{port}"

        commands = re.findall(r"^curl (?:.*\\\n)+.*$", text, re.MULTILINE)
        assert len(commands) == 3
        assert all(len(line.splitlines()) < 6 for line in commands), "a command is to be seen whole in a terminal"
        search, vehicle, lead = (pasted(line) for line in commands)
        assert len(search["vehicles"]) == 3
        assert search["total"] > 3
        assert vehicle["vin"]
        assert vehicle["price"]
        assert lead["status"] == "received"
        assert (tmp_path / "demo-store" / "dealer-agent.keys").stat().st_mode & 0o777 == 0o600
        assert lead["lead_id"] in command_here("leads", "list", "--dir", tmp_path / "demo-store").stdout
        leads = re.search(r"^Each lead is written to (\S+)\. ", text, re.MULTILINE)
        assert leads is not None
        assert eventually("the lead is a file", lambda: list(Path(leads[1]).glob("*.xml")))
    finally:
        demo.send_signal(signal.SIGINT)
        _, log = demo.communicate(timeout=PATIENCE_SECONDS)
    assert demo.returncode == 0
    assert b"Traceback" not in log


def test_the_demo_leaves_another_dealers_folder_alone(tmp_path: Path) -> None:
    (tmp_path / "dealer.toml").write_text('name = "Somebody else"')
    done = command_here("demo", "--dir", tmp_path, "--port", str(free_port()))
    assert done.returncode == 1
    assert "another dealer" in done.stderr
    assert (tmp_path / "dealer.toml").read_text() == 'name = "Somebody else"'
