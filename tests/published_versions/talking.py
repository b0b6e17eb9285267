"""Requests to a published version, and the form of every response that it may give."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
from tests.protocol.bodies import STEMS, payload, request_type, response_type
from tests.published_versions.schemas import ERROR_TYPE_URL, defects
from tests.server.dealership import Dealership

from dealer_agent.protocol.published_versions import PUBLISHED_VERSIONS

VERSIONS = ("1.0", "1.1", "1.2", "1.3", "next")
RELEASED = VERSIONS[:-1]
INTERFACES = (*((version, "rpc") for version in VERSIONS), ("1.0", "message:send"))
"""Each version with each of its bindings, as the last step of the path."""

CODES = {
    "UNSUPPORTED_SKILL", "SCHEMA_VALIDATION_FAILED", "MISSING_REQUIRED_FIELD", "INVALID_CONDITION", "VEHICLE_NOT_FOUND",
    "VEHICLE_UNAVAILABLE", "CONTACT_CONSENT_REQUIRED", "INVALID_CONSENT", "APPOINTMENT_TIME_UNAVAILABLE",
    "IDEMPOTENCY_CONFLICT", "RATE_LIMITED", "INTERNAL_ERROR",
}  # fmt: skip
NUMBERS = {
    code: {"UNSUPPORTED_SKILL": -32601, "RATE_LIMITED": -32002, "INTERNAL_ERROR": -32603}.get(code, -32000)
    for code in CODES
} | dict.fromkeys(("SCHEMA_VALIDATION_FAILED", "MISSING_REQUIRED_FIELD", "INVALID_CONDITION"), -32602)
"""The number of each code over JSON-RPC up to 1.3."""
NEXT_NUMBERS = NUMBERS | {"UNSUPPORTED_SKILL": -32004, "RATE_LIMITED": -32000}
FRAME_NUMBERS = {-32700, -32600, -32601}
"""The numbers of JSON-RPC about the call itself."""
A2A_NUMBERS = {-32001, -32003, -32009}
"""A2A's numbers that have no code of the protocol."""

EXTENSION = PUBLISHED_VERSIONS["next"].extension_uri
ACTIVATION = {"a2a-version": "1.0", "a2a-extensions": EXTENSION}
ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"


def data(version: str, skill: str, /, **members: Any) -> dict[str, Any]:
    """A valid payload in a version."""
    if skill != "lead.submit":
        return payload(skill, **members)
    sent = payload(skill)
    sent["consent"]["granted_at"] = (datetime.now(UTC) - timedelta(minutes=1)).isoformat()
    if version == "1.0":
        sent["consent"]["source_agent"] = "example-agent"
        sent["source_agent"] = "example-agent"
    else:
        sent["source_agent"] = {"name": "example-agent", "url": "https://agent.example.com"}
    return {**sent, **members}


def body(sent: dict[str, Any]) -> dict[str, Any]:
    """The body of HTTP+JSON, and the `params` of a call, around a payload."""
    skill = sent["type"].removesuffix(".request")
    return {
        "message": {
            "messageId": "buyer-1",
            "role": "ROLE_USER",
            "parts": [{"data": sent, "mediaType": request_type(skill, "autoagent")}],
        },
        "configuration": {"acceptedOutputModes": [response_type(skill, "autoagent")]},
    }


@dataclass
class Buyer:
    """A buyer that uses one binding of one version. It checks the form of every response."""

    dealership: Dealership
    version: str
    interface: str = "rpc"

    @property
    def path(self) -> str:
        """The path of the binding."""
        return f"/aap/{self.version}/{self.interface}"

    def send(
        self, document: object, *, headers: Mapping[str, str] | None = None, token: str | None = None
    ) -> httpx.Response:
        """The response to a whole body, given as JSON values or bytes. Its form is right."""
        sent = {**(ACTIVATION if self.version == "next" else {}), **(headers or {})}
        answer = self.dealership.post(document, self.path, headers=sent, token=token)
        check_form(self.version, self.interface, answer)
        return answer

    def ask_raw(self, params: object, **options: Any) -> httpx.Response:
        """The response to the content of a request, in the frame of the binding."""
        if self.interface == "rpc":
            return self.send({"jsonrpc": "2.0", "id": "call-1", "method": "SendMessage", "params": params}, **options)
        return self.send(params, **options)

    def ask(self, skill: str, /, *, token: str | None = None, **members: Any) -> dict[str, Any]:
        """The `data` of the response to a valid request."""
        answer = self.ask_raw(body(data(self.version, skill, **members)), token=token)
        found: dict[str, Any] = response_payload(answer)["data"]
        return found

    def refuse(self, sent: dict[str, Any], **options: Any) -> dict[str, Any]:
        """The error payload for a payload."""
        return error_payload(self.ask_raw(body(sent), **options))


