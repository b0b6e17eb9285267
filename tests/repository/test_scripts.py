"""The commands: scripts that need only Python, a Makefile of the same names, and what continuous integration runs."""

import os
import re
import shutil
import stat
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted(path.name for path in (ROOT / "scripts").iterdir() if path.is_file())
COMMANDS = ("demo", "test-fast", "test", "check", "docs", "bench", "soak", "release")
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")


def which(tool: str) -> str:
    """The path of a tool, in the environment of the tests or on the PATH. Skips the test when there is none."""
    found = shutil.which(tool, path=f"{ROOT}/.venv/bin{os.pathsep}{os.environ['PATH']}")
    if found is None:
        pytest.skip(f"GAP: {tool} is not on this machine")
    return found


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_is_posix_shell_that_stops_at_the_first_error(name: str) -> None:
    script = ROOT / "scripts" / name
    lines = script.read_text("utf-8").splitlines()
    assert lines[0] == "#!/bin/sh"
    assert "set -eu" in lines
    assert script.stat().st_mode & stat.S_IXUSR
    assert subprocess.run(["sh", "-n", script], capture_output=True, text=True, check=False).stderr == ""


def test_shellcheck_finds_no_problem_in_the_scripts() -> None:
    files = [*(ROOT / "scripts" / name for name in SCRIPTS), ROOT / ".ci" / "run"]
    done = subprocess.run([which("shellcheck"), *files], capture_output=True, text=True, check=False)
    assert done.stdout == ""


@pytest.mark.parametrize("name", COMMANDS)
def test_make_and_scripts_have_the_same_names(name: str) -> None:
    assert name in SCRIPTS
    recipe = re.search(rf"^{name}:.*\n\t@scripts/(\S+)", MAKEFILE, re.MULTILINE)
    assert recipe is not None
    assert recipe[1] == name


def test_make_alone_lists_every_command() -> None:
    listed = subprocess.run([which("make"), "-C", ROOT], capture_output=True, text=True, check=True).stdout
    assert {"help", *COMMANDS} == set(re.findall(r"make ([a-z-]+)\t", listed))


def test_the_continuous_integration_runs_check_docs_test_and_the_short_form_of_soak_once_each() -> None:
    run = ROOT / ".ci" / "run"
    assert run.stat().st_mode & stat.S_IXUSR
    text = run.read_text("utf-8")
    assert re.findall(r"\b(?:make|scripts/)[ /]?([a-z]+.*) \|\| failed=1", text) == [
        "check",
        "docs",
        "test",
        "soak short",
    ]
    assert "last-failed" not in text, "a failed test is not repeated"


