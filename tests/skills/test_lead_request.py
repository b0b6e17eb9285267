"""What a lead must look like (docs/protocol.md#lead-submit): through the real application, over both bindings."""

from typing import Any

import pytest
from tests.skills.sample_dealers import ACCORD, BINDINGS, SampleDealer, a_lead, consent, customer

EMAIL = "jordan@example.com"
VISIT = {"appointment_type": "showroom_visit"}
START, END = "2026-12-01T10:00:00-06:00", "2026-12-01T11:00:00-06:00"


def visit(**members: Any) -> dict[str, Any]:
    return {"appointment": VISIT | members}


def window(**members: Any) -> dict[str, Any]:
    return visit(requested_windows=[members])


def customers(**members: Any) -> dict[str, Any]:
    return {"customer": customer(email=EMAIL) | members}


REFUSED: dict[str, list[tuple[dict[str, Any], str, str]]] = {
    "lead-required": [
        ({"customer": ...}, "MISSING_REQUIRED_FIELD", "/customer"),
        ({"source_agent": ...}, "MISSING_REQUIRED_FIELD", "/source_agent"),
        ({"customer": None}, "SCHEMA_VALIDATION_FAILED", "/customer"),
        ({"consent": ...}, "CONTACT_CONSENT_REQUIRED", "/consent"),
    ],
    "customer-required": [
        ({"customer": {"last_name": "Example", "email": EMAIL}}, "MISSING_REQUIRED_FIELD", "/customer/first_name"),
        ({"customer": {"first_name": "Jordan", "email": EMAIL}}, "MISSING_REQUIRED_FIELD", "/customer/last_name"),
        ({"customer": customer()}, "MISSING_REQUIRED_FIELD", "/customer/email"),
        (customers(first_name=""), "SCHEMA_VALIDATION_FAILED", "/customer/first_name"),
        (customers(last_name=7), "SCHEMA_VALIDATION_FAILED", "/customer/last_name"),
    ],
    "customer-members": [
        (customers(email=None), "SCHEMA_VALIDATION_FAILED", "/customer/email"),
        (customers(phone=12025550123), "SCHEMA_VALIDATION_FAILED", "/customer/phone"),
        (customers(address="1 Main St"), "SCHEMA_VALIDATION_FAILED", "/customer/address"),
        (customers(address={"zip": 37203}), "SCHEMA_VALIDATION_FAILED", "/customer/address/zip"),
    ],
    "lead-unknown-refused": [
        ({"financing": True}, "SCHEMA_VALIDATION_FAILED", "/financing"),
        (customers(middle_name="Q"), "SCHEMA_VALIDATION_FAILED", "/customer/middle_name"),
        (visit(color="red"), "SCHEMA_VALIDATION_FAILED", "/appointment/color"),
    ],
    "source-agent": [
        ({"source_agent": 7}, "SCHEMA_VALIDATION_FAILED", "/source_agent"),
        ({"source_agent": {"url": "https://a.example"}}, "MISSING_REQUIRED_FIELD", "/source_agent/name"),
        ({"source_agent": {"name": "A", "url": 7}}, "SCHEMA_VALIDATION_FAILED", "/source_agent/url"),
    ],
    "preferred-contact": [
        (customers(preferred_contact="mail"), "SCHEMA_VALIDATION_FAILED", "/customer/preferred_contact"),
        (customers(preferred_contact=["email"]), "SCHEMA_VALIDATION_FAILED", "/customer/preferred_contact"),
    ],
    "phone": [
        (customers(phone="202 555 0123"), "SCHEMA_VALIDATION_FAILED", "/customer/phone"),
        (customers(phone="+1 202"), "SCHEMA_VALIDATION_FAILED", "/customer/phone"),
    ],
    "email": [(customers(email="jordan"), "SCHEMA_VALIDATION_FAILED", "/customer/email")],
    "appointment-type": [
        ({"appointment": {}}, "MISSING_REQUIRED_FIELD", "/appointment/appointment_type"),
        ({"appointment": None}, "SCHEMA_VALIDATION_FAILED", "/appointment"),
        (visit(appointment_type="visit"), "SCHEMA_VALIDATION_FAILED", "/appointment/appointment_type"),
    ],
    "vehicle-of-interest-condition": [
        ({"vehicle_of_interest": {"condition": "good"}}, "SCHEMA_VALIDATION_FAILED", "/vehicle_of_interest/condition"),
    ],
    "trade-in-condition": [
        ({"trade_in": {"condition": "used"}}, "SCHEMA_VALIDATION_FAILED", "/trade_in/condition"),
    ],
    "vehicle-of-interest-members": [
        ({"vehicle_of_interest": {"year": "2020"}}, "SCHEMA_VALIDATION_FAILED", "/vehicle_of_interest/year"),
        ({"vehicle_of_interest": {"year": 2020.5}}, "SCHEMA_VALIDATION_FAILED", "/vehicle_of_interest/year"),
        ({"vehicle_of_interest": {"vin": None}}, "SCHEMA_VALIDATION_FAILED", "/vehicle_of_interest/vin"),
        ({"vehicle_of_interest": ACCORD}, "SCHEMA_VALIDATION_FAILED", "/vehicle_of_interest"),
    ],
    "trade-in-members": [
        ({"trade_in": {"mileage": "60k"}}, "SCHEMA_VALIDATION_FAILED", "/trade_in/mileage"),
        ({"trade_in": []}, "SCHEMA_VALIDATION_FAILED", "/trade_in"),
    ],
    "duration": [
        (visit(duration_minutes=14), "SCHEMA_VALIDATION_FAILED", "/appointment/duration_minutes"),
        (visit(duration_minutes=15.5), "SCHEMA_VALIDATION_FAILED", "/appointment/duration_minutes"),
        (visit(duration_minutes=2**64), "SCHEMA_VALIDATION_FAILED", "/appointment/duration_minutes"),
    ],
    "lead-text-lengths": [
        ({"message": "x" * 4001}, "SCHEMA_VALIDATION_FAILED", "/message"),
        (visit(notes="x" * 2001), "SCHEMA_VALIDATION_FAILED", "/appointment/notes"),
    ],
    "lead-message": [({"message": ["Hello"]}, "SCHEMA_VALIDATION_FAILED", "/message")],
    "idempotency-key-length": [
        ({"idempotency_key": ""}, "SCHEMA_VALIDATION_FAILED", "/idempotency_key"),
        ({"idempotency_key": "k" * 129}, "SCHEMA_VALIDATION_FAILED", "/idempotency_key"),
    ],
    "requested-windows": [
        (visit(requested_windows=[]), "SCHEMA_VALIDATION_FAILED", "/appointment/requested_windows"),
        (window(end=END), "MISSING_REQUIRED_FIELD", "/appointment/requested_windows/0/start"),
        (window(start=END, end=START), "SCHEMA_VALIDATION_FAILED", "/appointment/requested_windows/0/end"),
        (window(start=START, end=START), "SCHEMA_VALIDATION_FAILED", "/appointment/requested_windows/0/end"),
        (
            window(start=START, end="2026-12-01T15:30:00Z"),
            "SCHEMA_VALIDATION_FAILED",
            "/appointment/requested_windows/0/end",
        ),
    ],
    "both-forms-refused": [
        (
            visit(appointment_at=START, requested_windows=[{"start": START}]),
            "SCHEMA_VALIDATION_FAILED",
            "/appointment/appointment_at",
        ),
    ],
    "timestamp-offsets": [
        (visit(appointment_at="2026-12-01T10:00:00"), "SCHEMA_VALIDATION_FAILED", "/appointment/appointment_at"),
        (
            visit(appointment_at="2026-12-01T10:00:00", timezone="America/Chicago"),
            "SCHEMA_VALIDATION_FAILED",
            "/appointment/appointment_at",
        ),
        (
            window(start="2026-12-01T10:00:00"),
            "SCHEMA_VALIDATION_FAILED",
            "/appointment/requested_windows/0/start",
        ),
        (
            window(start=START, end="2026-12-01T11:00:00"),
            "SCHEMA_VALIDATION_FAILED",
            "/appointment/requested_windows/0/end",
        ),
        ({"submitted_at": "2026-12-01T10:00:00"}, "SCHEMA_VALIDATION_FAILED", "/submitted_at"),
    ],
    "appointment-windows-form": [
        (visit(timezone="Chicago"), "SCHEMA_VALIDATION_FAILED", "/appointment/timezone"),
        (visit(requested_windows=START), "SCHEMA_VALIDATION_FAILED", "/appointment/requested_windows"),
    ],
    "lead-submitted-at": [({"submitted_at": "today"}, "SCHEMA_VALIDATION_FAILED", "/submitted_at")],
}


