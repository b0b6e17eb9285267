"""Answers have the service's own types. Responses of other and later agents are read, and hostile ones do no harm."""

import asyncio
import copy
import pickle
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.client.dealers import (
    INFORMATION,
    LEAD,
    PAGE,
    RECEIPT,
    VEHICLE,
    application,
    card,
    impatient,
    members_of,
    result,
)
from tests.servers.misbehaving import Asked, misbehaving
from tests.soak import examples

from dealer_agent.client import DealerAgent, Retries, SubmittedLead, errors, results
from dealer_agent.client.card import read_card
from dealer_agent.client.decoding import decode_lenient
from dealer_agent.client.responses import SkillResponse, read_response
from dealer_agent.client.result import Result
from dealer_agent.client.results import DealerInformation, Facets, LeadReceipt, SearchPage, Vehicle, VehicleDetail
from dealer_agent.client.transport import Received
from dealer_agent.protocol.requests import Consent, Customer, SourceAgent, VehicleOfInterest
from dealer_agent.protocol.skill import INVENTORY_SEARCH

pytestmark = pytest.mark.outside_protocol("the client library")

URL = "http://dealer.test"


def asked(method: str, reply: object, *, raw: bool = False, extension: str | None = None, **arguments: Any) -> Any:
    """The result of a method for a dealer whose response has this data. With `raw`, `reply` is the whole body."""
    sent: list[dict[str, Any]] = []

    def respond(body: bytes) -> tuple[int, object, dict[str, str]]:
        sent.append(members_of(body))
        if not raw:
            return 200, result(body, reply, "Thank you"), {}
        rpc_id: str = msgspec.json.decode(body)["id"]
        return 200, reply.replace(b"ID", rpc_id.encode()) if isinstance(reply, bytes) else reply, {}

    async def ask() -> Any:
        changes: dict[str, Any] = {} if extension is None else {"capabilities": {"extensions": [{"uri": extension}]}}
        app = application(card(URL, vocabulary="autoagent", **changes), respond)
        async with DealerAgent.discover(URL, app=app, retries=Retries(most=0)) as agent:
            return await getattr(agent, method)(**arguments)

    answer = asyncio.run(ask())
    return (answer, sent[0]) if method == "submit_lead" else answer


def one(**members: Any) -> Vehicle:
    """The vehicle of a page, with other members in its place."""
    page = asked("search", PAGE | {"vehicles": [VEHICLE | members]})
    assert isinstance(page, SearchPage)
    vehicle = page.vehicles[0]
    assert isinstance(vehicle, Vehicle)
    return vehicle


def test_a_vehicle_has_the_type_of_the_service() -> None:
    vehicle = one(year=2024, make="Honda", fees=[{"name": "Doc", "amount": 499}])
    assert (vehicle.price, vehicle.year, vehicle.make, vehicle.status) == (20000, 2024, "Honda", "available")
    assert vehicle.updated_at == datetime(2026, 11, 20, 15, tzinfo=UTC)
    assert vehicle.mileage is None
    assert [fee.amount for fee in vehicle.fees or ()] == [499]


def test_what_a_later_version_sends_does_not_break_the_client() -> None:
    """Unknown words, unknown members, null, numbers as doubles, numbers beyond a bound."""
    vehicle = one(
        status="on_hold", condition="refurbished", price=-500.0, year=2024.0, make=None, hologram={"a": [1]},
        other_attributes={"seats": [2, 5], "roof": "glass"},
    )  # fmt: skip
    assert (vehicle.status, vehicle.condition, vehicle.price, vehicle.year) == ("on_hold", "refurbished", -500, 2024)
    assert vehicle.make is None
    assert vehicle.other_attributes == {"seats": [2, 5], "roof": "glass"}
    assert type(vehicle.year) is int


def test_each_method_returns_its_type() -> None:
    facets = asked(
        "facets", {"makes": [{"value": "Honda", "count": 2}], "moods": [], "price_range": {"min": 1, "max": 2}}
    )
    assert isinstance(facets, Facets)
    assert facets.makes is not None
    assert facets.price_range is not None
    assert (facets.makes[0].count, facets.price_range.max, facets.models) == (2, 2, None)
    detail = asked("vehicle", VEHICLE | {"zip": "22301", "offered_price": 19000}, vin="1HGCY2F57RA000001")
    assert isinstance(detail, VehicleDetail)
    assert detail.offered_price == 19000
    assert asked("information", INFORMATION).rooftops[0].name == "Test Motors"
    week = {"name": "sales", "value": {"monday": None, "tuesday": {"open": "09:00", "close": "18:00"}}}
    rooftop = asked("information", {"name": "A", "rooftops": [{"name": "A", "schedules": [week]}]}).rooftops[0]
    assert (rooftop.schedules[0].value.monday, rooftop.schedules[0].value.tuesday.open) == (None, "09:00")


