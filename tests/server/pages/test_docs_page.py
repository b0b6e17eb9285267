"""The page at `/docs` documents the whole API, from the same tables that the service works by."""

import json

import pytest
from tests.server.pages.conftest import Page, read_page, read_quickly, written
from tests.server.pages.samples import card_facts, facts_of

from dealer_agent.apidocs.components import payload_component, response_component
from dealer_agent.apidocs.examples import curl_command, example_payload, example_response
from dealer_agent.apidocs.openapi import openapi_document
from dealer_agent.protocol.card import CardFacts
from dealer_agent.protocol.errors import ERRORS, ProtocolError
from dealer_agent.protocol.skill import SKILL_BY_ID, SKILLS, Skill
from dealer_agent.protocol.vocabulary import AUTOAGENT, Vocabularies, proto, vocabularies_of
from dealer_agent.server.pages.docs import docs_page

pytestmark = pytest.mark.outside_protocol("the HTML pages")

PROTO = proto(domain="errors.dealer.example")
WIRE = vocabularies_of("proto", PROTO)


def shown(facts: CardFacts, words: Vocabularies = WIRE) -> Page:
    return read_quickly(docs_page(openapi_document(facts, words), facts, words))


DOCUMENT = openapi_document(card_facts(), WIRE)
COMPONENTS = DOCUMENT["components"]["schemas"]
PAGE = read_page(docs_page(DOCUMENT, card_facts(), WIRE))
QUICK = ("dealer.information", "inventory.facets", "inventory.search")
skills = pytest.mark.parametrize("skill", SKILLS, ids=lambda skill: skill.id)


def section(skill: Skill) -> str:
    return f"//section[@id='{skill.id}']"


def code(page: Page, path: str) -> list[str]:
    return [written(element) for element in page.all(f"{path}//pre")]


def test_the_quick_start_has_three_commands_that_only_read() -> None:
    base = "https://agent.example.com"
    assert code(PAGE, "//section[@id='start']") == [curl_command(base, SKILL_BY_ID[name], PROTO) for name in QUICK]


def test_where_a_token_is_asked_for_the_commands_take_it_from_the_shell() -> None:
    """See docs/protocol.md#authentication."""
    page = shown(card_facts(bearer=frozenset(SKILL_BY_ID)))
    assert all(
        "Authorization: Bearer $DEALER_AGENT_TOKEN" in command for command in code(page, "//section[@id='start']")
    )
    assert "DEALER_AGENT_TOKEN" in page.texts("//section[@id='start']/p")[0]
    # The page has no command for a lead.
    with_token_for_leads = shown(card_facts(bearer=frozenset({"lead.submit"})))
    assert "DEALER_AGENT_TOKEN" not in with_token_for_leads.html


def test_the_programs_for_the_official_sdks_make_the_same_requests() -> None:
    """The programs run in tests/acceptance/test_sdk_programs.py."""
    programs = code(PAGE, "//section[@id='sdks']")
    assert len(programs) == 2
    for program in programs:
        assert [program.count(SKILL_BY_ID[name].request_type) for name in QUICK] == [1, 1, 1]
        assert "https://agent.example.com" in program
        assert "DEALER_AGENT_TOKEN" not in program
    guarded = code(shown(card_facts(bearer=frozenset(SKILL_BY_ID))), "//section[@id='sdks']")
    assert all("DEALER_AGENT_TOKEN" in program for program in guarded)


@skills
def test_every_skill_shows_its_media_types_and_a_whole_example(skill: Skill) -> None:
    """See docs/protocol.md#envelope."""
    media = PAGE.texts(f"{section(skill)}/dl//code")
    assert media == [PROTO.request_media_type(skill), PROTO.response_media_type(skill)]
    asked, answered = code(PAGE, section(skill))
    assert json.loads(asked) == example_payload(skill)
    assert json.loads(answered) == example_response(skill, PROTO)


def told_members(name: str) -> set[str]:
    return set(PAGE.texts(f"//section[@id='{name}']//tbody/tr/th/code"))


@pytest.mark.parametrize(
    "name",
    [component(skill) for skill in SKILLS for component in (payload_component, response_component)]
    + ["Filters", "Pagination", "Sort", "Privacy", "Customer", "Consent", "Appointment", "RequestedWindow", "Address"]
    + ["DealerInformation", "Rooftop", "Facets", "SearchPage", "Vehicle", "LeadReceipt", "AppointmentReply"],
)
def test_every_member_of_every_object_has_its_row(name: str) -> None:
    assert told_members(name) == set(COMPONENTS[name]["properties"])
    required = PAGE.texts(f"//section[@id='{name}']//tbody/tr[th/span]/th/code")
    assert set(required) == set(COMPONENTS[name].get("required", []))


@pytest.mark.parametrize(
    ("name", "besides"),
    [
        ("VehicleDetail", {"zip", "offered_price", "held_until"}),
        ("TradeIn", {"condition", "fees"}),
        ("VehicleOfInterest", {"fees"}),
    ],
)
def test_an_object_like_the_listing_shows_only_its_differences(name: str, besides: set[str]) -> None:
    assert told_members(name) == besides
    shared = len(COMPONENTS[name]["properties"]) - len(besides)
    assert any(
        text.startswith(f"{shared} members are those of a Vehicle.")
        for text in PAGE.texts(f"//section[@id='{name}']/p")
    )
    assert PAGE.all(f"//section[@id='{name}']/p/a[@href='#Vehicle']")


