"""A lead is stored whole before it is answered, or not at all (docs/protocol.md#durability). On both databases."""

import json
import re
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import msgspec
import pytest
from tests.skills.sample_dealers import (
    ACCORD,
    BINDINGS,
    SOLD,
    TACOMA,
    UNKNOWN,
    SampleDealer,
    a_lead,
    ago,
    consent,
    customer,
    everything_stored,
    open_sample_dealer,
    stored_refusals,
    table_away,
)


def test_the_whole_lead_is_kept_with_its_consent_record(sample_dealer: SampleDealer) -> None:
    """Extras are kept in what is stored, the phone number as E.164, the consent with all its members."""
    lead = a_lead(
        customer=customer(email="Jordan@Example.com", phone="+1 (202) 555-0123", preferred_contact="phone"),
        consent=consent(
            allowed_channels=["phone", "email"], source_agent="Consent App", expires_at="2099-01-01T00:00:00Z"
        ),
        source_agent={"name": "Example Agent", "url": "https://agent.example.com"},
        vehicle_of_interest={"stock": "n-7", "packages": [{"name": "tow", "price": 500.0}]},
        trade_in={"make": "Ford", "payoff": {"bank": "Example"}, "condition": "fair"},
        appointment={
            "appointment_type": "test_drive",
            "appointment_at": "2026-12-01T10:00:00-06:00",
            "notes": "Rear door",
        },
        message="Is it still there? \0 \U0001f697",
    )
    answer = sample_dealer.send(lead)
    assert answer.data is not None
    kept = sample_dealer.get_lead(answer.data["lead_id"])
    assert sample_dealer.list_leads() == [kept.lead]
    record = kept.lead
    assert (record.source_agent, record.status) == ("Example Agent", "received")
    assert (record.vin, record.stock, record.vehicle_id) == (ACCORD, "N-7", f"vin-{ACCORD}")
    assert abs(record.received_at - datetime.now(UTC)) < timedelta(minutes=10)
    assert record.customer is not None
    assert record.payload is not None
    assert msgspec.json.decode(record.customer) == lead["customer"] | {"phone": "+12025550123"}
    assert msgspec.json.decode(record.payload) == lead
    assert record.rooftop == "Ridgeline North"
    assert record.vehicle is not None
    listing = sample_dealer.send({"type": "inventory.vehicle.request", "vin": ACCORD}).data
    assert msgspec.json.decode(record.vehicle) == listing, "as the stock had it"
    (visit,) = sample_dealer.visits_of(record.lead_id)
    assert visit.request is not None
    assert msgspec.json.decode(visit.request) == lead["appointment"]
    assert msgspec.json.decode(visit.reply) == answer.data["appointment"]
    assert (visit.kind, visit.rooftop, visit.status) == ("test_drive", "Ridgeline North", "requested")
    (given,) = kept.consents
    assert given.kind == "granted"
    assert given.granted_at == datetime.fromisoformat(lead["consent"]["granted_at"])
    assert (given.channels, given.scope) == (("phone", "email"), ("lead_submission",))
    assert (given.consent_text, given.agent) == (lead["consent"]["consent_text"], "Consent App")
    assert given.expires_at == datetime(2099, 1, 1, tzinfo=UTC)
    assert kept.events == ()


@pytest.mark.requirement("consent-names-agent-and-token")
@pytest.mark.parametrize(
    ("named", "kept"), [("Consent App", "Consent App"), (..., "Example Agent"), (" \u200b", "Example Agent")]
)
def test_the_consent_record_names_the_agent_the_token_and_who_agreed(
    sample_dealer: SampleDealer, named: Any, kept: str
) -> None:
    who = customer(email="jordan@example.com", address={"city": "Springfield"}, preferred_contact="email")
    answer = sample_dealer.send(a_lead(customer=who, consent=consent(source_agent=named)), token=sample_dealer.token)
    assert answer.data is not None
    stored = sample_dealer.get_lead(answer.data["lead_id"])
    (given,) = stored.consents
    assert given.agent == kept
    assert given.caller == stored.lead.caller
    assert given.caller is not None
    assert given.customer is not None
    assert msgspec.json.decode(given.customer) == customer(email="jordan@example.com")


