"""The official JavaScript client, `@a2a-js/sdk`, in `js/client.test.js` (docs/protocol.md)."""

import os
import re
import shutil
import subprocess
from fcntl import LOCK_EX, flock
from pathlib import Path

import pytest
from tests.acceptance.conftest import Guarded
from tests.acceptance.dealers import HONDA_VIN
from tests.acceptance.running import Running

JS = Path(__file__).with_name("js")
CASES = 22
NO_NETWORK = re.compile(r"\b(?:EAI_AGAIN|ECONNREFUSED|ENETUNREACH|ENOTFOUND|ETIMEDOUT)\b")


def installed(folder: Path = JS) -> Path:
    """Node, with the packages of a folder installed as its lock file says."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("GAP: no node and npm here, so what needs them was not tried")
    lock, done = folder / "package-lock.json", folder / "node_modules" / ".package-lock.json"
    with lock.open() as held:
        # Of two test processes that come here at once, the second waits: `npm ci` first deletes what is there.
        flock(held, LOCK_EX)
        if not done.exists() or done.stat().st_mtime < lock.stat().st_mtime:
            quiet = ("--no-audit", "--no-fund", "--ignore-scripts")
            told = subprocess.run(
                [npm, "ci", *quiet], cwd=folder, capture_output=True, text=True, check=False, timeout=300
            )
            if told.returncode and (reason := NO_NETWORK.search(told.stderr)):
                pytest.skip(f"GAP: npm reaches no package registry here ({reason[0]}), so what needs it was not tried")
            assert told.returncode == 0, told.stdout + told.stderr
    return Path(node)


@pytest.mark.requirement("five-skills")
@pytest.mark.requirement("base-url-of-card")
def test_the_javascript_client_uses_all_skills_over_both_bindings(service: Running, guarded: Guarded) -> None:
    node = installed()
    done = subprocess.run(
        [node, "--test", "--test-reporter=tap", "client.test.js"],
        cwd=JS,
        env=os.environ
        | {"OPEN_URL": service.url, "GUARDED_URL": guarded.url, "TOKEN": guarded.token, "VIN": HONDA_VIN},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"^# pass (\d+)$", done.stdout, re.MULTILINE)
    assert passed is not None
    assert int(passed[1]) == CASES, done.stdout
