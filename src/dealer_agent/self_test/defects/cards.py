"""Defects for the checks of the agent card: agents whose card, or its headers for caches, is wrong."""

import itertools
import json
from collections.abc import Callable
from typing import Any

from dealer_agent.self_test.changing import answers, asks, calls
from dealer_agent.self_test.defect import LISTENS_AT, Agent, AgentResponse, Call, broken

SECURE = "https://dealer.test"
BEARER: list[dict[str, Any]] = [{"schemes": {"bearer": {"list": []}}}]


CARD = "/.well-known/agent-card.json"
OF_0_1_0 = "/cards/0.1.0.json"
OF_1_1 = "/aap/1.1/.well-known/agent-card.json"
OF_NEXT = "/aap/next/.well-known/agent-card.json"


def is_card(call: Call, path: str = CARD) -> bool:
    """Whether it asks for the card."""
    return call.method == "GET" and call.path == path


def is_schema(name: str) -> Callable[[Call], bool]:
    """Requests for the schema with this name."""
    return lambda call: call.path == f"/schemas/{name}.json"


def changed_card(answer: AgentResponse, change: Callable[[Any], object]) -> AgentResponse:
    """The card after a change, without its signatures, which would not verify any more."""

    def changed(card: Any) -> None:
        card.pop("signatures", None)
        change(card)

    return answer.with_document(changed)


def card(requirement_id: str, change: Callable[[Any], object], path: str = CARD, **options: Any) -> None:
    """Registers a defect that changes the card at a path."""
    answers(requirement_id, lambda answer: changed_card(answer, change), lambda call: is_card(call, path), **options)


def without(*names: str) -> Callable[[Any], object]:
    """Removes members."""
    return lambda node: [node.pop(name) for name in names]


def skill_of(node: Any, skill_id: str) -> Any:
    """The entry of a skill."""
    return next(each for each in node["skills"] if each["id"] == skill_id)


def another_interface(url: str, binding: str | None = "GRPC", version: str = "1.0") -> Callable[[Any], object]:
    """Adds an interface, which no check uses."""
    entry = {"url": url, "protocolBinding": binding, "protocolVersion": version}
    if binding is None:
        del entry["protocolBinding"]
    return lambda node: node["supportedInterfaces"].append(entry)


def extension(node: Any) -> Any:
    """The first extension of a card."""
    return node["capabilities"]["extensions"][0]


def without_binding(binding: str, name: str, member: str) -> Callable[[Any], object]:
    """Removes the interfaces of a binding. `name` and `member` have the spelling of the card."""
    return lambda node: node.update({name: [each for each in node[name] if each[member] != binding]})


def header(name: str, value: str | None) -> Callable[[AgentResponse], AgentResponse]:
    """Sets or removes a header of an answer."""
    return lambda answer: answer.with_header(name, value)


answers("cards.content-type", header("content-type", "application/octet-stream"), is_card)
answers("cards.content-type-true", header("content-type", "text/html"), is_card)
card("cards.member-types", lambda node: node["skills"][0].update(examples="Which cars do you have?"))
card("cards.name", without("name"))
card("cards.description", lambda node: node.update(description=" "))
card("cards.version", lambda node: node.update(version=1))
card("cards.provider", lambda node: node["provider"].update(url="www.example.com"))
card("cards.documentation", lambda node: node.update(documentationUrl=f"{LISTENS_AT}/nowhere"))
card("cards.spelling", lambda node: node.update(default_input_modes=[]))
card(
    "cards.spelling",
    lambda node: [each.update(protocolBinding=each.pop("protocol_binding")) for each in node["supported_interfaces"]],
    OF_0_1_0,
    name="cards.spelling.interfaces",
    revision="0.1.0",
)
card("cards.interface-url", another_interface("/grpc"))
card("cards.interface-binding", another_interface(f"{LISTENS_AT}/other", None))
card(
    "cards.interface-binding",
    another_interface(f"{LISTENS_AT}/other", "http+json"),
    name="cards.interface-binding.case",
)
card("cards.interface-version", another_interface(f"{LISTENS_AT}/grpc", version="0.3"))
card("cards.interface-twice", lambda node: node["supportedInterfaces"].append(node["supportedInterfaces"][0]))
card("cards.json-rpc", without_binding("JSONRPC", "supportedInterfaces", "protocolBinding"))
card(
    "cards.http-json",
    without_binding("HTTP+JSON", "supported_interfaces", "protocol_binding"),
    OF_0_1_0,
    binding="JSONRPC",
)
card("cards.only-json-rpc", another_interface(f"{LISTENS_AT}/grpc"), OF_1_1)
card("cards.same-host", another_interface("http://internal.example/grpc"))
card("cards.interfaces-answer", another_interface(f"{LISTENS_AT}/nowhere", "JSONRPC"))
card(
    "cards.interface-version",
    lambda node: node["supportedInterfaces"][0].update(protocolVersion=1.0),
    name="cards.interface-version.number",
)
answers(
    "cards.object",
    lambda answer: answer.with_body(b"[" + answer.body + b"]"),
    lambda call: is_card(call, CARD),
)
card("cards.capabilities", lambda node: node.update(capabilities=[]))
card("cards.capabilities-work", lambda node: node["capabilities"].update(streaming=True))
card("cards.streaming", lambda node: node["capabilities"].update(streaming=True))
card("cards.extensions", lambda node: node["capabilities"]["extensions"].append({"uri": "automotive"}))
card("cards.extension-optional", lambda node: extension(node).update(required=True))
card("cards.extension-required", lambda node: extension(node).pop("required"), OF_NEXT)
card("cards.extension-id", lambda node: extension(node)["params"].pop("id"))
card("cards.input-modes", lambda node: node.update(defaultInputModes="application/json"))
card("cards.output-modes", lambda node: node.update(defaultOutputModes=[]))
card("cards.skills", lambda node: node.update(skills=[]))
card("cards.skill-members", lambda node: node["skills"][0].update(tags=[]))
card("cards.skill-twice", lambda node: node["skills"].append(node["skills"][0]))
card("cards.skill-known", lambda node: [each.update(id=f"my.{each['id']}") for each in node["skills"]])
card("cards.skill-ids", lambda node: skill_of(node, "inventory.vehicle").update(id="vehicle.detail"))
card("cards.skill-modes", lambda node: node["skills"][0].update(outputModes=["text/plain"]))
card(
    "cards.skill-modes-of-others",
    lambda node: skill_of(node, "lead.submit").update(outputModes=skill_of(node, "inventory.search")["outputModes"]),
)
card(
    "cards.skills-complete",
    lambda node: node.update(skills=[each for each in node["skills"] if each["id"] != "inventory.facets"]),
)
calls(
    "cards.skills-answered",
    lambda call: call.with_payload(lambda payload: payload.update(type="inventory.count.request")),
    asks("inventory.facets.request", filters={"vin": "ZZZZZZ00000000000"}),
)