@pytest.mark.requirement("durable-before-answer")
def test_an_answered_lead_is_committed_whichever_way_it_came(sample_dealer: SampleDealer) -> None:
    """Another connection sees it as soon as the response is there."""
    for binding in BINDINGS:
        answer = sample_dealer.send(a_lead(), binding)
        assert answer.data is not None
        assert sample_dealer.get_lead(answer.data["lead_id"]).lead.lead_id == answer.data["lead_id"]
    assert len(sample_dealer.list_leads()) == 2


def test_a_vehicle_that_is_not_in_stock_is_stored_only_encrypted(sample_dealer: SampleDealer) -> None:
    """The vehicle may be the customer's own, which needs service. Its VIN leads to them (16 CFR 314.4(c)(3))."""
    own = {"vin": UNKNOWN, "stock": "SECRETMARK", "make": "SECRETMARK"}
    taken = sample_dealer.send(a_lead(vehicle_of_interest=own, appointment={"appointment_type": "service"}))
    assert taken.data is not None
    stored = everything_stored(sample_dealer.url)
    assert UNKNOWN not in stored
    assert "SECRETMARK" not in stored
    kept = sample_dealer.get_lead(taken.data["lead_id"]).lead
    assert kept.payload is not None
    assert msgspec.json.decode(kept.payload)["vehicle_of_interest"] == own


@pytest.mark.both_databases
@pytest.mark.requirement("refused-not-stored")
def test_of_a_refused_lead_only_code_and_time_are_stored(database_url: str) -> None:
    mark = "SECRETMARK"
    lead = a_lead(
        customer=customer(email=f"{mark}@example.com", last_name=mark),
        message=mark,
        source_agent=mark,
        idempotency_key=mark,
        vehicle_of_interest={"vin": UNKNOWN, mark: mark},
    )
    drive = {"appointment": {"appointment_type": "test_drive", "notes": mark}}
    with open_sample_dealer(database_url) as sample_dealer:
        for refused in (
            lead | {"consent": consent(scope=[mark])},
            lead | {"consent": consent(consent_text=[mark])},
            lead | {"message": [mark]},
            {name: value for name, value in lead.items() if name != "customer"},
            lead | drive,
            lead | drive | {"vehicle_of_interest": {"vin": SOLD, mark: mark}},
        ):
            assert sample_dealer.send(refused).error is not None
        assert sample_dealer.list_leads() == []
    refusals = stored_refusals(database_url)
    assert [code for code, _ in refusals] == [
        "CONTACT_CONSENT_REQUIRED",
        "INVALID_CONSENT",
        "SCHEMA_VALIDATION_FAILED",
        "MISSING_REQUIRED_FIELD",
        "VEHICLE_NOT_FOUND",
        "VEHICLE_UNAVAILABLE",
    ]
    assert all(abs(at - datetime.now(UTC)) < timedelta(minutes=10) for _, at in refusals)
    stored = everything_stored(database_url)
    assert mark.lower() not in stored.lower()
    assert len(stored.splitlines()) == len(refusals)


DRIVE = {"appointment": {"appointment_type": "test_drive"}}