WRONG = VEHICLE | {"vehicle_id": "veh_2", "price": "20000"}


def test_a_listing_that_cannot_be_read_is_skipped_and_reported() -> None:
    page = asked("search", PAGE | {"total": 3, "vehicles": [VEHICLE, WRONG, VEHICLE | {"year": None}], "skipped": [7]})
    assert [(vehicle.vehicle_id, vehicle.year) for vehicle in page.vehicles] == [("veh_1", None)] * 2
    (skipped,) = page.skipped
    assert (skipped.index, skipped.listing) == (1, WRONG)
    assert skipped.reason == "Expected `int | null`, got `str` - at `$.price`"
    assert asked("search", PAGE).skipped == ()


EVERY_RESULT: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "page": ("search", PAGE | {"vehicles": [VEHICLE, WRONG]}, {}),
    "facets": ("facets", {"makes": [{"value": "Honda", "count": 2}]}, {}),
    "vehicle": ("vehicle", VEHICLE | {"fees": [{"name": "Doc", "amount": 499}], "zip": "22301"}, {"vin": "1"}),
    "dealer": ("information", INFORMATION, {}),
    "lead": ("submit_lead", RECEIPT, LEAD),
    "data": ("ask", PAGE, {"skill": INVENTORY_SEARCH}),
}


@pytest.mark.parametrize(("method", "data", "arguments"), EVERY_RESULT.values(), ids=EVERY_RESULT)
def test_a_result_can_be_pickled_copied_compared_and_made_a_dictionary(
    method: str, data: dict[str, Any], arguments: dict[str, Any]
) -> None:
    answer = asked(method, data, **arguments)
    answer = answer[0] if method == "submit_lead" else answer
    for other in (pickle.loads(pickle.dumps(answer)), copy.copy(answer), copy.deepcopy(answer)):
        assert other == answer
        assert repr(other) == repr(answer)
    assert "UNSET" not in repr(answer)
    assert "None" not in repr(answer)
    plain = answer.to_dict()
    assert msgspec.json.decode(msgspec.json.encode(plain)) == plain
    assert msgspec.convert(plain, type(answer)) == answer
    if method in ("facets", "vehicle", "information"):
        assert plain == data


def test_no_type_of_a_result_has_members_that_are_unset() -> None:
    kinds = [kind for kind in vars(results).values() if isinstance(kind, type) and issubclass(kind, Result)]
    assert len(kinds) > 20
    for kind in (*kinds, SubmittedLead, SkillResponse):
        assert "Unset" not in str(kind.__annotations__)


def test_ask_returns_the_data_as_received() -> None:
    reply = asked("ask", PAGE | {"more": [1]}, skill=INVENTORY_SEARCH, members={"pagination": {"limit": 1}})
    assert (reply.data, reply.message) == (PAGE | {"more": [1]}, "Thank you")


LEAD_OBJECTS: dict[str, Any] = {
    "customer": Customer(first_name="Robin", last_name="Example", email="robin@example.com"),
    "consent": Consent("2026-11-20T15:00:00Z", ["email"], "Share my details.", ["lead_submission"]),
    "vehicle_of_interest": VehicleOfInterest(vin="1HGCY2F57RA000001"),
}


def test_a_lead_may_be_given_as_objects_or_as_values() -> None:
    appointment = {"appointment_id": "a1", "status": "confirmed", "confirmed_at": "2026-11-23T15:00:00-06:00"}
    answer, sent = asked("submit_lead", RECEIPT | {"appointment": appointment}, source_agent="Me", **LEAD_OBJECTS)
    assert isinstance(answer, SubmittedLead)
    assert isinstance(answer, LeadReceipt)
    assert (answer.lead_id, answer.status, answer.message) == (RECEIPT["lead_id"], "received", "Thank you")
    assert answer.appointment is not None
    assert answer.appointment.status == "confirmed"
    assert sent["customer"] == {"first_name": "Robin", "last_name": "Example", "email": "robin@example.com"}
    assert sent["vehicle_of_interest"] == {"vin": "1HGCY2F57RA000001"}
    assert sent["idempotency_key"] == answer.idempotency_key
    values, _ = asked("submit_lead", RECEIPT, **LEAD)
    assert values.idempotency_key != answer.idempotency_key
    assert asked("submit_lead", RECEIPT, idempotency_key="mine", **LEAD)[1]["idempotency_key"] == "mine"


