"""The OpenAPI document says what the service does: its schemas, examples and statuses are those of the wire."""

import copy
import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import hypothesis.strategies as st
import jsonschema_rs
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from openapi_spec_validator import OpenAPIV31SpecValidator
from tests.protocol.publishing import facts
from tests.soak import examples

from dealer_agent.apidocs.components import FIELD_MEANINGS, payload_component, response_component
from dealer_agent.apidocs.examples import (
    SKILL_DOCS,
    STATUSES,
    example_body,
    example_call,
    example_error,
    example_json_rpc_error,
    example_json_rpc_response,
    example_response,
)
from dealer_agent.apidocs.openapi import openapi_document
from dealer_agent.protocol import errors
from dealer_agent.protocol.card import CardFacts, card_0_1_0, card_1_0_0
from dealer_agent.protocol.envelope import Request, decode_request
from dealer_agent.protocol.errors import ERRORS, ProtocolError
from dealer_agent.protocol.formats import FORMATS
from dealer_agent.protocol.json_rpc import decode_call
from dealer_agent.protocol.response_bodies import http_error_body, json_rpc_error_body
from dealer_agent.protocol.schemas import published_schemas
from dealer_agent.protocol.skill import SKILL_BY_ID, SKILLS, Skill
from dealer_agent.protocol.vocabulary import AUTOAGENT, Vocabularies, Vocabulary, proto, vocabularies_of

pytestmark = pytest.mark.requirement("openapi-document")

PROTO = proto()
WIRE = vocabularies_of("proto", PROTO)
BOTH = (PROTO, AUTOAGENT)
NO_TOKENS: frozenset[str] = frozenset()
ALL_SKILLS = frozenset(SKILL_BY_ID)
AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
SEARCH = SKILL_BY_ID["inventory.search"]


DOCUMENT = openapi_document(facts(tuple(SKILL_BY_ID.values())), WIRE)
SEND = DOCUMENT["paths"]["/message:send"]["post"]
CALL = DOCUMENT["paths"]["/rpc"]["post"]


def validator(schema: dict[str, Any], document: dict[str, Any] = DOCUMENT) -> jsonschema_rs.Draft202012Validator:
    """A validator of a schema in the document."""
    whole = {**schema, "components": document["components"]}
    return jsonschema_rs.Draft202012Validator(whole, validate_formats=True, formats=FORMATS)


def response_schema(operation: dict[str, Any], status: int | str) -> dict[str, Any]:
    schema: dict[str, Any] = operation["responses"][str(status)]["content"]["application/json"]["schema"]
    return schema


REQUESTS = validator(SEND["requestBody"]["content"]["application/json"]["schema"])


@pytest.mark.parametrize(
    ("about", "words"),
    [
        pytest.param(facts(), WIRE, id="no tokens"),
        pytest.param(facts(bearer=ALL_SKILLS), WIRE, id="every skill asks for a token"),
        pytest.param(facts((SKILLS[0],)), WIRE, id="one skill"),
        # These differ in few words from those above.
        pytest.param(
            facts(bearer=frozenset({"lead.submit"})), WIRE, id="one skill asks for a token", marks=pytest.mark.soak
        ),
        pytest.param(facts(below="/agents/7"), WIRE, id="a base path", marks=pytest.mark.soak),
        pytest.param(
            facts(root="http://127.0.0.1:8080/store"), WIRE, id="below a proxy's path", marks=pytest.mark.soak
        ),
        pytest.param(facts(), vocabularies_of("autoagent", PROTO), id="autoagent first", marks=pytest.mark.soak),
    ],
)
def test_the_document_is_valid_openapi_3_1(about: CardFacts, words: Vocabularies) -> None:
    """An OpenAPI document that any reader of 3.1 takes. It is plain JSON."""
    OpenAPIV31SpecValidator(json.loads(json.dumps(openapi_document(about, words)))).validate()


