"""The tables of the checker: no field is forgotten, no defect reads them, and its modules import one way."""

import ast
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import msgspec
import pytest

import dealer_agent.checker
import dealer_agent.self_test.defects
from dealer_agent.checker.fields import form_of
from dealer_agent.checker.requirement import PROFILES, read_rows, requirements
from dealer_agent.self_test.reading import ENDS, FACET_NAMES, LISTS, MEMBERS, OTHERS, SORTS, id_of

pytestmark = pytest.mark.outside_protocol("checker")

CHECKER = Path(dealer_agent.checker.__path__[0])
DEFECTS = Path(dealer_agent.self_test.defects.__path__[0])


def imported(file: Path) -> Iterator[str]:
    """The modules that a file imports, also for its types only."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)


def module_of(file: Path) -> str:
    return ".".join(("dealer_agent.checker", *file.relative_to(CHECKER).with_suffix("").parts)).removesuffix(
        ".__init__"
    )


@pytest.mark.parametrize("name", [*LISTS, *ENDS, *(each for each in OTHERS if each != "query")])
def test_each_published_filter_has_requirements(name: str) -> None:
    family = "range" if name in ENDS else "filter"
    assert {f"{family}.{id_of(name)}", f"facets-filter.{id_of(name)}"} <= requirements().keys()


def test_each_published_member_sort_and_facet_has_requirements() -> None:
    assert {f"listing.{id_of(name)}" for name in MEMBERS} <= requirements().keys()
    assert {f"sort.{id_of(name)}-{order}" for name in SORTS for order in ("asc", "desc")} <= requirements().keys()
    assert {f"facet.{id_of(name)}" for name in FACET_NAMES} <= requirements().keys()


def test_a_field_of_a_type_that_has_no_form_fails_the_build() -> None:
    with pytest.raises(KeyError):
        form_of("paint_code", bytes)


def test_no_defect_reads_a_table_of_the_checker() -> None:
    reads = {(file.name, name) for file in DEFECTS.glob("*.py") for name in imported(file)}
    assert not [each for each in reads if each[1].startswith("dealer_agent.checker")]


def test_the_modules_of_the_checker_import_one_way() -> None:
    files = {module_of(file): file for file in CHECKER.rglob("*.py")}
    graph = {name: {each for each in imported(file) if each in files and each != name} for name, file in files.items()}
    assert list(TopologicalSorter(graph).static_order())


def test_a_template_gives_a_row_for_each_parameter_and_a_later_row_replaces_members() -> None:
    rows = read_rows(
        {
            "template.toml": """
            ["seat.{name}"]
            each = [{ name = "front" }, { name = "rear" }]
            SHOULD = "The {name} seat is known."
            source = "AAP seat schema"
            link = "protocol.md#facet-counts"
            advice = "Send it."
            refused = { filters = { "{name}" = 1 } }

            ["seat.rear"]
            level = "MAY"

            ["seat.all"]
            MUST = "All seats are known."
            source = "specification §2"
            """
        }
    )
    assert [(row.id, row.level, row.advice) for row in rows.values()] == [
        ("seat.front", "SHOULD", "Send it."),
        ("seat.rear", "MAY", "Send it."),
        ("seat.all", "MUST", "Send it."),
    ]
    assert rows["seat.front"].refused == {"filters": {"front": 1}}


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ('["a.b"]\nMUST = "Twice."\nsource = "x"\nlink = "x"\nadvice = "x"', ValueError),
        ('["c.d"]\nlevel = "MUST"', KeyError),
        ('["c.d"]\nMUST = "x"\nlink = "x"\nadvice = "x"', msgspec.ValidationError),
        ('["c.d"]\nMUST = "x"\nsource = ""\nlink = "x"\nadvice = "x"', msgspec.ValidationError),
        ('["c.d"]\nMUST = "x"\nsource = "x"\nlink = "x"\nadvice = "x"\nskils = []', msgspec.ValidationError),
    ],
)
def test_a_malformed_row_of_a_table_of_requirements_is_refused(row: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        read_rows({"1.toml": '["a.b"]\nMUST = "Once."\nsource = "x"\nlink = "x"\nadvice = "x"', "2.toml": row})


SOURCES = (
    r"specification §\d",
    "AAP ",
    r"A2A §\d",
    "A2A extensions, ",
    r"JSON-RPC 2\.0 §\d",
    r"RFC \d+ §\d",
    "JSON Schema, ",
    r"CWE-\d+$",
    "Agentic Resource Discovery, ",
    "dealer-agent$",
    "offers extension$",
)


def test_each_requirement_cites_a_section_or_is_a_decision_of_this_project() -> None:
    known = re.compile("|".join(SOURCES))
    assert [row.id for row in requirements().values() if not known.match(row.source)] == []
    assert PROFILES == ("dealer-agent",)


@pytest.mark.parametrize(
    ("source", "of_published", "of_others"),
    [
        ("specification §2.4 filters", None, None),
        ("A2A §5.4", None, None),
        ("AAP vehicle schema", None, "dealer-agent"),
        ("dealer-agent", "dealer-agent", "dealer-agent"),
    ],
)
def test_what_no_text_demands_of_a_revision_is_checked_on_demand_only(
    source: str, of_published: str | None, of_others: str | None
) -> None:
    row = msgspec.structs.replace(requirements()["filter.make"], source=source)
    assert (row.profile(published=True), row.profile(published=False)) == (of_published, of_others)


def test_causes_exist_and_no_requirement_is_its_own_cause() -> None:
    rows = requirements().values()
    causes = {row.id: [each.id for each in rows if each is not row and each.is_among(row.implied_by)] for row in rows}
    unknown = [
        (row.id, name) for row in rows for name in row.implied_by if not any(each.is_among([name]) for each in rows)
    ]
    assert unknown == []
    assert list(TopologicalSorter(causes).static_order())