def test_times_and_dates_of_a_lead_may_be_objects_and_members_that_are_none_are_not_sent() -> None:
    at = datetime(2026, 11, 23, 15, tzinfo=timezone(timedelta(hours=-6)))
    times: dict[str, Any] = {
        "consent": LEAD["consent"] | {"granted_at": at, "expires_at": None},
        "trade_in": {"inventory_date": date(2020, 5, 1), "year": None},
        "vehicle_of_interest": {"inventory_date": at, "vin": None},
    }
    visit = {"appointment_type": "test_drive", "requested_windows": ({"start": datetime(2026, 11, 23, 9)},)}  # noqa: DTZ001
    _, sent = asked("submit_lead", RECEIPT, **LEAD | times, appointment=visit)
    assert sent["consent"]["granted_at"] == "2026-11-23T15:00:00-06:00"
    assert "expires_at" not in sent["consent"]
    assert (sent["trade_in"], sent["vehicle_of_interest"]) == (
        {"inventory_date": "2020-05-01"},
        {"inventory_date": "2026-11-23"},
    )
    assert sent["appointment"]["requested_windows"] == [{"start": "2026-11-23T09:00:00"}]
    no_zone = {"appointment_type": "test_drive", "appointment_at": datetime(2026, 11, 23, 9)}  # noqa: DTZ001
    with pytest.raises(errors.InvalidRequest, match="/appointment/appointment_at: The time needs a time zone"):
        asked("submit_lead", RECEIPT, **LEAD, appointment=no_zone)


EXTENSIONS = "https://autoagentprotocol.org/extensions"


@pytest.mark.parametrize("agent", ["Me", {"name": "Me", "url": "https://me.example"}, SourceAgent("Me")])
@pytest.mark.parametrize("extension", [f"{EXTENSIONS}/a2a-automotive-retail/v1.0", f"{EXTENSIONS}/aap/v1.3"])
def test_the_agent_of_a_lead_has_the_form_of_the_version(extension: str, agent: Any) -> None:
    """From 1.1 on it is an object, and the consent has none. Before, both are its name."""
    _, sent = asked("submit_lead", RECEIPT, extension=extension, **LEAD | {"source_agent": agent})
    if extension.endswith("v1.0"):
        assert (sent["source_agent"], sent["consent"]["source_agent"]) == ("Me", "Me")
    else:
        assert sent["source_agent"]["name"] == "Me"
        assert "source_agent" not in sent["consent"]