@pytest.mark.requirement(
    "test-drive-not-found",
    "test-drive-gone",
    "error-vehicle-not-found",
    "error-vehicle-unavailable",
)
@pytest.mark.parametrize("keyed", [False, True], ids=["no key", "key"])
@pytest.mark.parametrize(
    ("wish", "code", "status"),
    [
        ({"vin": UNKNOWN}, "VEHICLE_NOT_FOUND", 404),
        ({"stock": "NO-SUCH"}, "VEHICLE_NOT_FOUND", 404),
        ({"vehicle_id": "no-such"}, "VEHICLE_NOT_FOUND", 404),
        ({"vin": SOLD}, "VEHICLE_UNAVAILABLE", 409),
        ({"stock": "N-1"}, "VEHICLE_UNAVAILABLE", 409),
        ({"vin": UNKNOWN, "stock": "N-1"}, "VEHICLE_UNAVAILABLE", 409),
    ],
)
def test_a_test_drive_needs_a_vehicle_that_is_there(
    sqlite_dealer: SampleDealer, wish: dict[str, str], code: str, status: int, keyed: bool
) -> None:
    key = f"{code} {wish}" if keyed else ...
    refused = sqlite_dealer.send(a_lead(vehicle_of_interest=wish, idempotency_key=key, **DRIVE))
    assert (refused.code, refused.status, refused.pointer) == (code, status, "/vehicle_of_interest")


@pytest.mark.requirement("test-drive-without-vehicle")
@pytest.mark.parametrize(
    "wish",
    [
        {},
        {"vehicle_of_interest": {}},
        {"vehicle_of_interest": {"make": "Honda", "model": "Accord"}},
        {"vehicle_of_interest": {"vin": "", "stock": "", "make": "Honda"}},
        {"vehicle_of_interest": {"vin": ACCORD}},
        {"vehicle_of_interest": {"vin": TACOMA.lower()}},
        {"vehicle_of_interest": {"stock": "t-1"}},
    ],
)
def test_a_test_drive_without_a_vehicle_or_with_one_on_the_lot_is_taken(
    sqlite_dealer: SampleDealer, wish: dict[str, Any]
) -> None:
    taken = sqlite_dealer.send(a_lead(**wish, **DRIVE))
    assert taken.data is not None
    assert taken.data["appointment"]["status"] == "requested"


@pytest.mark.requirement("vehicle-not-found-taken")
@pytest.mark.parametrize("visit", [{}, {"appointment": {"appointment_type": "sales"}}])
@pytest.mark.parametrize(
    ("vin", "words"), [(UNKNOWN, "not in our stock"), (SOLD, "no longer available"), (ACCORD, "2024 Honda Accord EX")]
)
def test_without_a_test_drive_the_lead_is_taken_and_the_message_says_what_became_of_the_vehicle(
    sqlite_dealer: SampleDealer, vin: str, words: str, visit: dict[str, Any]
) -> None:
    taken = sqlite_dealer.send(a_lead(vehicle_of_interest={"vin": vin}, **visit))
    assert taken.data is not None
    assert taken.data["status"] == "received"
    assert taken.message is not None
    assert words in taken.message
    assert sqlite_dealer.get_lead(taken.data["lead_id"]).lead.vin == (None if vin == UNKNOWN else vin)


@pytest.mark.requirement("lead-reply-dealer", "lead-reply")
@pytest.mark.parametrize(
    ("wish", "dealer"),
    [
        ({"vin": ACCORD}, {"name": "Ridgeline North", "phone": "+12025550140"}),
        ({"vin": TACOMA}, {"name": "Ridgeline South"}),
        ({"vin": UNKNOWN}, {"name": "Ridgeline North", "phone": "+12025550140"}),
        ({}, {"name": "Ridgeline North", "phone": "+12025550140"}),
    ],
)
def test_the_reply_names_whom_to_call_at_the_rooftop_that_has_the_vehicle(
    sqlite_dealer: SampleDealer, wish: dict[str, str], dealer: dict[str, str]
) -> None:
    taken = sqlite_dealer.send(a_lead(vehicle_of_interest=wish))
    assert taken.data is not None
    assert taken.data["dealer"] == dealer
    assert taken.message


EMAIL, PHONE = {"email": "sam.{n}@example.com"}, {"phone": "+120255501{n:02}"}