def response_payload(answer: httpx.Response) -> dict[str, Any]:
    """The payload of a successful response."""
    content = answer.json()
    content = content.get("result", content)
    assert "message" in content, answer.text[:2000]
    found: dict[str, Any] = content["message"]["parts"][0]["data"]
    return found


def error_payload(answer: httpx.Response) -> dict[str, Any]:
    """The error payload of a refusal."""
    error = answer.json().get("error")
    assert error is not None, answer.text[:2000]
    found = error.get("data", error.get("details"))
    return dict(found[-1] if isinstance(found, list) else found)


def check_form(version: str, interface: str, answer: httpx.Response) -> None:
    """Fails unless a response is one that the version allows: its frame, its media type, its payload by the schemas."""
    if answer.status_code == 401:
        assert answer.headers["content-type"].startswith("text/plain")
        assert answer.headers["www-authenticate"] == "Bearer"
        assert "AUTH_REQUIRED" not in answer.text
        return
    assert answer.headers["content-type"] in ("application/json", "application/a2a+json")
    document = answer.json()
    if interface == "rpc":
        assert document.pop("jsonrpc") == "2.0"
        document.pop("id")
        ((kind, content),) = document.items()
        assert kind in ("result", "error")
        assert answer.status_code == 200 or (kind == "error" and answer.status_code in (408, 413, 415, 429))
    else:
        kind, content = ("error", document["error"]) if "error" in document else ("result", document)
        assert (kind == "error") is (answer.status_code != 200)
    if kind == "result":
        _check_result(version, content)
    elif interface == "rpc":
        _check_call_error(version, content)
    else:
        _check_http_error(version, content, answer.status_code)


def _check_result(version: str, content: dict[str, Any]) -> None:
    assert set(content) == {"message"}
    message = content["message"]
    assert set(message) - {"contextId"} == {"messageId", "role", "parts"}
    assert message["role"] == "ROLE_AGENT"
    (part,) = message["parts"]
    assert set(part) == {"data", "mediaType"}
    skill = part["data"]["type"].removesuffix(".response")
    assert part["mediaType"] == response_type(skill, "autoagent")
    assert not defects(version, f"{STEMS[skill]}-response", part["data"])
    _check_members(version, skill, part["data"]["data"])


def _check_members(version: str, skill: str, found: Any) -> None:
    """What the open schema of a vehicle does not say."""
    listings = found["vehicles"] if skill == "inventory.search" else [found] if skill == "inventory.vehicle" else []
    unknown = {"changed_at"}
    if version in ("1.0", "1.1"):
        unknown |= {"vehicle_type", "displacement_cc", "battery_kwh", "motor_power_hp", "dc_fast_charge", "charge_port",
                    "other_attributes"}  # fmt: skip
    if version not in ("1.3", "next"):
        unknown |= {"fees"}
    if version != "1.0":
        unknown |= {"zip", "offered_price"}
    for listing in listings:
        assert not unknown & set(listing)


def _check_payload(version: str, found: dict[str, Any]) -> None:
    assert not defects(version, "error", found)
    assert found["code"] in CODES
    for entry in found["details"].get("errors", ()):
        assert set(entry) == {"instanceLocation", "keyword", "error"}


def _check_info(info: dict[str, Any]) -> None:
    assert info["@type"] == ERROR_INFO
    assert set(info) == {"@type", "reason", "domain", "metadata"}
    assert all(isinstance(value, str) for value in info["metadata"].values())


def _check_call_error(version: str, error: dict[str, Any]) -> None:
    assert set(error) == {"code", "message", "data"}
    found = error["data"]
    if version != "next":
        _check_payload(version, found)
        assert error["code"] in {NUMBERS[found["code"]], *FRAME_NUMBERS, *A2A_NUMBERS}
        return
    info, *others = found
    _check_info(info)
    assert {"error_id", "retryable", "created_at", "code"} <= set(info["metadata"])
    if info["domain"] == "a2a-protocol.org":
        assert error["code"] in {*A2A_NUMBERS, -32004, -32005, -32008}
        assert not others
        return
    assert info["domain"] == "autoagentprotocol.org"
    _check_payload(version, others[-1])
    assert others[-1]["@type"] == ERROR_TYPE_URL
    assert info["reason"] == others[-1]["code"] == info["metadata"]["code"]
    assert error["code"] in {NEXT_NUMBERS[info["reason"]], *FRAME_NUMBERS, -32005}
    for between in others[:-1]:
        assert between["@type"] == BAD_REQUEST
        assert between["fieldViolations"]
        assert all(set(each) == {"field", "description"} for each in between["fieldViolations"])


def _check_http_error(version: str, error: dict[str, Any], status: int) -> None:
    assert set(error) == {"code", "message", "details"}
    assert error["code"] == status
    info, found = error["details"]
    _check_info(info)
    _check_payload(version, found)
    assert re.fullmatch(r"err_[0-9A-Z]{26}", found["error_id"])


def json_text(document: object) -> bytes:
    """JSON as a client sends it."""
    return json.dumps(document).encode()
