"""`inventory.changes` over the wire (docs/protocol.md#inventory-changes)."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.acceptance.running import eventually
from tests.offering.conftest import Offered, Offering, data_of
from tests.server.dealership import ACCORD, LEAF, LOT, error_of, message

from dealer_agent.config import load_settings
from dealer_agent.feeds.files.reader import read_feed
from dealer_agent.feeds.importing import import_feed


def searched(offering: Offering) -> dict[str, Any]:
    """What a search over everything answers, by vehicle id."""
    pages = [
        data_of(offering.stranger.ask("inventory.search", pagination={"skip": skip, "limit": 100}))["vehicles"]
        for skip in (0, 100)
    ]
    return {vehicle["vehicle_id"]: vehicle for page in pages for vehicle in page}


def followed(offering: Offering, copy: dict[str, Any], cursor: str | None, **members: Any) -> str:
    """Applies all changes to a copy. Returns the last cursor."""
    while True:
        page = data_of(
            offering.stranger.ask("inventory.changes", **members, **({} if cursor is None else {"cursor": cursor}))
        )
        for change in page["changes"]:
            copy.pop(change["vehicle_id"], None)
            if "vehicle" in change:
                copy[change["vehicle_id"]] = change["vehicle"]
        cursor = str(page["cursor"])
        if not page["more"]:
            return cursor


@pytest.mark.requirement("changes-first")
@pytest.mark.usefixtures("looks_often")
def test_the_whole_stock_comes_page_by_page_and_then_what_changes(offering: Offered) -> None:
    offered = offering(agents=0)
    copy: dict[str, Any] = {}
    cursor = followed(offered, copy, None, limit=50)
    assert copy == searched(offered)
    assert len(copy) == len(LOT)
    changed = [{**unit, "price": 29_000} if unit.get("vin") == ACCORD else unit for unit in LOT]
    changed = [unit for unit in changed if unit.get("vin") != LEAF]
    dealership = offered.dealership
    settings = load_settings(dealership.folder, {})
    with dealership.store() as store:
        feed = read_feed(json.dumps(changed).encode())
        import_feed(store, settings.dealer, feed, source="lot.json", at=datetime.now(UTC))
    eventually("the new price", lambda: dealership.ask("inventory.vehicle", vin=ACCORD)["price"] == 29_000)
    cursor = followed(offered, copy, cursor)
    assert copy == searched(offered)
    page = data_of(offered.stranger.ask("inventory.changes", cursor=cursor))
    assert (page["changes"], page["more"]) == ([], False)


@pytest.mark.requirement("changes-bounds")
@pytest.mark.parametrize("limit", [0, 501])
def test_a_limit_out_of_bounds_is_refused(offering: Offered, limit: int) -> None:
    refused = offering(agents=0).stranger.ask("inventory.changes", limit=limit)
    assert (refused.status_code, error_of(refused)["code"]) == (422, "SCHEMA_VALIDATION_FAILED")


@pytest.mark.requirement("changes-cursor")
def test_a_cursor_that_the_dealer_did_not_make_is_refused_at_its_place(offering: Offered) -> None:
    stranger = offering(agents=0).stranger
    cursor = data_of(stranger.ask("inventory.changes"))["cursor"]
    refused = stranger.ask("inventory.changes", cursor=cursor[::-1])
    assert (refused.status_code, error_of(refused)["code"]) == (422, "SCHEMA_VALIDATION_FAILED")
    assert error_of(refused)["details"]["errors"][0]["instancePath"] == "/cursor"


@pytest.mark.requirement("offers-off")
def test_without_the_setting_there_are_no_changes(offering: Offered) -> None:
    refused = offering("", agents=0).dealership.post(message("inventory.changes"))
    assert (refused.status_code, error_of(refused)["code"]) == (404, "UNSUPPORTED_SKILL")
