"""The fast path and the slow path accept the same requests, and raise only ProtocolError (docs/protocol.md#errors).

Valid requests are damaged at random places; what msgspec takes at once is held against what the schemas say.
"""

import json
import random
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.protocol.bodies import STEMS, VIN, WIRE, body, call
from tests.soak import examples

from dealer_agent.protocol import envelope, json_rpc
from dealer_agent.protocol.envelope import Request, check_request, decode_request, plain_request
from dealer_agent.protocol.envelope_problems import SendMessage
from dealer_agent.protocol.errors import ProtocolError
from dealer_agent.protocol.json_body import NOT_DECODED, read_json
from dealer_agent.protocol.json_rpc import decode_call

pytestmark = pytest.mark.requirement("anything-else-wrong")

FILTERS: dict[str, Any] = {
    **{name: ["x", "Y-1"] for name in ("make", "model", "trim", "transmission", "fuel", "charge_port", "driveline")},
    "body": ["suv"],
    "rooftops": ["North"],
    "exterior_color": ["white"],
    "interior_color": [],
    "condition": ["new", "cpo"],
    "vehicle_type": ["car", "rv"],
    "electric_range_mi_min": 0,
    "electric_range_mi_max": 500,
    "dc_fast_charge": True,
    "displacement_cc_min": 100,
    "displacement_cc_max": 5000,
    "year_min": 1900,
    "year_max": 2100,
    "price_min": 1,
    "price_max": 90000,
    "mileage_max": 1,
    "vin": VIN,
    "stock": "A1",
    "query": "awd suv",
}

VALID: list[dict[str, Any]] = [
    body("dealer.information"),
    body("inventory.facets", filters=FILTERS),
    body(
        "inventory.search",
        "autoagent",
        filters=FILTERS,
        pagination={"skip": 0, "limit": 1000},
        sort={"field": "price", "order": "asc"},
        privacy={"anonymous": True},
    ),
    body("inventory.vehicle", stock="A1", vehicle_id="v", zip="22301"),
    body(
        "lead.submit",
        vehicle_of_interest={"vin": VIN, "year": 2020, "electric_range_mi": 250.5, "extra": [1, {"a": None}]},
        trade_in={"year": 2015, "condition": "good", "mileage": 80000},
        appointment={
            "appointment_type": "test_drive",
            "requested_windows": [{"start": "2027-01-05T10:00:00", "end": "2027-01-05T11:00:00"}],
            "timezone": "America/Chicago",
            "duration_minutes": 30,
        },
        message="Is it there?",
        submitted_at="2026-01-05T15:00:00Z",
        idempotency_key="key-1",
    ),
]

WRONG = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.sampled_from([0, -1, 1, 1899, 1900, 2100, 2101, 1000, 1001, 2**63 - 1, 2**63, 2020.0, 2020.5, 1e30, -0.0]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.sampled_from(["", "asc", "price", "new", VIN, VIN + "\n", "x" * 201, "ROLE_USER", "user", "application/json"]),
    st.lists(st.one_of(st.text(max_size=3), st.integers(), st.none()), max_size=3),
    st.dictionaries(st.sampled_from(["type", "kind", "data", "x", "limit"]), st.integers() | st.text(max_size=3)),
)
NAMES = ("kind", "x", "data", "type", "vin", "make", "contextId", "taskId", "sort", "pushNotificationConfig", "a/b~")


