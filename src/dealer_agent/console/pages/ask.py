"""The skills of the dealer's own agent as forms, with the request and the response as agents have them on the wire.

A lead is never sent from here: it would be stored, and people would call a customer who does not exist.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
from starlette.responses import Response

from dealer_agent.apidocs.examples import example_payload
from dealer_agent.console.rendering import clipped
from dealer_agent.console.requests import ConsoleRequest, not_found, refuse
from dealer_agent.protocol.requests import FILTER_MEANINGS, SORT_FIELDS, Filters
from dealer_agent.protocol.skill import (
    INVENTORY_FACETS,
    INVENTORY_SEARCH,
    INVENTORY_VEHICLE,
    LEAD_SUBMIT,
    SKILL_BY_ID,
    SKILLS,
    Skill,
)
from dealer_agent.reports.report import filter_label
from dealer_agent.server.own_requests import ask_own, refusal_of, request_head, skill_body

MOST_SHOWN = 30_000
"""Characters of a response that the page shows. Every `<` takes four bytes in a page."""
LONGEST_VALUE = 500
_FIRST = ("query", "make", "model", "price_max", "year_min", "mileage_max", "condition")
"""The filters above the others."""
_DEFAULT_LIMIT = "5"


class Input(NamedTuple):
    """A field of a form. `kind` is text, list, number or flag. `is_rare` is shown below the others."""

    name: str
    label: str
    kind: str = "text"
    about: str = ""
    is_rare: bool = False
    choices: Sequence[str] = ()


class ShownExchange(NamedTuple):
    """A request and its response. `status` is 0 if nothing was sent, and then `response` may be empty."""

    request: str
    response: str
    status: int
    milliseconds: float = 0.0
    is_sent: bool = True


def _filter_inputs() -> tuple[Input, ...]:
    """The inputs of the form for all filters of a search.

    They derive from the type, so a new filter is there by itself.
    """
    inputs = []
    for field in msgspec.structs.fields(Filters):
        kind = msgspec.inspect.type_info(field.type)
        choices: Sequence[str] = ()
        match kind:
            case msgspec.inspect.ListType(item_type=item):
                shape = "list"
                choices = [str(word) for word in item.values] if isinstance(item, msgspec.inspect.LiteralType) else ()
            case msgspec.inspect.IntType():
                shape = "number"
            case msgspec.inspect.BoolType():
                shape = "flag"
            case _:
                shape = "text"
        about = FILTER_MEANINGS.get(field.name, "")
        is_rare = field.name not in _FIRST
        inputs.append(Input(field.name, filter_label(field.name), shape, about, is_rare, choices))
    return tuple(sorted(inputs, key=lambda each: each.is_rare))


_FILTERS = _filter_inputs()
_PAGE = (
    Input("sort", "Sort by", "choice", choices=[f"{sign}{name}" for name in SORT_FIELDS for sign in ("", "-")]),
    Input("limit", "Most vehicles", "number"),
    Input("skip", "Vehicles to leave out at the beginning", "number"),
)
_INPUTS: Mapping[str, Sequence[Input]] = {
    INVENTORY_FACETS.id: _FILTERS,
    INVENTORY_SEARCH.id: (*_PAGE, *_FILTERS),
    INVENTORY_VEHICLE.id: (
        Input("vin", "VIN"),
        Input("stock", "Stock number"),
        Input("vehicle_id", "Vehicle id"),
        Input("zip", "ZIP code of the buyer, for the offer there"),
    ),
    LEAD_SUBMIT.id: (
        Input("first_name", "First name"),
        Input("last_name", "Last name"),
        Input("email", "E-mail"),
        Input("phone", "Phone"),
        Input("vin", "VIN of the vehicle"),
        Input("message", "Message"),
    ),
}


def show(request: ConsoleRequest) -> Response:
    """The form of a skill. That of a lead has an example in it, because a lead has many members. It is never sent."""
    skill = _skill(request.query.get("skill", INVENTORY_SEARCH.id))
    values = {"limit": _DEFAULT_LIMIT} if skill is INVENTORY_SEARCH else {}
    if skill is LEAD_SUBMIT:
        example = example_payload(LEAD_SUBMIT, now=datetime.now(UTC))
        values = {name: str(value) for name, value in example["customer"].items() if isinstance(value, str)}
    return _page(request, skill, values, None)


def ask(request: ConsoleRequest) -> Response:
    """Asks the dealer's own service, and shows the request and the response. A lead is only checked."""
    skill = _skill(request.text("skill", 40))
    inputs = _INPUTS.get(skill.id, ())
    values = {each.name: request.text(each.name, LONGEST_VALUE) for each in inputs}
    payload = {"type": skill.request_type, **_members(skill, inputs, values)}
    if skill.is_lead:
        return _page(request, skill, values, _checked(request, skill, payload))
    token = request.text("token", LONGEST_VALUE)
    if not token.isascii():
        refuse("This is not a token.")
    done = request.run(ask_own(request.service(), skill, payload, request.address, token))
    wire = ShownExchange(
        f"{done.request_head}\n\n{_indented(done.request)}",
        f"HTTP {done.status}\n{done.response_head}\n\n{_indented(done.response)}",
        done.status,
        round(done.seconds * 1000, 1),
    )
    return _page(request, skill, values, wire)


