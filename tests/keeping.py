"""Texts that others rely on, kept in files beside the tests and compared whole, so that a review sees what changes."""

import shutil
from collections.abc import Mapping
from difflib import unified_diff
from pathlib import Path

import pytest


def keep(folder: Path, made: Mapping[str, str]) -> None:
    """Writes the texts; what is made no longer is kept no longer."""
    if folder.exists():
        shutil.rmtree(folder)
    for name, text in made.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8", newline="")


def fail_where_they_differ(folder: Path, made: Mapping[str, str], module: str) -> None:
    """Fails with the lines that differ from what is kept, and with the command that keeps what is made now."""
    kept = {
        path.relative_to(folder).as_posix(): path.read_bytes().decode() for path in folder.rglob("*") if path.is_file()
    }
    changed = sorted(name for name in kept.keys() | made.keys() if kept.get(name) != made.get(name))
    if changed:
        lines = [line for name in changed for line in _difference(name, kept.get(name, ""), made.get(name, ""))]
        meant = f"If this is meant, write the files anew: .venv/bin/python -m {module}"
        pytest.fail("\n".join([*lines, "", meant]), pytrace=False)


def _difference(name: str, kept: str, made: str) -> list[str]:
    return list(unified_diff(kept.split("\n"), made.split("\n"), f"kept/{name}", f"made/{name}", lineterm=""))