@pytest.mark.requirement(
    "lead-required",
    "customer-required",
    "customer-members",
    "lead-unknown-refused",
    "source-agent",
    "preferred-contact",
    "phone",
    "email",
    "appointment-type",
    "vehicle-of-interest-condition",
    "trade-in-condition",
    "vehicle-of-interest-members",
    "trade-in-members",
    "duration",
    "lead-text-lengths",
    "lead-message",
    "idempotency-key-length",
    "requested-windows",
    "both-forms-refused",
    "timestamp-offsets",
    "appointment-windows-form",
    "lead-submitted-at",
)
@pytest.mark.parametrize(
    ("members", "code", "pointer"),
    [pytest.param(*case, id=f"{row}-{number}") for row, cases in REFUSED.items() for number, case in enumerate(cases)],
)
def test_a_lead_with_a_defect_is_refused_and_the_defect_is_named(
    sqlite_dealer: SampleDealer, members: dict[str, Any], code: str, pointer: str
) -> None:
    refused = sqlite_dealer.send(a_lead(**members))
    assert (refused.code, refused.pointer) == (code, pointer)
    assert refused.status == (403 if code == "CONTACT_CONSENT_REQUIRED" else 422)


ACCEPTED: dict[str, list[dict[str, Any]]] = {
    "lead-any-combination": [
        {},
        {"vehicle_of_interest": {"vin": ACCORD}},
        {"trade_in": {"make": "Ford"}},
        visit(),
        {"vehicle_of_interest": {"make": "Honda"}, "trade_in": {"make": "Ford"}},
        {"vehicle_of_interest": {"make": "Honda"}} | visit(),
        {"trade_in": {"make": "Ford"}} | visit(),
        {"vehicle_of_interest": {"make": "Honda"}, "trade_in": {"make": "Ford"}} | visit(),
    ],
    "customer-members": [
        customers(
            phone="+12025550123",
            preferred_contact="email",
            address={"address_line_1": "1 Example St", "city": "Nashville", "state": "TN", "zip": "37203"},
        )
    ],
    "customer-required": [
        {"customer": customer(email=EMAIL)},
        {"customer": customer(phone="+12025550123")},
    ],
    "email": [customers(email="jordan@no-such-domain-anywhere.example")],
    "phone": [customers(phone="+1 (202) 555-0123")],
    "preferred-contact": [
        customers(phone="+12025550123", preferred_contact=channel)
        | {"consent": consent(allowed_channels=["email" if channel == "any" else channel])}
        for channel in ("email", "phone", "sms", "any")
    ],
    "source-agent": [
        {"source_agent": "Example Agent"},
        {"source_agent": {"name": "Example Agent"}},
        {"source_agent": {"name": "A", "url": "https://a.example", "agent_card_url": "https://a.example/card.json"}},
    ],
    "lead-vehicles-members-and-extras": [
        {"vehicle_of_interest": {}, "trade_in": {}},
        {
            "vehicle_of_interest": {
                "vehicle_id": "x",
                "price": 1,
                "fuel": "gas",
                "features": ["a"],
                "mine": {"a": [None]},
            }
        },
        {"trade_in": {"vin": "x", "list_price": 1, "other_attributes": {"a": 1}, "payoff": {"bank": "Example"}}},
        {"vehicle_of_interest": {"huge": 10**30, "tiny": 1e-300, "year": 2020.0, "mileage": 1e4}},
    ],
    "appointment-type": [
        visit(appointment_type=name)
        for name in (
            *("sales", "service", "test_drive", "trade_in"),
            *("showroom_visit", "handover", "phone_call", "video_call", "trade_in_appraisal"),
        )
    ],
    "vehicle-of-interest-condition": [{"vehicle_of_interest": {"condition": name}} for name in ("new", "used", "cpo")],
    "trade-in-condition": [{"trade_in": {"condition": name}} for name in ("excellent", "good", "fair", "poor")],
    "trade-in-members": [{"trade_in": {"year": 2015, "make": "Ford", "model": "Focus", "mileage": 80000}}],
    "vehicle-of-interest-members": [
        {"vehicle_of_interest": {"vin": ACCORD, "year": 2024, "make": "Honda", "model": "Accord", "trim": "EX"}}
    ],
    "duration": [visit(duration_minutes=15), visit(duration_minutes=60.0), visit(duration_minutes=10**6)],
    "lead-text-lengths": [{"message": "\U0001f697" * 4000}, visit(notes="x" * 2000), {"message": ""}],
    "idempotency-key-length": [{"idempotency_key": "k"}, {"idempotency_key": "\U0001f697" * 128}],
    "requested-windows": [
        window(start=START),
        window(start=START, end=END),
        visit(requested_windows=[{"start": START}, {"start": END}]),
        visit(requested_windows=[{"start": START}] * 20),
    ],
    "appointment-at-timezone": [visit(appointment_at=START, timezone="America/Chicago")],
    "timestamp-offsets": [
        visit(timezone="America/Chicago", requested_windows=[{"start": "2026-12-01T10:00:00"}]),
        visit(timezone="America/Chicago", requested_windows=[{"start": START, "end": END}]),
        {"submitted_at": "2026-12-01T10:00:00.5Z"},
    ],
    "past-is-no-error": [
        visit(appointment_at="2020-01-01T10:00:00Z"),
        window(start="2020-01-01T10:00:00Z", end="2020-01-01T11:00:00Z"),
    ],
}