@broken("cards.https", base=SECURE)
async def names_an_insecure_address(call: Call, agent: Agent) -> AgentResponse:
    """Names an http URL in the card of an https address."""
    answer = await agent(call)
    answer = answer.with_body(answer.body.replace(LISTENS_AT.encode(), SECURE.encode()))
    return changed_card(answer, another_interface("http://dealer.test/grpc")) if is_card(call) else answer


numbers = itertools.count()


@broken("cards.extension-id-stable")
async def makes_an_id_for_each_request(call: Call, agent: Agent) -> AgentResponse:
    """Gives the extension another id in each card."""
    answer = await agent(call)
    if not is_card(call):
        return answer
    return changed_card(answer, lambda node: extension(node)["params"].update(id=f"id-{next(numbers)}"))


def each_extension(node: Any) -> list[Any]:
    """All extensions of a card."""
    return list(node["capabilities"]["extensions"])


def relative_schema(node: Any) -> None:
    """Makes the URL of a schema a relative one."""
    for each in each_extension(node):
        for skill in each["params"]["skills"].values():
            skill["request_schema"] = "/schemas/one.json"


def open_objects(schema: Any) -> None:
    """Allows unknown members everywhere in a schema."""
    if isinstance(schema, dict):
        schema.pop("additionalProperties", None)
    for each in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        open_objects(each)


def schema_with(**members: Any) -> Callable[[AgentResponse], AgentResponse]:
    """Sets members of a schema."""
    return lambda answer: answer.with_document(lambda schema: schema.update(members))


card("cards.schema-urls", relative_schema)
answers("cards.schemas-served", lambda answer: answer.with_status(404), is_schema("lead.submit.request"))
answers("cards.schemas-valid", schema_with(type="list"), is_schema("lead.submit.response"))
answers("cards.request-schemas", schema_with(required=["zip"]), is_schema("dealer.information.request"))
answers(
    "cards.request-schemas-refuse",
    lambda answer: answer.with_document(open_objects),
    is_schema("inventory.search.request"),
)
answers(
    "cards.response-schemas",
    lambda answer: answer.with_data(lambda data: data.update(zip=37203)),
    lambda call: call.skill == "inventory.vehicle" and "zip" in call.payload,
    name="cards.response-schemas.zip",
)
calls(
    "cards.request-schemas",
    lambda call: call.with_payload(lambda payload: payload.pop("filters")),
    asks("dealer.information.request", filters={}),
    name="cards.request-schemas.filters",
)
answers("cards.response-schemas", schema_with(required=["zip"]), is_schema("dealer.information.response"))


def with_auth_type(value: str) -> Callable[[Any], object]:
    """Sets `auth_type` of the card and of its extensions."""

    def change(node: Any) -> None:
        node["auth_type"] = value
        for each in each_extension(node):
            each["params"]["auth_type"] = value

    return change


def without_security(node: Any) -> None:
    """Removes from a card everything that says which tokens the agent accepts."""
    node.pop("securitySchemes")
    node.pop("securityRequirements")
    for each in node["skills"]:
        each.pop("securityRequirements", None)


