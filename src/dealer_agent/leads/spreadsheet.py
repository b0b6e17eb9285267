"""Leads as rows of a spreadsheet, safe from formula injection. Pure.

A spreadsheet program reads a cell that starts with `=`, `+`, `-` or `@` as a formula, and a formula can fetch, send and
run things (OWASP, "CSV injection"). Such a cell gets an apostrophe in front, which marks it as text. The rest of the
cell stays as it is.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from msgspec import UNSET, UnsetType

from dealer_agent.leads.lead_view import LeadView, VisitView
from dealer_agent.leads.statuses import AT_A_TIME
from dealer_agent.protocol.requests import Address
from dealer_agent.protocol.vehicle import VehicleMembers

# Some programs skip blanks before the sign. Some accept it in its East Asian full width.
_FORMULA = re.compile(r"[\t\r\n]|\s*[=+\-@\uFF1D\uFF0B\uFF0D\uFF20]")
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")

_CUSTOMER = ("first_name", "last_name", "email", "phone", "preferred_contact")
_VEHICLE = ("vin", "stock", "condition", "mileage", "price")
_VISIT = ("visit", "visit_status", "visit_starts_at", "visit_ends_at", "visit_notes")

COLUMNS = (
    *("lead_id", "received_at", "rooftop", "agent"),
    *(*_CUSTOMER, "may_contact_by", *Address.__struct_fields__, "message"),
    *("vehicle", *(f"vehicle_{name}" for name in _VEHICLE)),
    *("trade_in", *(f"trade_in_{name}" for name in _VEHICLE)),
    *_VISIT,
    "may_be_same_person_as",
    "caller",
)


def without_formula(cell: str) -> str:
    """A cell that no spreadsheet program reads as a formula, without characters that control a terminal."""
    cell = _CONTROLS.sub("", cell)
    return f"'{cell}" if _FORMULA.match(cell) else cell


def cells(view: LeadView) -> dict[str, str]:
    """A lead's cells by column, in the order of COLUMNS. Times are in UTC. It has the last of several visits."""
    customer = view.customer
    values = {
        "lead_id": view.lead_id,
        "received_at": _moment(view.received_at),
        "rooftop": view.rooftop.name,
        "agent": view.agent.name,
        **{name: _text(getattr(customer, name)) for name in _CUSTOMER},
        "may_contact_by": ", ".join(view.channels),
        # An unset address has none of these members.
        **{name: _text(getattr(customer.address, name, UNSET)) for name in Address.__struct_fields__},
        "message": "\n\n".join(view.messages),
        **_vehicle("vehicle", view.vehicle if view.vehicle is not None else view.interest),
        **_vehicle("trade_in", view.trade_in),
        **_visit(view.visits[-1] if view.visits else None),
        "may_be_same_person_as": view.may_be_same_person_as or "",
        "caller": view.caller,
    }
    return {name: without_formula(cell) for name, cell in values.items()}


def _vehicle(which: str, vehicle: VehicleMembers | UnsetType) -> Mapping[str, str]:
    # A vehicle of interest and a trade-in each have only some of these members. An unset vehicle has none.
    words = (_text(getattr(vehicle, name, UNSET)) for name in ("year", "make", "model", "trim"))
    members = {f"{which}_{name}": _text(getattr(vehicle, name, UNSET)) for name in _VEHICLE}
    return {which: " ".join(filter(None, words)), **members}


def _visit(visit: VisitView | None) -> Mapping[str, str]:
    """The cells about a visit. Empty cells without one."""
    if visit is None:
        return dict.fromkeys(_VISIT, "")
    # A proposed time is not the time of the visit.
    time = visit.times[0] if visit.status in AT_A_TIME and visit.times else None
    starts_at = "" if time is None else _moment(time.start)
    ends_at = "" if time is None or time.end is None else _moment(time.end)
    return dict(zip(_VISIT, (visit.kind, visit.status, starts_at, ends_at, _text(visit.request.notes)), strict=True))


def _text(value: str | int | UnsetType) -> str:
    return "" if value is UNSET else str(value)


def _moment(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
