"""The messages of docs/how-to/troubleshooting.md are those of the program."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "troubleshooting.md"


def texts_of(source: str) -> set[str]:
    """The texts of a module. The values in an f-string are left out: it becomes the texts between them."""
    return {
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def messages(page: str) -> list[str]:
    """The code spans with a blank in the first columns of the tables."""
    first = [line.split(" | ")[0] for line in page.splitlines() if line.startswith("| `")]
    return [span for cell in first for span in re.findall(r"`([^`]+)`", cell) if " " in span]


def unknown(found: list[str], texts: set[str]) -> list[str]:
    """The messages of which a part between `…` is in no text."""
    return [
        message
        for message in found
        if not all(any(part.strip() in text for text in texts) for part in message.split("…"))
    ]


def test_every_message_of_the_page_is_a_message_of_the_program() -> None:
    texts = {text for path in (ROOT / "src").rglob("*.py") for text in texts_of(path.read_text("utf-8"))}
    found = messages(PAGE.read_text("utf-8"))
    assert len(found) > 20
    assert unknown(found, texts) == []


def test_a_message_that_the_program_does_not_have_is_found() -> None:
    texts = texts_of('raise ValueError(f"the file {name} "\n    "is empty")')
    assert unknown(["the file … is empty"], texts) == []
    assert unknown(["the file … is full"], texts) == ["the file … is full"]
