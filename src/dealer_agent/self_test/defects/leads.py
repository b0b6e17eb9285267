"""Defects for the checks of leads: dealers that accept malformed leads, refuse valid ones, or answer them wrongly."""

import json
import re
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from dealer_agent.self_test.changing import When, answers, calls, error, register, with_code, with_status
from dealer_agent.self_test.defect import Agent, AgentResponse, Call, broken
from dealer_agent.self_test.reading import STOCK

WRITTEN = "written-by-the-customer-7Q"
UNKNOWN_VIN = "ZZZZZZ00000000000"
TEST_CUSTOMER = "test-lead-"
"""The beginning of the addresses of the checker's test customers."""
CUSTOMER = {
    "first_name": "Test",
    "last_name": "Lead (dealer-agent check)",
    "email": "test-lead@example.com",
    "phone": "+12025550142",
}
MOTORCYCLES = {row["vin"] for row in STOCK if row["vehicle_type"] == "motorcycle"}
MESSAGE = "This is a test of the dealer agent, sent by dealer-agent check. Nobody waits for a response."

Test = Callable[[dict[str, Any]], object]
MAKES_SENSE = {
    "granted_at": "2026-01-05T12:00:00Z",
    "allowed_channels": ["email", "phone"],
    "consent_text": "The dealer may contact me about this request.",
    "scope": ["lead_submission"],
}


def lead(test: Test = lambda _: True) -> When:
    """Leads whose payload passes a test."""
    return lambda call: call.skill == "lead.submit" and test(call.payload)


def visit(payload: dict[str, Any]) -> dict[str, Any]:
    """The appointment of a lead; empty if it has none."""
    appointment = payload.get("appointment")
    return appointment if isinstance(appointment, dict) else {}


def vehicle(payload: dict[str, Any]) -> dict[str, Any]:
    return dict(payload.get("vehicle_of_interest") or {})


def customer(payload: dict[str, Any]) -> dict[str, Any]:
    """The customer of a lead; empty if it has none."""
    customer_node = payload.get("customer")
    return customer_node if isinstance(customer_node, dict) else {}


def consent(payload: dict[str, Any]) -> dict[str, Any]:
    consent_node = payload.get("consent")
    return consent_node if isinstance(consent_node, dict) else {}


def accepts(requirement_id: str, repair: Test, test: Test = lambda _: True, **options: Any) -> None:
    """Registers a defect that repairs leads before the dealer gets them: it accepts what it must refuse."""
    calls(requirement_id, lambda call: call.with_payload(repair), lead(test), **options)


def refuses(requirement_id: str, test: Test, code: str = "SCHEMA_VALIDATION_FAILED", **options: Any) -> None:
    """Registers a defect that refuses valid leads."""
    details = [
        {"@type": "x/google.rpc.ErrorInfo", "reason": code, "domain": "proto.example", "metadata": {}},
        {"@type": "x/proto.error", "error_id": "err_1", "code": code, "retryable": False, "details": {}},
    ]
    body = json.dumps({"error": {"code": 422, "message": "Not here.", "details": details}}).encode()

    async def defect(call: Call, agent: Agent) -> AgentResponse:
        answer = await agent(call)
        if lead(test)(call) and answer.data is not None:
            return AgentResponse(422, (("content-type", "application/json"),), body)
        return answer

    register(requirement_id, defect, options)


def replies(requirement_id: str, change: Test, test: Test = lambda _: True, **options: Any) -> None:
    """Registers a defect that changes the `data` of responses to leads."""
    answers(requirement_id, lambda answer: answer.with_data(change), lead(test), **options)


def replies_visit(requirement_id: str, test: Test, **members: Any) -> None:
    """Registers a defect that answers appointments with these members."""

    def change(data: dict[str, Any]) -> None:
        data["appointment"] = {"appointment_id": data["appointment"]["appointment_id"], **members}

    replies(requirement_id, change, test)


def pops(*names: str) -> Test:
    return lambda payload: [payload.pop(name, None) for name in names]


def is_simple(payload: dict[str, Any]) -> bool:
    return not {"vehicle_of_interest", "trade_in", "appointment"} & set(payload)


def has_time(payload: dict[str, Any]) -> bool:
    """Whether it has a time with an offset."""
    return re.fullmatch(r"2\d{3}-.*(Z|[+-]\d\d:\d\d)", str(visit(payload).get("appointment_at", ""))) is not None


