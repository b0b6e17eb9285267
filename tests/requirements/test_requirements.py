"""Every requirement has a test with its mark, or is recorded as a gap. Each check is also shown to fail."""

import pytest
from tests.requirements.table import Mark, Requirement, marks, marks_in, problems, read_table, requirements


def test_every_requirement_has_a_test_or_is_a_recorded_gap() -> None:
    found = problems(requirements(), marks())
    assert not found, "\n".join([f"{len(found)} problems:", *found])


PROVED = Requirement("proved", "rule")
GAP = Requirement("later", "rule", "The reason.", kind="gap")


@pytest.mark.parametrize(
    ("rows", "found", "expected"),
    [
        ([PROVED, GAP], [Mark("proved", "a:1"), Mark("proved", "a:2")], []),
        ([PROVED], [], ["proved: no test has this mark"]),
        ([GAP], [Mark("later", "a:1")], ["later: the row is a gap, but a test has its mark"]),
        ([PROVED], [Mark("proved", "a:1"), Mark("else", "a:2")], ["a:2: the table has no row else"]),
        ([PROVED], [Mark("proved", "a:1"), Mark(None, "a:2")], ["a:2: the mark is not a plain string"]),
        ([PROVED, PROVED], [Mark("proved", "a:1")], ["proved: the table has this id twice"]),
    ],
)
def test_a_missing_unknown_or_contradictory_mark_is_a_problem(
    rows: list[Requirement], found: list[Mark], expected: list[str]
) -> None:
    assert problems(rows, found) == expected


def test_marks_are_found_on_modules_tests_and_cases() -> None:
    source = """
pytestmark = pytest.mark.requirement("module")

@pytest.mark.requirement("first", "second")
@pytest.mark.parametrize("case", [pytest.param(1, marks=pytest.mark.requirement("case"))])
def test_it(case): ...

@pytest.mark.requirement(COMPUTED)
def test_that(): ...

@pytest.mark.requirement()
def test_nothing(): ...
"""
    found = [mark.requirement for mark in marks_in(source, "test_x.py")]
    assert sorted(filter(None, found)) == ["case", "first", "module", "second"]
    assert found.count(None) == 2


def test_a_row_with_an_unknown_member_is_refused() -> None:
    with pytest.raises(TypeError):
        read_table('[[requirement]]\nid = "a"\nrule = "b"\ngaps = "misspelt"')