def _checked(request: ConsoleRequest, skill: Skill, payload: dict[str, Any]) -> ShownExchange:
    """The request of a test lead, which is not sent, and the refusal if its form is wrong."""
    service = request.service()
    body = skill_body(service, skill, payload)
    refusal = refusal_of(service, body, request.now)
    response = "" if refusal is None else f"HTTP {refusal[0]}\n\n{_indented(refusal[1])}"
    return ShownExchange(
        f"{request_head(service, body)}\n\n{_indented(body)}",
        response,
        0 if refusal is None else refusal[0],
        is_sent=False,
    )


def _page(request: ConsoleRequest, skill: Skill, values: Mapping[str, str], wire: ShownExchange | None) -> Response:
    """The page for a skill, with the values that were entered and what was sent and received."""
    return request.page(
        "ask.html",
        skill=skill,
        skills=SKILLS,
        inputs=_INPUTS.get(skill.id, ()),
        given=values,
        wire=wire,
        needs_token=skill.id in request.service().closed_skills,
    )


def _skill(name: str) -> Skill:
    return SKILL_BY_ID.get(name) or not_found("There is no such skill.")


def _members(skill: Skill, inputs: Sequence[Input], texts: Mapping[str, str]) -> dict[str, Any]:
    """The members of the payload. A wrong number is sent as it is, so that the page shows how the service answers."""
    values = {each.name: _value(each, texts[each.name]) for each in inputs if texts[each.name]}
    if skill is LEAD_SUBMIT:
        return _lead(values)
    if skill is INVENTORY_VEHICLE:
        return values
    members: dict[str, Any] = {}
    page = {name: values.pop(name) for name in ("skip", "limit") if name in values}
    if sort := values.pop("sort", ""):
        members["sort"] = {"field": sort.removeprefix("-"), "order": "desc" if sort.startswith("-") else "asc"}
    if values:
        members["filters"] = values
    return members | ({"pagination": page} if page else {})


def _lead(values: Mapping[str, Any]) -> dict[str, Any]:
    """A lead with the facts of the form. Consent and agent are those of the example of the documentation."""
    example = example_payload(LEAD_SUBMIT, now=datetime.now(UTC))
    customer = {name: values[name] for name in ("first_name", "last_name", "email", "phone") if name in values}
    lead = {name: example[name] for name in ("consent", "source_agent")} | {"customer": customer}
    if "vin" in values:
        lead["vehicle_of_interest"] = {"vin": values["vin"]}
    if "message" in values:
        lead["message"] = values["message"]
    return lead


def _value(field: Input, text: str) -> Any:
    if field.kind == "list":
        return [word for each in text.split(",") if (word := each.strip())]
    if field.kind == "number":
        return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else text
    return True if field.kind == "flag" else text


def _indented(body: bytes) -> str:
    """The JSON of a body with line ends, cut so that the page stays small."""
    text = json.dumps(json.loads(body), indent=2, ensure_ascii=False)
    return clipped(text, MOST_SHOWN)