def places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every member and element."""
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [spot for key, child in children for spot in [(*path, key), *places(child, (*path, key))]]


@st.composite
def damaged(draw: st.DrawFn) -> dict[str, Any]:
    """A valid body with up to three members replaced, removed, added or repeated."""
    document: dict[str, Any] = json.loads(json.dumps(draw(st.sampled_from(VALID))))
    for _ in range(draw(st.integers(0, 3))):
        spots = places(document)
        if not spots:
            break
        *path, last = draw(st.sampled_from(spots))
        node: Any = document
        for step in path:
            node = node[step]
        match draw(st.sampled_from(["replace", "remove", "add", "repeat"])):
            case "replace":
                node[last] = draw(WRONG)
            case "remove":
                del node[last]
            case "add" if isinstance(node, dict):
                node[draw(st.sampled_from(NAMES))] = draw(WRONG)
            case "repeat" if isinstance(node, list):
                node.append(node[last])
    return document


_decoder = msgspec.json.Decoder(SendMessage)


def decoded_fast(raw: bytes) -> Request | None:
    try:
        return plain_request(_decoder.decode(raw), WIRE)
    except NOT_DECODED:
        return None


def checked_in_full(raw: bytes) -> Request | ProtocolError:
    try:
        return check_request(read_json(raw), WIRE)
    except ProtocolError as error:
        return error


def agrees(raw: bytes) -> None:
    fast, slow = decoded_fast(raw), checked_in_full(raw)
    if fast is not None:
        assert_same_request(fast, slow)


def assert_same_request(fast: Request, slow: Request | ProtocolError) -> None:
    assert isinstance(slow, Request), slow
    assert not slow.problems
    assert (slow.skill, slow.vocabulary, slow.context_id, slow.payload) == (
        fast.skill,
        fast.vocabulary,
        fast.context_id,
        fast.payload,
    )


@pytest.mark.parametrize("document", VALID, ids=list(STEMS))
def test_a_valid_request_is_accepted_and_a_reading_one_is_decoded_fast(document: dict[str, Any]) -> None:
    raw = json.dumps(document).encode()
    agrees(raw)
    slow = checked_in_full(raw)
    assert isinstance(slow, Request)
    assert slow.payload is not None
    assert (decoded_fast(raw) is None) is (slow.skill.id == "lead.submit")


@settings(max_examples=examples(800), deadline=None)
@given(damaged())
def test_a_request_that_is_decoded_fast_passes_the_full_check_with_the_same_result(document: dict[str, Any]) -> None:
    agrees(json.dumps(document).encode())


@settings(max_examples=examples(800), deadline=None)
@given(damaged())
@pytest.mark.requirement("all-problems-at-once", "missing-or-unknown-named")
def test_a_damaged_request_is_accepted_or_refused_with_a_pointer_to_each_problem(document: dict[str, Any]) -> None:
    verdict = checked_in_full(json.dumps(document).encode())
    if isinstance(verdict, Request):
        assert bool(verdict.problems) is (verdict.payload is None)
        pointers = [problem.pointer for problem in verdict.problems]
    else:
        assert verdict.http in (422, 404, 400)
        assert verdict.details["in"] in ("payload", "envelope")
        pointers = [each["instancePath"] for each in verdict.details.get("errors", [])]
        assert pointers or verdict.code not in ("SCHEMA_VALIDATION_FAILED", "MISSING_REQUIRED_FIELD")
        assert pointers == sorted(pointers)
    assert all(pointer == "" or pointer.startswith("/") for pointer in pointers)


BREAKAGE = [b"", b"{", b"]", b'"', b"\\ud800", b"\xff", b"NaN", b"1e999", b"-", b"\x00", b",", b"null"]


@settings(max_examples=examples(400), deadline=None)
@given(damaged(), st.data())
@pytest.mark.requirement("not-json")
def test_bytes_damaged_anywhere_raise_nothing_but_protocol_errors(
    document: dict[str, Any], data: st.DataObject
) -> None:
    raw = bytearray(json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw)))
        raw[at : at + data.draw(st.integers(0, 3))] = data.draw(st.sampled_from(BREAKAGE))
    with suppress(ProtocolError):
        decode_request(bytes(raw), WIRE)
    decode_call(b'{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":' + bytes(raw) + b"}", WIRE)


@settings(max_examples=examples(300), deadline=None)
@given(damaged())
@pytest.mark.requirement("rpc-result")
def test_both_bindings_come_to_one_verdict(document: dict[str, Any]) -> None:
    over_http = checked_in_full(json.dumps(document).encode())
    _, over_rpc = decode_call(json.dumps(call(document)).encode(), WIRE)
    if isinstance(over_http, Request):
        assert isinstance(over_rpc, Request)
        assert (over_rpc.skill, over_rpc.payload, len(over_rpc.problems)) == (
            over_http.skill,
            over_http.payload,
            len(over_http.problems),
        )
    else:
        assert isinstance(over_rpc, ProtocolError)
        assert (type(over_rpc), over_rpc.message, over_rpc.details) == (
            type(over_http),
            over_http.message,
            over_http.details,
        )


def as_doubles(node: Any) -> Any:
    """The document as protobuf's Struct carries it: every number a double."""
    if isinstance(node, dict):
        return {name: as_doubles(item) for name, item in node.items()}
    if isinstance(node, list):
        return [as_doubles(item) for item in node]
    return float(node) if isinstance(node, int) and not isinstance(node, bool) else node


@pytest.mark.parametrize("document", VALID, ids=list(STEMS))
@pytest.mark.requirement("whole-doubles")
def test_a_request_sent_through_protobuf_means_the_same(document: dict[str, Any]) -> None:
    plain = decode_request(json.dumps(document).encode(), WIRE)
    doubled = decode_request(json.dumps(as_doubles(document)).encode(), WIRE)
    assert doubled.payload == plain.payload
    assert doubled.payload is not None
    assert not doubled.problems
    assert doubled.plain == plain.plain


@pytest.mark.requirement("not-json")
def test_random_bytes_are_refused() -> None:
    source = random.Random(20260105)
    for length in range(300):
        with pytest.raises(ProtocolError):
            decode_request(source.randbytes(length), WIRE)


def test_a_lead_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plain decoder stops at its type, so only the full decoder reads it, over both bindings."""
    decoded: list[bytes] = []

    def record(sent: bytes) -> Any:
        decoded.append(sent)
        return read_json(sent)

    for module in (envelope, json_rpc):
        monkeypatch.setattr(module, "read_json", record)
    lead = body("lead.submit")
    bodies = [json.dumps(lead).encode(), json.dumps(call(lead)).encode()]
    assert (envelope.decode_plain_request(bodies[0], WIRE), json_rpc.decode_plain_call(bodies[1], WIRE)) == (None, None)
    assert decoded == []
    over_http, (_, over_rpc) = decode_request(bodies[0], WIRE), decode_call(bodies[1], WIRE)
    assert isinstance(over_rpc, Request)
    assert over_http.payload == over_rpc.payload
    assert decoded == bodies