OTHERS = {
    "/.well-known/agent-card.json",
    "/.well-known/oauth-protected-resource",
    "/cards/1.0.0.json",
    "/cards/0.1.0.json",
    "/schemas",
    "/schemas/{name}",
    "/openapi.json",
    "/healthz",
    "/readyz",
}


@pytest.mark.parametrize(
    ("root", "below", "server", "interfaces"),
    [
        ("https://agent.example.com", "", "https://agent.example.com", {"/message:send", "/rpc"}),
        ("https://agent.example.com", "/a", "https://agent.example.com", {"/a/message:send", "/a/rpc"}),
        ("https://example.com/agent", "", "https://example.com/agent", {"/message:send", "/rpc"}),
        ("", "", "/", {"/message:send", "/rpc"}),
    ],
)
def test_the_addresses_are_those_of_the_card(root: str, below: str, server: str, interfaces: set[str]) -> None:
    """Interfaces under the base path; cards and schemas are at the root."""
    document = openapi_document(facts(root=root, below=below), WIRE)
    assert document["servers"] == [{"url": server}]
    assert set(document["paths"]) == OTHERS | interfaces


def without_descriptions(node: Any) -> Any:
    if isinstance(node, list):
        return [without_descriptions(item) for item in node]
    if isinstance(node, dict):
        # A member called description holds a schema, not text.
        kept = {name: value for name, value in node.items() if not (name == "description" and isinstance(value, str))}
        return {name: without_descriptions(value) for name, value in kept.items()}
    return node


@pytest.mark.parametrize("file", published_schemas())
def test_payload_components_are_the_published_schemas(file: str) -> None:
    """One set of schemas, under `/schemas/` and in the document; a definition of one name is one schema."""
    schema = published_schemas()[file]
    skill = next(skill for skill in SKILL_BY_ID.values() if file.startswith(f"{skill.id}."))
    components = DOCUMENT["components"]["schemas"]
    name = payload_component(skill) if file.endswith(".request.json") else response_component(skill)
    expected = {"$" + name: {**schema, "title": name}, **schema.get("$defs", {})}
    moved = json.loads(json.dumps(expected).replace("#/$defs/", "#/components/schemas/"))
    root = moved.pop("$" + name)
    for key in ("$schema", "$defs"):
        root.pop(key, None)
    data = root["properties"].get("data")
    if data:
        moved[data["title"]] = data
        root["properties"]["data"] = {"$ref": f"#/components/schemas/{data['title']}"}
    moved[name] = root
    for component, wanted in moved.items():
        assert without_descriptions(components[component]) == without_descriptions(wanted), component


def test_nothing_in_the_document_refers_to_the_papers_it_was_written_from() -> None:
    text = json.dumps(DOCUMENT)
    assert not re.search(r"docs/|\$defs|leads\.consent", text)


@pytest.mark.parametrize("vocabulary", BOTH, ids=["proto", "autoagent"])
@pytest.mark.parametrize("skill", SKILLS, ids=lambda skill: skill.id)
def test_an_example_request_is_valid_for_the_service_and_the_document(skill: Skill, vocabulary: Vocabulary) -> None:
    """The examples are requests that work."""
    body = example_body(skill, vocabulary)
    request = decode_request(json.dumps(body).encode(), WIRE)
    assert (request.skill, request.vocabulary, request.problems) == (skill, vocabulary, ())
    assert list(REQUESTS.iter_errors(body)) == []
    rpc_id, called = decode_call(json.dumps(example_call(example_body(skill, vocabulary))).encode(), WIRE)
    assert isinstance(called, Request)
    assert (rpc_id, called.skill, called.problems) == (b'"1"', skill, ())
    calls = validator(CALL["requestBody"]["content"]["application/json"]["schema"])
    assert calls.is_valid(example_call(example_body(skill, vocabulary)))


