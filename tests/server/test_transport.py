"""Paths, methods, content types, sizes, versions, extensions, A2A's other routes (docs/protocol.md#http)."""

import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from tests.server.conftest import OpenDealership
from tests.server.dealership import ACCORD, NO_LIMITS, Dealership, error_of, message

SEARCH = message("inventory.search")
BINDINGS = pytest.mark.parametrize("path", ["/message:send", "/rpc"])


def sent_to(path: str, document: dict[str, Any] = SEARCH) -> bytes:
    """The body that carries a message on the binding of a path."""
    rpc = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": document}
    return json.dumps(rpc if path.startswith("/rpc") else document).encode()


@pytest.mark.parametrize(
    "path", ["/message:send/", "/rpc/", "/.well-known/agent-card.json/", "/cards/1.0.0.json/", "/healthz/", "/schemas/"]
)
@pytest.mark.requirement("trailing-slash")
def test_a_path_is_served_with_and_without_a_trailing_slash(dealership: Dealership, path: str) -> None:
    for each in (path, path.rstrip("/")):
        posts = each.startswith(("/message", "/rpc"))
        answer = dealership.post(sent_to(each), each) if posts else dealership.get(each)
        assert answer.status_code == 200
        assert "location" not in answer.headers


@BINDINGS
@pytest.mark.parametrize(
    ("content_type", "reply"),
    [
        ("application/json", "application/json"),
        ("application/json; charset=utf-8", "application/json"),
        ("Application/JSON;charset=UTF-8", "application/json"),
        ("application/a2a+json", "application/a2a+json"),
        ("application/a2a+json; charset=utf-8", "application/a2a+json"),
    ],
)
@pytest.mark.requirement("content-types-accepted", "reply-content-type")
def test_a_request_may_have_either_media_type_and_the_reply_has_the_same(
    dealership: Dealership, path: str, content_type: str, reply: str
) -> None:
    headers = {"content-type": content_type}
    answer = dealership.post(sent_to(path), path, headers=headers)
    assert (answer.status_code, answer.headers["content-type"]) == (200, reply)
    answer = dealership.post(b"{", path, headers=headers)
    assert answer.headers["content-type"] == reply


@BINDINGS
@pytest.mark.parametrize(
    "content_type", [None, "", "text/plain", "application/xml", "application/x-www-form-urlencoded", "json", "*/*"]
)
@pytest.mark.requirement("content-type-415", "http-415", "same-error-body-everywhere")
@pytest.mark.requirement("rpc-http-status")
def test_any_other_content_type_is_415(dealership: Dealership, path: str, content_type: str | None) -> None:
    headers = {} if content_type is None else {"content-type": content_type}
    answer = dealership.request("POST", path, content=sent_to(path), headers=headers)
    assert answer.status_code == 415
    assert error_of(answer)["code"] == "SCHEMA_VALIDATION_FAILED"
    assert answer.json()["error"]["code"] == (-32005 if path == "/rpc" else 415)
    assert answer.headers["content-type"] == "application/json"


@BINDINGS
@pytest.mark.requirement("http-413", "same-error-body-everywhere", "rpc-http-status")
def test_a_body_over_the_limit_is_413_and_one_at_it_is_read(open_dealership: OpenDealership, path: str) -> None:
    opened = open_dealership("[service]\nbody_limit_kib = 1" + NO_LIMITS)
    sent = sent_to(path)
    answer = opened.post(sent + b" " * (1024 - len(sent)), path)
    assert answer.status_code == 200
    answer = opened.post(sent + b" " * (1025 - len(sent)), path)
    assert answer.status_code == 413
    assert error_of(answer)["code"] == "SCHEMA_VALIDATION_FAILED"


@BINDINGS
@pytest.mark.requirement("http-413")
def test_a_body_without_a_declared_size_is_measured_while_reading(dealership: Dealership, path: str) -> None:
    taken = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal taken
        for _ in range(100_000):
            taken += 1
            yield b" " * 4096

    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(dealership.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://agent.test") as client:
            return await client.post(path, content=endless(), headers={"content-type": "application/json"})

    answer = dealership.portal.call(send)
    assert answer.status_code == 413
    assert error_of(answer)["code"] == "SCHEMA_VALIDATION_FAILED"
    assert taken * 4096 <= 512 * 1024


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])
@pytest.mark.parametrize(
    ("path", "allowed"),
    [("/message:send", {"POST"}), ("/rpc", {"POST"}), ("/message:send/", {"POST"})],
)
@pytest.mark.requirement("http-405", "same-error-body-everywhere")
def test_a_wrong_method_is_405_and_the_header_allow_has_the_right_one(
    dealership: Dealership, method: str, path: str, allowed: set[str]
) -> None:
    answer = dealership.request(method, path)
    assert answer.status_code == 405
    assert error_of(answer)["code"] == "UNSUPPORTED_SKILL"
    assert set(answer.headers["allow"].replace(" ", "").split(",")) == allowed


