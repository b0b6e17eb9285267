"""Leads as rows of a spreadsheet that no cell of a buyer's can turn against the dealer. Pure.

A spreadsheet program takes a cell that begins with `=`, `+`, `-` or `@` for a formula, wherever it came from, and a
formula can fetch, send and run things (OWASP, "CSV injection"). So a cell that begins so gets an apostrophe in front,
the mark by which spreadsheets know text. Nothing else of it changes: `'+12025550123` is still a number to dial.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from msgspec import UNSET, UnsetType

from dealer_agent.leads.lead_view import LeadView, VisitView
from dealer_agent.protocol.vehicle import VehicleMembers

# Some programs skip blanks before the sign, and some take it in its East Asian full width.
_FORMULA = re.compile(r"[\t\r\n]|\s*[=+\-@\uFF1D\uFF0B\uFF0D\uFF20]")
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")

_LINES = ("address_line_1", "address_line_2", "city", "state", "zip", "country")
_MEMBERS = ("vin", "stock", "condition", "mileage", "price")
_VISIT = ("visit", "visit_status", "visit_starts_at", "visit_ends_at", "visit_notes")

COLUMNS = (
    *("lead_id", "received_at", "rooftop", "agent"),
    *("first_name", "last_name", "email", "phone", "preferred_contact", "may_contact_by", *_LINES, "message"),
    *("vehicle", *(f"vehicle_{name}" for name in _MEMBERS)),
    *("trade_in", *(f"trade_in_{name}" for name in _MEMBERS)),
    *_VISIT,
    "may_be_same_person_as",
)


def without_formula(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula; without what would steer a terminal that it is printed on."""
    cell = _CONTROLS.sub("", cell)
    return f"'{cell}" if _FORMULA.match(cell) else cell


def cells(view: LeadView) -> dict[str, str]:
    """A lead's cells by their columns, which are COLUMNS for every lead. Times are UTC.

    Of several visits the last is shown, which is the one that stands.
    """
    told = {
        "lead_id": view.lead_id,
        "received_at": _moment(view.received_at),
        "rooftop": view.rooftop.name,
        "agent": view.agent.name,
        **_customer(view),
        "message": "\n\n".join(view.messages),
        **_vehicle("vehicle", view.vehicle if view.vehicle is not None else view.wish),
        **_vehicle("trade_in", view.trade_in),
        **_visit(view.visits[-1] if view.visits else None),
        "may_be_same_person_as": view.may_be_same_person_as or "",
    }
    return {name: without_formula(cell) for name, cell in told.items()}


def _customer(view: LeadView) -> Mapping[str, str]:
    customer = view.customer
    members = ("first_name", "last_name", "email", "phone", "preferred_contact")
    return {
        **{name: _text(getattr(customer, name)) for name in members},
        "may_contact_by": ", ".join(view.channels),
        **{name: "" if customer.address is UNSET else _text(getattr(customer.address, name)) for name in _LINES},
    }


def _vehicle(which: str, vehicle: VehicleMembers | UnsetType) -> Mapping[str, str]:
    if vehicle is UNSET:
        return dict.fromkeys((which, *(f"{which}_{name}" for name in _MEMBERS)), "")
    words = (_text(getattr(vehicle, name)) for name in ("year", "make", "model", "trim"))
    # A wish and a trade-in each have some of these members; a listing has all.
    told = {name: _text(getattr(vehicle, name, UNSET)) for name in _MEMBERS}
    return {which: " ".join(filter(None, words)), **{f"{which}_{name}": text for name, text in told.items()}}


def _visit(visit: VisitView | None) -> Mapping[str, str]:
    if visit is None:
        return dict.fromkeys(_VISIT, "")
    # The proposed times are several, and none of them is the visit's.
    time = visit.times[0] if visit.status in ("confirmed", "cancelled") and visit.times else None
    return {
        "visit": visit.kind,
        "visit_status": visit.status,
        "visit_starts_at": "" if time is None else _moment(time.start),
        "visit_ends_at": "" if time is None or time.end is None else _moment(time.end),
        "visit_notes": _text(visit.request.notes),
    }


def _text(value: str | int | UnsetType) -> str:
    return "" if value is UNSET else str(value)


def _moment(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