@pytest.mark.parametrize("vocabulary", BOTH, ids=["proto", "autoagent"])
@pytest.mark.parametrize("skill", SKILLS, ids=lambda skill: skill.id)
def test_an_example_reply_has_the_documented_shape(skill: Skill, vocabulary: Vocabulary) -> None:
    """Role, a new messageId, one data part of the skill's response type and media type."""
    reply = example_response(skill, vocabulary)
    assert list(validator(response_schema(SEND, 200)).iter_errors(reply)) == []
    (part,) = reply["message"]["parts"]
    assert part["data"]["type"] == skill.response_type
    assert part["mediaType"] == vocabulary.response_media_type(skill)
    assert reply["message"]["messageId"] != example_body(skill, vocabulary)["message"]["messageId"]


def test_the_examples_name_no_real_person() -> None:
    text = json.dumps([DOCUMENT["paths"], *(example_response(skill, PROTO) for skill in SKILLS)])
    assert set(re.findall(r"\+1\d{8}", text)) == {"+120255501"}
    assert all(host.endswith("example.com") for host in re.findall(r"[\w.]+@([\w.-]+)", text))


def everything_refused() -> list[tuple[type[ProtocolError], int]]:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ProtocolError)]
    own = [(kind, kind.http) for kind in kinds if kind is not ProtocolError]
    transport = [(errors.UnsupportedSkill, 405), (errors.AuthRequired, 403)] + [
        (errors.SchemaValidationFailed, n) for n in (408, 413, 415)
    ]
    return own + transport


def made(kind: type[ProtocolError], status: int) -> ProtocolError:
    if kind is errors.RateLimited:
        return errors.RateLimited(7)
    if kind is errors.AuthRequired:
        return errors.AuthRequired("A token is needed.", http=status)
    return kind("No.", {"in": "envelope", "instancePath": "/message", "received": 5}, http=status)


@pytest.mark.parametrize("vocabulary", BOTH, ids=["proto", "autoagent"])
@pytest.mark.parametrize(("kind", "status"), everything_refused(), ids=str)
def test_every_refusal_has_the_shape_that_the_document_gives_its_status(
    kind: type[ProtocolError], status: int, vocabulary: Vocabulary
) -> None:
    """The envelope exactly, and the codes that its status carries."""
    error = made(kind, status)
    body = json.loads(http_error_body(error, vocabulary, "err_01KE7AQMD5N7Q9S2T4V6X8Z1BG", AT))
    assert list(validator(response_schema(SEND, status)).iter_errors(body)) == []
    assert f"`{kind.code}`" in SEND["responses"][str(status)]["description"]
    rpc = json.loads(json_rpc_error_body(error, vocabulary, "err_01KE7AQMD5N7Q9S2T4V6X8Z1BG", AT, b"7"))
    assert list(validator(response_schema(CALL, 200)).iter_errors(rpc)) == []


Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda body: body.update(more=1), id="another member at the top"),
        pytest.param(lambda body: body["error"].update(status="NOT_FOUND"), id="another member of error"),
        pytest.param(lambda body: body["error"].update(code="404"), id="code as text"),
        pytest.param(lambda body: body["error"].update(code=422), id="another status's code"),
        pytest.param(lambda body: body["error"]["details"].reverse(), id="details in the wrong order"),
        pytest.param(lambda body: body["error"]["details"].pop(), id="one detail"),
        pytest.param(lambda body: body["error"]["details"].append({}), id="three details"),
        pytest.param(lambda body: body["error"]["details"][0].pop("domain"), id="no domain"),
        pytest.param(lambda body: body["error"]["details"][0]["metadata"].update(n=1), id="metadata of a number"),
        pytest.param(lambda body: body["error"]["details"][0].update(reason="RATE_LIMITED"), id="another's reason"),
        pytest.param(lambda body: body["error"]["details"][1].pop("error_id"), id="no error_id"),
        pytest.param(lambda body: body["error"]["details"][1].pop("created_at"), id="no created_at"),
        pytest.param(lambda body: body["error"]["details"][1].pop("details"), id="no details"),
        pytest.param(lambda body: body["error"]["details"][1].pop("@type"), id="no @type"),
        pytest.param(lambda body: body["error"]["details"][1].update({"@type": "proto.error"}), id="another @type"),
        pytest.param(lambda body: body["error"]["details"][1].update(more=1), id="another member of the payload"),
        pytest.param(lambda body: body["error"]["details"][1].update(retryable="no"), id="retryable as text"),
        pytest.param(lambda body: body["error"]["details"][1].update(type="error"), id="another type"),
    ],
)
def test_the_error_schema_accepts_nothing_else(change: Change) -> None:
    """Every field, two details in their order, the code equal to the status."""
    schema = validator(response_schema(SEND, 404))
    body = example_error(404, PROTO)
    assert schema.is_valid(body)
    change(body)
    assert not schema.is_valid(body)


