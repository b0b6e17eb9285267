"""The previous release, unpacked from the history of the repository."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PREVIOUS = "f81b41d9"
"""The commit of the previous release."""
PROGRAM = (sys.executable, "-c", "from dealer_agent.cli import main; main()")
ROOT = Path(__file__).parents[2]


def unpacked(folder: Path) -> dict[str, Any]:
    """Unpacks the previous release. Returns the environment in which PROGRAM runs it."""
    found = subprocess.run(
        ["git", "archive", "--format=tar", PREVIOUS, "src"], cwd=ROOT, capture_output=True, check=False
    )
    if found.returncode != 0:
        pytest.skip(f"GAP: the history of the repository is not here, so there is no commit {PREVIOUS}")
    subprocess.run(["tar", "-x", "-C", folder], input=found.stdout, check=True)
    # This folder comes before the installed package.
    return {"PYTHONPATH": str(folder / "src")}
