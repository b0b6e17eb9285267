"""The table of requirements (tests/requirements.toml) and the marks of the tests that prove them.

Marks are read from the source, not from collected tests, so that a run of one test file gives the same answer.
"""

import ast
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

TESTS = Path(__file__).parent.parent
TABLE = TESTS / "requirements.toml"


@dataclass(frozen=True)
class Requirement:
    """One case of a rule.

    `rule` is the rule's anchor in docs/protocol.md. `says` names the case, or gives the reason of a gap.
    """

    id: str
    rule: str
    says: str = ""
    kind: Literal["rule", "deviation", "gap"] = "rule"


class Mark(NamedTuple):
    """One id in a `pytest.mark.requirement`. `requirement` is None for an argument that is not a plain string.

    `soak`: the test runs only in `make soak`.
    """

    requirement: str | None
    place: str
    soak: bool = False


def read_table(text: str) -> list[Requirement]:
    """The rows of a table. Raises TypeError for a row with an unknown member."""
    return [Requirement(**row) for row in tomllib.loads(text)["requirement"]]


def requirements() -> list[Requirement]:
    """The rows of the project's table."""
    return read_table(TABLE.read_text("utf-8"))


def marks_in(source: str, name: str) -> Iterator[Mark]:
    """Every `pytest.mark.requirement(...)` of a module: on a test, on a case, or in `pytestmark`."""
    module = ast.parse(source, name)
    soak = {inner for node in ast.walk(module) if _is_soak(node) for inner in ast.walk(node)}
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.requirement":
            for argument in node.args or [node]:
                value = argument.value if isinstance(argument, ast.Constant) else None
                yield Mark(value if isinstance(value, str) else None, f"{name}:{node.lineno}", node in soak)


def _is_soak(node: ast.AST) -> bool:
    """Whether a function, or a module as a whole, has the mark `soak`."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return any(ast.unparse(decorator) == "pytest.mark.soak" for decorator in node.decorator_list)
        case ast.Module():
            return any(
                isinstance(part, ast.Assign)
                and ast.unparse(part.targets[0]) == "pytestmark"
                and "pytest.mark.soak" in ast.unparse(part.value)
                for part in node.body
            )
    return False


CITING = ("acceptance", "inventory", "leads", "protocol", "server", "skills")
"""The folders whose test files each cite a rule, or say that they test something else."""


def cites_nothing(source: str, name: str) -> bool:
    """Whether a test module has neither a mark of a requirement nor `pytest.mark.outside_protocol("...")`."""
    calls = [node for node in ast.walk(ast.parse(source, name)) if isinstance(node, ast.Call)]
    outside = any(ast.unparse(call.func) == "pytest.mark.outside_protocol" and call.args for call in calls)
    return not outside and not list(marks_in(source, name))


def files_that_cite_nothing() -> list[str]:
    """The test files of the folders `CITING` that cite no rule."""
    return [
        str(path.relative_to(TESTS))
        for folder in CITING
        for path in sorted((TESTS / folder).rglob("test_*.py"))
        if cites_nothing(path.read_text("utf-8"), path.name)
    ]


def marks() -> list[Mark]:
    """Every mark of the project's tests."""
    return [
        mark
        for path in sorted(TESTS.rglob("test_*.py"))
        for mark in marks_in(path.read_text("utf-8"), str(path.relative_to(TESTS.parent)))
    ]


def problems(rows: list[Requirement], found: list[Mark]) -> list[str]:
    """The differences between the table and the marks. Empty when each row has a test or is a gap."""
    known = {row.id for row in rows}
    proved = {mark.requirement for mark in found if not mark.soak}
    twice = sorted(row_id for row_id in known if sum(row.id == row_id for row in rows) > 1)
    return [
        *(f"{row_id}: the table has this id twice" for row_id in twice),
        *(f"{mark.place}: the mark is not a plain string" for mark in found if mark.requirement is None),
        *(
            f"{mark.place}: the table has no row {mark.requirement}"
            for mark in found
            if mark.requirement is not None and mark.requirement not in known
        ),
        *(f"{row.id}: no test has this mark" for row in rows if row.kind != "gap" and row.id not in proved),
        *(
            f"{row.id}: the row is a gap, but a test has its mark"
            for row in rows
            if row.kind == "gap" and row.id in proved
        ),
    ]


def rows_without_a_rule(rows: list[Requirement], rules: Iterable[str]) -> list[str]:
    """The rows whose rule is not an anchor of the document."""
    known = set(rules)
    return [f"{row.id}: the document has no rule {row.rule}" for row in rows if row.rule not in known]


def rules_without_a_row(rows: list[Requirement], rules: Iterable[str]) -> list[str]:
    """The rules of the document that no row names."""
    named = {row.rule for row in rows}
    return [f"{rule}: the rule has no row" for rule in rules if rule not in named]