@pytest.mark.requirement(
    "lead-any-combination",
    "customer-members",
    "customer-required",
    "email",
    "phone",
    "preferred-contact",
    "source-agent",
    "lead-vehicles-members-and-extras",
    "appointment-type",
    "vehicle-of-interest-condition",
    "trade-in-condition",
    "trade-in-members",
    "vehicle-of-interest-members",
    "duration",
    "lead-text-lengths",
    "idempotency-key-length",
    "requested-windows",
    "appointment-at-timezone",
    "timestamp-offsets",
    "past-is-no-error",
    "lead-reply",
    "lead-message",
    "lead-submitted-at",
    "lead-source-agent-string",
)
@pytest.mark.parametrize(
    "members",
    [pytest.param(case, id=f"{row}-{number}") for row, cases in ACCEPTED.items() for number, case in enumerate(cases)],
)
def test_a_valid_lead_is_accepted(sqlite_dealer: SampleDealer, members: dict[str, Any]) -> None:
    taken = sqlite_dealer.send(a_lead(**members))
    assert taken.status == 200, taken.error
    assert taken.data is not None
    assert taken.data["status"] in ("received", "duplicate")
    assert len(taken.data["lead_id"]) == 26


@pytest.mark.requirement(
    "appointment-windows-form",
    "appointment-at-form",
    "appointment-reply",
    "no-time-requested",
    "types-lead-submit",
)
@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize(
    "appointment",
    [
        {"appointment_type": "test_drive", "appointment_at": START, "duration_minutes": 45},
        {
            "appointment_type": "test_drive",
            "requested_windows": [{"start": "2026-12-01T10:00:00", "end": "2026-12-01T12:00:00"}],
            "timezone": "America/Chicago",
            "duration_minutes": 45,
        },
        {"appointment_type": "test_drive"},
    ],
    ids=["1.0.0", "0.1.0", "no time"],
)
def test_either_form_of_appointment_is_answered_on_either_interface(
    sqlite_dealer: SampleDealer, binding: str, appointment: dict[str, Any]
) -> None:
    taken = sqlite_dealer.send(a_lead(appointment=appointment, vehicle_of_interest={"vin": ACCORD}), binding)
    assert taken.data is not None
    assert taken.data["appointment"]["status"] == "requested"
    assert taken.data["appointment"]["appointment_id"]
    assert b'"type":"lead.submit.response"' in taken.raw


