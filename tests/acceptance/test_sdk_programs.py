"""The programs for the official SDKs on the page at `/docs`, as a reader copies them."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from tests.acceptance.conftest import Guarded
from tests.acceptance.running import Running
from tests.acceptance.test_javascript_client import JS, installed
from tests.server.pages.conftest import read_page, written

pytestmark = pytest.mark.outside_protocol("the HTML pages")

Run = Callable[[Path, str, dict[str, str]], subprocess.CompletedProcess[str]]


def program_of(url: str, caption: str) -> str:
    page = read_page(httpx.get(f"{url}/docs", timeout=120).text)
    (code,) = page.all(f"//section[@id='sdks']//figure[figcaption='{caption}']//pre/code")
    return written(code)


def in_python(folder: Path, program: str, more: dict[str, str]) -> subprocess.CompletedProcess[str]:
    path = folder / "program.py"
    path.write_text(program)
    return run(sys.executable, str(path), more=more)


def in_typescript(folder: Path, program: str, more: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Checks the types of the program, and runs what the compiler makes of it."""
    node = installed()
    (folder / "node_modules").symlink_to(JS / "node_modules")
    (folder / "program.mts").write_text(program)
    options = ("--strict", "--skipLibCheck", "--target", "esnext", "--module", "nodenext")
    compiled = run(
        str(node), str(JS / "node_modules/typescript/bin/tsc"), *options, str(folder / "program.mts"), more={}
    )
    assert compiled.returncode == 0, compiled.stdout + compiled.stderr
    return run(str(node), str(folder / "program.mjs"), more=more)


def in_javascript(folder: Path, program: str, more: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """The program has no annotations of types, so Node runs it as it is."""
    (folder / "node_modules").symlink_to(JS / "node_modules")
    (folder / "program.mjs").write_text(program)
    return run(str(installed()), str(folder / "program.mjs"), more=more)


def run(*command: str, more: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=os.environ | more, capture_output=True, text=True, check=False, timeout=300, cwd="/"
    )


@pytest.mark.parametrize(
    ("caption", "runs"), [("a2a-sdk", in_python), ("@a2a-js/sdk", in_typescript)], ids=["Python", "TypeScript"]
)
def test_a_program_of_the_page_prints_the_answers_and_says_what_is_wrong_with_a_request(
    service: Running, tmp_path: Path, caption: str, runs: Run
) -> None:
    program = program_of(service.url, caption)
    changed = program.replace('"price_max": 40000', '"price_max": "x", "colour": "red"')
    assert changed != program
    done = runs(tmp_path, changed, {})
    assert done.returncode == 0, done.stderr
    told = done.stdout + done.stderr
    assert "dealer.information.response" in told
    assert "Acceptance Motors North" in told
    assert "inventory.facets.response" in told
    assert "SCHEMA_VALIDATION_FAILED: 2 problems: /filters/colour: is not known here" in told
    assert "/filters/price_max: must be an integer" in told


@pytest.mark.parametrize(
    ("caption", "runs"), [("a2a-sdk", in_python), ("@a2a-js/sdk", in_javascript)], ids=["Python", "JavaScript"]
)
def test_where_a_token_is_needed_the_program_reads_it_from_the_environment(
    guarded: Guarded, tmp_path: Path, caption: str, runs: Run
) -> None:
    done = runs(tmp_path, program_of(guarded.url, caption), {"DEALER_AGENT_TOKEN": guarded.token})
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(".response") == 3
