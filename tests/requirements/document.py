"""docs/protocol.md as data: its anchors, its tables, and the links to it from the whole project."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "protocol.md"

_RULE = re.compile(r'<a id="([^"]+)"></a>')
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_CODE_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_CODE_SPAN = re.compile(r"`([^`]+)`")
_LINK = re.compile(r"\bprotocol\.md#(\w(?:[\w.-]*\w)?)")
_OWN_LINK = re.compile(r"\]\(#([^)]+)\)")


def text() -> str:
    """The document."""
    return DOCUMENT.read_text("utf-8")


def rules(document: str) -> list[str]:
    """The anchors of the rules, in the order of the document."""
    return _RULE.findall(document)


def sections(document: str) -> list[str]:
    """The anchors of the headings. GitHub and Python-Markdown make the same ones from our titles."""
    titles = _HEADING.findall(_CODE_BLOCK.sub("", document))
    return [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]


def links(path: Path, source: str) -> Iterator[tuple[str, str]]:
    """The place and the anchor of each link to the document in a file of the project."""
    pattern = _OWN_LINK if path == DOCUMENT else _LINK
    for number, line in enumerate(source.splitlines(), start=1):
        for anchor in pattern.findall(line):
            yield f"{path.relative_to(ROOT)}:{number}", anchor


def broken_links(document: str, found: Iterable[tuple[str, str]]) -> list[str]:
    """The links whose anchor the document does not have."""
    known = {*rules(document), *sections(document)}
    return [f"{place}: the document has no anchor {anchor}" for place, anchor in found if anchor not in known]


def paragraph(document: str, rule: str) -> str:
    """The text of a rule: from its anchor to the next anchor, heading, table or blank line."""
    after = document.split(f'<a id="{rule}"></a>', 1)[1]
    return re.split(r'<a id="|\n#|\n\n', after, maxsplit=1)[0]


def words(markdown: str) -> list[str]:
    """The code spans of a text."""
    return _CODE_SPAN.findall(markdown)


def table(document: str, heading: str) -> list[list[str]]:
    """The rows of the first table that has a column of this heading, without the heading."""
    for block in re.findall(r"(?:^\|.*\n)+", document, re.MULTILINE):
        head, _, *rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in block.splitlines()]
        if heading in head:
            return rows
    raise LookupError(f"no table has a column {heading}")
