"""What buyers see of the contract is kept in files, so that no change of it, not of a word, goes unseen in a review."""

from difflib import unified_diff

import pytest
from tests.protocol.publishing import KEPT, documents


def changes(name: str, kept: str, made: str) -> list[str]:
    return list(unified_diff(kept.split("\n"), made.split("\n"), f"kept/{name}", f"made/{name}", lineterm=""))


def test_what_is_published_is_what_was_agreed() -> None:
    """Contract 2 to 4: cards, OpenAPI document, schemas and examples are promises to agents that read them already."""
    kept = {path.relative_to(KEPT).as_posix(): path.read_text("utf-8") for path in KEPT.rglob("*") if path.is_file()}
    made = documents()
    changed = {name for name in kept.keys() | made.keys() if kept.get(name) != made.get(name)}
    if changed:
        lines = [line for name in sorted(changed) for line in changes(name, kept.get(name, ""), made.get(name, ""))]
        meant = "If this is meant, write the files anew: .venv/bin/python -m tests.protocol.publishing"
        pytest.fail("\n".join([*lines, "", meant]), pytrace=False)
