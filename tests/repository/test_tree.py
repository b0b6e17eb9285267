"""The files of the project: the import law, their size, words that they must not have, and the content of the wheel."""

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.running import succeed_here

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PACKAGE = Path("src/dealer_agent")


def read(path: Path) -> str:
    """A file of the project as text, without the bytes that are not a text."""
    return (ROOT / path).read_text("utf-8", errors="ignore")


def python_of(tree: list[Path], top: str) -> list[Path]:
    """The Python files under a top folder."""
    return [path for path in tree if path.parts[0] == top and path.suffix == ".py"]


def test_the_import_law_names_every_package(tree: list[Path]) -> None:
    """The law is exhaustive, so a new package fails it until it has a layer."""
    (law,) = [c for c in PYPROJECT["tool"]["importlinter"]["contracts"] if c["type"] == "layers"]
    assert law["exhaustive"] is True
    assert law["containers"] == ["dealer_agent"]
    layers = {re.sub(r"[()]", "", name).strip() for layer in law["layers"] for name in re.split(r"[|:]", layer)}
    assert law["exhaustive_ignores"] == ["feeds"]
    modules = [path.relative_to(PACKAGE).with_suffix("").parts for path in python_of(tree, "src")]
    packages = {".".join(names[:2]) if names[0] == "feeds" else names[0] for names in modules}
    assert packages - {"__init__", "__main__", "py", "feeds.__init__"} <= layers


def test_no_test_replaces_a_part_of_the_standard_library_for_its_whole_process(tree: list[Path]) -> None:
    """Other tasks and threads of the process would use it too. `replace_in` replaces it for one module."""
    pattern = re.compile(r"\.setattr\((asyncio|os|socket|subprocess|threading|time), ")
    assert [path for path in python_of(tree, "tests") if pattern.search(read(path))] == []


def test_every_folder_with_python_in_it_is_type_checked(tree: list[Path]) -> None:
    with_python = {path.parts[0] for path in tree if path.suffix == ".py" and len(path.parts) > 1}
    assert with_python <= set(PYPROJECT["tool"]["mypy"]["files"])


def test_no_file_of_the_package_is_longer_than_500_lines(tree: list[Path]) -> None:
    lengths = {str(path): len(read(path).splitlines()) for path in python_of(tree, "src")}
    assert {path: lines for path, lines in lengths.items() if lines > 500} == {}


def test_no_two_public_classes_have_one_name(tree: list[Path]) -> None:
    """Except those of the client library, which has the names of the protocol without importing the service."""
    homes: dict[str, list[Path]] = {}
    for path in python_of(tree, "src"):
        if path.parts[2] != "client":
            for node in ast.parse(read(path)).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    homes.setdefault(node.name, []).append(path)
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


def test_no_file_of_the_package_marks_later_work(tree: list[Path]) -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
    assert [str(path) for path in tree if path.parts[0] == "src" and marks.search(read(path))] == []


# The words are put together here, so that this file does not contain what it forbids.
SHARED = "shar" + "ed/"
WORKPLACE = re.compile("(?<![a-z])/wo" + "rk/|" + r"\.libr" + "ary|" + "far" + "m-|" + r"\.\./" + SHARED)


def test_no_file_names_the_place_where_it_was_written(tree: list[Path]) -> None:
    """Tests may look for sample data beside the project."""
    named = [
        f"{path}:{number}: {line.strip()[:100]}"
        for path in tree
        for number, line in enumerate(read(path).splitlines(), start=1)
        if WORKPLACE.search(line) and not (path.parts[0] == "tests" and f"../{SHARED}data" in line)
    ]
    assert named == []


REGISTRY = re.compile(r"pypi\.o" + "rg/|pythonhosted" + r"\.org|registry\." + "npmjs|registry" + r"\.yarnpkg")
OPTIONS = re.compile(r"--(extra-)?index-url|--find-links|://|^\s*-[if]\s", re.MULTILINE)