@pytest.mark.parametrize(
    ("method", "arguments", "said"),
    [
        ("search", {"price_maximum": 1}, "There is no filter price_maximum; did you mean price_max?"),
        ("search", {"make": "Honda"}, "Wrong filter: /make: Expected `array`, got `str`"),
        ("search", {"make": ["Honda", 7]}, "Wrong filter: /make/1: Expected `str`, got `int`"),
        ("search", {"price_max": "cheap"}, "Wrong filter: /price_max: Expected `int`, got `str`"),
        ("search", {"sort": "prize"}, "Vehicles cannot be sorted by prize; did you mean price?"),
        ("facets", {"maker": ["Honda"]}, "There is no filter maker; did you mean make?"),
        ("vehicle", {}, "Give a vin, a stock number or a vehicle_id."),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_sent(method: str, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(errors.InvalidRequest) as caught:
        asked(method, {}, **arguments)
    assert str(caught.value) == said
    assert isinstance(caught.value, ValueError)


ANSWER = b'{"message":{"role":"ROLE_AGENT","parts":[{"data":{"type":"inventory.search.response","data":%s}}]}}'
DEEP = b"[" * 400 + b"]" * 400
HOSTILE: dict[str, bytes] = {
    "nothing": b"",
    "no JSON": b"<html>",
    "not UTF-8": b'{"id":"\xff"}',
    "half a surrogate": b'{"id":"\\ud800"}',
    "a huge number": b"9" * 1_000_000,
    "too deep": b"[" * 1_000_000,
    "an array": b"[]",
    "another id": b'{"jsonrpc":"2.0","id":"other","result":' + ANSWER % msgspec.json.encode(PAGE) + b"}",
    "no result": b'{"jsonrpc":"2.0","id":"ID"}',
    "a task": b'{"jsonrpc":"2.0","id":"ID","result":{"task":{"id":"1"}}}',
    "parts that are not a list": b'{"jsonrpc":"2.0","id":"ID","result":{"message":{"parts":{"data":{}}}}}',
    "parts that are not objects": b'{"jsonrpc":"2.0","id":"ID","result":{"message":{"parts":[1,null,{"data":[]}]}}}',
    "data of another skill": b'{"jsonrpc":"2.0","id":"ID","result":%s}'
    % (ANSWER % b"{}").replace(b"search", b"facets"),
    "no data": b'{"jsonrpc":"2.0","id":"ID","result":' + ANSWER % b"7" + b"}",
    "another form": b'{"jsonrpc":"2.0","id":"ID","result":' + ANSWER % b'{"total":"many"}' + b"}",
    "a deep vehicle": b'{"jsonrpc":"2.0","id":"ID","result":'
    + ANSWER % (b'{"total":"1","vehicles":' + DEEP + b"}")
    + b"}",
    "an error that is not an object": b'{"jsonrpc":"2.0","id":"ID","error":7}',
    "an error without a code": b'{"jsonrpc":"2.0","id":"ID","error":{"code":true,"data":[[1],null]}}',
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_a_reply_that_breaks_the_protocol_is_malformed(body: bytes) -> None:
    with pytest.raises(errors.MalformedResponse):
        asked("search", body, raw=True)


def test_an_error_of_any_size_becomes_a_short_exception() -> None:
    entries = [{"instancePath": "x" * 3_000, "message": "y" * 3_000, "keyword": "z" * 3_000}] * 1_200
    data = {"code": "C" * 9_000, "message": "m" * 9_000, "error_id": "e" * 9_000, "details": {"errors": entries}}
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": "1", "error": {"code": -32602, "message": "", "data": data}})
    with pytest.raises(errors.Refused) as caught:
        asked("search", body, raw=True)
    assert len(str(caught.value)) < 3_000
    assert len(caught.value.problems) == 1_000
    assert len(str(caught.value.problems[0])) < 5_000


CARD = read_card(msgspec.json.encode(card(URL)), URL, None, None)

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["code", "data", "details", "errors", "message", "parts", "type", "result", "reason", "error"]
            )
            | st.text(max_size=3),
            inner,
            max_size=6,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=examples(100))
@given(status=st.sampled_from([200, 204, 400, 401, 429, 500, 503]), error=values, answer=values)
def test_no_reply_makes_the_client_fail_in_another_way_than_its_errors(status: int, error: Any, answer: Any) -> None:
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": "1", "error": error, "result": answer})
    received = Received(httpx.URL(URL), status, httpx.Headers(), body)
    with pytest.raises(errors.DealerAgentError):
        read_response(CARD, INVENTORY_SEARCH, received, "1")


@settings(max_examples=60)
@given(data=values)
def test_data_of_any_form_is_decoded_or_invalid(data: Any) -> None:
    for kind in (SearchPage, Facets, DealerInformation, VehicleDetail, LeadReceipt):
        with suppress(msgspec.ValidationError):
            assert isinstance(decode_lenient(data, kind), kind)


async def endless(asked: Asked) -> None:
    asked.start(200, content_type="application/json")
    with suppress(ConnectionError):
        while not asked.writer.is_closing():
            asked.writer.write(b" " * 262_144)
            await asked.writer.drain()


async def compressed(asked: Asked) -> None:
    assert asked.headers["accept-encoding"] == "identity"
    await asked.answer(b"\x1f\x8b", content_encoding="gzip")


async def drop_by_drop(asked: Asked) -> None:
    """Each byte comes soon, and the last one never."""
    asked.start(200)
    with suppress(ConnectionError):
        while not asked.writer.is_closing():
            asked.writer.write(b" ")
            await asked.writer.drain()
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("behaviour", "kind", "said", "timeout"),
    [
        (endless, errors.MalformedResponse, "sent more than 16,777,216 bytes", 600),
        (compressed, errors.MalformedResponse, "sent a compressed response", 600),
        (drop_by_drop, errors.Unreachable, "no response in time", 0.3),
    ],
)
def test_a_reply_is_bounded_in_size_and_time(
    behaviour: Any, kind: type[errors.DealerAgentError], said: str, timeout: float
) -> None:
    async def ask() -> None:
        async def serve(asked: Asked) -> None:
            await (asked.answer(card(url)) if asked.method == "GET" else behaviour(asked))

        async with (
            misbehaving(serve) as url,
            DealerAgent.discover(url) as agent,
            impatient(agent, timeout) as hasty,
        ):
            with pytest.raises(kind, match=said):
                await hasty.search()

    asyncio.run(ask())


def test_cookies_are_not_sent_back() -> None:
    async def ask() -> list[str | None]:
        cookies: list[str | None] = []

        async def serve(asked: Asked) -> None:
            cookies.append(asked.headers.get("cookie"))
            content = card(url) if asked.method == "GET" else result(asked.body, PAGE)
            await asked.answer(content, set_cookie="visitor=7; Path=/")

        async with misbehaving(serve) as url, DealerAgent.discover(url) as agent:
            await agent.search()
            await agent.search()
        return cookies

    assert asyncio.run(ask()) == [None, None, None]
