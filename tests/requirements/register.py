"""The register of rules: docs/protocol.md as data, and the marks of the tests that prove its rules.

Each anchor of the document is a rule. The tests of a rule carry its anchor, `pytest.mark.requirement("anchor")`. A rule
with several cases names them beside its anchor, `<a id="anchor" data-cases="first second">`, and its tests carry the
names of the cases. No test proves an anchor that begins with `gap-`.

Marks are read from the source, not from collected tests, so that a run of one test file gives the same result.
`python -m tests.requirements.register` prints each rule with its cases and their tests.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeGuard

TESTS = Path(__file__).parent.parent
ROOT = TESTS.parent
DOCUMENT = ROOT / "docs" / "protocol.md"
GAP = "gap-"

_ANCHOR = re.compile(r'<a id="([^"]+)"(?:\s+data-cases="([^"]+)")?></a>')
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_CODE_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\bprotocol\.md#(\w(?:[\w.-]*\w)?)(?![\w.-]*\{)")
_OWN_LINK = re.compile(r"\]\(#([^)]+)\)")


def text() -> str:
    """The document."""
    return DOCUMENT.read_text("utf-8")


def rules(document: str) -> dict[str, list[str]]:
    """The cases of each rule, in the order of the document. A rule that names none is its own case."""
    return {anchor: cases.split() or [anchor] for anchor, cases in _ANCHOR.findall(document)}


def anchors(document: str) -> list[str]:
    """The anchors of the rules and those of the headings, as GitHub and Python-Markdown make them from our titles."""
    titles = _HEADING.findall(_CODE_BLOCK.sub("", document))
    made = [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]
    return [*(anchor for anchor, _ in _ANCHOR.findall(document)), *made]


def links(path: Path, source: str) -> Iterator[tuple[str, str]]:
    """The line and the anchor of each link to the document in a file of the project."""
    pattern = _OWN_LINK if path == DOCUMENT else _LINK
    for number, line in enumerate(source.splitlines(), start=1):
        for anchor in pattern.findall(line):
            yield f"{path.relative_to(ROOT)}:{number}", anchor


def broken_links(document: str, found: Iterable[tuple[str, str]]) -> list[str]:
    """The links whose anchor the document does not have."""
    known = set(anchors(document))
    return [f"{line}: the document has no anchor {anchor}" for line, anchor in found if anchor not in known]


def paragraph(document: str, rule: str) -> str:
    """The text of a rule: from its anchor to the next anchor, heading, table or blank line."""
    after = document.split(f'<a id="{rule}"', 1)[1].partition("></a>")[2]
    return re.split(r'<a id="|\n#|\n\n', after, maxsplit=1)[0]


def words(markdown: str) -> list[str]:
    """The code spans of a text."""
    return re.findall(r"`([^`]+)`", markdown)


def table(document: str, heading: str) -> list[list[str]]:
    """The rows of the first table that has a column of this heading, without the heading."""
    for block in re.findall(r"(?:^\|.*\n)+", document, re.MULTILINE):
        titles, _, *rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in block.splitlines()]
        if heading in titles:
            return rows
    raise LookupError(f"no table has a column {heading}")


Function = ast.FunctionDef | ast.AsyncFunctionDef


class Mark(NamedTuple):
    """One argument of a `pytest.mark.requirement`. `case` is None for an argument that is not a plain string.

    `soak`: the test runs only in `make soak`.
    """

    case: str | None
    line: str
    soak: bool = False


def marks_in(source: str, name: str) -> Iterator[Mark]:
    """Every `pytest.mark.requirement(...)` of a module: on a test, on a case, or in `pytestmark`."""
    if "pytest.mark.requirement" not in source:
        return  # To parse all tests takes seconds.
    module = ast.parse(source, name)
    tests = [node for node in ast.walk(module) if isinstance(node, Function) and node.name.startswith("test_")]
    # A mark of the module counts if one of its tests is in `make test`.
    long = [module] if tests and all(map(_is_soak, tests)) else filter(_is_soak, tests)
    soak = {inner for node in long for inner in ast.walk(node)}
    for node in ast.walk(module):
        if _is_mark(node, "requirement"):
            for argument in node.args or [node]:
                value = argument.value if isinstance(argument, ast.Constant) else None
                yield Mark(value if isinstance(value, str) else None, f"{name}:{node.lineno}", node in soak)


def _is_mark(node: ast.AST, name: str) -> TypeGuard[ast.Call]:
    """Whether it is `pytest.mark.NAME(...)`."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == name
        and ast.unparse(node.func) == f"pytest.mark.{name}"
    )


def _is_soak(test: Function) -> bool:
    """Whether a test has the mark `soak`."""
    return any(ast.unparse(decorator) == "pytest.mark.soak" for decorator in test.decorator_list)


def marks() -> list[Mark]:
    """Every mark of the project's tests."""
    return [
        mark
        for path in sorted(TESTS.rglob("test_*.py"))
        for mark in marks_in(path.read_text("utf-8"), str(path.relative_to(ROOT)))
    ]


def problems(rules: dict[str, list[str]], found: list[Mark]) -> list[str]:
    """The differences between the rules and the marks. Empty when each case has a test in `make test` or is a gap."""
    cases = [case for each in rules.values() for case in each]
    proved = {mark.case for mark in found if not mark.soak}
    return [
        *(f"{case}: the document names this case twice" for case in sorted(set(cases)) if cases.count(case) > 1),
        *(f"{mark.line}: the mark is not a plain string" for mark in found if mark.case is None),
        *(
            f"{mark.line}: the document has no case {mark.case}"
            for mark in found
            if mark.case is not None and mark.case not in cases
        ),
        *(f"{case}: no test has this mark" for case in cases if not case.startswith(GAP) and case not in proved),
        *(f"{case}: a gap, but a test has its mark" for case in cases if case.startswith(GAP) and case in proved),
    ]


CITING = ("acceptance", "inventory", "leads", "protocol", "server", "skills")
"""The folders whose test files each cite a rule, or say that they test something else."""


def cites_nothing(source: str, name: str) -> bool:
    """Whether a test module has neither a mark of a requirement nor `pytest.mark.outside_protocol("...")`."""
    if next(marks_in(source, name), None):
        return False
    return not any(_is_mark(node, "outside_protocol") and node.args for node in ast.walk(ast.parse(source, name)))


def files_that_cite_nothing() -> list[str]:
    """The test files of the folders `CITING` that cite no rule."""
    return [
        str(path.relative_to(TESTS))
        for folder in CITING
        for path in sorted((TESTS / folder).rglob("test_*.py"))
        if cites_nothing(path.read_text("utf-8"), path.name)
    ]


def _print() -> None:
    lines: defaultdict[str | None, set[str]] = defaultdict(set)
    for mark in marks():
        lines[mark.case].add(mark.line)
    for rule, cases in rules(text()).items():
        for case in cases:
            print(rule, case, *sorted(lines[case]))


if __name__ == "__main__":
    _print()