@pytest.mark.parametrize(
    "path", ["/healthz", "/cards/1.0.0.json", "/.well-known/agent-card.json", "/openapi.json", "/"]
)
@pytest.mark.requirement("http-405")
def test_a_document_is_read_and_not_written(dealership: Dealership, path: str) -> None:
    answer = dealership.post({}, path)
    assert (answer.status_code, error_of(answer)["code"]) == (405, "UNSUPPORTED_SKILL")
    assert "GET" in answer.headers["allow"]


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "path",
    ["/nowhere", "/message", "/message:sends", "/cards/2.0.0.json", "/schemas/x.json", "/rpc/x", "/.env"],
)
@pytest.mark.requirement("http-404", "same-error-body-everywhere")
def test_an_unknown_path_is_404_in_the_error_envelope(dealership: Dealership, method: str, path: str) -> None:
    answer = dealership.request(method, path, headers={"content-type": "application/json"})
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/json"
    assert error_of(answer)["code"] == "UNSUPPORTED_SKILL"
    assert answer.json()["error"]["details"][0]["domain"] == "proto.example"


@pytest.mark.parametrize(
    "path", ["/", "/message:send/x", "/a2a", "/v1/message:send", "/message/send", "/v1", "/healthz", "/docs"]
)
@pytest.mark.requirement("wrong-address")
def test_the_error_for_a_message_at_a_wrong_address_names_the_right_one(
    open_dealership: OpenDealership, path: str
) -> None:
    opened = open_dealership('[service]\npublic_url = "https://agent.example"\nbase_path = "/cars"' + NO_LIMITS)
    for binding in ("/message:send", "/rpc"):
        for base in ("", "/cars"):
            answer = opened.post(sent_to(binding), base + path)
            assert answer.status_code in (404, 405)
            message = error_of(answer)["message"]
            assert "POST https://agent.example/cars/message:send" in message
            assert "POST https://agent.example/cars/rpc" in message


@pytest.mark.requirement("wrong-address")
def test_the_error_for_a_message_in_the_form_of_the_other_binding_names_its_address(dealership: Dealership) -> None:
    answer = dealership.post(sent_to("/rpc"), "/message:send")
    assert (answer.status_code, error_of(answer)["code"]) == (422, "SCHEMA_VALIDATION_FAILED")
    assert "JSON-RPC" in error_of(answer)["message"]
    assert "/rpc" in error_of(answer)["message"]
    answer = dealership.post(sent_to("/message:send"), "/rpc")
    assert (answer.status_code, answer.json()["error"]["code"]) == (200, -32600)
    assert "/message:send" in error_of(answer)["message"]


@BINDINGS
@pytest.mark.parametrize("version", ["1.0", "1.1", "1.0.0", " 1.0 ", "1.99"])
@pytest.mark.requirement("a2a-version-served", "deviation-absent-version")
def test_version_1_is_served_as_header_and_as_query_parameter(dealership: Dealership, path: str, version: str) -> None:
    assert dealership.post(sent_to(path), path, headers={"A2A-Version": version}).status_code == 200
    assert dealership.post(sent_to(path), f"{path}?A2A-Version={version.strip()}").status_code == 200
    assert dealership.post(sent_to(path), path).status_code == 200


@BINDINGS
@pytest.mark.parametrize("version", ["", "0.3", "0.3.0", "2.0", "1", "1.x", "10.0", "v1.0", "latest"])
@pytest.mark.requirement("a2a-version-refused", "rpc-version", "a2a-errors")
def test_another_version_gets_the_a2a_error(dealership: Dealership, path: str, version: str) -> None:
    answers = [dealership.post(sent_to(path), path, headers={"A2A-Version": version})]
    answers.append(dealership.post(sent_to(path), f"{path}?A2A-Version={version}"))
    for answer in answers:
        assert answer.status_code == (200 if path == "/rpc" else 400)
        assert error_of(answer)["code"] == "VERSION_NOT_SUPPORTED"
        error = answer.json()["error"]
        info = error["data" if path == "/rpc" else "details"][0]
        assert (info["reason"], info["domain"]) == ("VERSION_NOT_SUPPORTED", "a2a-protocol.org")
        if path == "/rpc":
            assert error["code"] == -32009