card("cards.auth-type", without("auth_type"), OF_0_1_0)
card("cards.auth-type-params", lambda node: extension(node)["params"].pop("auth_type"), OF_0_1_0)
card("cards.auth-type-bearer", with_auth_type("bearer"), OF_0_1_0)
card("cards.auth-type-none", with_auth_type("none"), OF_0_1_0, token=True)
card("cards.security-declared", without_security, token=True)
calls(
    "cards.security-declared-leads",
    lambda call: call.with_header("Authorization", "Bearer another-token-0123456789"),
    lambda call: call.skill == "lead.submit",
)
card("cards.security-true", lambda node: node.update(securitySchemes={"bearer": {}}, securityRequirements=BEARER))
card("cards.security-schemes", without("securitySchemes"), token=True)

answers("cards.cache-control", header("cache-control", "no-store"), is_card)
answers("cards.etag", header("etag", None), is_card)
answers("cards.etag-form", header("etag", "abc"), is_card)
answers("cards.last-modified-past", header("last-modified", "Sun, 01 Jan 2090 00:00:00 GMT"), is_card)
answers(
    "cards.not-modified-etag",
    header("etag", None),
    lambda call: is_card(call) and call.header("if-none-match") not in (None, '"another-card"'),
)
calls(
    "cards.not-modified-list",
    lambda call: call.with_header("if-none-match", None),
    lambda call: is_card(call) and "," in (call.header("if-none-match") or ""),
)
answers("cards.head", lambda answer: answer.with_status(405), lambda call: call.method == "HEAD" and call.path == CARD)
answers("cards.last-modified", header("last-modified", None), is_card)
answers("cards.cross-origin", header("access-control-allow-origin", None), is_card)
calls("cards.not-modified", lambda call: call.with_header("if-none-match", None), is_card)
answers(
    "cards.not-modified-empty",
    lambda answer: answer.with_body(b"{}"),
    lambda call: is_card(call) and call.header("if-none-match") not in (None, '"another-card"'),
)
answers(
    "cards.other-etag",
    lambda answer: answer.with_status(304).with_body(b""),
    lambda call: is_card(call) and call.header("if-none-match") == '"another-card"',
)


@broken("cards.etag-stable")
async def makes_an_etag_for_each_request(call: Call, agent: Agent) -> AgentResponse:
    """Gives each card another ETag, and answers 304 for any of them."""
    if not is_card(call):
        return await agent(call)
    if (call.header("if-none-match") or "").startswith('"etag-'):
        return AgentResponse(304, (("etag", call.header("if-none-match") or ""),), b"")
    return (await agent(call)).with_header("etag", f'"etag-{next(numbers)}"')


def _ai_catalog(*entries: dict[str, Any]) -> dict[str, Any]:
    """An AI Catalog with the card of the agent and these entries."""
    this = {
        "identifier": "urn:air:127.0.0.1:agent",
        "displayName": "Agent",
        "type": "application/a2a-agent-card+json",
        "url": f"{LISTENS_AT}/.well-known/agent-card.json",
    }
    return {"specVersion": "1.0", "entries": [this, *entries]}


def _serves_catalog(requirement_id: str, document: Any) -> None:
    """Adds the defect that the agent serves this document as its AI Catalog."""

    async def answer(call: Call, agent: Agent) -> AgentResponse:
        if not call.path.endswith("/ai-catalog.json"):
            return await agent(call)
        return AgentResponse(200, (("content-type", "application/json"),), json.dumps(document).encode())

    broken(requirement_id)(answer)


OTHER = {"identifier": "urn:air:other", "displayName": "Other", "type": "application/a2a-agent-card+json"}
_serves_catalog("catalog.json", {"entries": {}})
_serves_catalog("catalog.entry-members", _ai_catalog({**OTHER, "url": "/other"}))
_serves_catalog("catalog.cards-answer", _ai_catalog({**OTHER, "url": f"{LISTENS_AT}/nowhere"}))
_serves_catalog("catalog.names-card", {"entries": [{**OTHER, "url": f"{LISTENS_AT}/cards/1.0.0.json"}]})


def _names_tenant(node: Any) -> None:
    """Gives the interface of HTTP+JSON a tenant."""
    for each in node["supportedInterfaces"]:
        if each["protocolBinding"] == "HTTP+JSON":
            each["tenant"] = "north"


@broken("cards.tenant")
async def refuses_its_tenant(call: Call, agent: Agent) -> AgentResponse:
    """Refuses requests with the tenant that its card names."""
    if isinstance(call.document, dict) and "tenant" in call.document:
        call = call.with_document(lambda node: node.clear())
    answer = await agent(call)
    return changed_card(answer, _names_tenant) if is_card(call) else answer


_FETCHED = itertools.count(1)
answers(
    "cards.interfaces-always",
    lambda answer: changed_card(answer, lambda node: next(_FETCHED) % 3 == 0 and node.update(supportedInterfaces=[])),
    is_card,
)