def is_past(payload: dict[str, Any]) -> bool:
    return has_time(payload) and datetime.fromisoformat(visit(payload)["appointment_at"]) < datetime.now(UTC)


def is_coming(payload: dict[str, Any]) -> bool:
    return has_time(payload) and not is_past(payload)


def has_windows(payload: dict[str, Any]) -> bool:
    return "requested_windows" in visit(payload)


# Malformed leads
accepts("leads.first-name", lambda payload: customer(payload).setdefault("first_name", "Test"))
accepts("leads.last-name", lambda payload: customer(payload).setdefault("last_name", "Lead"))
accepts(
    "leads.email",
    lambda payload: customer(payload).pop("email"),
    lambda payload: customer(payload).get("email") == WRITTEN,
)
accepts(
    "leads.phone",
    lambda payload: customer(payload).update(phone=CUSTOMER["phone"]),
    lambda payload: customer(payload).get("phone") == "202 555 0142",
)
accepts(
    "leads.preferred-contact",
    lambda payload: customer(payload).pop("preferred_contact"),
    lambda payload: customer(payload).get("preferred_contact") == WRITTEN,
)
accepts("leads.customer-unknown-member", lambda payload: customer(payload).pop("shoe_size", None))
accepts("leads.unknown-member", pops("favourite_colour"))
accepts(
    "leads.source-agent-name",
    lambda payload: payload.update(source_agent="An agent"),
    lambda payload: isinstance(payload.get("source_agent"), dict),
)
accepts("leads.vehicle-condition", pops("vehicle_of_interest"), lambda payload: "condition" in vehicle(payload))
accepts("leads.trade-in-condition", pops("trade_in"), lambda payload: payload.get("trade_in") == {"condition": "cpo"})
accepts(
    "leads.message-length",
    pops("message"),
    lambda payload: len(str(payload.get("message"))) > 4_000,
)
accepts("leads.submitted-at", pops("submitted_at"), lambda payload: payload.get("submitted_at") == "yesterday")
accepts(
    "leads.source-agent-required",
    lambda payload: payload.setdefault("source_agent", "An agent"),
    lambda payload: "consent" in payload,
)
accepts("leads.message-not-a-string", pops("message"), lambda payload: payload.get("message") == 7)
accepts(
    "leads.customer-required",
    lambda payload: payload.setdefault("customer", dict(CUSTOMER)),
    lambda payload: "consent" in payload,
)
accepts(
    "leads.source-agent-string",
    lambda payload: payload.update(source_agent={"name": "An agent"}),
    lambda payload: isinstance(payload.get("source_agent"), str),
)
accepts(
    "leads.contact-point",
    lambda payload: customer(payload).update(email=CUSTOMER["email"]),
    lambda payload: customer(payload) and not {"email", "phone"} & set(customer(payload)),
)
answers(
    "leads.refusal-code",
    with_code("INTERNAL_ERROR"),
    lead(lambda payload: "favourite_colour" in payload and "appointment" in payload),
)
answers(
    "leads.personal-data",
    error(lambda found: found.update(message=f"{WRITTEN} is not an address.")),
    lead(lambda payload: "favourite_colour" in payload and "appointment" in payload),
)
answers(
    "leads.condition-code",
    with_code("SCHEMA_VALIDATION_FAILED"),
    lead(lambda payload: payload.get("trade_in") == {"condition": "cpo"} and "favourite_colour" not in payload),
)
answers("leads.empty", with_code("INTERNAL_ERROR"), lead(lambda payload: set(payload) == {"type"}))
answers(
    "leads.empty-all",
    lambda answer: answer.with_error_payload(lambda found: found["details"]["errors"].pop(0)),
    lead(lambda payload: set(payload) == {"type"}),
)

