"""The requests of the benchmark: as many of each kind as are told, no two alike, and what they claim of themselves."""

import json
from collections import Counter
from itertools import islice
from typing import Any

import msgspec
import pytest
from benchmarks.buyers import KINDS, LOADS, MIX, Ask, asks, post
from benchmarks.stock_maker import stock
from benchmarks.wrk import write_requests

from dealer_agent.protocol.envelope import decode_request
from dealer_agent.protocol.errors import ProtocolError
from dealer_agent.protocol.vocabulary import proto, vocabularies_of

WIRE = vocabularies_of("proto", proto())
UNITS: list[dict[str, Any]] = [msgspec.json.decode(listing.json) for listing in islice(stock(300), 300)]


@pytest.mark.parametrize("load", LOADS)
def test_no_two_requests_of_a_load_are_alike(load: str) -> None:
    bodies = [ask.body for ask in asks(LOADS[load], UNITS)]
    assert len(set(bodies)) == len(bodies) == 10_000


def test_the_mix_has_each_kind_in_its_share() -> None:
    counts = Counter(ask.kind for ask in asks(MIX, UNITS))
    assert counts == {kind: share * 100 for kind, share in MIX.items()}


def test_every_kind_of_request_is_in_the_mix() -> None:
    assert set(MIX) == set(KINDS)


def test_shares_that_are_not_of_a_hundred_are_refused() -> None:
    with pytest.raises(ValueError, match="of a hundred, not of 40"):
        asks({"search": 40}, UNITS)


def _verdict(ask: Ask) -> tuple[bool, str]:
    try:
        request = decode_request(ask.body, WIRE)
    except ProtocolError:
        return False, ask.skill
    return request.payload is not None, request.skill.id


def test_what_is_to_be_refused_does_not_decode_and_all_else_does() -> None:
    """A miss is a good request for a vehicle that is not there."""
    for ask in asks(MIX, UNITS, 2_000):
        assert _verdict(ask) == (ask.status != 422, ask.skill), ask


def test_the_same_requests_come_in_every_run() -> None:
    assert asks(MIX, UNITS, 200) == asks(MIX, UNITS, 200)


def test_searches_use_every_filter_of_the_stock_and_every_sort_field() -> None:
    payloads = [json.loads(ask.body)["message"]["parts"][0]["data"] for ask in asks({"search": 100}, UNITS, 3_000)]
    filters = {name for payload in payloads for name in payload["filters"]}
    assert filters >= {"make", "model", "trim", "condition", "body", "driveline", "fuel", "transmission", "rooftops"}
    assert filters >= {"exterior_color", "interior_color", "price_min", "price_max", "year_min", "year_max"}
    assert filters >= {"mileage_max", "electric_range_mi_min", "dc_fast_charge", "vin", "stock"}
    fields = {payload["sort"]["field"] for payload in payloads if "sort" in payload}
    assert fields == {"price", "list_price", "msrp", "mileage", "year", "make", "model", "stock", "updated_at"}


def test_a_whole_request_says_how_long_its_body_is(tmp_path: Any) -> None:
    request = post(b'{"a":1}')
    assert request.endswith(b"Content-Length: 7\r\n\r\n" + b'{"a":1}')
    write_requests(tmp_path / "requests", [request, b"x"])
    assert (tmp_path / "requests").read_bytes() == b"%d\n%b1\nx" % (len(request), request)
