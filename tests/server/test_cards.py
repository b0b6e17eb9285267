"""The agent card in both revisions and every auth mode (docs/protocol.md)."""

import json
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx
import jsonschema_rs
import pytest
from a2a.types import AgentCard
from google.protobuf.json_format import ParseDict
from tests.protocol.bodies import OFFER_STEMS, STEMS, payload, request_type, response_type
from tests.server.conftest import OpenDealership
from tests.server.dealership import LISTENS_AT, NO_LIMITS, Dealership, message

CARDS = ("/cards/1.0.0.json", "/cards/0.1.0.json", "/.well-known/agent-card.json")
NONE = ""
ALL = '[auth]\nmode = "bearer"\n'
NAMED = '[auth]\nmode = "bearer"\nskills = ["lead.submit", "inventory.vehicle"]\n'
ALL_BY_NAME = f'[auth]\nmode = "bearer"\nskills = {json.dumps(list(STEMS))}\n'
MODES = pytest.mark.parametrize("auth", [NONE, ALL, NAMED, ALL_BY_NAME], ids=["none", "all", "named", "all by name"])


@MODES
@pytest.mark.parametrize("vocabulary", ["proto", "autoagent"])
@pytest.mark.requirement("card-1.0.0-members", "card-spelling", "card-both-bindings")
def test_the_card_of_revision_1_is_a_valid_a2a_card(
    open_dealership: OpenDealership, auth: str, vocabulary: str
) -> None:
    opened = open_dealership(f'[service]\nvocabulary = "{vocabulary}"\n' + auth)
    document = opened.get("/cards/1.0.0.json").json()
    # Unknown or misspelt members raise here.
    card = ParseDict(document, AgentCard())
    assert card.name == "Test Motors"
    assert card.description
    assert card.version
    assert card.provider.organization == "Test Motors"
    assert {"name", "description", "version", "provider", "supportedInterfaces", "capabilities", "defaultInputModes",
            "defaultOutputModes", "skills"} <= set(document)  # fmt: skip
    assert all("_" not in name for name in document)
    assert [each.protocol_binding for each in card.supported_interfaces] == ["JSONRPC", "HTTP+JSON"]


