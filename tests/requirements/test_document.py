"""The tables of docs/protocol.md agree with the service, and links to it work."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.requirements.register import DOCUMENT, ROOT, anchors, broken_links, links, paragraph, table, text, words

from dealer_agent.protocol.envelope import decode_request
from dealer_agent.protocol.errors import ERRORS
from dealer_agent.protocol.skill import SKILLS
from dealer_agent.protocol.vocabulary import proto, vocabularies_of

FOLDERS = ("src", "tests", "docs", "benchmarks", "scripts", ".github")
DOCUMENTED = (".py", ".md", ".toml", ".html", ".sql", ".yml", "")


def files() -> list[Path]:
    """Every text of the project that may link to the document."""
    below = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*"))]
    found = [*sorted(ROOT.glob("*.md")), ROOT / "pyproject.toml", *below]
    return [path for path in found if path.is_file() and path.suffix in DOCUMENTED and path != Path(__file__)]


def test_an_anchor_is_in_the_document_once() -> None:
    assert [anchor for anchor, count in Counter(anchors(text())).items() if count > 1] == []


def test_every_rule_of_a_list_begins_with_an_anchor() -> None:
    items = re.findall(r"^- .*$", text(), re.MULTILINE)
    assert [item for item in items if not item.startswith('- <a id="')] == []


def test_every_link_to_the_document_leads_to_an_anchor() -> None:
    found = [link for path in files() for link in links(path, path.read_text("utf-8", errors="ignore"))]
    assert found
    assert broken_links(text(), found) == []


def test_a_link_to_a_missing_anchor_is_found() -> None:
    document = '## Order of checks\n- <a id="order"></a>It is one.\n```\n# no heading\n```\n'
    source = (
        "(docs/protocol.md#order)\n[a](protocol.md#order-of-checks), protocol.md#no-heading. See docs/protocol.md#x"
    )
    found = list(links(ROOT / "src" / "x.py", source))
    assert broken_links(document, found) == [
        "src/x.py:2: the document has no anchor no-heading",
        "src/x.py:2: the document has no anchor x",
    ]
    assert list(links(DOCUMENT, "[a](#order)")) == [("docs/protocol.md:1", "order")]


OLD_CITATION = re.compile(
    r"\b(?:contract|specification),? (?:parts? )?\d|\b(?:contract|specification), parts?\b|\bspec \d", re.I
)


def test_nothing_cites_a_document_outside_the_project() -> None:
    """Rules are cited by their anchors in docs/protocol.md."""
    cited = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in files()
        for number, line in enumerate(path.read_text("utf-8", errors="ignore").splitlines(), start=1)
        if OLD_CITATION.search(line)
    ]
    assert not cited, "\n".join([f"{len(cited)} lines:", *cited])


def test_the_requests_of_the_document_are_valid() -> None:
    examples = [json.loads(block) for block in re.findall(r"^```json\n(.*?)^```$", text(), re.MULTILINE | re.DOTALL)]
    requests = [example for example in examples if "message" in example]
    assert requests
    for request in requests:
        decoded = decode_request(json.dumps(request).encode(), vocabularies_of("proto", proto()))
        assert decoded.payload is not None


def schema(name: str) -> Any:
    """A schema as buyers get it."""
    return json.loads((ROOT / "tests" / "protocol" / "published" / "schemas" / f"{name}.json").read_text("utf-8"))


def members(name: str, definition: str | None = None) -> set[str]:
    """The members of the object of a published schema."""
    whole = schema(name)
    return set((whole["$defs"][definition] if definition else whole)["properties"])


def named(heading: str) -> set[str]:
    """What the first column of a table names."""
    return {word for row in table(text(), heading) for word in words(row[0])}


@pytest.mark.parametrize(
    ("heading", "name", "definition"),
    [
        ("Filter", "inventory.search.request", "Filters"),
        ("Member of a listing", "inventory.search.response", "Vehicle"),
        ("Member of a rooftop", "dealer.information.response", "Rooftop"),
        ("Member of a lead", "lead.submit.request", None),
    ],
)
def test_a_table_of_members_has_those_of_the_schema(heading: str, name: str, definition: str | None) -> None:
    assert named(heading) == members(name, definition)


def test_the_table_of_skills_is_that_of_the_service() -> None:
    rows = [[words(cell) for cell in row] for row in table(text(), "Skill")]
    assert [(row[0][0], row[2], row[3][0]) for row in rows] == [
        (skill.id, [skill.request_type, ".response"], skill.stem) for skill in SKILLS
    ]


def test_the_tables_of_errors_are_those_of_the_service() -> None:
    ours, a2as = re.split(r'<a id="a2a-errors">', text())
    rows = {words(row[0])[0]: row[1:3] for part in (ours, a2as) for row in table(part, "Code")}
    numbers = {code: (int(http), *map(int, json_rpc.split(" / "))) for code, (http, json_rpc) in rows.items()}
    assert numbers == {
        code: (error.http, error.json_rpc, *filter(None, [error.json_rpc_autoagent])) for code, error in ERRORS.items()
    }
    retryable = {code for code, error in ERRORS.items() if error.retryable}
    assert set(words(paragraph(text(), "retryable"))[1:]) == retryable


def test_the_words_of_sorts_facets_and_appointments_are_those_of_the_schemas() -> None:
    sort = schema("inventory.search.request")["$defs"]["Sort"]["properties"]
    assert set(words(paragraph(text(), "sort-fields"))[1:]) == set(sort["field"]["enum"])
    assert set(words(paragraph(text(), "sort-order"))[1:]) == set(sort["order"]["enum"])
    facets = {*words(paragraph(text(), "facet-counts")), *words(paragraph(text(), "facet-ranges"))}
    assert set(schema("inventory.facets.response")["properties"]["data"]["properties"]) <= facets
    visits = schema("lead.submit.request")["$defs"]["Appointment"]["properties"]["appointment_type"]["enum"]
    assert set(words(paragraph(text(), "appointment-type"))[1:]) == set(visits)
