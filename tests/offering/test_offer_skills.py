"""Quotes and holds over the wire (docs/protocol.md#offers)."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.server.conftest import stocked as stocked
from tests.server.dealership import ACCORD, LEAF, NO_LIMITS, SOLD, Dealership, error_of, message, run_dealership, set_up

OFFERS = """
[offers]
enabled = true
"""


@pytest.fixture(scope="module")
def offering(tmp_path_factory: pytest.TempPathFactory, stocked: Path) -> Iterator[Dealership]:
    folder = tmp_path_factory.mktemp("offering")
    set_up(folder, NO_LIMITS + OFFERS, stocked=stocked)
    with run_dealership(folder) as opened:
        yield opened


def data_of(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    data: dict[str, Any] = answer.json()["message"]["parts"][0]["data"]["data"]
    return data


def test_a_quote(offering: Dealership) -> None:
    quote = offering.ask("offer.quote", vin=ACCORD)


    _, token = offering.new_token()
    held = offering.post(message("offer.hold", quote_id=quote["quote_id"], idempotency_key="one"), token=token)