@pytest.mark.requirement(
    "card-interfaces-in-order",
    "card-capabilities",
    "card-interface-list-names",
    "card-http-json-entry",
    "undeclared-operations",
)
def test_both_cards_name_json_rpc_first_then_http_json(dealership: Dealership) -> None:
    new, old = (dealership.get(path).json() for path in CARDS[:2])
    assert new["supportedInterfaces"] == [
        {"url": f"{LISTENS_AT}/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
        {"url": LISTENS_AT, "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
    ]
    assert old["supported_interfaces"] == [
        {"url": f"{LISTENS_AT}/rpc", "protocol_binding": "JSONRPC", "protocol_version": "1.0"},
        {"url": LISTENS_AT, "protocol_binding": "HTTP+JSON", "protocol_version": "1.0"},
    ]
    assert (new["capabilities"]["streaming"], new["capabilities"]["pushNotifications"]) == (False, False)
    assert (old["capabilities"]["streaming"], old["capabilities"]["push_notifications"]) == (False, False)
    assert "extendedAgentCard" not in new["capabilities"]


@pytest.mark.requirement("base-url-of-card", "card-http-json-entry", "rpc-result")
def test_the_interfaces_answer_at_the_addresses_of_the_card(dealership: Dealership) -> None:
    for interface in dealership.get("/cards/1.0.0.json").json()["supportedInterfaces"]:
        path = httpx.URL(interface["url"]).path.rstrip("/")
        if interface["protocolBinding"] == "JSONRPC":
            sent = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message("dealer.information")}
            assert dealership.post(sent, path).json()["result"]["message"]
        else:
            assert dealership.post(message("dealer.information"), path + "/message:send").json()["message"]


def snake(text: str) -> str:
    return re.sub("[A-Z]", lambda found: "_" + found[0].lower(), text)


def in_snake_case(node: Any) -> Any:
    if isinstance(node, dict):
        return {snake(name): in_snake_case(item) for name, item in node.items()}
    return [in_snake_case(item) for item in node] if isinstance(node, list) else node


@MODES
@pytest.mark.requirement("card-0.1.0-members", "card-spelling", "vocabulary-extension-0.1.0")
@pytest.mark.requirement("bearer-declared-when-all")
def test_the_card_of_revision_0_1_has_the_same_content_in_snake_case(
    open_dealership: OpenDealership, auth: str
) -> None:
    opened = open_dealership(auth + NO_LIMITS)
    new, old = (opened.get(path).json() for path in CARDS[:2])
    expected = "bearer" if auth in (ALL, ALL_BY_NAME) else "none"
    assert old.pop("auth_type") == expected
    # Revision 0.1.0 has no extension in the vocabulary `autoagent`.
    new["capabilities"]["extensions"] = new["capabilities"]["extensions"][:1]
    for extension in old["capabilities"]["extensions"]:
        assert extension["params"].pop("auth_type") == expected
        extension["params"].pop("id")
        extension["uri"] = extension["uri"].replace("/v0.1", "/v1.0")
    for extension in new["capabilities"]["extensions"]:
        extension["params"].pop("id")
    for card in (old, new):
        card.pop("signatures")
    assert old == in_snake_case(new)
    assert ("security_schemes" in old) is (auth != NONE)


@MODES
@pytest.mark.requirement("card-security", "cards-need-no-token")
def test_cards_declare_security_only_if_tokens_are_required(open_dealership: OpenDealership, auth: str) -> None:
    opened = open_dealership(auth + NO_LIMITS)
    card = opened.get("/cards/1.0.0.json").json()
    requirement: list[dict[str, Any]] = [{"schemes": {"bearer": {"list": []}}}]
    if auth == NONE:
        assert "securitySchemes" not in card
        assert "securityRequirements" not in card
        assert "securityRequirements" not in json.dumps(card["skills"])
        return
    assert card["securitySchemes"] == {"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}
    assert card.get("securityRequirements") == (requirement if auth != NAMED else None)
    asking = {each["id"] for each in card["skills"] if each.get("securityRequirements") == requirement}
    assert asking == ({"lead.submit", "inventory.vehicle"} if auth == NAMED else set(STEMS))


@pytest.mark.requirement("card-modes", "card-skills")
def test_each_skill_is_described_with_its_media_types(dealership: Dealership) -> None:
    card = dealership.get("/cards/1.0.0.json").json()
    assert [each["id"] for each in card["skills"]] == list(STEMS)
    for each in card["skills"]:
        assert each["name"]
        assert each["description"]
        assert each["tags"]
        assert each["inputModes"] == [request_type(each["id"]), request_type(each["id"], "autoagent")]
        assert each["outputModes"] == [response_type(each["id"]), response_type(each["id"], "autoagent")]
    assert card["defaultInputModes"] == [mode for each in card["skills"] for mode in each["inputModes"]]
    assert card["defaultOutputModes"] == [mode for each in card["skills"] for mode in each["outputModes"]]


@pytest.mark.requirement("extension-not-required", "vocabulary-extension-1.0.0", "vocabulary-extension-0.1.0")
def test_the_profile_is_an_optional_extension(open_dealership: OpenDealership) -> None:
    opened = open_dealership(
        '[service]\nextension_uri_1_0_0 = "https://dealer.example/ext/1"\n'
        'extension_uri_0_1_0 = "https://dealer.example/ext/0"\n'
    )
    for path, uris in (
        (CARDS[0], ["https://dealer.example/ext/1", "https://autoagentprotocol.org/extensions/a2a-automotive-retail/v1.0"]),
        (CARDS[1], ["https://dealer.example/ext/0"]),
    ):  # fmt: skip
        extensions = opened.get(path).json()["capabilities"]["extensions"]
        assert [each["uri"] for each in extensions] == uris
        assert [each["required"] for each in extensions] == [False] * len(uris)


@pytest.mark.requirement("card-extension-id")
def test_the_extensions_id_changes_when_the_card_does(open_dealership: OpenDealership) -> None:
    def ids(extra: str) -> list[str]:
        opened = open_dealership(extra)
        return [
            each["params"]["id"] for path in CARDS[:2] for each in opened.get(path).json()["capabilities"]["extensions"]
        ]

    first, again = ids(NO_LIMITS), ids(NO_LIMITS)
    assert first == again
    for other in (ALL, NAMED, '[service]\nskills_off = ["lead.submit"]', '[service]\npublic_url = "https://a.example"'):
        assert not set(ids(other)) & set(first)


@pytest.mark.parametrize("path", [*CARDS, "/aap/1.3/.well-known/agent-card.json"])
@pytest.mark.requirement("card-idempotency")
def test_every_card_declares_idempotency(dealership: Dealership, path: str) -> None:
    extensions = dealership.get(path).json()["capabilities"]["extensions"]
    assert [each["params"]["idempotency"] for each in extensions] == [True] * len(extensions)


@pytest.mark.requirement("card-extension-schemas", "schemas-served", "schemas-from-types")
def test_the_schemas_of_the_card_are_served_and_agree_with_the_service(dealership: Dealership) -> None:
    for path in CARDS[:2]:
        for extension in dealership.get(path).json()["capabilities"]["extensions"]:
            named = extension["params"]["skills"]
            assert set(named) == set(STEMS)
            for skill, schemas in named.items():
                request, response = (
                    dealership.get(httpx.URL(schemas[name]).path) for name in ("request_schema", "response_schema")
                )
                assert request.status_code == response.status_code == 200
                assert request.headers["content-type"].startswith("application/schema+json")
                sent = message(skill)
                judge = jsonschema_rs.validator_for(request.json())
                assert judge.is_valid(sent["message"]["parts"][0]["data"])
                assert not judge.is_valid({**payload(skill), "unheard_of": 1})
                if skill != "inventory.vehicle":
                    data = dealership.post(sent).json()["message"]["parts"][0]["data"]
                    jsonschema_rs.validator_for(response.json()).validate(data)
    assert len(dealership.get("/schemas/").json()["schemas"]) == 2 * len(STEMS | OFFER_STEMS)


@pytest.mark.parametrize("path", CARDS)
@pytest.mark.requirement("card-caching")
def test_a_card_says_when_its_settings_were_read(dealership: Dealership, path: str) -> None:
    assert parsedate_to_datetime(dealership.get(path).headers["last-modified"]) <= datetime.now(UTC)


@pytest.mark.parametrize("path", [*CARDS, "/schemas/inventory.search.request.json"])
@pytest.mark.requirement("card-caching")
def test_a_card_is_cached_by_its_etag(dealership: Dealership, path: str) -> None:
    first = dealership.get(path)
    etag = first.headers["etag"]
    assert re.fullmatch(r'"[^"]+"', etag)
    assert "max-age" in first.headers["cache-control"]
    for sent in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        again = dealership.get(path, if_none_match=sent)
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == etag
    for sent in ('"other"', etag.strip('"')):
        assert dealership.get(path, if_none_match=sent).content == first.content


@pytest.mark.parametrize(("settings", "revision"), [("", "1.0.0"), ('[service]\nrevision = "0.1.0"', "0.1.0")])
@pytest.mark.requirement("two-cards", "well-known-card", "both-revisions")
@pytest.mark.requirement("one-set-of-interfaces")
def test_a_setting_chooses_the_card_at_the_well_known_address(
    open_dealership: OpenDealership, settings: str, revision: str
) -> None:
    opened = open_dealership(settings)
    assert opened.get("/.well-known/agent-card.json").content == opened.get(f"/cards/{revision}.json").content
    assert opened.get(CARDS[0]).content != opened.get(CARDS[1]).content
    for vendor in ("proto", "autoagent"):
        assert opened.post(message("inventory.search", vendor)).status_code == 200


@pytest.mark.parametrize(
    ("settings", "base"),
    [
        ("", "http://127.0.0.1:9999"),
        ('[service]\npublic_url = "https://agent.example.com"', "https://agent.example.com"),
        ('[service]\npublic_url = "https://agent.example.com/"', "https://agent.example.com"),
        ('[service]\npublic_url = "https://example.com/x"\nbase_path = "/agent"', "https://example.com/x/agent"),
    ],
)
@pytest.mark.requirement("public-url", "base-path")
def test_cards_have_the_public_url_or_else_the_listening_address(
    open_dealership: OpenDealership, settings: str, base: str
) -> None:
    opened = open_dealership(settings, "http://127.0.0.1:9999")
    card = opened.get("/.well-known/agent-card.json").json()
    assert [each["url"] for each in card["supportedInterfaces"]] == [f"{base}/rpc", base]
    schemas = card["capabilities"]["extensions"][0]["params"]["skills"]["inventory.search"]
    assert schemas["request_schema"] == f"{base}/schemas/inventory.search.request.json"


@pytest.mark.parametrize("path", CARDS)
@pytest.mark.requirement("cards-need-no-token")
def test_cards_need_no_token(open_dealership: OpenDealership, path: str) -> None:
    opened = open_dealership(ALL)
    assert opened.get(path).status_code == 200
    assert opened.get(path, authorization="Bearer wrong").status_code == 200


@pytest.mark.outside_protocol("going live")
def test_the_description_says_not_yet_open_until_the_dealer_says_open(
    dealership: Dealership, open_dealership: OpenDealership
) -> None:
    for path in CARDS:
        assert dealership.get(path).json()["description"].startswith("Not yet open: ")
    opened = open_dealership("[service]\nopen = true\n")
    assert opened.get(CARDS[0]).json()["description"].startswith("Inventory and leads of Test Motors")