def test_the_workflow_of_the_public_host_runs_the_same_scripts() -> None:
    steps = re.findall(r"^ +run: (\S+)$", (ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8"), re.MULTILINE)
    assert steps == [".ci/run", "scripts/release"]


def test_the_hooks_before_a_commit_are_the_tools_of_make_check() -> None:
    hooks = (ROOT / ".pre-commit-config.yaml").read_text("utf-8")
    tools = re.findall(
        r"^check .* \.venv/bin/(?:python -m )?(\S+)", (ROOT / "scripts" / "check").read_text("utf-8"), re.M
    )
    assert re.findall(r"entry: \.venv/bin/(?:python -m )?(\S+)", hooks) == tools
    assert re.findall(r"repo: (\S+)", hooks) == ["local"]


def test_the_fast_tests_name_folders_that_exist() -> None:
    named = re.findall(r"\btests/[\w/.]+", (ROOT / "scripts" / "test-fast").read_text("utf-8"))
    assert len(named) > 5
    assert [name for name in named if not (ROOT / name).exists()] == []


# A setup on another machine: a shell script takes the place of the interpreter.

FAKE_PYTHON = """#!/bin/sh
echo "$*" >>"$LOG"
case "$*" in
*version_info*) echo {version} ;;
*ensurepip*) exit {ensurepip} ;;
'-m venv --clear '*) mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
*' install '*) exit ${{PIP_FAILS:-0}} ;;
esac
"""

NEEDED = ("sh", "dirname", "cat", "cmp", "sed", "awk", "mkdir", "rm", "mv", "cp")

Setup = Callable[..., tuple[int, str, str]]


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    """Runs _setup in a copy of the project. The PATH has only POSIX tools and the Python that the test describes.

    Returns the exit code, the messages, and every call of the interpreter.
    """
    project = tmp_path / "a project"
    shutil.copytree(ROOT / "scripts", project / "scripts")
    shutil.copytree(ROOT / "requirements", project / "requirements")
    shutil.copy(ROOT / "pyproject.toml", project)
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in NEEDED:
        (tools / tool).symlink_to(which(tool))

    def run(kind: str, version: str = "3.11.9", ensurepip: int = 0, pip_fails: int = 0) -> tuple[int, str, str]:
        log = tmp_path / "log"
        log.write_text("")
        (tools / "python3").unlink(missing_ok=True)
        if version:
            (tools / "python3").write_text(FAKE_PYTHON.format(version=version, ensurepip=ensurepip))
            (tools / "python3").chmod(0o755)
        ended = subprocess.run(
            [tools / "sh", project / "scripts" / "_setup", kind],
            env={"PATH": str(tools), "LOG": str(log), "PIP_FAILS": str(pip_fails)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        return ended.returncode, ended.stderr, log.read_text()

    return run


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        ({"version": ""}, "Python 3.11, 3.12, 3.13 or 3.14 is needed, and none was found."),
        ({"version": "3.9.2"}, "python3 is 3.9.2."),
        ({"version": "3.15.0"}, "python3 is 3.15.0."),
        ({"ensurepip": 1}, "On Debian and Ubuntu: apt-get install python3-venv"),
    ],
)
def test_a_message_names_what_is_missing(setup: Setup, machine: dict[str, str], said: str) -> None:
    code, words, _ = setup("dev", **machine)
    assert code == 1
    assert said in words
    assert "Traceback" not in words


def test_packages_of_another_checkout_are_not_cleared(setup: Setup, tmp_path: Path) -> None:
    theirs = tmp_path / "another" / ".venv"
    theirs.mkdir(parents=True)
    (tmp_path / "a project" / ".venv").symlink_to(theirs)
    code, words, calls = setup("dev")
    assert (code, calls) == (1, "")
    assert "rm .venv" in words


def test_a_second_setup_installs_nothing(setup: Setup) -> None:
    assert setup("dev")[0] == 0
    assert setup("dev") == (0, "", "")


def test_the_demo_uses_the_packages_of_the_tests(setup: Setup) -> None:
    setup("dev")
    assert setup("runtime") == (0, "", "")


def test_a_setup_for_the_tests_adds_to_the_packages_of_the_demo(setup: Setup) -> None:
    setup("runtime")
    code, _, calls = setup("dev")
    assert code == 0
    assert "requirements/dev.txt" in calls
    assert "venv --clear" not in calls


def test_a_setup_that_failed_starts_again_the_next_time(setup: Setup) -> None:
    code, words, _ = setup("dev", pip_fails=1)
    assert code == 1
    assert "could not be installed" in words
    code, _, calls = setup("dev")
    assert code == 0
    assert "venv --clear" in calls
    assert "requirements/dev.txt" in calls


def test_packages_are_installed_with_their_hashes_and_never_built_from_source(setup: Setup) -> None:
    _, _, calls = setup("runtime")
    (line,) = [call for call in calls.splitlines() if call.endswith("-r requirements/runtime.txt")]
    assert {"--require-hashes", "--no-deps", "--only-binary"} <= set(line.split())


def test_the_lock_covers_the_pythons_that_the_setup_accepts() -> None:
    """pyproject.toml has the lowest version, and the lock's environments have the highest."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    taken = re.findall(r"3\.(\d+)\.\*", (ROOT / "scripts" / "_setup").read_text("utf-8"))
    assert pyproject["project"]["requires-python"] == f">=3.{taken[0]}"
    assert all(f"< '3.{int(taken[-1]) + 1}'" in place for place in pyproject["tool"]["uv"]["environments"])
