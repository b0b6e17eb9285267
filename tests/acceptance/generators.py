"""The code generators of requirements/generators.txt, in a folder of their own below .venv."""

import os
import subprocess
import sys
from fcntl import LOCK_EX, flock
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "requirements" / "generators.txt"

_OUT_OF_REACH = "connection broken by"
"""What pip says when it reaches no package index."""


def generators() -> Path:
    """The folder of the generators' programs and their Python; installed when it is absent or the lock has changed."""
    folder = Path(sys.prefix) / "generators"
    done = folder / ".installed"
    with LOCK.open() as held:
        # Of two test processes that come here at once, the second waits.
        flock(held, LOCK_EX)
        wanted = f"{sys.version}\n{held.read()}"
        if not done.exists() or done.read_text("utf-8") != wanted:
            _install(folder)
            done.write_text(wanted, "utf-8")
    return folder / "bin"


def _install(folder: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", folder], check=True, timeout=300)
    options = ("--require-hashes", "--no-deps", "--only-binary", ":all:", "--quiet", "--disable-pip-version-check")
    # The index is on the internet, whose authorities the tests do not trust (tests/conftest.py).
    environment = {name: value for name, value in os.environ.items() if name != "SSL_CERT_FILE"}
    installed = subprocess.run(
        [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", *options, "-r", LOCK],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env=environment,
    )
    if installed.returncode and _OUT_OF_REACH in installed.stderr:
        pytest.skip("GAP: no package index within reach, so the generated clients were not tried")
    assert installed.returncode == 0, installed.stderr
