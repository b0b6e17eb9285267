"""Defects for the checks of dealer.information: agents that describe the dealer or its rooftops wrongly."""

from collections.abc import Mapping
from typing import Any

from dealer_agent.self_test.defect import Breaking, Change, broken
from dealer_agent.self_test.reading import INFORMATION, anything, changes, refuses


def _data(change: Change) -> Breaking:
    """Changes the `data` of each response to dealer.information."""
    return changes(INFORMATION, anything, change)


def _first(change: Change) -> Breaking:
    """Changes the first rooftop."""
    return _data(lambda data: change(data["rooftops"][0]))


MALFORMED: Mapping[str, Any] = {
    "legal_name": 7,
    "website": "www.example.com",
    "notes": ["Closed on holidays"],
    "geo": {"latitude": 361.5, "longitude": -86.79},
    "emails": [{"name": "sales", "value": "sales at example.com"}],
    "phones": ["+1 202 555 0110"],
    "address": {"city": "Nashville", "zip": 37203},
    "timezone": "Central Time",
    "capabilities": "sales, service",
    "fees": [{"name": "Documentation fee", "amount": "$599"}],
}

for _member, _value in MALFORMED.items():
    broken(f"information.{_member.replace('_', '-')}")(
        _first(lambda rooftop, member=_member, value=_value: rooftop.update({member: value}))  # type: ignore[misc]
    )

broken("information.type-only")(refuses(INFORMATION, anything))
broken("information.name")(_data(lambda data: data.update(name="")))
broken("information.welcome-message")(_data(lambda data: data.update(welcome_message=["Welcome"])))
broken("information.rooftops")(_data(lambda data: data.update(rooftops=[])))
broken("information.rooftop-name")(_data(lambda data: data["rooftops"].append({"notes": "A new place"})))
broken("information.rooftop-names-differ")(_data(lambda data: data["rooftops"].append({**data["rooftops"][0]})))
broken("information.schedules")(_first(lambda rooftop: rooftop["schedules"].append("By appointment")))
broken("information.days")(_first(lambda rooftop: rooftop["schedules"][0]["value"].update(holiday=None)))
broken("information.hours")(_first(lambda rooftop: rooftop["schedules"][0]["value"].update(monday="9 to 5")))
broken("information.no-null")(_first(lambda rooftop: rooftop.update(notes=None)))
broken("information.known-members")(_data(lambda data: data.update(slogan="Better cars")))
broken("information.known-rooftop-members")(_first(lambda rooftop: rooftop.update(slogan="Better cars")))
broken("information.fees-unknown")(_first(lambda rooftop: rooftop.update(fees=[])))
