"""The OpenAPI 3.1 document of one service, from the same facts as the agent card. Pure."""

from dealer_agent.apidocs import examples
from dealer_agent.apidocs.components import PARTS, Json, components, ref
from dealer_agent.protocol.card import BEARER_SCHEME, CardFacts, CardIssuer, card_0_1_0, card_1_0_0
from dealer_agent.protocol.errors import AuthRequired, ProtocolError
from dealer_agent.protocol.json_rpc import HTTP_STATUSES
from dealer_agent.protocol.schemas import published_schemas
from dealer_agent.protocol.vocabulary import Vocabularies, Vocabulary

MEDIA_TYPES = ("application/json", "application/a2a+json")

JSON_RPC_STATUSES = sorted({403, 405, *HTTP_STATUSES})
"""The HTTP statuses of errors over JSON-RPC. Every other response has 200."""


def server_root(facts: CardFacts) -> str:
    """The URL of the service, without a trailing slash. Cards, schemas and pages are below it."""
    return facts.schemas_url.removesuffix("/schemas")


def openapi_document(facts: CardFacts, vocabularies: Vocabularies) -> Json:
    """The document for the enabled skills, as plain JSON values."""
    document: Json = {
        "openapi": "3.1.0",
        "info": {
            "title": f"{facts.name}: dealer agent",
            "version": facts.version,
            **PARTS["info"],
        },
        "servers": [{"url": server_root(facts) or "/"}],
        "tags": PARTS["tags"],
        "paths": _paths(facts, vocabularies),
        "components": {"schemas": components(facts, vocabularies), "headers": PARTS["headers"]},
    }
    if facts.bearer_skills or facts.issuers:
        asking = "every skill" if facts.auth_type == "bearer" else ", ".join(sorted(facts.bearer_skills))
        document["components"]["securitySchemes"] = {
            BEARER_SCHEME: {
                "type": "http",
                "scheme": "bearer",
                "description": f"A token of the dealer's, asked for by {asking or 'no skill'}.",
            },
            **{issuer.scheme: _scheme_of(issuer, facts) for issuer in facts.issuers},
        }
    return document


def _scheme_of(issuer: CardIssuer, facts: CardFacts) -> Json:
    if not issuer.token_url:
        return {"type": "openIdConnect", "openIdConnectUrl": issuer.openid_url}
    return {
        "type": "oauth2",
        "flows": {"clientCredentials": {"tokenUrl": issuer.token_url, "scopes": facts.scopes}},
    }


def _paths(facts: CardFacts, vocabularies: Vocabularies) -> dict[str, Json]:
    """The URLs of the document: the two bindings, and the documents that are read with GET."""
    vocabulary = vocabularies.default
    send, call = f"{facts.http_json_url}/message:send", facts.json_rpc_url
    root = server_root(facts)
    paths = {
        send.removeprefix(root): {"post": _http_json_operation(facts, vocabulary)},
        call.removeprefix(root): {"post": _json_rpc_operation(facts, vocabulary)},
    }
    paths |= {path: {"get": _document(**row)} for path, row in PARTS["documents"].items()} | PARTS["paths"]
    names = sorted(published_schemas())
    for path, example in (
        ("/cards/1.0.0.json", card_1_0_0(facts, vocabularies)),
        ("/cards/0.1.0.json", card_0_1_0(facts, vocabularies)),
        ("/schemas", {"schemas": names}),
    ):
        paths[path]["get"]["responses"]["200"]["content"]["application/json"]["example"] = example
    schema, error = paths["/schemas/{name}"]["get"], _error_schema(examples.STATUSES[404])
    schema["responses"]["404"] = {
        "description": "No such document.",
        "content": {"application/json": {"schema": error}},
    }
    schema["parameters"] = [
        {
            "name": "name",
            "in": "path",
            "required": True,
            "description": "A payload's `type` and `.json`.",
            "schema": {"enum": names},
            "example": f"{facts.skills[0].request_type}.json",
        }
    ]
    return paths


def _document(*, schema: Json, media_type: str = "application/json", **operation: str) -> Json:
    """The operation that reads a published document with this schema."""
    return {
        **operation,
        "tags": ["Discovery"],
        "responses": {
            "200": {
                "description": operation["summary"],
                "headers": _header_refs("ETag", "Cache-Control"),
                "content": {media_type: {"schema": schema}},
            },
            "304": {"description": "Unchanged since the `ETag` that was sent in `If-None-Match`."},
        },
    }


