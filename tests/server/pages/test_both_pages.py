"""What holds for both pages: sound HTML, links that lead somewhere, nothing from elsewhere, nothing unescaped."""

import re
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from tests.server.pages.conftest import Page, read_page
from tests.server.pages.samples import (
    BARE,
    FRIDAY_NOON,
    HOSTILE,
    HOSTILE_TEXT,
    MANY_MAKES,
    POTOMAC,
    STOCK,
    TOTAL,
    UPDATED,
    card_facts,
    facts_of,
)

from dealer_agent.apidocs import discovery
from dealer_agent.apidocs.openapi import openapi_document
from dealer_agent.protocol.card import CardFacts
from dealer_agent.protocol.responses import Facets
from dealer_agent.protocol.schemas import published_schemas
from dealer_agent.protocol.skill import SKILLS
from dealer_agent.protocol.vocabulary import proto, vocabularies_of
from dealer_agent.protocol.well_known import ARD_PATH, CATALOG_PATH
from dealer_agent.server.pages.docs import docs_page
from dealer_agent.server.pages.home import home_page
from dealer_agent.server.pages.site import CONTENT_SECURITY_POLICY, coloured_json, stylesheet, with_code

pytestmark = pytest.mark.outside_protocol("the HTML pages")

WIRE = vocabularies_of("proto", proto())


def home(facts: CardFacts) -> Page:
    return read_page(home_page(POTOMAC, STOCK, TOTAL, facts, updated_at=UPDATED, now=FRIDAY_NOON))


def docs(facts: CardFacts) -> Page:
    return read_page(docs_page(openapi_document(facts, WIRE), facts, WIRE))


def hostile_facts() -> CardFacts:
    plain = card_facts()
    return CardFacts(
        **{
            name: getattr(plain, name) for name in ("http_json_url", "json_rpc_url", "schemas_url", "documentation_url")
        },
        name=HOSTILE_TEXT,
        description=HOSTILE_TEXT,
        version=HOSTILE_TEXT,
        organization=HOSTILE_TEXT,
        website=HOSTILE_TEXT,
        skills=SKILLS,
        bearer_skills=frozenset(),
    )


SOME_TOKENS = frozenset({"lead.submit"})
ALL_TOKENS = frozenset(skill.id for skill in SKILLS)
PAGES: dict[str, Callable[[], Page]] = {
    "home": lambda: home(card_facts()),
    "home, tokens": lambda: home(card_facts(bearer=ALL_TOKENS)),
    "home, bare": lambda: read_page(home_page(BARE, Facets(), 0, card_facts(), updated_at=None, now=FRIDAY_NOON)),
    "home, hostile": lambda: read_page(
        home_page(HOSTILE, MANY_MAKES, 10**12, hostile_facts(), updated_at=UPDATED, now=FRIDAY_NOON)
    ),
    "docs": lambda: docs(card_facts()),
    "docs, tokens": lambda: docs(card_facts(bearer=SOME_TOKENS)),
    "docs, all tokens": lambda: docs(card_facts(bearer=ALL_TOKENS)),
    "docs, base path": lambda: docs(card_facts(below="/agents/7")),
    "docs, one skill": lambda: docs(facts_of((SKILLS[3],))),
    "docs, hostile": lambda: docs(hostile_facts()),
}


@cache
def page_called(name: str) -> Page:
    return PAGES[name]()


@pytest.fixture
def page(request: pytest.FixtureRequest) -> Page:
    return page_called(request.param)


every_page = pytest.mark.parametrize("page", PAGES, indirect=True)


@every_page
def test_a_page_has_one_of_each_landmark_and_says_what_it_is(page: Page) -> None:
    """WCAG 2.4.1, 2.4.2, 3.1.1: language, title, landmarks, a way past the navigation."""
    assert page.html.startswith("<!DOCTYPE html>")
    assert page.all("/html[@lang='en']/head/meta[@name='viewport']")
    assert all(page.texts("//title"))
    assert [len(page.all(f"//body//{name}")) for name in ("main", "h1")] == [1, 1]
    assert page.all("//body/header")
    assert page.all("//body/footer")
    assert page.all("//nav[@aria-label]")
    assert page.all("//body/a[@href='#content']")
    assert page.all("//main[@id='content']")


@every_page
def test_headings_never_skip_a_level(page: Page) -> None:
    levels = [
        int(str(heading.tag)[1])
        for heading in page.all("//*[self::h1 or self::h2 or self::h3 or self::h4 or self::h5]")
    ]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert all(page.texts("//h1 | //h2 | //h3 | //h4 | //h5"))


@every_page
def test_ids_are_unique_and_every_link_on_the_page_finds_its_place(page: Page) -> None:
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    inside = {address[1:] for address in page.values("href") if address.startswith("#")}
    labelled = {name for value in page.values("aria-labelledby") for name in value.split()}
    assert inside | labelled <= set(ids)


def served() -> set[str]:
    """Every path that the service serves to a GET."""
    paths = {path for path, item in openapi_document(card_facts(), WIRE)["paths"].items() if "get" in item}
    schemas = {f"/schemas/{name}" for name in published_schemas()}
    found = {CATALOG_PATH, ARD_PATH, discovery.KEYS_PATH, discovery.LLMS_PATH}
    return (paths - {"/schemas/{name}"}) | schemas | found | {"/", "/docs", "/static/style.css"}


def local_links(page: Page) -> set[str]:
    return {address.partition("?")[0] for address in page.values("href") if address.startswith("/")}


