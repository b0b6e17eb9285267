"""Reads the reference pages of the documentation, which the package contains, and the tables of settings in them.

The help of commands and the settings page of the console show them. A table of dealers gets its columns from them.
"""

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

PACKED = Path(__file__).parent / "reference"
"""Where the wheel has the pages: `force-include` in pyproject.toml."""
CHECKOUT = Path(__file__).parents[2] / "docs" / "reference"

_HEADING = re.compile(r"#{2,3} (\[+)([A-Za-z_.]+)\]+")
_LINK = re.compile(r"\[([^]\[]+)\]\([^)\s]+\)")


class DocumentedSetting(NamedTuple):
    """A row of a table of settings. `meaning` may have code in backquotes."""

    key: str
    allowed: str
    default: str
    meaning: str


class SettingsSection(NamedTuple):
    """A section of `dealer.toml`. `path` has its keys and placeholders. `repeated`: `[[...]]`."""

    path: tuple[str, ...]
    repeated: bool
    settings: tuple[DocumentedSetting, ...]


def is_placeholder(part: str) -> bool:
    """Whether a part of a section's path stands for any key: it is in capital letters."""
    return part.isupper()


def reference_pages() -> dict[str, Path]:
    """The pages by name."""
    return {page.stem: page for page in sorted((PACKED if PACKED.exists() else CHECKOUT).glob("*.md"))}


@cache
def settings_sections() -> tuple[SettingsSection, ...]:
    """The sections of `dealer.toml`, in the order of the documentation. The first one is the top of the file."""
    sections: list[tuple[tuple[str, ...], bool, list[DocumentedSetting]]] = []
    for line in reference_pages()["settings"].read_text("utf-8").splitlines():
        if line == "## Top of the file":
            sections.append(((), False, []))
        elif heading := _HEADING.fullmatch(line):
            sections.append((tuple(heading[2].split(".")), len(heading[1]) > 1, []))
        elif sections and line.startswith("| `"):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            if len(cells) == 4:
                key, allowed, default, meaning = (_LINK.sub(r"\1", cell).replace("\\|", "|") for cell in cells)
                sections[-1][2].append(DocumentedSetting(key.strip("`"), allowed, default, meaning))
    found_sections = (SettingsSection(path, repeated, tuple(rows)) for path, repeated, rows in sections if rows)
    return tuple(each for each in found_sections if each.path[:1] not in (("installation",), ("feed_files",)))
