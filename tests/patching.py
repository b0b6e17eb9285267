"""Replaces parts of a module of the standard library for one module of the program only.

A test that replaces `asyncio.sleep` or `os.fsync` itself changes them for every other task and thread of its process.
"""

from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


def replace_in(monkeypatch: pytest.MonkeyPatch, module: ModuleType, imported: str, **members: Any) -> None:
    """Gives `module` its own copy of the module that it imports as `imported`, with other `members`."""
    monkeypatch.setattr(module, imported, SimpleNamespace(**vars(getattr(module, imported)) | members))