@pytest.mark.requirement("duplicate-same-token")
@pytest.mark.parametrize(
    ("first", "second", "duplicate"),
    [
        (({"email": "SAM.{n}@Example.com"}, ...), (EMAIL, ...), True),
        (({"phone": "+1 (202) 555-01{n:02}"}, ...), (PHONE, ...), True),
        ((EMAIL | PHONE, ...), (PHONE, ...), True),
        ((PHONE, {"vin": ACCORD}), (EMAIL | PHONE, {"stock": "N-7"}), True),
        ((EMAIL, {"vin": UNKNOWN}), (EMAIL, {"vin": UNKNOWN.lower()}), True),
        ((EMAIL, {"vin": SOLD}), (EMAIL, {"stock": "N-1"}), True),
        ((EMAIL, {"make": "Honda"}), (EMAIL, {"make": "honda"}), True),
        ((EMAIL, {}), (EMAIL, ...), True),
        ((EMAIL, ...), ({"email": "pat.{n}@example.com"}, ...), False),
        ((EMAIL, ...), (PHONE, ...), False),
        ((EMAIL, {"vin": ACCORD}), (EMAIL, {"vin": TACOMA}), False),
        ((EMAIL, {"vin": ACCORD}), (EMAIL, ...), False),
        ((EMAIL, ...), (EMAIL, {"make": "Honda"}), False),
    ],
)
def test_the_same_customer_and_vehicle_is_a_duplicate_of_the_first_lead(
    sqlite_dealer: SampleDealer, first: Any, second: Any, duplicate: bool
) -> None:
    number = next(_customers)
    one, other = (
        sqlite_dealer.send(
            a_lead(customer=numbered(who, number), vehicle_of_interest=wish), binding, token=sqlite_dealer.token
        ).data
        or {}
        for (who, wish), binding in zip((first, second), BINDINGS, strict=True)
    )
    assert one["status"] == "received"
    assert other["status"] == ("duplicate" if duplicate else "received")
    assert (other["lead_id"] == one["lead_id"]) == duplicate
    assert len(sqlite_dealer.get_lead(one["lead_id"]).consents) == (2 if duplicate else 1)


_customers = count(1)


def numbered(who: dict[str, str], number: int) -> dict[str, Any]:
    return customer(**{name: text.format(n=number) for name, text in who.items()})


def test_the_reply_to_a_duplicate_says_so(sqlite_dealer: SampleDealer) -> None:
    lead = a_lead()
    first, second = (sqlite_dealer.send(lead).message or "" for _ in range(2))
    assert "has your request" in first
    assert "has your earlier request" in second


@pytest.mark.both_databases
@pytest.mark.requirement("duplicate-same-token")
def test_who_writes_with_a_number_that_a_duplicate_brought_is_the_same_customer(sample_dealer: SampleDealer) -> None:
    ids = [
        (sample_dealer.send(a_lead(customer=numbered(who, 1)), token=sample_dealer.token).data or {})["lead_id"]
        for who in (EMAIL, EMAIL | PHONE, PHONE, PHONE)
    ]
    assert len(set(ids)) == 1
    assert len(sample_dealer.get_lead(ids[0]).consents) == 4


def test_what_a_duplicate_says_anew_of_the_customer_is_added_to_the_lead(sqlite_dealer: SampleDealer) -> None:
    """A dealer who calls back needs the number that the customer gave last."""
    first = sqlite_dealer.send(a_lead(customer=customer(email="kim@example.com")), token=sqlite_dealer.token)
    assert first.data is not None
    again = customer(email="kim@example.com", phone="+1 202 555 0177")
    for _ in range(2):
        sqlite_dealer.send(a_lead(customer=again), token=sqlite_dealer.token)
    (event,) = sqlite_dealer.get_lead(first.data["lead_id"]).events
    assert json.loads(event.changes or b"") == {"customer": again | {"phone": "+12025550177"}}


