"""Agents that list what no vehicle has, and describe themselves in another way each time."""

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

from dealer_agent.self_test.changing import answers
from dealer_agent.self_test.defect import Answer, Call, Change
from dealer_agent.self_test.reading import INFORMATION, SEARCH, STOCK, VEHICLE, members_of

_ROWS = [row for row in STOCK if row["status"] == "available" and row["price"] and row["exterior_color"]]
BROKEN, OTHER = _ROWS[-6], _ROWS[-8]
"""The vehicle that is broken, and another one."""


def _of_stock(call: Call) -> bool:
    return call.skill in (SEARCH, VEHICLE)


def _one(requirement_id: str, change: Change, name: str = "") -> None:
    """Registers a defect of one vehicle, in all its responses."""

    def change_all(data: dict[str, Any]) -> None:
        for listing in data.get("vehicles", [data]):
            if listing.get("vin") == BROKEN["vin"]:
                change(listing)

    answers(requirement_id, lambda answer: answer.with_data(change_all), _of_stock, name=name)


def _tomorrow(**offset: float) -> str:
    return (datetime.now(UTC) + timedelta(**offset)).isoformat(timespec="seconds").replace("+00:00", "Z")


_one("listing.times-past", lambda listing: listing.update(updated_at=_tomorrow(days=1)))
_one(
    "listing.times-past", lambda listing: listing.update(changed_at=_tomorrow(hours=5)), "listing.times-past.changed-at"
)
_one("listing.currency", lambda listing: listing.update(currency="CAD"))
_one("listing.price-zero", lambda listing: listing.update(list_price=0))
_one("listing.no-blank", lambda listing: listing.update(engine=" "))
_one("listing.no-blank", lambda listing: listing.update(engine="null"), "listing.no-blank.null")
_one("listing.plain-text", lambda listing: listing.update(engine="2.0L Turbo &amp; Hybrid"))
_one("listing.plain-text", lambda listing: listing.update(engine="<b>2.0L</b>"), "listing.plain-text.tag")


def _gives_one_stock_number(data: dict[str, Any]) -> None:
    same = [each for each in data["vehicles"] if each.get("rooftop") == BROKEN["rooftop"] and "stock" in each]
    if len(same) > 1:
        same[-1]["stock"] = same[-2]["stock"]


answers(
    "listing.one-stock",
    lambda answer: answer.with_data(_gives_one_stock_number),
    lambda call: members_of(call, SEARCH) == {"pagination": {"skip": 0, "limit": 100}},
)
_turn = itertools.count()


def _second_currency(answer: Answer) -> Answer:
    currency = "USD" if next(_turn) % 2 else "MXN"
    return answer.with_data(lambda listing: listing.update(currency=currency))


answers("listing.currency", _second_currency, lambda call: call.skill == VEHICLE, name="listing.currency.changes")


def _first_rooftop(requirement_id: str, change: Change, name: str = "") -> None:
    change_first: Change = lambda data: change(data["rooftops"][0])  # noqa: E731
    answers(
        requirement_id,
        lambda answer: answer.with_data(change_first),
        lambda call: call.skill == INFORMATION,
        name=name,
    )


_first_rooftop(
    "information.hours-order",
    lambda rooftop: rooftop["schedules"][0]["value"].update(monday={"open": "09:00", "close": "09:00"}),
)
_first_rooftop("information.same-twice", lambda rooftop: rooftop.update(notes=f"Answer {next(_turn)}"))
