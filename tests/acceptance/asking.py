"""Requests as a buyer writes them by hand (docs/protocol.md#envelope)."""

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

THING = {
    "dealer.information": "dealer-information",
    "inventory.facets": "inventory-facets",
    "inventory.search": "inventory-search",
    "inventory.vehicle": "vehicle-detail",
    "lead.submit": "lead-submit",
}


def request_type(skill: str) -> str:
    return f"application/vnd.proto.{THING[skill]}-request+json"


def response_type(skill: str) -> str:
    return f"application/vnd.proto.{THING[skill]}-response+json"


def body(skill: str, **members: Any) -> dict[str, Any]:
    """A whole request: envelope, media types, payload."""
    return {
        "message": {
            "messageId": uuid.uuid4().hex,
            "role": "ROLE_USER",
            "parts": [{"data": {"type": f"{skill}.request"} | members, "mediaType": request_type(skill)}],
        },
        "configuration": {"acceptedOutputModes": [response_type(skill)]},
    }


def lead(number: int = 0, **members: Any) -> dict[str, Any]:
    """The members of a lead of one invented customer per number, with the consent that it needs."""
    granted = datetime.now(UTC) - timedelta(minutes=1)
    return {
        "customer": {"first_name": "Robin", "last_name": f"Example{number}", "email": f"robin{number}@example.com"},
        "consent": {
            "granted_at": granted.isoformat().replace("+00:00", "Z"),
            "allowed_channels": ["email"],
            "consent_text": "Share my details with this dealer.",
            "scope": ["lead_submission"],
        },
        "source_agent": "Acceptance Agent",
        "message": f"Lead number {number}",
    } | members


def ask(url: str, skill: str, *, token: str | None = None, **members: Any) -> httpx.Response:
    """One request on a connection of its own."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    # Without certificates, which take longer to read than the service takes to answer.
    return httpx.post(f"{url}/message:send", json=body(skill, **members), headers=headers, timeout=120, verify=False)


def answer(response: httpx.Response, skill: str) -> dict[str, Any]:
    """The skill's part of a successful answer, after a check of its envelope (docs/protocol.md#reply-form)."""
    assert response.status_code == 200, response.text
    message = response.json()["message"]
    assert message["role"] == "ROLE_AGENT"
    (part,) = message["parts"]
    assert part["mediaType"] == response_type(skill)
    assert part["data"]["type"] == f"{skill}.response"
    data: dict[str, Any] = part["data"]["data"]
    return data


def asked(url: str, skill: str, *, token: str | None = None, **members: Any) -> dict[str, Any]:
    """One question, and the data of its response."""
    return answer(ask(url, skill, token=token, **members), skill)


def error_payload(response: httpx.Response) -> dict[str, Any]:
    """The payload of an error, after its envelope is looked at (docs/protocol.md#errors)."""
    error = response.json()["error"]
    assert set(error) == {"code", "message", "details"}
    assert error["code"] == response.status_code
    info, payload = error["details"]
    assert info["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"
    assert info["reason"] == payload["code"]
    told: dict[str, Any] = payload
    return told