def _http_json_operation(facts: CardFacts, vocabulary: Vocabulary) -> Json:
    """The operation of the binding HTTP+JSON."""
    requests, responses = (
        {skill.id: {"summary": skill.name, "value": example(skill, vocabulary)} for skill in facts.skills}
        for example in (examples.example_body, examples.example_response)
    )
    error_responses = {
        str(code): _error_response(status, _error_schema(status), examples.example_error(code, vocabulary))
        for code, status in examples.STATUSES.items()
    }
    return _skill_operation(
        facts,
        "sendMessage",
        "Ask a skill over HTTP+JSON",
        "A2A's SendMessage. The payload's `type` picks the skill:\n\n"
        + "\n".join(f"- `{skill.request_type}`: {skill.description}" for skill in facts.skills),
        _json_content({"schema": ref("SendMessageRequest"), "examples": requests}),
        _success_response("The skill's response.", {"schema": ref("SendMessageReply"), "examples": responses})
        | error_responses,
    )


def _json_rpc_operation(facts: CardFacts, vocabulary: Vocabulary) -> Json:
    """The operation of the binding JSON-RPC."""
    requests = {
        skill.id: {"summary": skill.name, "value": examples.example_call(examples.example_body(skill, vocabulary))}
        for skill in facts.skills
    }
    responses = {
        "success": {"summary": "A result", "value": examples.example_json_rpc_response(vocabulary)},
        "error": {"summary": "An error", "value": examples.example_json_rpc_error(vocabulary)},
    }
    success = {"schema": {"oneOf": [ref("JsonRpcResult"), ref("JsonRpcError")]}, "examples": responses}
    wrong_method = examples.STATUSES[405]
    error_responses = {
        str(code): _error_response(
            examples.STATUSES[code],
            ref("JsonRpcError"),
            examples.example_json_rpc_error(vocabulary, code),
            # Over JSON-RPC, the other errors with this status have 200.
            [AuthRequired] if code in AuthRequired.other_http else None,
        )
        for code in JSON_RPC_STATUSES
    }
    # The service refuses a wrong method before it looks for JSON-RPC.
    error_responses["405"] = _error_response(
        wrong_method, _error_schema(wrong_method), examples.example_error(405, vocabulary)
    )
    return _skill_operation(
        facts,
        "callSendMessage",
        "Ask a skill over JSON-RPC 2.0",
        "The same request as `params` of the method `SendMessage`. Errors are answered with HTTP 200, but for "
        f"{', '.join(map(str, JSON_RPC_STATUSES))}. Batches and notifications are refused.",
        _json_content({"schema": ref("JsonRpcCall"), "examples": requests}),
        _success_response("A result, or an error.", success) | error_responses,
    )


def _skill_operation(
    facts: CardFacts, name: str, summary: str, description: str, content: Json, responses: Json
) -> Json:
    """What the operations of both bindings have in common."""
    operation: Json = {
        "operationId": name,
        "tags": ["Skills"],
        "summary": summary,
        "description": description,
        "parameters": PARTS["parameters"],
        "requestBody": {"required": True, "content": content},
        "responses": responses,
    }
    if facts.bearer_skills:
        # The empty requirement is for the skills of this route that require no token.
        requirement: list[Json] = [{BEARER_SCHEME: []}, *({each.scheme: [*facts.scopes]} for each in facts.issuers)]
        operation["security"] = requirement if facts.auth_type == "bearer" else [{}, *requirement]
    return operation


_STATUS_HEADERS = {401: "WWW-Authenticate", 405: "Allow", 429: "Retry-After"}


def _header_refs(*names: str) -> Json:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _json_content(media: Json) -> Json:
    return dict.fromkeys(MEDIA_TYPES, media)


def _success_response(description: str, media: Json) -> Json:
    return {
        "200": {"description": description, "headers": _header_refs("A2A-Extensions"), "content": _json_content(media)}
    }


def _error_response(
    status: examples.Status, schema: Json, example: Json, kinds: list[type[ProtocolError]] | None = None
) -> Json:
    """The response of one HTTP status: its error codes, its headers and an example.

    `kinds` are the errors that have the status, if not all of `examples.Status.kinds`.
    """
    lines = [f"- `{kind.code}`: {kind.description()}" for kind in kinds or status.kinds()]
    response: Json = {
        "description": "\n\n".join([*([] if kinds else [status.meaning]), "\n".join(lines)]),
        "content": _json_content({"schema": schema, "example": example}),
    }
    if status.example.http in _STATUS_HEADERS:
        response["headers"] = _header_refs(_STATUS_HEADERS[status.example.http])
    return response


def _error_schema(status: examples.Status) -> Json:
    """The schema of an error, narrowed to the codes of a status."""
    codes = {"enum": [kind.code for kind in status.kinds()]}
    details = [{"properties": {"reason": codes}}, {"properties": {"code": codes}}]
    narrow = {"properties": {"code": {"const": status.example.http}, "details": {"prefixItems": details}}}
    # Beside the reference, not in an allOf: code generators then use the one type `Error` for every status.
    return ref("Error") | {"properties": {"error": narrow}}