@pytest.mark.parametrize("operation", [SEND, CALL], ids=["HTTP+JSON", "JSON-RPC"])
@pytest.mark.parametrize(("status", "header"), [(401, "WWW-Authenticate"), (405, "Allow"), (429, "Retry-After")])
def test_refusals_name_the_headers_that_they_carry(operation: dict[str, Any], status: int, header: str) -> None:
    assert header in operation["responses"][str(status)]["headers"]


def test_every_status_that_can_occur_is_documented() -> None:
    """Over JSON-RPC all refusals are 200 but for those of the transport and 401, 403 (a token), 429."""
    assert set(SEND["responses"]) == {str(status) for status in (200, *(n for _, n in everything_refused()))}
    assert {"200", "401", "403", "413", "415", "429"} <= set(CALL["responses"])
    assert "CONSENT" not in CALL["responses"]["403"]["description"]
    assert not {"400", "404", "409", "422", "500"} & set(CALL["responses"])


def test_both_media_types_are_accepted_and_returned() -> None:
    """`application/json` and `application/a2a+json`."""
    both = {"application/json", "application/a2a+json"}
    assert set(SEND["requestBody"]["content"]) == both
    assert all(set(response["content"]) == both for response in SEND["responses"].values())


@pytest.mark.parametrize(
    ("bearer", "security", "words"),
    [
        (NO_TOKENS, None, None),
        (frozenset({"lead.submit"}), [{}, {"bearer": []}], "lead.submit"),
        (frozenset({"lead.submit", "inventory.vehicle"}), [{}, {"bearer": []}], "inventory.vehicle, lead.submit"),
        (ALL_SKILLS, [{"bearer": []}], "every skill"),
    ],
    ids=["no skill", "one skill", "two skills", "every skill"],
)
def test_a_token_is_declared_where_skills_ask_for_one(
    bearer: frozenset[str], security: object, words: str | None
) -> None:
    """Required only when every skill asks for it."""
    document = openapi_document(facts(bearer=bearer), WIRE)
    assert document["paths"]["/message:send"]["post"].get("security") == security
    assert document["paths"]["/rpc"]["post"].get("security") == security
    described = {"type": "http", "scheme": "bearer", "description": f"A token of the dealer's, asked for by {words}."}
    assert document["components"].get("securitySchemes", {}) == ({"bearer": described} if words else {})


def test_a_skill_that_is_switched_off_is_not_in_the_document() -> None:
    """The skill is not on the card either."""
    document = openapi_document(facts(tuple(skill for skill in SKILLS if skill.id != "lead.submit")), WIRE)
    assert "lead-submit" not in json.dumps(document)
    assert not {"LeadSubmitRequest", "Customer", "Consent"} & set(document["components"]["schemas"])


def test_the_cards_have_the_documented_shape() -> None:
    for path, card in (("/cards/1.0.0.json", card_1_0_0), ("/cards/0.1.0.json", card_0_1_0)):
        for address in (path, "/.well-known/agent-card.json"):
            schema = validator(response_schema(DOCUMENT["paths"][address]["get"], 200))
            assert schema.is_valid(card(facts(), WIRE))
    assert not validator({"$ref": "#/components/schemas/AgentCard"}).is_valid(card_0_1_0(facts(), WIRE))


