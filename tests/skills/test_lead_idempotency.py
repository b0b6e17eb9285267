"""The first response again: idempotency keys (docs/protocol.md#idempotency). On both databases."""

import copy
import json
import re
from datetime import UTC, datetime
from itertools import product
from typing import Any

import pytest
from tests.skills.sample_dealers import (
    BINDINGS,
    Outcome,
    SampleDealer,
    a_lead,
    ago,
    consent,
    customer,
    open_sample_dealer,
    request_body,
)
from tests.storage.calls import write_at
from tests.storage.current import make_current

from dealer_agent.server.tokens import new_token
from dealer_agent.storage.store import Store
from dealer_agent.storage.tokens import create_token


def without_message_id(outcome: Outcome) -> bytes:
    body, ids = re.subn(rb'"messageId":"[0-9A-Z]{26}"', b"", outcome.raw)
    assert ids == 1
    return body


def a_keyed_lead(**members: Any) -> dict[str, Any]:
    visit = {"appointment_type": "sales", "appointment_at": "2026-12-01T10:00:00-06:00"}
    return a_lead(idempotency_key="key-1", appointment=visit, submitted_at=ago(minutes=1), **members)


@pytest.mark.requirement("idempotency-same-payload")
def test_the_same_key_and_payload_gets_the_first_answer_byte_for_byte_and_stores_nothing_twice(
    sample_dealer: SampleDealer,
) -> None:
    for number, binding in enumerate(BINDINGS, 1):
        lead = a_keyed_lead(source_agent=binding)
        answers = [sample_dealer.send(lead, binding) for _ in range(3)]
        assert len({without_message_id(answer) for answer in answers}) == 1
        assert len({answer.raw for answer in answers}) == 3, "each reply has a messageId of its own"
        records = sample_dealer.list_leads()
        assert len(records) == number
        kept = sample_dealer.get_lead(records[0].lead_id)
        assert (len(kept.consents), kept.events) == (1, ())


@pytest.mark.requirement("idempotency-same-payload")
def test_the_first_answer_comes_again_over_the_other_binding_and_after_a_restart(database_url: str) -> None:
    lead = a_keyed_lead(vehicle_of_interest={"make": "Häagen \U0001f697"})
    with open_sample_dealer(database_url) as sample_dealer:
        first = sample_dealer.send(lead)
        other = sample_dealer.send(lead, "json-rpc")
    with open_sample_dealer(database_url, stocked=False) as sample_dealer:
        later = sample_dealer.send(lead)
    assert first.data == other.data == later.data
    assert first.message == other.message == later.message
    assert without_message_id(first) == without_message_id(later)


@pytest.mark.requirement("idempotency-same-payload")
def test_a_duplicate_with_a_key_is_answered_as_a_duplicate_again(sample_dealer: SampleDealer) -> None:
    first = a_lead()
    again = first | {"idempotency_key": "key-1", "message": "And the price?"}
    assert (sample_dealer.send(first).data or {})["status"] == "received"
    answers = [sample_dealer.send(again) for _ in range(2)]
    assert [(answer.data or {})["status"] for answer in answers] == ["duplicate", "duplicate"]
    assert without_message_id(answers[0]) == without_message_id(answers[1])
    (record,) = sample_dealer.list_leads()
    kept = sample_dealer.get_lead(record.lead_id)
    assert (len(kept.consents), len(kept.events)) == (1, 1)


@pytest.mark.requirement("idempotency-submitted-at")
def test_payloads_are_compared_without_submitted_at_as_json_values(sample_dealer: SampleDealer) -> None:
    """2020.0 is the integer 2020, as SDKs send it."""
    lead = a_keyed_lead(vehicle_of_interest={"year": 2020, "price": 30000, "extra": 500})
    first = sample_dealer.send(lead)
    for again in (
        lead | {"submitted_at": ago()},
        {name: value for name, value in reversed(lead.items()) if name != "submitted_at"},
        lead | {"vehicle_of_interest": {"extra": 500.0, "price": 3e4, "year": 2020.0}},
    ):
        assert without_message_id(sample_dealer.send(again)) == without_message_id(first)
    assert len(sample_dealer.list_leads()) == 1


@pytest.mark.requirement("idempotency-same-payload", "error-idempotency-conflict", "idempotency-conflict")
def test_the_same_key_with_another_payload_is_a_conflict(sample_dealer: SampleDealer) -> None:
    lead = a_keyed_lead()
    first = sample_dealer.send(lead)
    others: list[dict[str, Any]] = [
        {"message": "Hello"},
        {"vehicle_of_interest": {}},
        {"consent": lead["consent"] | {"source_agent": "Another"}},
    ]
    for changed, binding in product(others, BINDINGS):
        refused = sample_dealer.send(lead | changed, binding)
        assert (refused.code, refused.status) == ("IDEMPOTENCY_CONFLICT", 409 if binding == "http" else 200)
        assert refused.error is not None
        assert refused.error["retryable"] is False
    assert without_message_id(sample_dealer.send(lead)) == without_message_id(first), "a conflict takes nothing away"
    assert len(sample_dealer.list_leads()) == 1


@pytest.mark.requirement("idempotency-before-consent")
def test_a_key_that_was_used_is_a_conflict_whatever_the_consent_of_the_other_payload(
    sqlite_dealer: SampleDealer,
) -> None:
    lead = a_keyed_lead(source_agent="Agent of one test")
    assert sqlite_dealer.send(lead).status == 200
    assert sqlite_dealer.send(lead | {"consent": consent(scope=[])}).code == "IDEMPOTENCY_CONFLICT"


