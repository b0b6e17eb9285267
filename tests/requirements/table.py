"""The requirements as data (tests/requirements.toml), and the markers in the tests that claim to prove them.

Markers are read from the source, not from the collected tests, so that the answer is the same for a part of the suite.
"""

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parent.parent
TABLE = TESTS / "requirements.toml"


@dataclass(frozen=True)
class Requirement:
    """One sentence or table row of the specification or the contract; `gap` says why nothing proves it yet."""

    id: str
    source: str
    says: str
    gap: str | None = None


class Marker(NamedTuple):
    """One claim of a test: `requirement` is None where it is no plain string, which nobody can read without running."""

    requirement: str | None
    place: str


def read_table(text: str) -> list[Requirement]:
    """The rows of a table. Raises TypeError for a row with other members than a Requirement's."""
    return [Requirement(**row) for row in tomllib.loads(text)["requirement"]]


def requirements() -> list[Requirement]:
    """The project's own table."""
    return read_table(TABLE.read_text("utf-8"))


def markers_in(source: str, name: str) -> Iterator[Marker]:
    """Every `pytest.mark.requirement(...)` in a module: on a test, on a case, or in `pytestmark`."""
    for node in ast.walk(ast.parse(source, name)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.requirement":
            for argument in node.args or [node]:
                value = argument.value if isinstance(argument, ast.Constant) else None
                yield Marker(value if isinstance(value, str) else None, f"{name}:{node.lineno}")


def markers() -> list[Marker]:
    """Every marker of the project's tests."""
    return [
        marker
        for path in sorted(TESTS.rglob("test_*.py"))
        for marker in markers_in(path.read_text("utf-8"), str(path.relative_to(TESTS.parent)))
    ]


def complaints(rows: list[Requirement], claims: list[Marker]) -> list[str]:
    """What is wrong between the rows and the markers; empty when each row has a test or is a recorded gap."""
    known = {row.id for row in rows}
    proved = {claim.requirement for claim in claims}
    twice = sorted(row_id for row_id in known if sum(row.id == row_id for row in rows) > 1)
    return [
        *(f"{row_id}: stands twice in the table" for row_id in twice),
        *(f"{claim.place}: a marker must be a plain string" for claim in claims if claim.requirement is None),
        *(
            f"{claim.place}: no row is called {claim.requirement}"
            for claim in claims
            if claim.requirement is not None and claim.requirement not in known
        ),
        *(f"{row.id}: no test proves it ({row.says})" for row in rows if row.gap is None and row.id not in proved),
        *(
            f"{row.id}: is recorded as a gap, but has a test"
            for row in rows
            if row.gap is not None and row.id in proved
        ),
    ]
