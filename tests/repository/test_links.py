"""The documents link only to files and headings that exist."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / ".github").rglob("*.md")])
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s]*)\)")
CITED = re.compile(r"\b((?:docs|tests|benchmarks|scripts)/[\w./-]+\.md)(?:#([\w-]+))?")
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


@cache
def anchors(document: Path) -> set[str]:
    """The anchors of a page: of its headings, and those that it names itself."""
    text = FENCED.sub("", document.read_text("utf-8"))
    headings = re.findall(r"^#+ (.+?)(?: *\{ *#[\w-]+ *\})?$", text, re.MULTILINE)
    return {slug(heading) for heading in headings} | set(re.findall(r'(?:id="|\{ *#)([\w-]+)', text))


def slug(heading: str) -> str:
    """The anchor that the site generator makes of a heading."""
    words = re.sub(r"[^\w\s-]", "", heading.replace("`", "")).strip().lower()
    return re.sub(r"[-\s]+", "-", words)


def broken(source: Path, target: Path, anchor: str) -> bool:
    """Whether a link leads nowhere."""
    return not target.exists() or (bool(anchor) and target.suffix == ".md" and anchor not in anchors(target))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_of_a_document_leads_somewhere(document: Path) -> None:
    links = [link.partition("#")[::2] for link in LINK.findall(FENCED.sub("", document.read_text("utf-8")))]
    targets = [((document.parent / path).resolve() if path else document, anchor) for path, anchor in links]
    assert [f"{path}#{anchor}" for path, anchor in targets if broken(document, path, anchor)] == []


def test_every_document_that_the_code_cites_is_there(tree: list[Path]) -> None:
    cited = {
        (str(path), name, anchor)
        for path in tree
        if path.suffix in {".py", ".toml", ".md"} and path.parts[0] != "docs"
        for name, anchor in CITED.findall((ROOT / path).read_text("utf-8"))
        if name != "docs/protocol.md"  # tests/requirements checks its anchors.
    }
    assert sorted(where for where in cited if broken(ROOT, ROOT / where[1], where[2])) == []