PUBLIC_0_1 = "https://autoagentprotocol.org/extensions/a2a-automotive-retail/v0.1"
OURS = [
    "https://proto.example/extensions/a2a-automotive-retail/v1.0",
    "https://proto.example/extensions/a2a-automotive-retail/v0.1",
    "https://autoagentprotocol.org/extensions/a2a-automotive-retail/v1.0",
]


@BINDINGS
@pytest.mark.parametrize("uri", OURS)
@pytest.mark.requirement("a2a-extensions")
def test_the_reply_names_the_requested_extension(dealership: Dealership, path: str, uri: str) -> None:
    asked = f"https://example.com/other, {uri}"
    answer = dealership.post(sent_to(path), path, headers={"A2A-Extensions": asked})
    assert answer.headers["a2a-extensions"] == uri


@pytest.mark.requirement("a2a-extensions")
def test_extensions_may_be_listed_in_several_headers(dealership: Dealership) -> None:
    lines = [("content-type", "application/json"), ("a2a-extensions", OURS[2]), ("a2a-extensions", OURS[0])]
    answer = dealership.request("POST", "/message:send", content=sent_to("/message:send"), headers=lines)
    assert answer.headers["a2a-extensions"] == f"{OURS[2]}, {OURS[0]}"


@BINDINGS
@pytest.mark.parametrize("asked", [None, "", "https://example.com/other", OURS[0] + "/more", PUBLIC_0_1])
@pytest.mark.requirement("a2a-extensions")
def test_no_other_extension_is_named(dealership: Dealership, path: str, asked: str | None) -> None:
    headers = {} if asked is None else {"A2A-Extensions": asked}
    answer = dealership.post(sent_to(path), path, headers=headers)
    assert answer.status_code == 200
    assert "a2a-extensions" not in answer.headers


