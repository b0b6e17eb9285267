"""Defects for the checks of plausibility: agents that list what no vehicle has, or answer differently each time."""

import itertools
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import pairwise
from typing import Any

from dealer_agent.self_test.changing import answers
from dealer_agent.self_test.defect import AgentResponse, Call, Change
from dealer_agent.self_test.reading import INFORMATION, SEARCH, STOCK, VEHICLE

_ROWS = [row for row in STOCK if row["status"] == "available" and row["list_price"]]
BROKEN = min(_ROWS, key=lambda row: int(row["list_price"]))
"""The vehicle that is broken. It stays the cheapest."""
_IN_ORDER = pairwise(sorted((row for row in STOCK if row["status"] != "sold"), key=lambda row: row["stock"]))
FIRST, SECOND = next(pair for pair in _IN_ORDER if pair[0]["rooftop"] == pair[1]["rooftop"])
"""Two vehicles of one rooftop that follow each other by stock number."""


def _of_stock(call: Call) -> bool:
    """Searches, and requests for one vehicle."""
    return call.skill in (SEARCH, VEHICLE)


def _breaks_one_vehicle(requirement_id: str, change: Change, name: str = "") -> None:
    """Registers a defect of one vehicle, in all its responses."""

    def change_all(data: dict[str, Any]) -> None:
        for listing in data.get("vehicles", [data]):
            if listing.get("vin") == BROKEN["vin"]:
                change(listing)

    _of_all(requirement_id, change_all, name)


def _in_future(name: str) -> Change:
    """Sets a time of each listing to noon of tomorrow."""
    noon = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0) + timedelta(days=1)
    text = noon.isoformat().replace("+00:00", "Z")
    return lambda data: [each.update({name: text}) for each in data.get("vehicles", [data])]


def _of_all(requirement_id: str, change: Change, name: str = "") -> None:
    """Adds a defect that changes every response with vehicles."""
    answers(requirement_id, lambda answer: answer.with_data(change), _of_stock, name=name)


_of_all("listing.times-past", _in_future("updated_at"))
_of_all("listing.times-past", _in_future("changed_at"), "listing.times-past.changed-at")
_SECONDS = itertools.count()


def _is_always_now(answer: AgentResponse) -> AgentResponse:
    """Gives all listings the time of the response. Each response is a second later than the last."""
    now = datetime(2026, 1, 5, 15, tzinfo=UTC) + timedelta(seconds=next(_SECONDS))
    changed = answer.with_data(lambda data: [each.update(updated_at=now.isoformat()) for each in data["vehicles"]])
    return changed.with_header("date", format_datetime(now, usegmt=True))


answers("listing.updated-at-kept", _is_always_now, lambda call: call.skill == SEARCH)
_breaks_one_vehicle("listing.currency", lambda listing: listing.update(currency="CAD"))
_breaks_one_vehicle("listing.price-zero", lambda listing: listing.update(price=0))
_breaks_one_vehicle("listing.amount-zero", lambda listing: listing.update(list_price=0))
_breaks_one_vehicle("listing.no-blank", lambda listing: listing.update(engine=" "))
_breaks_one_vehicle("listing.no-blank", lambda listing: listing.update(engine="null"), "listing.no-blank.null")
_breaks_one_vehicle("listing.plain-text", lambda listing: listing.update(engine="2.0L Turbo &amp; Hybrid"))
_breaks_one_vehicle(
    "listing.plain-text", lambda listing: listing.update(engine="<b>2.0L</b>"), "listing.plain-text.tag"
)


def _gives_one_stock_number(data: dict[str, Any]) -> None:
    """Gives two vehicles the same stock number."""
    for listing in data.get("vehicles", [data]):
        if listing.get("stock") == SECOND["stock"]:
            listing["stock"] = FIRST["stock"]


_of_all("listing.one-stock", _gives_one_stock_number)
_turn = itertools.count()


def _second_currency(answer: AgentResponse) -> AgentResponse:
    """Writes the price of a vehicle in another currency every second time."""
    currency = "USD" if next(_turn) % 2 else "MXN"
    return answer.with_data(lambda listing: listing.update(currency=currency))


answers("listing.currency", _second_currency, lambda call: call.skill == VEHICLE, name="listing.currency.changes")


def _first_rooftop(requirement_id: str, change: Change) -> None:
    """Registers a defect that changes the first rooftop in dealer.information."""
    change_first: Change = lambda data: change(data["rooftops"][0])  # noqa: E731
    answers(requirement_id, lambda answer: answer.with_data(change_first), lambda call: call.skill == INFORMATION)


_first_rooftop(
    "information.hours-order",
    lambda rooftop: rooftop["schedules"][0]["value"].update(monday={"open": "09:00", "close": "09:00"}),
)
_first_rooftop("information.same-twice", lambda rooftop: rooftop.update(notes=f"Answer {next(_turn)}"))
