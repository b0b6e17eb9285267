"""The files of the project, as git lists them: committed, or new."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's folder."""
    return ROOT


@pytest.fixture(scope="session")
def tree() -> list[Path]:
    """Every file of the project, relative to its folder: tracked, or new and not ignored."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("GAP: not a git checkout, so the list of the project's files is unknown")
    listed = subprocess.run(
        [git, "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return [Path(name) for name in listed.split("\0") if name and (ROOT / name).is_file()]