def test_no_file_names_a_package_registry(tree: list[Path]) -> None:
    """Each machine installs from the registry in its own configuration, such as that of a company."""
    assert [str(path) for path in tree if REGISTRY.search(read(path))] == []


def test_requirements_and_configuration_hold_no_address(tree: list[Path]) -> None:
    """The machine that installs the packages knows their address."""
    configuration = [
        path for path in tree if path.parts[0] == "requirements" or path.name in {"pyproject.toml", ".npmrc"}
    ]
    assert Path("requirements/runtime.txt") in configuration
    assert [str(path) for path in configuration if OPTIONS.search(read(path))] == []


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel, built with the pinned hatchling."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (built,) = folder.iterdir()
    return zipfile.ZipFile(built)


def test_the_wheel_holds_every_file_of_the_package(tree: list[Path], wheel: zipfile.ZipFile) -> None:
    """Templates, migrations, sample data and the pages of the reference as well as the modules."""
    wanted = {path.relative_to("src").as_posix() for path in tree if path.is_relative_to(PACKAGE)}
    wanted |= {f"dealer_agent/reference/{path.name}" for path in tree if path.parts[:2] == ("docs", "reference")}
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert packed == wanted


def test_the_wheel_says_what_it_is_and_under_which_licence(wheel: zipfile.ZipFile) -> None:
    (metadata,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    fields = HeaderParser().parsestr(wheel.read(metadata).decode())
    assert fields["Name"] == "dealer-agent"
    assert fields["License-Expression"] == "Apache-2.0"
    assert fields["License-File"] == "LICENSE"
    assert fields["Requires-Python"] == ">=3.11"


@pytest.fixture(scope="module")
def installed_store(wheel: zipfile.ZipFile, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The folder of the installed wheel, and a dealer's folder that its `init` made."""
    installed, store = tmp_path_factory.mktemp("installed"), tmp_path_factory.mktemp("dealer") / "my-store"
    wheel.extractall(installed)
    program = "import dealer_agent, sys; from dealer_agent.cli import main; assert sys.path[1] in dealer_agent.__file__"
    subprocess.run(
        [sys.executable, "-c", f"{program}; main()", "init", store],
        env={"PYTHONPATH": str(installed), "PATH": ""},
        check=True,
        capture_output=True,
        cwd=installed,
    )
    return installed, store


FILE_NAME = re.compile(r"[\w./-]*\w\.(?:md|txt|toml|keys|db|html|json)\b")


def test_the_dealer_toml_of_an_installed_package_refers_to_existing_things_only(
    installed_store: tuple[Path, Path],
) -> None:
    """The file refers to files beside it, to commands that exist, and to web addresses that are examples."""
    _, folder = installed_store
    text = (folder / "dealer.toml").read_text("utf-8")
    assert {name for name in FILE_NAME.findall(text) if not (folder / name).exists()} == set()
    commands = re.findall(r"`dealer-agent ([a-z -]+)`", text)
    assert commands
    for command in commands:
        succeed_here(*command.split(), "--help")
    hosts = set(re.findall(r"https?://([\w.-]+)", text))
    assert {host for host in hosts if not host.endswith("example.com")} == set()


def test_no_message_of_an_installed_package_refers_to_a_document_that_it_lacks(
    installed_store: tuple[Path, Path],
) -> None:
    """Docstrings may refer to the source. A user who has only the wheel may see every other text."""
    installed, _ = installed_store
    named = []
    for path in sorted(installed.rglob("*.py")):
        source = path.read_text("utf-8")
        if ".md" not in source and "README" not in source:
            continue
        tree = ast.parse(source)
        docstrings = {
            id(node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                named += [f"{path.name}: {found}" for found in re.findall(r"[\w/-]+\.md\b|\bREADME\b", node.value)]
    assert named == []


def test_the_wheel_installs_the_command(wheel: zipfile.ZipFile) -> None:
    (entry_points,) = [name for name in wheel.namelist() if name.endswith(".dist-info/entry_points.txt")]
    assert "dealer-agent = dealer_agent.cli:main" in wheel.read(entry_points).decode()
