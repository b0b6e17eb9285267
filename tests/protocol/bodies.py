"""Requests as a buyer writes them, and what comes of decoding them: the starting point of every test of the wire."""

import json
from datetime import UTC, datetime
from typing import Any

from dealer_agent.protocol.envelope import Request, decode_request
from dealer_agent.protocol.errors import ProtocolError
from dealer_agent.protocol.json_rpc import decode_call
from dealer_agent.protocol.problems import validation_error
from dealer_agent.protocol.response_bodies import error_details
from dealer_agent.protocol.vocabulary import proto, vocabularies_of

WIRE = vocabularies_of("proto", proto())

STEMS = {
    "dealer.information": "dealer-information",
    "inventory.facets": "inventory-facets",
    "inventory.search": "inventory-search",
    "inventory.vehicle": "vehicle-detail",
    "lead.submit": "lead-submit",
}
OFFER_STEMS = {
    "inventory.changes": "inventory-changes",
    "offer.quote": "offer-quote",
    "offer.hold": "offer-hold",
    "offer.release": "offer-release",
    "offer.status": "offer-status",
    "lead.status": "lead-status",
    "visit.move": "visit-move",
    "visit.cancel": "visit-cancel",
}
"""Skill id to the middle of its media types (docs/protocol.md#envelope)."""

VIN = "1HGCY2F57RA000001"


def payload(skill: str, /, **members: Any) -> dict[str, Any]:
    """A valid payload; a lead has what is required and nothing else."""
    needed: dict[str, dict[str, Any]] = {
        "inventory.vehicle": {"vin": VIN},
        "lead.submit": {
            "customer": {"first_name": "Jordan", "last_name": "Example", "email": "jordan@example.com"},
            "consent": {
                "granted_at": "2026-01-05T15:00:00Z",
                "allowed_channels": ["email"],
                "consent_text": "Share my name and e-mail address with this dealer.",
                "scope": ["lead_submission"],
            },
            "source_agent": "Example Shopping Agent",
        },
    }
    return {"type": f"{skill}.request", **needed.get(skill, {}), **members}


def request_type(skill: str, vendor: str = "proto") -> str:
    return f"application/vnd.{vendor}.{(STEMS | OFFER_STEMS)[skill]}-request+json"


def response_type(skill: str, vendor: str = "proto") -> str:
    return f"application/vnd.{vendor}.{(STEMS | OFFER_STEMS)[skill]}-response+json"


def body(skill: str = "inventory.search", vendor: str = "proto", /, **members: Any) -> dict[str, Any]:
    """A valid body of `POST /message:send`; `members` are the payload's."""
    return {
        "message": {
            "messageId": "01KE7AQ2N0V5X3J8R6T4Y9W1ZA",
            "role": "ROLE_USER",
            "parts": [{"data": payload(skill, **members), "mediaType": request_type(skill, vendor)}],
        },
        "configuration": {"acceptedOutputModes": [response_type(skill, vendor)]},
    }


def call(params: object, **members: Any) -> dict[str, Any]:
    """A JSON-RPC call of SendMessage."""
    return {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params, **members}


ABSENT = object()


def changed(document: dict[str, Any], pointer: str, value: object = ABSENT) -> dict[str, Any]:
    """A copy in which the member at a pointer is another, or is absent."""
    copy = json.loads(json.dumps(document))
    *path, last = pointer.split("/")[1:]
    node = copy
    for step in path:
        node = node[int(step)] if isinstance(node, list) else node[step]
    if value is ABSENT:
        del node[last]
    else:
        node[int(last) if isinstance(node, list) else last] = value
    return dict(copy)


def decode(document: object, *, lenient: bool = False) -> Request:
    """The request in a body, given as JSON values or as bytes. Raises ProtocolError, for a bad payload too."""
    raw = document if isinstance(document, bytes) else json.dumps(document).encode()
    request = decode_request(raw, WIRE, lenient=lenient)
    if request.problems:
        error = validation_error(list(request.problems), "payload")
        error.vocabulary = request.vocabulary
        raise error
    return request


def refused(document: object, *, lenient: bool = False) -> ProtocolError:
    """The error that answers a body."""
    try:
        decode(document, lenient=lenient)
    except ProtocolError as error:
        return error
    raise AssertionError("the body was taken")


def refused_call(document: object) -> tuple[bytes, ProtocolError]:
    """A JSON-RPC call's id as it will be repeated, and the error that answers it."""
    raw = document if isinstance(document, bytes) else json.dumps(document).encode()
    call_id, answer = decode_call(raw, WIRE)
    assert isinstance(answer, ProtocolError), "the call was taken"
    return call_id, answer


def pointers(error: ProtocolError) -> list[str]:
    """The pointers of the problems, in the order of the error."""
    return [problem["instancePath"] for problem in error.details["errors"]]


def told_by(error: ProtocolError) -> tuple[dict[str, Any], dict[str, Any]]:
    """The two entries of `error.details`."""
    info, answer = error_details(error, error.vocabulary or WIRE.default, "err_01", datetime(2026, 1, 5, tzinfo=UTC))
    return info, answer