@every_page
def test_every_link_leads_to_something_that_is_served(page: Page) -> None:
    assert local_links(page) <= served()
    elsewhere = {address for address in page.values("href") if not address.startswith(("/", "#"))}
    known = (
        "data:image/svg+xml,",
        "tel:+1",
        "mailto:",
        "https://alexandria.example.com",
        "https://powersports.example.com",
    )
    assert [address for address in elsewhere if not address.startswith(known)] == []


@pytest.mark.parametrize("make", [home, docs])
def test_below_a_proxy_s_path_all_links_stay_below_it(make: Any) -> None:
    """`public_url` may hold a path (docs/protocol.md#public-url)."""
    page = make(card_facts("https://example.com/agent"))
    assert {path.removeprefix("/agent") for path in local_links(page)} <= served()
    assert all(path.startswith("/agent/") for path in local_links(page))


@pytest.mark.parametrize("name", ["home", "docs"])
def test_both_pages_link_to_the_cards_the_schemas_and_the_api(name: str) -> None:
    wanted = {"/.well-known/agent-card.json", "/cards/1.0.0.json", "/cards/0.1.0.json", "/openapi.json"}
    wanted |= {f"/schemas/{each}.json" for skill in SKILLS for each in (skill.request_type, skill.response_type)}
    assert wanted <= local_links(page_called(name))


@every_page
def test_a_page_needs_nothing_that_its_policy_forbids(page: Page) -> None:
    """No script, no style of its own, nothing from another host: the Content-Security-Policy can be strict."""
    # A script of this type is data. No browser runs it.
    assert not page.all(
        "//script[not(@type='application/ld+json')] | //style | //iframe | //object | //embed | //form | //img | //base"
    )
    attributes = {str(name) for element in page.all("//*") for name in element.attrib}
    assert not {name for name in attributes if name == "style" or name == "src" or name.startswith("on")}
    loaded = page.all("//link[@rel='stylesheet' or @rel='icon']")
    assert all(link.get("href", "").startswith(("/static/style.css?v=", "data:")) for link in loaded)
    assert len(loaded) == 2


def test_the_policy_allows_only_our_stylesheet_and_the_icon_in_the_page() -> None:
    directives = dict(part.strip().split(" ", 1) for part in CONTENT_SECURITY_POLICY.split(";"))
    assert directives.pop("style-src") == "'self'"
    assert directives.pop("img-src") == "'self' data:"
    assert {"default-src", "base-uri", "form-action", "frame-ancestors"} == set(directives)
    assert set(directives.values()) == {"'none'"}


@every_page
def test_what_the_dealer_wrote_is_text_and_nothing_else(page: Page) -> None:
    assert page.html.replace('<script type="application/ld+json">', "").count("<script") == 0
    assert page.html.count("<script") == page.html.count("</script")
    assert "<img" not in page.html
    assert not [address for address in page.values("href") if address.lower().startswith("javascript")]


def test_hostile_names_are_escaped() -> None:
    page = page_called("home, hostile")
    assert page.texts("//h1") == [HOSTILE_TEXT]
    assert page.texts("//article//h3") == [HOSTILE_TEXT]
    assert page_called("docs, hostile").texts("//h1") == [f"Ask {HOSTILE_TEXT}"]


@pytest.mark.parametrize("shown", [with_code, coloured_json])
def test_marked_text_is_escaped_before_it_is_marked(shown: Callable[[str], str]) -> None:
    text = '{"a": "<b>", `<i>`} & <script>'
    tags = set(re.findall(r"<[^>]*>", str(shown(text))))
    assert tags <= {"<code>", "</code>", '<span class="json-name">', '<span class="json-text">', "</span>"}
    assert str(shown(text)).count("&lt;") == 3


@every_page
def test_charts_are_hidden_from_screen_readers_because_the_numbers_are_text(page: Page) -> None:
    """WCAG 1.1.1."""
    assert all(picture.get("aria-hidden") == "true" for picture in page.all("//*[local-name()='svg']"))


def test_the_stylesheet_loads_nothing() -> None:
    css = stylesheet().decode()
    assert not re.search(r"url\(|@import|@font-face", css)
    assert {"prefers-color-scheme: dark", "@media print", "max-width: 40rem"} <= set(
        re.findall(r"prefers-color-scheme: dark|@media print|max-width: 40rem", css)
    )


def palettes() -> dict[str, dict[str, str]]:
    blocks = re.findall(r":root \{(.*?)\}", stylesheet().decode(), re.DOTALL)
    light, dark, _ = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block)) for block in blocks]
    return {"light": light, "dark": light | dark}


def contrast(one: str, other: str) -> float:
    """WCAG 2.2's contrast ratio of two `#rrggbb` colours."""

    def luminance(colour: str) -> float:
        parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
        red, green, blue = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    ("ink", "paper", "least"),
    [
        ("ink", "paper", 7),
        ("ink", "card", 7),
        ("ink", "warn", 7),
        ("muted", "paper", 4.5),
        ("muted", "card", 4.5),
        ("muted", "code", 4.5),
        ("accent", "paper", 4.5),
        ("accent", "card", 4.5),
        ("accent", "soft", 4.5),
        ("good", "card", 4.5),
        ("hero-ink", "hero-end", 4.5),
        ("hero-muted", "hero-end", 4.5),
        ("hero-muted", "hero", 4.5),
        ("json-name", "code", 4.5),
        ("json-text", "code", 4.5),
        ("json-literal", "code", 4.5),
        ("bar", "track", 3),
        ("new", "card", 3),
        ("used", "card", 3),
        ("cpo", "card", 3),
    ],
)
def test_colours_have_enough_contrast(ink: str, paper: str, least: float, scheme: str) -> None:
    """WCAG 1.4.3 and 1.4.11: 4.5 for text, 3 for pictures."""
    colours = palettes()[scheme]
    assert contrast(colours[ink], colours[paper]) >= least