@pytest.mark.parametrize(
    ("name", "member", "words"),
    [
        ("Filters", "year_min", "integer, 1900 to 2100"),
        ("Filters", "price_max", "integer, at least 0"),
        ("Filters", "query", "string, at most 200 characters"),
        ("Filters", "condition", "array of cpo | new | used, at most 100"),
        ("Filters", "vin", "string, matching ^[A-HJ-NPR-Z0-9]{17}$"),
        ("Pagination", "limit", "integer, 1 to 1000"),
        ("LeadSubmitRequest", "idempotency_key", "string, 1 to 128 characters"),
        ("LeadSubmitRequest", "source_agent", "string, at most 200 characters or SourceAgent"),
        ("LeadSubmitRequest", "customer", "Customer"),
        ("Customer", "phone", "string, at most 64 characters, phone number"),
        ("Consent", "allowed_channels", "array of email | phone | sms, at least one, at most 20"),
        ("Appointment", "requested_windows", "array of RequestedWindow, at least one, at most 20"),
        ("Appointment", "appointment_at", "string, at most 64 characters, ISO 8601 with an offset"),
        ("InventorySearchRequest", "type", "inventory.search.request"),
    ],
)
def test_a_row_has_the_type_and_its_bounds(name: str, member: str, words: str) -> None:
    assert PAGE.texts(f"//section[@id='{name}']//tr[th/code='{member}']/td[@class='type']") == [words]


@pytest.mark.parametrize("known", ERRORS.values(), ids=lambda row: row.code)
def test_every_error_code_has_its_row(known: type[ProtocolError]) -> None:
    """See docs/protocol.md#errors."""
    code_shown, http, rpc, retry, meaning = PAGE.texts(f"//tr[@id='{known.code}']/*")
    assert (code_shown, http, retry) == (known.code, str(known.http), "yes" if known.retryable else "no")
    assert rpc.startswith(str(known.json_rpc))
    assert str(known.json_rpc_autoagent or known.json_rpc) in rpc
    assert len(meaning) > 20


def test_the_error_examples_are_in_the_vocabulary_of_the_service() -> None:
    refusal = json.loads(code(PAGE, "//section[@id='errors']")[0])
    assert refusal["error"]["details"][1]["type"] == "proto.error"
    page = shown(card_facts(), vocabularies_of("autoagent", PROTO))
    refusal = json.loads(code(page, "//section[@id='errors']")[0])
    assert refusal["error"]["details"][1]["type"] == "aap.error"
    assert json.loads(code(page, "//section[@id='json-rpc']")[1])["error"]["data"]["type"] == "aap.error"


def test_both_vocabularies_and_revisions_have_their_column() -> None:
    """See docs/protocol.md#cards, docs/protocol.md#vocabulary."""
    table = PAGE.texts("//section[@id='vocabularies']//td")
    for words in (PROTO, AUTOAGENT):
        assert {words.error_type, words.domain, words.extension_1_0_0, words.extension_0_1_0 or "none"} <= set(table)
    assert "requested_windows and timezone" in PAGE.texts("//section[@id='revisions']//td")
    assert "appointment_at" in PAGE.texts("//section[@id='revisions']//td")


def test_it_names_the_interfaces_of_the_card() -> None:
    """With their base path (docs/protocol.md#cards)."""
    page = shown(card_facts(below="/agents/7"))
    addresses = page.texts("//main/dl//dd")
    assert addresses[:2] == [
        "POST https://agent.example.com/agents/7/message:send",
        "POST https://agent.example.com/agents/7/rpc",
    ]


@pytest.mark.parametrize(
    ("bearer", "words"),
    [
        (frozenset[str](), "None needed."),
        (frozenset({"lead.submit"}), "lead.submit asks for a bearer token of the dealer's."),
        (
            frozenset({"lead.submit", "inventory.vehicle"}),
            "inventory.vehicle, lead.submit ask for a bearer token of the dealer's.",
        ),
        (frozenset(SKILL_BY_ID), "Every request carries a bearer token of the dealer's."),
    ],
    ids=["none", "one", "two", "all"],
)
def test_it_says_who_needs_a_token(bearer: frozenset[str], words: str) -> None:
    """See docs/protocol.md#authentication."""
    assert shown(card_facts(bearer=bearer)).texts("//main/dl/div[dt='Tokens']/dd") == [words]


def test_a_skill_that_is_switched_off_is_not_documented() -> None:
    """See docs/protocol.md#envelope."""
    page = shown(facts_of(SKILLS[:4]))
    assert "lead.submit" not in page.texts("//nav//a")
    assert not page.all("//section[@id='lead.submit'] | //section[@id='Customer']")


@skills
def test_even_one_skill_alone_makes_a_whole_page(skill: Skill) -> None:
    page = shown(facts_of((skill,)))
    assert page.texts("//section[@class='skill']/h3/code") == [skill.id]
    assert code(page, "//section[@id='message']")


def test_json_is_coloured_and_escaped_once() -> None:
    assert PAGE.all("//pre//span[@class='json-name']")
    assert PAGE.all("//pre//span[@class='json-text']")
    assert PAGE.all("//pre//span[@class='json-literal']")
    assert "&amp;" not in PAGE.html, "nothing is escaped twice"
