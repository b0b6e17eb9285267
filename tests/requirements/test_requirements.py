"""Every requirement has a test that is marked with it, or is a recorded gap; and this check bites."""

import pytest
from tests.requirements.table import Marker, Requirement, complaints, markers, markers_in, read_table, requirements


def test_every_requirement_has_a_test_or_is_a_recorded_gap() -> None:
    problems = complaints(requirements(), markers())
    assert not problems, "\n".join([f"{len(problems)} problems:", *problems])


PROVED = Requirement("proved", "Spec 1", "It is proved.")
GAP = Requirement("later", "Spec 2", "It comes later.", gap="not built")


@pytest.mark.parametrize(
    ("rows", "claims", "told"),
    [
        ([PROVED, GAP], [Marker("proved", "a:1"), Marker("proved", "a:2")], []),
        ([PROVED], [], ["proved: no test proves it (It is proved.)"]),
        ([GAP], [Marker("later", "a:1")], ["later: is recorded as a gap, but has a test"]),
        ([PROVED], [Marker("proved", "a:1"), Marker("else", "a:2")], ["a:2: no row is called else"]),
        ([PROVED], [Marker("proved", "a:1"), Marker(None, "a:2")], ["a:2: a marker must be a plain string"]),
        ([PROVED, PROVED], [Marker("proved", "a:1")], ["proved: stands twice in the table"]),
    ],
)
def test_what_is_missing_unknown_or_contradictory_is_told(
    rows: list[Requirement], claims: list[Marker], told: list[str]
) -> None:
    assert complaints(rows, claims) == told


def test_markers_are_read_wherever_they_stand() -> None:
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
    found = [marker.requirement for marker in markers_in(source, "test_x.py")]
    assert sorted(filter(None, found)) == ["case", "first", "module", "second"]
    assert found.count(None) == 2


def test_a_row_with_an_unknown_member_is_refused() -> None:
    with pytest.raises(TypeError):
        read_table('[[requirement]]\nid = "a"\nsource = "Spec 1"\nsays = "A."\ngaps = "misspelt"')


def test_rows_cite_the_specification_or_the_contract_in_the_order_of_the_documents() -> None:
    rows = requirements()
    assert all(row.source.split(" ")[0] in ("Spec", "Contract") for row in rows)
    assert all(row.id.startswith(row.source.lower().replace(" ", "-") + "-") for row in rows)
    assert len(rows) > 250