@pytest.mark.parametrize(
    ("method", "path", "status", "reason"),
    [
        ("POST", "/message:stream", 400, "UNSUPPORTED_OPERATION"),
        ("GET", "/extendedAgentCard", 400, "UNSUPPORTED_OPERATION"),
        ("GET", "/tasks/task-1:subscribe", 400, "UNSUPPORTED_OPERATION"),
        ("POST", "/tasks/task-1:subscribe", 400, "UNSUPPORTED_OPERATION"),
        ("GET", "/tasks/task-1", 404, "TASK_NOT_FOUND"),
        ("POST", "/tasks/task-1:cancel", 404, "TASK_NOT_FOUND"),
        ("POST", "/tasks/task-1/pushNotificationConfigs", 400, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
        ("GET", "/tasks/task-1/pushNotificationConfigs", 400, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
        ("GET", "/tasks/task-1/pushNotificationConfigs/7", 400, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
        ("DELETE", "/tasks/task-1/pushNotificationConfigs/7", 400, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
    ],
)
@pytest.mark.requirement("a2a-routes", "a2a-errors", "undeclared-operations")
def test_undeclared_a2a_operations_get_a2a_errors(
    dealership: Dealership, method: str, path: str, status: int, reason: str
) -> None:
    for each in (path, path + "/"):
        answer = dealership.request(method, each)
        assert answer.status_code == status
        assert error_of(answer)["code"] == reason
        assert answer.json()["error"]["details"][0]["domain"] == "a2a-protocol.org"


EMPTY_PAGE = {"tasks": [], "totalSize": 0, "nextPageToken": ""}


@pytest.mark.parametrize(("query", "size"), [("", 50), ("?pageSize=2&contextId=x", 2), ("?pageToken=", 50)])
@pytest.mark.requirement("list-tasks")
def test_a_list_of_tasks_is_an_empty_page(dealership: Dealership, query: str, size: int) -> None:
    for path in (f"/tasks{query}", f"/tasks/{query}"):
        answer = dealership.get(path)
        assert (answer.status_code, answer.json()) == (200, EMPTY_PAGE | {"pageSize": size})


@pytest.mark.parametrize(("params", "size"), [({}, 50), ({"pageSize": 100, "contextId": "x"}, 100), ([], 50)])
@pytest.mark.requirement("list-tasks")
def test_a_call_for_tasks_gets_an_empty_page(dealership: Dealership, params: Any, size: int) -> None:
    answer = dealership.post({"jsonrpc": "2.0", "id": "a", "method": "ListTasks", "params": params}, "/rpc")
    assert answer.json() == {"jsonrpc": "2.0", "id": "a", "result": EMPTY_PAGE | {"pageSize": size}}


@pytest.mark.parametrize(
    ("params", "pointer"),
    [({"pageSize": size}, "/pageSize") for size in (0, 101, -1, True, "x", 2.5, "1" * 30)]
    + [({"pageToken": "next"}, "/pageToken")],
)
@pytest.mark.requirement("list-tasks")
def test_a_list_of_tasks_with_a_wrong_size_or_a_token_is_refused(
    dealership: Dealership, params: dict[str, Any], pointer: str
) -> None:
    answer = dealership.post({"jsonrpc": "2.0", "id": "a", "method": "ListTasks", "params": params}, "/rpc")
    assert answer.json()["error"]["code"] == -32602
    answer = dealership.request("GET", f"/tasks?{urlencode(params)}")
    assert (answer.status_code, error_of(answer)["details"]["instancePath"]) == (422, pointer)


@pytest.mark.parametrize(
    ("method", "number"), [("GetTask", -32001), ("SendStreamingMessage", -32004), ("message/send", -32601)]
)
@pytest.mark.requirement("rpc-http-status", "rpc-get-cancel-task", "rpc-undeclared")
def test_a_json_rpc_error_has_status_200(dealership: Dealership, method: str, number: int) -> None:
    answer = dealership.post({"jsonrpc": "2.0", "id": "a", "method": method, "params": {"id": "t"}}, "/rpc")
    assert (answer.status_code, answer.json()["id"], answer.json()["error"]["code"]) == (200, "a", number)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null"])
@pytest.mark.requirement("not-json", "rpc-not-json", "rpc-not-a-request")
def test_invalid_json_is_answered_in_the_format_of_the_binding(dealership: Dealership, content: bytes) -> None:
    answer = dealership.post(content)
    assert (answer.status_code, error_of(answer)["code"]) == (422, "SCHEMA_VALIDATION_FAILED")
    answer = dealership.post(content, "/rpc")
    assert answer.status_code == 200
    assert answer.json()["id"] is None
    assert answer.json()["error"]["code"] == (-32700 if content in (b"", b"{") else -32600)


@pytest.mark.requirement("base-path")
def test_a_base_path_prefixes_every_route_except_the_well_known_card(open_dealership: OpenDealership) -> None:
    opened = open_dealership('[service]\nbase_path = "/agent/v1"' + NO_LIMITS)
    for path in ("/message:send", "/rpc"):
        assert opened.post(sent_to(path), "/agent/v1" + path).status_code == 200
        assert opened.post(sent_to(path), "/agent/v1" + path + "/").status_code == 200
        assert opened.post(sent_to(path), path).status_code == 404
    assert opened.get("/agent/v1/cards/1.0.0.json").status_code == 200
    assert opened.get("/.well-known/agent-card.json").status_code == 200
    assert opened.get("/agent/v1/healthz").status_code == 200
    card = opened.get("/.well-known/agent-card.json").json()
    assert [each["url"] for each in card["supportedInterfaces"]] == [
        "http://127.0.0.1:8080/agent/v1/rpc",
        "http://127.0.0.1:8080/agent/v1",
    ]


@pytest.mark.requirement("one-set-of-interfaces")
def test_health_and_readiness_are_reported(dealership: Dealership) -> None:
    assert dealership.get("/healthz").json() == {"status": "ok"}
    ready = dealership.get("/readyz")
    assert (ready.status_code, ready.json()["status"]) == (200, "ready")


@BINDINGS
@pytest.mark.parametrize(("sent", "status"), [(SEARCH, 200), (message("inventory.vehicle", vin=ACCORD), 200)])
def test_a_reply_is_not_cached(dealership: Dealership, path: str, sent: Any, status: int) -> None:
    """A shared cache must not keep the response to one buyer."""
    answer = dealership.post(sent_to(path, sent), path)
    assert (answer.status_code, answer.headers["cache-control"]) == (status, "no-store")
    assert int(answer.headers["content-length"]) == len(answer.content)
