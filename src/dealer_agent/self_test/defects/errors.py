"""Defects for the checks of errors: agents whose errors have a wrong form, code or status."""

from typing import Any

from dealer_agent.self_test.changing import answers, asks, error, error_payload, with_code, with_status
from dealer_agent.self_test.defect import Agent, AgentResponse, Call, broken

UNKNOWN_TYPE = asks("inventory.horoscope.request")
OTHER_UNKNOWN_TYPE = asks("dealer.horoscope.request")
UNKNOWN_VEHICLE = asks("inventory.vehicle.request", vin="ZZZZZZ00000000000")
UNKNOWN_MEMBER = asks("inventory.search.request", filters={"price_maximum": 30_000})
WRONG_TYPE = asks("inventory.search.request", filters={"year_min": "new"})
MISSING_MEMBER = asks("inventory.search.request", sort={"field": "price"})
SEVERAL = asks("inventory.search.request", sort={"order": "asc"})
OF_A_VEHICLE = UNKNOWN_VEHICLE


def entry(index: int, **members: Any) -> Any:
    """Sets members of an entry of `error.details`."""
    return error(lambda node: node["details"][index].update(members))


def payload(**members: Any) -> Any:
    """Sets members of the error payload."""
    return error_payload(lambda node: node.update(members))


answers(
    "errors.status", lambda answer: answer.with_status(200).with_error(lambda node: node.update(code=200)), WRONG_TYPE
)
answers("errors.body", lambda answer: answer.with_body(b'{"detail": "Not Found"}'), OTHER_UNKNOWN_TYPE)
answers("errors.members", error(lambda node: node.update(status="NOT_FOUND")), UNKNOWN_TYPE)
answers("errors.code-is-status", error(lambda node: node.update(code="422")), WRONG_TYPE)
answers("errors.message", error(lambda node: node.update(message="")), WRONG_TYPE)
answers("errors.two-details", error(lambda node: node["details"].append({"@type": "x/Help"})), UNKNOWN_TYPE)
answers("errors.info-first", error(lambda node: node["details"].reverse()), UNKNOWN_TYPE)
answers("errors.reason", entry(0, reason="NOT_FOUND"), OF_A_VEHICLE)
answers("errors.domain", entry(0, domain=""), UNKNOWN_TYPE)
answers("errors.one-domain", entry(0, domain="other.example"), OF_A_VEHICLE)
answers("errors.domain-of-vocabulary", entry(0, domain="proto.example"), UNKNOWN_TYPE)
answers("errors.metadata", error(lambda node: node["details"][0]["metadata"].update(tries=3)), UNKNOWN_TYPE)
answers("errors.metadata-pointer", error(lambda node: node["details"][0]["metadata"].pop("instancePath")), WRONG_TYPE)
answers("errors.metadata-received", error(lambda node: node["details"][0]["metadata"].pop("received")), WRONG_TYPE)
answers("errors.metadata-error-id", error(lambda node: node["details"][0]["metadata"].pop("error_id")), UNKNOWN_TYPE)
answers(
    "errors.payload",
    error(lambda node: node["details"].__setitem__(1, {"code": "VEHICLE_NOT_FOUND"})),
    UNKNOWN_VEHICLE,
)
answers("errors.payload-type", payload(type="error"), WRONG_TYPE)
answers("errors.payload-type-url", payload(**{"@type": "proto.error"}), WRONG_TYPE)
answers("errors.payload-message", payload(message=None), WRONG_TYPE)
answers("errors.retryable", payload(retryable="false"), WRONG_TYPE)
answers("errors.retryable-schema", payload(retryable=True), WRONG_TYPE)
answers("errors.retryable-others", payload(retryable=True), UNKNOWN_VEHICLE)
answers("errors.details-object", payload(details=None), UNKNOWN_TYPE)
answers("errors.created-at", payload(created_at="yesterday"), WRONG_TYPE)
answers(
    "errors.created-now",
    lambda answer: answer.with_header("date", "Mon, 05 Jan 2026 15:00:00 GMT").with_error_payload(
        lambda node: node.update(created_at="2026-01-05T10:00:00.000Z")
    ),
    WRONG_TYPE,
)
answers(
    "errors.pointer-spares-valid",
    error_payload(lambda node: node["details"].update(instancePath="/filters/price_max")),
    asks("inventory.search.request", filters={"price_max": 30_000, "year_min": "new", "year_max": 2030}),
)
answers("errors.closed-payload", payload(status=404), UNKNOWN_TYPE)
answers("errors.no-internals", error(lambda node: node.update(message='File "/srv/agent.py", line 7')), UNKNOWN_TYPE)


