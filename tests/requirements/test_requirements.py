"""Every requirement has a test with its mark, or is recorded as a gap. Each check is also shown to fail."""

import pytest
from tests.requirements.table import (
    CITING,
    TESTS,
    Mark,
    Requirement,
    cites_nothing,
    files_that_cite_nothing,
    marks,
    marks_in,
    problems,
    read_table,
    requirements,
    rows_without_a_rule,
    rules_without_a_row,
)


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
        ([PROVED], [Mark("proved", "a:1", soak=True)], ["proved: no test has this mark"]),
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

@pytest.mark.soak
@pytest.mark.requirement("long")
def test_for_long(): ...
"""
    marks_found = list(marks_in(source, "test_x.py"))
    found = [mark.requirement for mark in marks_found]
    assert sorted(filter(None, found)) == ["case", "first", "long", "module", "second"]
    assert found.count(None) == 2
    assert [mark.requirement for mark in marks_found if mark.soak] == ["long"]
    of_the_long_form = "pytestmark = [pytest.mark.soak, pytest.mark.requirement('one')]"
    assert all(mark.soak for mark in marks_in(of_the_long_form, "test_x.py"))


def test_a_row_with_an_unknown_member_is_refused() -> None:
    with pytest.raises(TypeError):
        read_table('[[requirement]]\nid = "a"\nrule = "b"\ngaps = "misspelt"')


def test_every_test_file_of_the_protocol_cites_a_rule() -> None:
    assert all((TESTS / folder).is_dir() for folder in CITING)
    assert files_that_cite_nothing() == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def test_it(): ...", True),
        ('pytestmark = pytest.mark.requirement("a")', False),
        ('@pytest.mark.requirement("a")\ndef test_it(): ...', False),
        ('pytestmark = pytest.mark.outside_protocol("the HTML pages")', False),
        ("pytestmark = pytest.mark.outside_protocol()", True),
    ],
)
def test_a_test_file_without_a_rule_is_found(source: str, expected: bool) -> None:
    assert cites_nothing(source, "test_x.py") is expected


def test_a_row_and_a_rule_that_miss_each_other_are_found() -> None:
    rows = [Requirement("first", "a"), Requirement("second", "a"), Requirement("third", "b")]
    assert rows_without_a_rule(rows, ["a", "c"]) == ["third: the document has no rule b"]
    assert rules_without_a_row(rows, ["a", "c"]) == ["c: the rule has no row"]
