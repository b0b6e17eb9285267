"""Writes errors in the form of a published version (docs/protocol.md#version-errors). Pure."""

from datetime import datetime
from typing import Any

import msgspec

from dealer_agent.protocol.errors import (
    AuthRequired,
    ContentTypeNotSupported,
    ProtocolError,
    SchemaValidationFailed,
    VersionNotSupported,
)
from dealer_agent.protocol.json_rpc import HTTP_STATUSES
from dealer_agent.protocol.published_versions import ERROR_TYPE_URL, PublishedVersion
from dealer_agent.protocol.response_bodies import error_details
from dealer_agent.protocol.vocabulary import AUTOAGENT

BAD_REQUEST_TYPE = "type.googleapis.com/google.rpc.BadRequest"
EXTENSIONS_HEADER = "A2A-Extensions"


class ExtensionSupportRequired(VersionNotSupported):
    """A2A: the request does not name the extension that the card requires."""

    code = "EXTENSION_SUPPORT_REQUIRED"
    json_rpc = -32008


def extension_not_named(version: PublishedVersion) -> ExtensionSupportRequired:
    """The error of a version that requires the header `A2A-Extensions`, for a request that does not name it there."""
    return ExtensionSupportRequired(
        f"Name {version.extension_uri} in the header {EXTENSIONS_HEADER}, and send the request again.",
        {"extensionUri": version.extension_uri, "requiredHeader": EXTENSIONS_HEADER},
    )


def http_error(version: PublishedVersion, error: ProtocolError, error_id: str, at: datetime) -> tuple[int, bytes]:
    """The HTTP status and the body of an error over HTTP+JSON. `at` is in UTC."""
    if isinstance(error, AuthRequired):
        return error.http, error.message.encode()
    info, payload = _details(version, error, error_id, at)
    status = 422 if isinstance(error, ContentTypeNotSupported) and not version.has_a2a_errors else error.http
    body = {"error": {"code": status, "message": error.coded_message, "details": [info, payload]}}
    return status, msgspec.json.encode(body)


def json_rpc_error(
    version: PublishedVersion, error: ProtocolError, error_id: str, at: datetime, rpc_id: bytes
) -> tuple[int, bytes]:
    """The HTTP status and the body of an error over JSON-RPC. `rpc_id` is JSON text."""
    if isinstance(error, AuthRequired):
        return error.http, error.message.encode()
    info, payload = _details(version, error, error_id, at)
    number, data = _number(version, error), payload
    if version.has_a2a_errors:
        data = [info] if error.is_a2a else [info, *_bad_request(error), payload]
    body = msgspec.json.encode({"code": number, "message": error.coded_message, "data": data})
    # A client that stops at the HTTP status would not see what A2A says about the error.
    status = error.http if error.http in HTTP_STATUSES and not error.is_a2a else 200
    return status, b'{"jsonrpc":"2.0","id":' + rpc_id + b',"error":' + body + b"}"


def _number(version: PublishedVersion, error: ProtocolError) -> int:
    """The JSON-RPC number of an error. A version without A2A errors reports a wrong media type as a schema error."""
    if version.has_a2a_errors:
        return error.json_rpc
    number = error.json_rpc_autoagent or error.json_rpc
    return SchemaValidationFailed.json_rpc if number == ContentTypeNotSupported.json_rpc else number


def _details(version: PublishedVersion, error: ProtocolError, error_id: str, at: datetime) -> tuple[Any, Any]:
    """ErrorInfo (the detail of A2A, from google.rpc) and the error payload, with the members that the version has."""
    info, payload = error_details(error, AUTOAGENT, error_id, at)
    if version.has_a2a_errors:
        payload["@type"] = ERROR_TYPE_URL
    else:
        # The published payload is closed, and does not have this member.
        del payload["@type"]
    if error.is_a2a:
        # The published codes have none of A2A's.
        payload["code"] = SchemaValidationFailed.code
    if "errors" in error.details:
        entries = [
            {"instanceLocation": entry["instancePath"], "keyword": entry["keyword"], "error": entry["message"]}
            for entry in error.details["errors"]
        ]
        payload["details"] = error.details | {"errors": entries}
    if version.has_a2a_errors:
        info["metadata"] |= _metadata(error, payload["created_at"])
    return info, payload


def _metadata(error: ProtocolError, created_at: str) -> dict[str, Any]:
    """What ErrorInfo also has in a version with A2A errors. All values are texts."""
    metadata = {"code": error.code, "retryable": "true" if error.retryable else "false", "created_at": created_at}
    return metadata | error.details if isinstance(error, ExtensionSupportRequired) else metadata


def _bad_request(error: ProtocolError) -> list[Any]:
    """google.rpc.BadRequest with each problem of the request; nothing for another error."""
    entries = error.details.get("errors", ())
    violations = [{"field": _field(entry["instancePath"]), "description": entry["message"]} for entry in entries]
    return [{"@type": BAD_REQUEST_TYPE, "fieldViolations": violations}] if violations else []


def _field(pointer: str) -> str:
    """A JSON pointer in the notation of google.rpc: `filters.make[0]`."""
    steps = [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]
    return "".join(f"[{step}]" if step.isdigit() else f".{step}" for step in steps).removeprefix(".")