@pytest.mark.requirement("idempotency-no-errors")
def test_errors_are_not_stored_so_a_corrected_retry_with_the_same_key_is_taken(sample_dealer: SampleDealer) -> None:
    lead = a_keyed_lead()
    drive = {"appointment": {"appointment_type": "test_drive"}, "vehicle_of_interest": {"vin": "WBA00000000000003"}}
    wrong: list[tuple[dict[str, Any], str]] = [
        (lead | {"message": 7}, "SCHEMA_VALIDATION_FAILED"),
        (lead | {"consent": consent(scope=[])}, "CONTACT_CONSENT_REQUIRED"),
        (lead | {"consent": consent(consent_text="")}, "INVALID_CONSENT"),
        (lead | drive, "VEHICLE_NOT_FOUND"),
    ]
    for payload, code in [*wrong, *wrong]:
        assert sample_dealer.send(payload).code == code
    assert sample_dealer.list_leads() == []
    assert (sample_dealer.send(lead).data or {})["status"] == "received"


@pytest.mark.requirement("idempotency-owner")
def test_without_a_token_the_key_belongs_to_the_agents_name_and_the_contact_points_together(
    sample_dealer: SampleDealer,
) -> None:
    """Nobody who guesses a key and an agent's name uses up the key of another customer."""
    sam, both = {"email": "sam@example.com"}, {"email": "sam@example.com", "phone": "+12025550123"}
    owners: list[tuple[Any, dict[str, str]]] = [
        *((name, sam) for name in ("Agent A", "Agent B", "agent a", "token:1")),
        ("Agent A", both),
        ("Agent A", {"phone": both["phone"]}),
        ("Agent A", {"email": "pat@example.com"}),
    ]
    taken = [sample_dealer.send(a_keyed_lead(source_agent=name, customer=customer(**who))) for name, who in owners]
    assert [answer.status for answer in taken] == [200] * len(owners)
    assert len({(answer.data or {})["lead_id"] for answer in taken}) == len(owners)
    same_owner: list[tuple[Any, dict[str, str]]] = [
        ("Agent A", {"email": "SAM@example.com"}),
        ({"name": "Agent A", "url": "https://agent.example.com"}, sam),
    ]
    for name, who in same_owner:
        again = a_keyed_lead(source_agent=name, customer=customer(**who), message="Another payload")
        assert sample_dealer.send(again).code == "IDEMPOTENCY_CONFLICT"


@pytest.mark.requirement("idempotency-owner")
def test_with_a_token_the_key_belongs_to_the_token(database_url: str) -> None:
    make_current(database_url)
    with Store.open(database_url) as store:
        secrets = [new_token() for _ in range(2)]
        tokens = [
            secret.text(write_at(datetime.now(UTC), store, "ridgeline", create_token, "buyer", secret.secret_hash))
            for secret in secrets
        ]
    with open_sample_dealer(database_url) as sample_dealer:
        lead = a_keyed_lead()
        first = sample_dealer.send(lead, token=tokens[0])
        other = copy.deepcopy(lead)
        other["customer"]["email"] = "sam@example.com"
        taken = [sample_dealer.send(other, token=tokens[1]), sample_dealer.send(other | {"message": "No token"})]
        assert [answer.status for answer in taken] == [200, 200], "the same key of others"
        assert without_message_id(sample_dealer.send(lead, token=tokens[0])) == without_message_id(first)
        assert sample_dealer.send(lead | {"source_agent": "Renamed"}, token=tokens[0]).code == "IDEMPOTENCY_CONFLICT"


@pytest.mark.both_databases
@pytest.mark.requirement("idempotency-same-payload")
def test_identical_leads_at_once_are_stored_once_and_answered_alike(sample_dealer: SampleDealer) -> None:
    for number, binding in enumerate(BINDINGS, 1):
        answers = sample_dealer.send_together([a_keyed_lead(source_agent=binding)] * 25, binding)
        assert len({without_message_id(answer) for answer in answers}) == 1
        records = sample_dealer.list_leads()
        assert len(records) == number
        assert len(sample_dealer.get_lead(records[0].lead_id).consents) == 1


@pytest.mark.both_databases
@pytest.mark.requirement("duplicate-same-token")
def test_identical_leads_without_a_key_at_once_are_one_lead_and_its_duplicates(sample_dealer: SampleDealer) -> None:
    answers = sample_dealer.send_together([a_lead()] * 25)
    statuses = sorted((answer.data or {})["status"] for answer in answers)
    assert statuses == ["duplicate"] * 24 + ["received"]
    assert len({(answer.data or {})["lead_id"] for answer in answers}) == 1
    (record,) = sample_dealer.list_leads()
    assert len(sample_dealer.get_lead(record.lead_id).consents) == 1, "the same consent is recorded once"


def test_a_replay_repeats_the_context_of_its_own_request(sqlite_dealer: SampleDealer) -> None:
    """The replay repeats the request's contextId; the content is the first one's (docs/protocol.md#envelope)."""
    lead = a_keyed_lead()
    bodies = []
    for context in ("one", "two"):
        body = json.loads(request_body(lead))
        body["message"]["contextId"] = context
        bodies.append(sqlite_dealer.send_raw(json.dumps(body).encode()).json()["message"])
    assert [body["contextId"] for body in bodies] == ["one", "two"]
    assert bodies[0]["parts"] == bodies[1]["parts"]