@broken("errors.id")
async def has_no_error_id(call: Call, agent: Agent) -> AgentResponse:
    """Sends an empty error id."""
    answer = await agent(call)

    def empty(node: Any) -> None:
        node["details"][0]["metadata"]["error_id"] = node["details"][1]["error_id"] = ""

    return answer.with_error(empty) if WRONG_TYPE(call) else answer


@broken("errors.id-unique")
async def has_one_error_id(call: Call, agent: Agent) -> AgentResponse:
    """Sends the same error id in all errors."""
    answer = await agent(call)

    def same(node: Any) -> None:
        node["details"][0]["metadata"]["error_id"] = node["details"][1]["error_id"] = "err_1"

    return answer.with_error(same)


answers("errors.known-code", with_code("TEAPOT"), asks("inventory.search.request", sort={"field": 7, "order": 7}))

answers("errors.unknown-member", with_code("INTERNAL_ERROR"), UNKNOWN_MEMBER)
answers("errors.unknown-member-status", with_status(400), UNKNOWN_MEMBER)
answers("errors.wrong-type", with_code("INVALID_FILTER"), WRONG_TYPE)
answers("errors.missing-member", with_code("SCHEMA_VALIDATION_FAILED"), MISSING_MEMBER)
answers("errors.missing-member-status", with_status(400), MISSING_MEMBER)
answers("errors.missing-and-wrong", with_code("MISSING_REQUIRED_FIELD"), SEVERAL)
answers("errors.unknown-skill", with_code("SCHEMA_VALIDATION_FAILED"), UNKNOWN_TYPE)
answers("errors.unknown-skill-status", with_status(501), UNKNOWN_TYPE)
answers("errors.unknown-vehicle", with_code("VEHICLE_UNAVAILABLE"), UNKNOWN_VEHICLE)
answers("errors.unknown-vehicle-status", with_status(410), UNKNOWN_VEHICLE)
answers("errors.pointer", error_payload(lambda node: node["details"].pop("instancePath")), WRONG_TYPE)
answers("errors.received", error_payload(lambda node: node["details"].pop("received")), WRONG_TYPE)
answers("errors.all-problems", error_payload(lambda node: node["details"]["errors"].pop()), SEVERAL)
answers("errors.all-problems-published", error_payload(lambda node: node["details"]["errors"].pop()), SEVERAL)
answers("errors.problems-in-order", error_payload(lambda node: node["details"]["errors"].reverse()), SEVERAL)
answers("errors.keyword", error_payload(lambda node: node["details"]["errors"][0].pop("keyword")), SEVERAL)
answers(
    "errors.suggestion",
    lambda answer: answer.with_body(answer.body.replace(b"price_max?", b"anything else?").replace(b"price_max ", b"")),
    UNKNOWN_MEMBER,
)
answers(
    "errors.not-json-envelope",
    error(lambda node: node["details"].pop(0)),
    lambda call: call.body == b'{"message": ',
)

answers("errors.rpc-invalid-params", error(lambda node: node.update(code=-32000)), UNKNOWN_MEMBER)
answers("errors.rpc-missing-member", error(lambda node: node.update(code=-32000)), MISSING_MEMBER)
answers("errors.rpc-unknown-vehicle", error(lambda node: node.update(code=-32602)), UNKNOWN_VEHICLE)
answers("errors.rpc-unknown-skill-a2a", error(lambda node: node.update(code=-32602)), UNKNOWN_TYPE)
answers("errors.rpc-unknown-skill", error(lambda node: node.update(code=-32602)), UNKNOWN_TYPE)
answers("errors.rpc-unknown-skill-next", error(lambda node: node.update(code=-32601)), UNKNOWN_TYPE)
