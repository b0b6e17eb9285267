"""Checks that every response is a response or an error in the documented form (docs/protocol.md#errors)."""

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
from tests.acceptance.running import Running
from tests.fuzz.sending import Answer

from dealer_agent.protocol.errors import ERRORS

ERROR_ID = re.compile(r"err_[0-9A-HJKMNP-TV-Z]{26}")
INTERNALS = re.compile(
    rb"Traceback|site-packages|\.py\b|\bsrc/|/dealer_agent|SELECT |INSERT |UPDATE |sqlite|sqlalchemy|psycopg|msgspec"
    rb"|jsonschema|uvicorn|starlette|asyncio|Exception|object at 0x|dat_[A-Za-z0-9]",
    re.IGNORECASE,
)
"""Texts from the inside of the program. No test sends them."""

LARGEST_REFUSAL = 128 * 1024
"""Bytes of the longest list of problems, without the parts that repeat the request."""

TRANSPORT_STATUSES = {401, 403, 408, 413, 415, 429}
"""The statuses that a JSON-RPC answer may have besides 200 (docs/protocol.md#errors)."""


class AnswerJudge:
    """Checks answers of one service with the schemas that it publishes. No answer may name its folder."""

    def __init__(self, openapi: dict[str, Any], folder: Path) -> None:
        self._openapi = openapi
        self._folder = str(folder).encode()
        self._validators = {
            name: self._validator({"$ref": f"#/components/schemas/{name}"})
            for name in ("SendMessageReply", "Error", "JsonRpcResult", "JsonRpcError")
        }

    def judge(self, answer: Answer, target: str, *, sent: int) -> None:
        """One answer to a POST of `sent` bytes to a binding."""
        if answer.status != 200 or not target.startswith("/rpc"):
            if answer.status == 200:
                self.conforms("SendMessageReply", self._document(answer))
            elif target.startswith("/rpc") and answer.status in TRANSPORT_STATUSES:
                self._call_refused(self._document(answer))
                self._bounded(answer, sent)
            else:
                self.refused(answer, sent=sent)
            return
        document = self._document(answer)
        if "result" in document:
            self.conforms("JsonRpcResult", document)
        else:
            self._call_refused(document)
            self._bounded(answer, sent)

    def refused(self, answer: Answer, *, sent: int = 0) -> None:
        """The error envelope, exactly (docs/protocol.md#errors)."""
        document = self._document(answer)
        assert answer.status < 500, document
        self.conforms("Error", document)
        assert set(document) == {"error"}
        error = document["error"]
        assert set(error) == {"code", "message", "details"}
        assert error["code"] == answer.status
        self._entries(error["details"], error["message"])
        assert ERRORS[error["details"][1]["code"]].http == answer.status or answer.status in (400, 405, 408, 413, 415)
        self._bounded(answer, sent)

    def conforms(self, name: str, document: Any) -> None:
        """Checks a document against the OpenAPI document of the service."""
        problems = [f"{e.instance_path}: {e.message}" for e in self._validators[name].iter_errors(document)]
        assert not problems, problems

    def documented(self, path: str, method: str, answer: Answer) -> None:
        """The response has the schema that its operation documents for its status."""
        responses = self._openapi["paths"][path][method.lower()]["responses"]
        validator = self._validator(responses[str(answer.status)]["content"][answer.headers["content-type"]]["schema"])
        problems = [f"{e.instance_path}: {e.message}" for e in validator.iter_errors(json.loads(answer.body))]
        assert not problems, problems

    def _validator(self, schema: dict[str, Any]) -> jsonschema_rs.Draft202012Validator:
        return jsonschema_rs.Draft202012Validator(schema | {"components": self._openapi["components"]})

    def _call_refused(self, document: dict[str, Any]) -> None:
        self.conforms("JsonRpcError", document)
        assert set(document) == {"jsonrpc", "id", "error"}
        error = document["error"]
        assert set(error) == {"code", "message", "data"}
        assert error["code"] != -32603
        if isinstance(error["data"], list):
            self._entries(error["data"], error["message"])
        else:
            self._payload(error["data"], error["message"], {"@type"})

    def _entries(self, entries: list[dict[str, Any]], message: str) -> None:
        info, payload = entries
        assert set(info) == {"@type", "reason", "domain", "metadata"}
        assert info["reason"] == payload["code"]
        assert all(isinstance(value, str) for value in info["metadata"].values())
        assert info["metadata"]["error_id"] == payload["error_id"]
        self._payload(payload, message, set())

    def _payload(self, payload: dict[str, Any], message: str, without: set[str]) -> None:
        fields = {"@type", "type", "error_id", "code", "message", "retryable", "details", "created_at"}
        assert set(payload) == fields - without
        assert payload["code"] in ERRORS
        assert payload["code"] != "INTERNAL_ERROR"
        assert payload["code"] in message
        assert message.endswith(payload["message"])
        assert payload["retryable"] is ERRORS[payload["code"]].retryable
        assert isinstance(payload["details"], dict)
        assert ERROR_ID.fullmatch(payload["error_id"])
        assert datetime.fromisoformat(payload["created_at"]).utcoffset() is not None

    def _document(self, answer: Answer) -> dict[str, Any]:
        assert answer.headers["content-type"] in ("application/json", "application/a2a+json"), answer
        found = INTERNALS.search(answer.body) if answer.status != 200 else None
        assert not found, (found, answer.body[:2000])
        assert self._folder not in answer.body
        document = json.loads(
            answer.body.decode("utf-8"), parse_constant=_no_constant, parse_float=_finite, parse_int=_whole
        )
        assert isinstance(document, dict)
        return document

    def _bounded(self, answer: Answer, sent: int) -> None:
        assert len(answer.body) <= LARGEST_REFUSAL + 6 * sent


EXPECTED = ("chain head", "request", "delivery sent")
"""The events of a service in which nothing fails."""


class CheckRun(AnswerJudge):
    """Checks answers of a running service, and the service itself."""

    def __init__(self, running: Running) -> None:
        super().__init__(httpx.get(f"{running.url}/openapi.json", timeout=120).json(), running.folder)
        self._running = running

    def unharmed(self) -> None:
        """Checks that the process runs and answers, and that its log has no unexpected event."""
        assert self._running.process.poll() is None
        assert httpx.get(f"{self._running.url}/healthz", timeout=120).status_code == 200
        assert httpx.get(f"{self._running.url}/readyz", timeout=120).status_code == 200
        # The log is written a few times a second. The log of a new service may still be empty.
        lines = [line for line in self._running.logged() if line["event"] not in EXPECTED]
        # Suppressed lines are counted. They are lines of refusals and answers, never of a fault.
        others = {line["event"] for line in lines if line["event"] != "requests not logged" or line["status"] >= 500}
        assert not others, others


def _finite(text: str) -> float:
    """A number that a validator can read. The id of a call may be 1e400: it is JSON, and repeated as received."""
    return max(-1e300, min(1e300, float(text)))


def _whole(text: str) -> int:
    """The same for an integer: Python converts at most 4,300 digits."""
    return int(text) if len(text) < 300 else 10**300


def _no_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")
