"""Checks that only the owner can access files and folders with customer data."""

import stat
from collections.abc import Iterable
from pathlib import Path

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def is_open_to_others(mode: int) -> bool:
    """Whether a mode gives any access to the group or to everybody."""
    return bool(mode & _OTHERS)


def open_to_others(paths: Iterable[Path]) -> list[Path]:
    """The existing paths to which other users have access. Raises OSError for one that cannot be read."""
    return [path for path in paths if path.exists() and is_open_to_others(path.stat().st_mode)]


def advice(mode: str, paths: Iterable[Path]) -> str:
    """The problem and the command that solves it."""
    return f"may be read by other users of this machine; type: chmod {mode} {' '.join(map(str, paths))}"