def test_a_lead_without_an_appointment_is_answered_without_one(sqlite_dealer: SampleDealer) -> None:
    taken = sqlite_dealer.send(a_lead())
    assert taken.data is not None
    assert "appointment" not in taken.data


@pytest.mark.requirement("defects-outside-consent-first", "first-problem-leads")
@pytest.mark.parametrize("bad_consent", [..., None, consent(scope=...), consent(consent_text="")])
def test_defects_outside_consent_answer_first_and_alone(sqlite_dealer: SampleDealer, bad_consent: Any) -> None:
    refused = sqlite_dealer.send(a_lead(consent=bad_consent, message=7, customer=customer()))
    assert refused.code == "SCHEMA_VALIDATION_FAILED"
    assert refused.error is not None
    pointers = [one["instancePath"] for one in refused.error["details"]["errors"]]
    assert pointers == ["/customer/email", "/message"]


@pytest.mark.requirement("error-contact-consent-required", "error-invalid-consent", "consent-never-422")
@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize(
    ("bad_consent", "code", "pointer"),
    [
        (..., "CONTACT_CONSENT_REQUIRED", "/consent"),
        (consent(scope=[]), "CONTACT_CONSENT_REQUIRED", "/consent/scope"),
        (consent(allowed_channels=["sms"]), "CONTACT_CONSENT_REQUIRED", "/consent/allowed_channels"),
        (None, "INVALID_CONSENT", "/consent"),
        (consent(expires_at="2020-01-01T00:00:00Z"), "INVALID_CONSENT", "/consent/expires_at"),
        (consent(consent_text=7), "INVALID_CONSENT", "/consent/consent_text"),
    ],
)
def test_a_defect_of_consent_answers_403_with_one_of_the_two_codes(
    sqlite_dealer: SampleDealer, binding: str, bad_consent: Any, code: str, pointer: str
) -> None:
    refused = sqlite_dealer.send(
        a_lead(consent=bad_consent, customer=customer(email=EMAIL, preferred_contact="email")), binding
    )
    assert (refused.code, refused.pointer) == (code, pointer)
    assert refused.status == (403 if binding == "http" else 200)
    assert refused.error is not None
    assert refused.error["retryable"] is False


@pytest.mark.requirement("personal-data-not-echoed")
def test_a_refusal_repeats_nothing_that_the_customer_wrote(sqlite_dealer: SampleDealer) -> None:
    """No value inside customer, consent, message and notes. The pointer to an unknown member has the member's name."""
    secret = "SECRET-0123"
    lead = a_lead(
        customer=customer(email=secret, phone=secret, preferred_contact=secret, nickname=secret, address=[secret]),
        appointment={"appointment_type": "sales", "notes": [secret]},
        message=[secret],
        trade_in={"notes": 7},
    )
    assert secret.encode() not in sqlite_dealer.send(lead).raw
    assert secret.encode() not in sqlite_dealer.send(a_lead(consent={"scope": secret, secret: 1})).raw.replace(
        b"/consent/" + secret.encode(), b""
    )