def part_of(body: dict[str, Any]) -> dict[str, Any]:
    part: dict[str, Any] = body["message"]["parts"][0]
    return part


ENVELOPES: list[tuple[str, Change, bool]] = [
    ("as it is", lambda body: None, True),
    ("a text part beside", lambda body: body["message"]["parts"].insert(0, {"text": "Hello"}), True),
    ("a contextId", lambda body: body["message"].update(contextId="c"), True),
    ("unknown members", lambda body: body.update(tenant="t", metadata={}), True),
    ("any output mode", lambda body: body["configuration"].update(acceptedOutputModes=["text/plain", "*/*"]), True),
    ("a whole number with a fraction", lambda body: part_of(body)["data"]["pagination"].update(limit=3.0), True),
    ("two data parts", lambda body: body["message"]["parts"].append(copy.deepcopy(part_of(body))), False),
    ("no data part", lambda body: body["message"].update(parts=[{"text": "Hello"}]), False),
    ("no mediaType", lambda body: part_of(body).pop("mediaType"), False),
    (
        "another skill's mediaType",
        lambda body: part_of(body).update(mediaType=PROTO.request_media_type(SKILLS[0])),
        False,
    ),
    ("the response's mediaType", lambda body: part_of(body).update(mediaType=PROTO.response_media_type(SEARCH)), False),
    ("an unknown skill", lambda body: part_of(body)["data"].update(type="inventory.sell.request"), False),
    ("legacy kind of a part", lambda body: part_of(body).update(kind="data"), False),
    ("legacy kind of the message", lambda body: body["message"].update(kind="message"), False),
    ("legacy role", lambda body: body["message"].update(role="user"), False),
    ("no messageId", lambda body: body["message"].pop("messageId"), False),
    ("an empty messageId", lambda body: body["message"].update(messageId=""), False),
    ("a taskId", lambda body: body["message"].update(taskId="t"), False),
    ("no configuration", lambda body: body.pop("configuration"), False),
    ("no output modes", lambda body: body["configuration"].update(acceptedOutputModes=[]), False),
    (
        "output modes that do not cover",
        lambda body: body["configuration"].update(acceptedOutputModes=["text/*"]),
        False,
    ),
    ("push notifications", lambda body: body["configuration"].update(pushNotificationConfig={}), False),
    ("an unknown filter", lambda body: part_of(body)["data"]["filters"].update(colour=["red"]), False),
    ("a null", lambda body: part_of(body)["data"].update(sort=None), False),
    ("a fraction", lambda body: part_of(body)["data"]["pagination"].update(limit=2.5), False),
]


@pytest.mark.parametrize(("change", "taken"), [row[1:] for row in ENVELOPES], ids=[row[0] for row in ENVELOPES])
def test_the_document_and_the_service_judge_an_envelope_alike(change: Change, taken: bool) -> None:
    body = example_body(SEARCH, PROTO)
    change(body)
    try:
        served = not decode_request(json.dumps(body).encode(), WIRE).problems
    except ProtocolError:
        served = False
    assert (REQUESTS.is_valid(body), served) == (taken, taken)


def formats() -> dict[str, st.SearchStrategy[str]]:
    """Values of the formats that are ours, and of those that generators understand more loosely than we do."""
    moments = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
    return {
        "phone": st.integers(0, 99).map(lambda n: f"+120255501{n:02d}"),
        "email": st.from_regex(r"[a-z]{1,9}@example\.com", fullmatch=True),
        "timezone": st.sampled_from(["America/New_York", "Europe/Berlin", "UTC"]),
        "date-time": moments.map(datetime.isoformat),
        "date-time-local": moments.map(datetime.isoformat),
    }