# Valid leads
refuses("leads.accepted", is_simple)
refuses("leads.vehicle", lambda payload: vehicle(payload).get("vin", UNKNOWN_VIN) != UNKNOWN_VIN)
refuses(
    "leads-valid.vehicle-kinds",
    lambda payload: (
        vehicle(payload).get("vin") in MOTORCYCLES
        and "appointment" not in payload
        and payload.get("trade_in", {"condition": "poor"}) == {"condition": "poor"}
    ),
)
accepts(
    "appointments.of-a-vehicle",
    lambda payload: (payload.pop("vehicle_of_interest"), visit(payload).update(appointment_type="sales")),
    lambda payload: vehicle(payload).get("vin") == UNKNOWN_VIN and "appointment_at" in visit(payload),
)
replies(
    "idempotency.other-customer",
    lambda data: data.update(lead_id="lead-1"),
    lambda payload: str(payload.get("idempotency_key", "")).endswith("kkk") and is_simple(payload),
)
accepts("leads.requests-kept", pops("favourite_colour"))
refuses("leads-valid.requests-accepted", lambda payload: customer(payload).get("preferred_contact") == "phone")
replies("leads.customers-apart", lambda data: data.update(lead_id="lead-1"), vehicle)
accepts(
    "idempotency.near-key",
    lambda payload: payload.update(idempotency_key=payload["idempotency_key"][:100]),
    lambda payload: 100 < len(str(payload.get("idempotency_key", ""))) < 129,
)
refuses("leads.address", lambda payload: "address" in customer(payload))
refuses("leads.trade-in", lambda payload: "trade_in" in payload)
refuses("leads.vehicle-extra-members", lambda payload: "lot_row" in vehicle(payload))
refuses("leads.vehicle-unknown", lambda payload: vehicle(payload).get("vin") == UNKNOWN_VIN, "VEHICLE_NOT_FOUND")
accepts(
    "leads.test-drive-unknown",
    lambda payload: visit(payload).update(appointment_type="sales"),
    lambda payload: vehicle(payload).get("vin") == UNKNOWN_VIN,
)
accepts(
    "leads.test-drive-missing-vehicle",
    lambda payload: visit(payload).update(appointment_type="sales"),
    lambda payload: visit(payload).get("appointment_type") == "test_drive" and not vehicle(payload),
)
replies("leads.reply-id", pops("lead_id"))
replies("leads.reply-status", lambda data: data.update(status="ok"))
replies("leads.reply-dealer", pops("dealer"))
calls(
    "leads.combined-there",
    lambda call: call.with_payload(lambda payload: payload.update(refuse_this=True)),
    lambda call: call.skill == "lead.submit" and not call.is_rpc and "trade_in" in call.payload,
    binding="JSONRPC",
)
refuses("leads.combined", lambda payload: {"vehicle_of_interest", "trade_in", "appointment"} <= set(payload))
replies("leads.two-ids", lambda data: data.update(lead_id="lead-1"))
_buyers: dict[str, str] = {}
"""The first customer who wanted a vehicle, by its VIN."""


@broken("leads.two-customers", name="leads.two-customers.merged")
async def merges_customers(call: Call, agent: Agent) -> AgentResponse:
    """Calls the lead of a second customer for a vehicle a duplicate."""
    answer = await agent(call)
    payload = call.payload if call.skill == "lead.submit" else {}
    vin = vehicle(payload).get("vin") if "appointment" not in payload else None
    if vin in (None, UNKNOWN_VIN) or _buyers.setdefault(vin, customer(payload)["email"]) == customer(payload)["email"]:
        return answer
    return answer.with_data(lambda data: data.update(status="duplicate"))


answers("leads.reply-message", lambda answer: answer.with_reply_payload(pops("message")), lead(is_simple))
answers(
    "leads.reply-message-length",
    lambda answer: answer.with_reply_payload(lambda payload: payload.update(message="x" * 2_001)),
    lead(is_simple),
)
answers(
    "leads.vehicle-unknown-message",
    lambda answer: answer.with_reply_payload(pops("message")),
    lead(lambda payload: vehicle(payload).get("vin") == UNKNOWN_VIN),
)