@pytest.mark.requirement("duplicate-adds", "duplicate-same-token")
def test_a_changed_message_or_appointment_is_added_to_the_first_lead_with_a_consent_record_of_its_own(
    sample_dealer: SampleDealer,
) -> None:
    morning = {"appointment_type": "sales", "appointment_at": "2026-12-01T10:00:00-06:00"}
    noon = morning | {"appointment_at": "2026-12-01T12:00:00-06:00"}

    def again(text: str, **members: Any) -> dict[str, Any]:
        lead = a_lead(customer=customer(email="sam@example.com"), consent=consent(consent_text=text), **members)
        answer = sample_dealer.send(lead, token=sample_dealer.token)
        assert answer.data is not None
        return answer.data

    first = again("I agree.", message="Is it there?", appointment=morning)
    same = again("I agree again.", message="Is it there?", appointment=morning)
    assert (same["status"], same["lead_id"]) == ("duplicate", first["lead_id"])
    assert same["appointment"] == first["appointment"], "the visit that stands already"
    assert sample_dealer.get_lead(first["lead_id"]).events == ()

    asked = again("Yes.", message="And the price?")
    assert "appointment" not in asked
    moved = again("Yes, yes.", message="And the price?", appointment=noon)
    assert moved["appointment"]["status"] == "requested"
    assert moved["appointment"]["appointment_id"] != first["appointment"]["appointment_id"]
    assert again("Same.", message="And the price?", appointment=noon)["appointment"] == moved["appointment"]
    back = again("Back.", message="Is it there?", appointment=morning)

    kept = sample_dealer.get_lead(first["lead_id"])
    texts = ["I agree.", "I agree again.", "Yes.", "Yes, yes.", "Same.", "Back."]
    assert [given.consent_text for given in kept.consents] == texts
    assert len({given.request_hash for given in kept.consents}) == len(texts)
    assert [msgspec.json.decode(event.changes or b"") for event in kept.events] == [
        {"message": "And the price?"},
        {"appointment": {"request": noon, "reply": moved["appointment"]}},
        {"message": "Is it there?", "appointment": {"request": morning, "reply": back["appointment"]}},
    ]
    assert json.loads(kept.lead.payload or b"")["message"] == "Is it there?"


@pytest.mark.both_databases
def test_many_leads_at_once_are_each_stored_once(sample_dealer: SampleDealer) -> None:
    payloads = [a_lead(message=str(number)) for number in range(60)]
    answers = sample_dealer.send_together(payloads)
    ids = [answer.data["lead_id"] for answer in answers if answer.data]
    assert len(set(ids)) == 60
    kept = {record.lead_id: json.loads(record.payload or b"")["message"] for record in sample_dealer.list_leads()}
    assert kept == {lead_id: payload["message"] for lead_id, payload in zip(ids, payloads, strict=True)}


@pytest.mark.both_databases
def test_a_consent_that_expires_in_the_middle_of_others_spoils_none_of_them(sample_dealer: SampleDealer) -> None:
    """Leads are committed in groups: a refused one leaves nothing behind, and the others are kept."""
    good = [a_lead(idempotency_key=f"good {number}") for number in range(10)]
    bad = [a_lead(idempotency_key=f"bad {number}", consent=consent(expires_at=ago(days=1))) for number in range(10)]
    answers = sample_dealer.send_together([lead for pair in zip(good, bad, strict=True) for lead in pair])
    assert [answer.code for answer in answers] == [None, "INVALID_CONSENT"] * 10
    assert len(sample_dealer.list_leads()) == 10


@pytest.mark.both_databases
@pytest.mark.requirement("error-internal-error")
def test_a_lead_that_cannot_be_stored_is_an_internal_error_and_may_be_sent_again(sample_dealer: SampleDealer) -> None:
    lead = a_lead(idempotency_key="key-1", message="SECRETMARK")
    with table_away(sample_dealer.url, "consent_events"):
        failed = sample_dealer.send(lead)
        assert (failed.status, failed.code) == (500, "INTERNAL_ERROR")
        assert failed.error is not None
        assert failed.error["retryable"] is True
        assert not re.search(rb"SECRETMARK|consents|INSERT|\.py", failed.raw), "nothing of the inside leaves"
        assert sample_dealer.list_leads() == [], "no lead without its consent record"
    assert (sample_dealer.send(lead).data or {})["status"] == "received"
    assert len(sample_dealer.list_leads()) == 1
