"""Every error of a dealer's agent arrives as one class, with all that the response says."""

import asyncio
import copy
import json
import pickle
from datetime import UTC, datetime
from itertools import product

import pytest
from tests.client.dealers import application, card

from dealer_agent.client import DealerAgent, Retries, errors
from dealer_agent.client.card import PREFERRED, Binding
from dealer_agent.protocol.errors import ERRORS
from dealer_agent.protocol.response_bodies import http_error_body, json_rpc_error_body
from dealer_agent.protocol.vocabulary import AUTOAGENT, Vocabulary, proto

pytestmark = pytest.mark.outside_protocol("the client library")

URL = "http://dealer.test"
AT = datetime(2026, 11, 20, 15, tzinfo=UTC)


def refusal(
    status: int, body: bytes | None, binding: Binding = "JSONRPC", rpc_id: bool = True, **headers: str
) -> errors.DealerAgentError:
    """The error of the client for a response to a search. `ID` in the body becomes the id of the call."""
    reply = b"" if body is None else body

    async def ask() -> errors.DealerAgentError:
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        app = application(card(URL), lambda _: (status, reply, fields))
        async with DealerAgent.discover(URL, app=app, binding=binding, retries=Retries(most=0)) as agent:
            with pytest.raises(errors.DealerAgentError) as caught:
                await agent.search()
        return caught.value

    return asyncio.run(ask())


@pytest.mark.parametrize("code", ERRORS)
def test_every_code_of_the_service_has_its_class(code: str) -> None:
    kind = ERRORS[code]
    for binding, vocabulary in product(PREFERRED, (proto(), AUTOAGENT)):
        error = kind(*kind.example)
        body = (
            json_rpc_error_body(error, vocabulary, "err_1", AT, b'"1"')
            if binding == "JSONRPC"
            else http_error_body(error, vocabulary, "err_1", AT)
        )
        got = refusal(error.http, body, binding)
        assert type(got) is getattr(errors, kind.__name__)
        assert isinstance(got, errors.Refused)
        assert (got.code, got.message, got.error_id) == (code, error.message, "err_1")
        assert (got.retryable, got.http_status, got.details) == (error.retryable, error.http, error.details)
        assert [problem.pointer for problem in got.problems] == [
            each["instancePath"] for each in error.details.get("errors", ())
        ]
        assert got.retry_after == error.details.get("retry_after_seconds")
        assert got.advice == kind.action
        assert (got.json_rpc is None) is (binding == "HTTP+JSON")


def json_rpc_error(vocabulary: Vocabulary, code: str) -> bytes:
    kind = ERRORS[code]
    return json_rpc_error_body(kind(*kind.example), vocabulary, "err_1", AT, b'"1"')


def test_a_code_that_this_version_does_not_know_is_a_refusal_with_that_code() -> None:
    body = json_rpc_error(AUTOAGENT, "VEHICLE_NOT_FOUND").replace(b"VEHICLE_NOT_FOUND", b"INVALID_CONDITION")
    got = refusal(200, body)
    assert type(got) is errors.Refused
    assert got.code == "INVALID_CONDITION"
    assert not got.retryable


PUBLISHED = b"""{"jsonrpc": "2.0", "id": "1", "error": {"code": -32602, "message": "wrong", "data": {
    "type": "aap.error", "error_id": "err_2", "code": "SCHEMA_VALIDATION_FAILED", "message": "Two problems",
    "retryable": false, "created_at": "2026-11-20T15:00:00Z", "details": {"errors": [
        {"instanceLocation": "/filters/year_min", "keyword": "type", "error": "must be an integer"},
        {"instanceLocation": "/sort/order", "keyword": "required", "error": "is required"}]}}}}"""
WITH_VIOLATIONS = b"""{"jsonrpc": "2.0", "id": "1", "error": {"code": -32602, "message": "wrong", "data": [
    {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "SCHEMA_VALIDATION_FAILED",
     "domain": "autoagentprotocol.org", "metadata": {"error_id": "err_2", "retryable": "false"}},
    {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [
        {"field": "/filters/year_min", "description": "must be an integer"},
        {"field": "/sort/order", "description": "is required"}]}]}}"""