# Consent
answers(
    "consent.malformed-code",
    lambda answer: with_status(422)(with_code("SCHEMA_VALIDATION_FAILED")(answer)),
    lead(lambda payload: consent(payload).get("granted_at") == "yesterday"),
)
for requirement_id, test in {
    "consent.missing": lambda payload: (
        "consent" not in payload and customer(payload).get("last_name") == CUSTOMER["last_name"]
    ),
    "consent.scope": lambda payload: consent(payload).get("scope") == ["marketing"],
    "consent.expired": lambda payload: "expires_at" in consent(payload),
    "consent.granted-at-malformed": lambda payload: consent(payload).get("granted_at") == "yesterday",
    "consent.granted-at-missing": lambda payload: consent(payload) and "granted_at" not in consent(payload),
    "consent.future": lambda payload: "3" > str(consent(payload).get("granted_at")) > datetime.now(UTC).isoformat(),
    "consent.text-empty": lambda payload: consent(payload).get("consent_text") == "",
    "consent.text-missing": lambda payload: consent(payload) and "consent_text" not in consent(payload),
    "consent.no-channels": lambda payload: consent(payload).get("allowed_channels") == [],
    "consent.unknown-channel": lambda payload: "pigeon" in consent(payload).get("allowed_channels", ()),
    "consent.channel-type": lambda payload: consent(payload).get("allowed_channels") == "email",
    "consent.unknown-member": lambda payload: "only_on_sundays" in consent(payload),
    "consent.not-an-object": lambda payload: payload.get("consent") is True,
    "consent.scope-type": lambda payload: consent(payload).get("scope") == "lead_submission",
    "consent.text-type": lambda payload: consent(payload).get("consent_text") == 7,
    "consent.source-agent-type": lambda payload: consent(payload).get("source_agent") == 7,
    "consent.scope-absent": lambda payload: consent(payload) and "scope" not in consent(payload),
    "consent.scope-empty": lambda payload: consent(payload).get("scope") == [],
    "consent.null": lambda payload: "consent" in payload and payload["consent"] is None,
    "consent.empty": lambda payload: payload.get("consent") == {},
    "consent.preferred-channel": lambda payload: customer(payload).get("preferred_contact") == "phone",
    "consent.unreachable": lambda payload: "email" in customer(payload) and "phone" not in customer(payload),
}.items():
    accepts(requirement_id, lambda payload: payload.update(consent=dict(MAKES_SENSE)), test)
accepts("consent.scope-published", lambda payload: consent(payload).update(scope=["lead_submission"]))
answers(
    "consent.other-defects-first",
    with_code("CONTACT_CONSENT_REQUIRED"),
    lead(lambda payload: customer(payload).get("last_name") == 7),
)
answers("consent.missing-status", with_status(422), lead(lambda payload: "consent" not in payload))
calls(
    "leads.other-interface",
    lambda call: call.with_payload(lambda payload: payload.update(consent=MAKES_SENSE)),
    lambda call: call.skill == "lead.submit" and not call.is_rpc and "expires_at" in consent(call.payload),
    binding="JSONRPC",
)
accepts(
    "consent.expired-offset",
    lambda payload: payload.update(consent=MAKES_SENSE),
    lambda payload: "+05:00" in str(consent(payload).get("expires_at")),
)
answers("consent.invalid-status", with_status(422), lead(lambda payload: "expires_at" in consent(payload)))


# Idempotency
def is_keyed(payload: dict[str, Any]) -> bool:
    return str(payload.get("idempotency_key", "")).startswith("first-")


def is_retry(call: Call) -> bool:
    return call.skill == "lead.submit" and is_keyed(call.payload) and b'-retry"' in call.body


def of_retry(change: Test) -> Callable[[AgentResponse], AgentResponse]:
    return lambda answer: answer.with_data(change)