def test_requests_generated_from_the_document_are_valid() -> None:
    """The schemas are accurate; a request made from them alone is never refused for its shape."""
    for name, strategy in formats().items():
        schemathesis.openapi.format(name, strategy)
    operation = schemathesis.openapi.from_dict(DOCUMENT)["/message:send"]["post"]
    seen: set[str] = set()

    @given(operation.as_strategy(generation_mode=schemathesis.GenerationMode.POSITIVE))
    @settings(
        max_examples=examples(60),
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def is_taken(case: Any) -> None:
        request = decode_request(json.dumps(case.body).encode(), WIRE)
        # No schema can say that a window ends after it starts, or how long the names are in an unknown member.
        unsaid = ("formatMinimum", "propertyNames")
        problems = [problem for problem in request.problems if problem.keyword not in unsaid]
        assert problems == []
        seen.add(request.skill.id)

    is_taken()
    assert len(seen) > 2


def test_the_example_of_a_json_rpc_answer_has_the_documented_shape() -> None:
    schema = validator(response_schema(CALL, 200))
    for vocabulary in BOTH:
        assert schema.is_valid(example_json_rpc_response(vocabulary))
        assert schema.is_valid(example_json_rpc_error(vocabulary))


def test_the_glossary_is_complete_and_names_nothing_that_is_not_there() -> None:
    assert set(SKILL_DOCS) == set(SKILL_BY_ID.values())
    assert {kind.http for kind in ERRORS.values()} <= set(STATUSES)
    components = DOCUMENT["components"]["schemas"]
    unknown = {
        (name, member)
        for name, meanings in FIELD_MEANINGS.items()
        for member in meanings
        if member not in components[name]["properties"]
    }
    assert unknown == set()


def test_every_operation_has_its_own_id_a_tag_and_a_summary() -> None:
    operations = [operation for path in DOCUMENT["paths"].values() for operation in path.values()]
    assert len({operation["operationId"] for operation in operations}) == len(operations)
    tags = {tag["name"] for tag in DOCUMENT["tags"]}
    assert all(operation["summary"] and set(operation["tags"]) <= tags for operation in operations)


def test_the_wire_words_of_the_document_are_the_service_s_own() -> None:
    """The domain is a setting. The examples are in the default vocabulary."""
    own = Vocabularies(AUTOAGENT, proto(domain="errors.dealer.example"))
    document = openapi_document(facts(), own)
    domains = document["components"]["schemas"]["ErrorDomain"]["enum"]
    assert domains == ["autoagentprotocol.org", "errors.dealer.example", "a2a-protocol.org"]
    examples = document["paths"]["/message:send"]["post"]["requestBody"]["content"]["application/json"]["examples"]
    assert "vnd.autoagent." in json.dumps(examples)
    assert "vnd.proto." not in json.dumps(examples)


def schemas_within(node: Any) -> Iterator[dict[str, Any]]:
    """A schema and all schemas in it."""
    if not isinstance(node, dict):
        return
    yield node
    inner = [*node.get("properties", {}).values(), *node.get("$defs", {}).values(), node.get("items")]
    inner += [node.get("not"), *node.get("dependentSchemas", {}).values()]
    for name in ("allOf", "anyOf", "oneOf", "prefixItems"):
        inner += node.get(name, ())
    for schema in inner:
        yield from schemas_within(schema)


KEYWORDS = {
    *("$ref", "$schema", "$defs", "title", "description", "type", "const", "enum", "format", "pattern", "default"),
    *("allOf", "anyOf", "oneOf", "not", "properties", "required", "additionalProperties", "items", "prefixItems"),
    *("contains", "minContains", "maxContains", "minItems", "maxItems", "minLength", "maxLength", "minimum", "maximum"),
    *("discriminator", "examples", "propertyNames", "if", "then", "else", "minProperties", "maxProperties"),
    "dependentSchemas",
}


@pytest.mark.parametrize("name", DOCUMENT["components"]["schemas"])
def test_every_schema_of_the_document_is_plain_json_schema(name: str) -> None:
    """A validator passes over a keyword that it does not know, so a misspelt one would say nothing."""
    for schema in schemas_within(DOCUMENT["components"]["schemas"][name]):
        assert schema.keys() <= KEYWORDS, schema