@pytest.mark.parametrize("body", [PUBLISHED, WITH_VIOLATIONS], ids=["1.0 to 1.3", "the draft, without the payload"])
def test_the_problems_of_published_versions_are_read(body: bytes) -> None:
    got = refusal(200, body)
    assert isinstance(got, errors.Refused)
    assert (got.code, got.error_id, got.http_status, got.json_rpc) == ("SCHEMA_VALIDATION_FAILED", "err_2", 200, -32602)
    assert [str(problem) for problem in got.problems] == [
        "/filters/year_min: must be an integer",
        "/sort/order: is required",
    ]


@pytest.mark.parametrize(
    ("status", "body", "kind", "code"),
    [
        (401, b"", "AuthRequired", "AUTH_REQUIRED"),
        (429, b"slow down", "RateLimited", "RATE_LIMITED"),
        (200, b'{"jsonrpc":"2.0","id":"1","error":{"code":-32601,"message":"no"}}', "UnsupportedSkill", None),
        (200, b'{"jsonrpc":"2.0","id":"1","error":{"code":-32005,"message":"no"}}', "ContentTypeNotSupported", None),
        (200, b'{"jsonrpc":"2.0","id":"1","error":{"code":-32099,"message":"no"}}', "Refused", "-32099"),
    ],
)
def test_a_bare_error_gets_the_code_of_its_status_or_number(
    status: int, body: bytes, kind: str, code: str | None
) -> None:
    got = refusal(status, body)
    assert isinstance(got, errors.Refused)
    assert type(got) is getattr(errors, kind)
    assert got.code == (code or (got.kind and got.kind.code))


@pytest.mark.parametrize(("status", "may_have_arrived"), [(502, True), (503, False), (504, True)])
def test_the_error_of_a_gateway_is_no_error_of_the_agent(status: int, may_have_arrived: bool) -> None:
    got = refusal(status, b"<html>", retry_after="7")
    assert isinstance(got, errors.Unreachable)
    assert (got.http_status, got.may_have_arrived, got.retry_after) == (status, may_have_arrived, 7.0)


def test_the_waiting_time_can_be_a_date() -> None:
    got = refusal(429, b"", retry_after="Wed, 21 Oct 2015 07:28:00 GMT")
    assert isinstance(got, errors.Refused)
    assert got.retry_after == 0


@pytest.mark.parametrize("text", ["soon", "-1", "1e9", "9" * 400, "Wed, 99 Oct 2015 07:28:00 GMT", "\t"])
def test_a_waiting_time_that_makes_no_sense_is_none(text: str) -> None:
    got = refusal(429, b"", retry_after=text)
    assert isinstance(got, errors.Refused)
    assert got.retry_after is None


@pytest.mark.parametrize(("status", "body"), [(500, b"oops"), (404, b""), (302, b""), (200, b"<html>"), (200, b"[]")])
def test_any_other_reply_is_malformed(status: int, body: bytes) -> None:
    got = refusal(status, body)
    assert isinstance(got, errors.MalformedResponse)
    assert got.http_status == status


ERROR_OF_EACH_KIND: list[errors.DealerAgentError] = [
    errors.InvalidRequest("Wrong", [errors.ReportedProblem("/a", "is wrong")]),
    errors.Unreachable("Gone", may_have_arrived=True, http_status=504, retry_after=1.0),
    errors.NotADealerAgent("No card"),
    errors.CardNotVerified("No signature"),
    errors.MalformedResponse("No JSON", http_status=200, body=b"<html>\xff"),
    errors.SearchIncomplete("Moved", seen=7),
    errors.Refused("NEW_CODE", "No", details={"a": [1]}, retryable=True),
    errors.VehicleNotFound("VEHICLE_NOT_FOUND", "No", problems=[errors.ReportedProblem("/vin", "is not here")]),
]


@pytest.mark.parametrize("error", ERROR_OF_EACH_KIND, ids=lambda error: type(error).__name__)
def test_an_error_can_be_pickled_copied_compared_and_logged(error: errors.DealerAgentError) -> None:
    error.idempotency_key = "mine"
    error.add_note("while shopping")
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert other == error
        assert other is not error
        assert hash(other) == hash(error)
        assert (str(other), repr(other), other.idempotency_key) == (str(error), repr(error), "mine")
    other.may_have_arrived = not error.may_have_arrived
    assert other != error
    assert error != ValueError(*error.args)
    told = json.loads(json.dumps(error.to_dict()))
    assert (told["error"], told["idempotency_key"]) == (type(error).__name__, "mine")
    assert told["message"] in str(error)
    assert "__notes__" not in told
