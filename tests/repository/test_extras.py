"""What pip installs: a buyer gets the client library and its commands without the packages of the service."""

import re
import subprocess
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, requires

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from dealer_agent.cli import COMMANDS

pytestmark = pytest.mark.outside_protocol("packaging")

WITHOUT = """
import sys
from importlib.abc import MetaPathFinder

class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

absent = set(sys.argv.pop(1).split())
sys.meta_path.insert(0, Absent())
"""
"""The start of a program for which some packages are not installed."""


@cache
def installed(requirement: str) -> frozenset[str]:
    """The names of all distributions that pip installs for a requirement."""
    wanted = Requirement(requirement)
    own = frozenset({canonicalize_name(wanted.name)})
    try:
        needed = requires(wanted.name) or []
    except PackageNotFoundError:
        return own  # It is for another system.
    return own.union(*(installed(line) for line in needed if is_needed(Requirement(line), wanted.extras)))


def is_needed(inner: Requirement, extras: set[str]) -> bool:
    """Whether pip installs what a package requires, if it is asked for these extras of the package."""
    return inner.marker is None or any(inner.marker.evaluate({"extra": extra}) for extra in {"", *extras})


@cache
def owners() -> dict[str, set[str]]:
    """The distributions of each package that can be imported."""
    return {name: {canonicalize_name(each) for each in of} for name, of in packages_distributions().items()}


def run(requirement: str, program: str) -> subprocess.CompletedProcess[str]:
    """Runs a program with the packages of a requirement only."""
    present = installed(requirement)
    absent = [name for name, of in owners().items() if present.isdisjoint(of)]
    assert "sqlalchemy" in absent
    command = [sys.executable, "-c", f"{WITHOUT}\n{program}", " ".join(absent)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


MODULES = """
import importlib, pathlib, dealer_agent
folder = pathlib.Path(dealer_agent.__path__[0])
for file in folder.rglob("*.py"):
    name = ".".join(file.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")
    if any(name == part or name.startswith((part + ".", part + "_")) for part in {parts}):
        importlib.import_module("dealer_agent." + name)
print("imported")
"""
"""Imports these modules, and those below them or with their name as a prefix."""


@pytest.mark.parametrize("extra", ["", "check", "mcp", "signatures"])
def test_the_parts_for_buyers_need_no_package_of_the_service(extra: str) -> None:
    """A command imports most of its modules only when it runs, so all of them are imported here."""
    parts = {
        "": ["client.agent", "cli.ask", "cli.help"],
        "check": ["cli.check", "checker"],
        "mcp": ["cli.mcp", "mcp_tools", "leads.consent"],
        "signatures": ["client"],
    }[extra]
    program = MODULES.format(parts=parts)
    done = run(f"dealer-agent[{extra}]" if extra else "dealer-agent", program)
    assert (done.stdout, done.stderr) == ("imported\n", "")


CALLS = """
from dealer_agent.cli import app
for words in {calls}:
    print(*words, file=sys.stderr)
    try:
        app(words)
    except SystemExit as ended:
        print("exit", ended.code, file=sys.stderr)
"""


def test_the_help_works_without_the_packages_of_the_service() -> None:
    buyers = [name for name, row in COMMANDS.items() if not row.extra]
    done = run("dealer-agent", CALLS.format(calls=[["--help"], *([name, "--help"] for name in buyers)]))
    assert re.findall(r"^exit (\d+)", done.stderr, re.MULTILINE) == ["0"] * (1 + len(buyers)), done.stderr
    assert all(name in done.stdout for name in COMMANDS)


def test_a_command_names_the_pip_command_that_is_missing() -> None:
    lacking = [name for name, row in COMMANDS.items() if row.extra]
    calls = [
        [name, *(["list"] if COMMANDS[name].group else ["http://127.0.0.1:9"] if name == "mcp" else [])]
        for name in lacking
    ]
    done = run("dealer-agent", CALLS.format(calls=calls))
    assert "Traceback" not in done.stderr
    blocks = re.findall(r"^(.*)\nError: (.*)\nexit (\d+)$", done.stderr, re.MULTILINE)
    assert blocks == [
        (
            " ".join(call),
            f"dealer-agent {name} needs more packages: pip install 'dealer-agent[{COMMANDS[name].extra}]'",
            "1",
        )
        for name, call in zip(lacking, calls, strict=True)
    ]


def test_a_buyers_command_asks_a_dealer_without_the_packages_of_the_service() -> None:
    """Nothing listens at the port: the command says that, and misses no package."""
    done = run("dealer-agent", CALLS.format(calls=[["ask", "http://127.0.0.1:9", "search"]]))
    assert "cannot be reached" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_signer_names_the_extra_that_is_missing() -> None:
    program = "from dealer_agent.client import Signer\nSigner.from_file('agent.pem', 'https://agent.example')"
    done = run("dealer-agent", program)
    assert done.stderr.splitlines()[-1].endswith("pip install 'dealer-agent[signatures]'")
    assert "No such file" in run("dealer-agent[signatures]", program).stderr.splitlines()[-1]


def test_the_proof_of_a_quote_names_the_extra_that_is_missing() -> None:
    program = "from dealer_agent.client import verify_quote\nverify_quote({'quote_id': 'q', 'signature': 'x'}, {})"
    done = run("dealer-agent", program)
    assert done.stderr.splitlines()[-1].endswith("pip install 'dealer-agent[signatures]'")
    assert "QuoteNotVerified" in run("dealer-agent[signatures]", program).stderr.splitlines()[-1]