accepts("idempotency.empty-key", pops("idempotency_key"), lambda payload: payload.get("idempotency_key") == "")
accepts("idempotency.key-type", pops("idempotency_key"), lambda payload: payload.get("idempotency_key") == 7)
accepts(
    "idempotency.key-too-long", pops("idempotency_key"), lambda payload: payload.get("idempotency_key") == "k" * 129
)
answers("idempotency.same-lead", of_retry(lambda data: data.update(lead_id="lead-2")), is_retry)
answers(
    "idempotency.other-interface",
    lambda answer: answer.with_message(lambda message: message.update(role="agent")),
    lambda call: call.skill == "lead.submit" and is_keyed(call.payload) and not call.is_rpc and not is_retry(call),
    binding="JSONRPC",
    name="idempotency.other-interface.role",
)
answers(
    "idempotency.other-interface",
    lambda answer: answer.with_document(lambda document: document.update(task={"id": "1", **document.pop("message")})),
    lambda call: call.skill == "lead.submit" and is_keyed(call.payload) and not call.is_rpc and not is_retry(call),
    binding="JSONRPC",
)
answers("idempotency.same-status", of_retry(lambda data: data.update(status="rejected")), is_retry)
answers("idempotency.same-answer", of_retry(lambda data: data.update(dealer={"name": "Another"})), is_retry)
answers(
    "idempotency.new-message-id",
    lambda answer: answer.with_message(lambda message: message.update(messageId="one-and-the-same")),
    lead(is_keyed),
)
refuses(
    "idempotency.submitted-at",
    lambda payload: is_keyed(payload) and payload["submitted_at"].endswith("T14:00:00Z"),
    "IDEMPOTENCY_CONFLICT",
)
accepts(
    "idempotency.conflict",
    lambda payload: payload.update(message=MESSAGE),
    lambda payload: is_keyed(payload) and payload["message"] != MESSAGE,
)
accepts(
    "idempotency.other-lead",
    pops("vehicle_of_interest"),
    lambda payload: is_keyed(payload) and "vehicle_of_interest" in payload,
)
answers(
    "idempotency.conflict-status",
    with_status(422),
    lead(lambda payload: is_keyed(payload) and payload["message"] != MESSAGE),
)
refuses("idempotency.after-refusal", is_keyed)
refuses("idempotency.longest-key", lambda payload: len(str(payload.get("idempotency_key"))) == 128)

# Wrong types and valid values
VALID_VALUES: dict[str, Any] = {
    "customer.first_name": "Test",
    "customer.last_name": "Lead",
    "customer.email": CUSTOMER["email"],
    "customer.phone": CUSTOMER["phone"],
    "customer.preferred_contact": "email",
    "customer.address": {},
    "vehicle_of_interest.year": 2020,
    "vehicle_of_interest.make": "Honda",
    "vehicle_of_interest.vin": UNKNOWN_VIN,
    "trade_in.year": 2018,
    "trade_in.make": "Honda",
    "trade_in.mileage": 61_000,
    "appointment.duration_minutes": 30,
    "appointment.appointment_type": "sales",
    "source_agent": "An agent",
    "submitted_at": "2026-01-05T12:00:00Z",
    "vehicle_of_interest": {},
    "trade_in": {},
    "appointment": {"appointment_type": "sales"},
    "customer": CUSTOMER,
}
"""A valid value of each member."""


def part_of(payload: dict[str, Any], path: str) -> tuple[Any, str]:
    """The object with the member at a path, and the name of the member."""
    first, _, name = path.partition(".")
    return (payload.get(first), name) if name else (payload, first)


def _coerces(path: str) -> None:
    """Registers a defect that reads a value of another type as a valid one."""
    valid = VALID_VALUES[path]

    def is_wrong(payload: dict[str, Any]) -> bool:
        node, name = part_of(payload, path)
        return isinstance(node, dict) and name in node and type(node[name]) is not type(valid)

    def repair(payload: dict[str, Any]) -> None:
        node, name = part_of(payload, path)
        node[name] = valid

    accepts(f"leads-type.{path.replace('.', '-').replace('_', '-')}", repair, is_wrong)


for _path in VALID_VALUES:
    _coerces(_path)


# All answers to leads


def _proposes_the_past(data: dict[str, Any]) -> None:
    if "proposed_times" in data.get("appointment", {}):
        data["appointment"]["proposed_times"] = ["2020-01-06T16:00:00Z"]


replies("appointments.every-time", _proposes_the_past)


@broken("leads.ids-anonymous")
async def writes_the_email_into_the_id(call: Call, agent: Agent) -> AgentResponse:
    answer = await agent(call)
    if call.skill != "lead.submit":
        return answer
    return answer.with_data(
        lambda data: data.update(lead_id=f"{data['lead_id']}-{customer(call.payload).get('email')}")
    )


_latest_emails: deque[str] = deque(maxlen=20)
"""The addresses of the latest leads, the oldest first."""


@broken("leads.not-told-to-others")
async def names_an_earlier_customer(call: Call, agent: Agent) -> AgentResponse:
    """Tells each test customer of the checker the address of an earlier one."""
    answer = await agent(call)
    email = customer(call.payload).get("email") if call.skill == "lead.submit" else None
    if not isinstance(email, str) or not email.startswith(TEST_CUSTOMER):
        return answer
    _latest_emails.append(email)
    return answer.with_reply_payload(lambda payload: payload.update(message=f"We answered {_latest_emails[0]} first."))
