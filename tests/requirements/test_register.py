"""Every rule of docs/protocol.md has a test with its mark, or is a gap. Each check is also shown to fail."""

import pytest
from tests.requirements.register import (
    CITING,
    TESTS,
    Mark,
    cites_nothing,
    files_that_cite_nothing,
    marks,
    marks_in,
    paragraph,
    problems,
    rules,
    text,
)


def test_every_rule_has_a_test_or_is_a_gap() -> None:
    found = problems(rules(text()), marks())
    assert not found, "\n".join([f"{len(found)} problems:", *found])


def test_a_rule_names_its_cases_beside_its_anchor() -> None:
    document = '- <a id="one"></a>First.\n- <a id="two" data-cases="two-a\n  two-b"></a>Second.\n\nNot a rule.\n'
    assert rules(document) == {"one": ["one"], "two": ["two-a", "two-b"]}
    assert paragraph(document, "two") == "Second."


RULES = {"rule": ["proved"], "gap-later": ["gap-later"]}


@pytest.mark.parametrize(
    ("register", "found", "expected"),
    [
        (RULES, [Mark("proved", "a:1"), Mark("proved", "a:2")], []),
        (RULES, [], ["proved: no test has this mark"]),
        (RULES, [Mark("proved", "a:1"), Mark("gap-later", "a:2")], ["gap-later: a gap, but a test has its mark"]),
        (RULES, [Mark("proved", "a:1"), Mark("else", "a:2")], ["a:2: the document has no case else"]),
        (RULES, [Mark("proved", "a:1"), Mark("rule", "a:2")], ["a:2: the document has no case rule"]),
        (RULES, [Mark("proved", "a:1"), Mark(None, "a:2")], ["a:2: the mark is not a plain string"]),
        (RULES | {"other": ["proved"]}, [Mark("proved", "a:1")], ["proved: the document names this case twice"]),
    ],
)
def test_a_missing_unknown_or_contradictory_mark_is_a_problem(
    register: dict[str, list[str]], found: list[Mark], expected: list[str]
) -> None:
    assert problems(register, found) == expected


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
    found = [mark.case for mark in marks_in(source, "test_x.py")]
    assert sorted(filter(None, found)) == ["case", "first", "module", "second"]
    assert found.count(None) == 2


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
