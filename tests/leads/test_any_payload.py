"""A lead with any values in its members is accepted, or refused with 422 (docs/protocol.md#lead-submit)."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.leads.json_values import as_body, json_values

from dealer_agent.leads.received_lead import (
    contact_points,
    names_a_vehicle,
    payload_hash,
    vehicle_key,
    with_normal_phone,
)
from dealer_agent.protocol.envelope import Request, decode_request
from dealer_agent.protocol.problems import validation_error
from dealer_agent.protocol.skill import LeadSubmitRequest
from dealer_agent.protocol.vocabulary import proto, vocabularies_of

WIRE = vocabularies_of("proto", proto())
GOOD: dict[str, Any] = {
    "type": "lead.submit.request",
    "customer": {"first_name": "Jordan", "last_name": "Example", "email": "jordan@example.com"},
    "source_agent": "Example Agent",
    "consent": {"granted_at": datetime(2026, 3, 2, tzinfo=UTC).isoformat()},
}
VISIT = {"appointment_type": "sales"}


def request_of(payload: Any) -> Request:
    part = {"data": payload, "mediaType": "application/vnd.proto.lead-submit-request+json"}
    message = {"messageId": "01", "role": "ROLE_USER", "parts": [part]}
    body = {"message": message, "configuration": {"acceptedOutputModes": ["application/json"]}}
    return decode_request(as_body(body), WIRE)


def objects(names: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(names.split()), json_values, max_size=5)


members = st.fixed_dictionaries(
    {},
    optional={
        "customer": objects("email phone preferred_contact address nickname").map(lambda more: GOOD["customer"] | more),
        "source_agent": st.one_of(json_values, objects("name url agent_card_url extra")),
        "consent": json_values,
        "vehicle_of_interest": objects(
            "vin stock vehicle_id year make condition price fees features x other_attributes"
        ),
        "trade_in": objects("vin year make condition mileage notes inventory_date electric_range_mi y"),
        "appointment": objects("requested_windows appointment_at timezone duration_minutes notes z").map(VISIT.__or__),
        "message": json_values,
        "submitted_at": json_values,
        "idempotency_key": json_values,
    },
)
windows = st.lists(objects("start end"), min_size=1, max_size=3)


@pytest.mark.requirement("consent-never-422", "lead-vehicles-members-and-extras")
@given(more=st.one_of(members, json_values.map(lambda value: {"customer": value}), objects("x appointment trade_in")))
def test_any_member_is_accepted_or_refused(more: dict[str, Any]) -> None:
    request = request_of(GOOD | more)
    if request.payload is None:
        error = validation_error(list(request.problems), "payload")
        assert error.http == 422
        assert not any(one["instancePath"].startswith("/consent") for one in error.details["errors"])
    else:
        assert isinstance(request.payload, LeadSubmitRequest)
        assert request.plain is not None
        lead = request.payload
        assert contact_points(lead.customer)
        assert contact_points(with_normal_phone(lead.customer, contact_points(lead.customer))) == contact_points(
            lead.customer
        )
        assert payload_hash(request.plain)
        assert not names_a_vehicle(lead.vehicle_of_interest) or vehicle_key(lead.vehicle_of_interest, None)


@given(window=windows, zone=st.sampled_from([{}, {"timezone": "America/Chicago"}, {"timezone": 5}]))
def test_any_window_is_accepted_or_refused(window: list[dict[str, Any]], zone: dict[str, Any]) -> None:
    request = request_of(GOOD | {"appointment": {**VISIT, "requested_windows": window, **zone}})
    assert request.payload is not None or validation_error(list(request.problems), "payload").http == 422
