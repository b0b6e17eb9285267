"""The official conformance suite of MCP (`@modelcontextprotocol/conformance`) against the running service.

`js/expected.yml` lists the scenarios that fail, with the reason of each. The suite reports one that passes as stale.
"""

import re
import subprocess
from pathlib import Path

import pytest
from tests.acceptance.running import Running
from tests.acceptance.test_javascript_client import installed

pytestmark = pytest.mark.outside_protocol("MCP")

JS = Path(__file__).with_name("js")
PASS = ["server-initialize", "ping", "tools-list", "server-sse-multiple-streams", "dns-rebinding-protection"]


@pytest.mark.soak
def test_all_scenarios_pass_that_need_no_test_tools(served: Running, tmp_path: Path) -> None:
    suite = "node_modules/@modelcontextprotocol/conformance/dist/index.js"
    done = subprocess.run(
        [installed(JS), "--import", "./node20.js", suite, "server", "--suite", "all", "--url", f"{served.url}/mcp",
         "--expected-failures", "expected.yml", "--output-dir", tmp_path],
        cwd=JS,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.findall(r"^✓ (\S+): [1-9]\d* passed, 0 failed", done.stdout, re.MULTILINE)
    assert passed == PASS, done.stdout
