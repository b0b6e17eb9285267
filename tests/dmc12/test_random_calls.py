"""Whatever is asked, an answer of DMC-12 is as published."""

import json
from collections.abc import Callable

import pytest
from tests.dmc12.conftest import Shop
from tests.dmc12.published import SCHEMAS, check_answer
from tests.dmc12.random_calls import Calls
from tests.published_files import needs
from tests.soak import SOAK, soak_count, soak_seed

pytestmark = [pytest.mark.outside_protocol("DMC-12"), needs(SCHEMAS)]


def test_the_answer_to_a_random_call_is_as_published(
    shop: Shop, record_property: Callable[[str, object], None]
) -> None:
    listed = shop.call("list_inventory", {"limit": 100})["items"]
    prices = {each["vin"]: each["asking_price"] for each in listed}
    calls = Calls(soak_seed(), [each["vin"] for each in listed])
    answered: dict[str, int] = {}
    many = soak_count("SOAK_REQUESTS", 600 if SOAK else 300) * (4 if SOAK else 1)
    for _ in range(many):
        tool, arguments = calls.next()
        token = calls.random.choice((*shop.tokens, *shop.tokens, None))
        data = shop.call(tool, arguments, token)
        check_answer(tool, data)
        text = json.dumps(data)
        if tool == "initiate_deal_handoff":
            assert not any(each in text for each in ("buyer", "+1555555", "O'Example"))
        if tool == "request_quote" and "quote_id" in data:
            assert data["quoted_price"] == prices.get(data["vin"], data["quoted_price"])
            calls.quotes.append(data["quote_id"])
        if tool == "create_reservation" and "reservation_token" in data:
            assert token is not None
            calls.reservations.append(data["reservation_token"])
        outcome = f"{tool}: {data.get('error_code', 'ok')}"
        answered[outcome] = answered.get(outcome, 0) + 1
    record_property("figure", f"{many} random calls of DMC-12: every answer is as published")
    # The calls reach what they are to reach.
    assert {f"{tool}: ok" for tool in calls.tools} <= answered.keys(), answered
    assert {"create_reservation: RESERVATION_CONFLICT", "create_reservation: NOT_AUTHORIZED"} <= answered.keys()
