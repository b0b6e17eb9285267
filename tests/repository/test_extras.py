"""What pip installs: a buyer gets the client library and its commands without the packages of the service."""

import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, packages_distributions, requires

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from dealer_agent.cli import EXTRAS, GROUPS, HELP

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


def installed(requirement: str) -> Iterator[str]:
    """The names of all distributions that pip installs for a requirement."""
    wanted = Requirement(requirement)
    yield canonicalize_name(wanted.name)
    try:
        needed = requires(wanted.name) or []
    except PackageNotFoundError:
        return  # It is for another system.
    for line in needed:
        inner = Requirement(line)
        if inner.marker is None or any(inner.marker.evaluate({"extra": extra}) for extra in {"", *wanted.extras}):
            yield from installed(line)


def run(requirement: str, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a program with the packages of a requirement only."""
    present = set(installed(requirement))
    owners = {name: {canonicalize_name(each) for each in of} for name, of in packages_distributions().items()}
    absent = [name for name, of in owners.items() if present.isdisjoint(of)]
    assert "sqlalchemy" in absent
    command = [sys.executable, "-c", f"{WITHOUT}\n{program}", " ".join(absent), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def command(requirement: str, *words: str) -> subprocess.CompletedProcess[str]:
    return run(requirement, "sys.argv[0] = 'dealer-agent'; from dealer_agent.cli import main; main()", *words)


def test_the_client_library_needs_no_package_of_the_service() -> None:
    done = run("dealer-agent", "import dealer_agent.client; print('imported')")
    assert (done.stdout, done.stderr) == ("imported\n", "")


@pytest.mark.parametrize("name", [name for name in HELP if EXTRAS[name] != "server"])
def test_a_command_of_a_buyer_works_without_the_packages_of_the_service(name: str) -> None:
    extra = EXTRAS[name]
    done = command(f"dealer-agent[{extra}]" if extra else "dealer-agent", name, "--help")
    assert done.returncode == 0, done.stderr
    assert f"dealer-agent {name}" in done.stdout


def test_the_help_lists_all_commands_without_the_packages_of_the_service() -> None:
    done = command("dealer-agent", "--help")
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in HELP)


@pytest.mark.parametrize("name", [name for name in HELP if EXTRAS[name]])
def test_a_command_names_the_pip_command_that_is_missing(name: str) -> None:
    done = command("dealer-agent", name, *(["list"] if name in GROUPS else []))
    assert done.returncode == 1
    assert f"pip install 'dealer-agent[{EXTRAS[name]}]'" in done.stderr
    assert "Traceback" not in done.stderr
