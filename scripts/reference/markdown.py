"""Pieces of a generated Markdown page. Pure."""

import re
from collections.abc import Iterable, Sequence


def page(title: str, introduction: str, sections: Iterable[str]) -> str:
    """A page that says that it is generated."""
    note = "<!-- Written by `make docs` from the code. Change the code, not this page. -->"
    return "\n\n".join((note, f"# {title}", introduction, *sections)) + "\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table. A line break or a bar inside a cell is replaced."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(cell, line)) + " |" for line in lines)


def cell(text: str) -> str:
    """A text as the content of one cell."""
    return re.sub(r"\s*\n\s*", " ", text).replace("|", "\\|").strip() or "-"


def code(text: object) -> str:
    """A text as code."""
    return f"`{text}`"
