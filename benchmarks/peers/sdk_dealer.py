"""A dealer agent as a user would write it with the official SDK: an in-memory list, pydantic models, the five skills.

    BENCH_STOCK=stock.json BENCH_DEALER=dealer.json python -m uvicorn --factory benchmarks.peers.sdk_dealer:app

The files have the listings and the dealer's information from our own service, so that both have the same data. Words
are compared without case. There are no synonyms, no idempotency and no durable storage.
"""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import uuid4

from a2a.helpers import get_data_parts, new_data_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.utils.errors import InvalidParamsError
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.applications import Starlette

from benchmarks.peers.sdk_agent import agent_routes

STOCK_FILE = "BENCH_STOCK"
DEALER_FILE = "BENCH_DEALER"

Unit = dict[str, Any]
Natural = Annotated[int, Field(ge=0)]
Year = Annotated[int, Field(ge=1900, le=2100)]

RANGES = {"price": "price_range", "mileage": "mileage_range", "electric_range_mi": "electric_range_mi_range"}
COUNTED = {
    "make": "makes",
    "model": "models",
    "trim": "trims",
    "year": "years",
    "condition": "conditions",
    "transmission": "transmissions",
    "fuel": "fuels",
    "driveline": "drivelines",
    "body": "bodies",
    "exterior_color": "exterior_colors",
    "interior_color": "interior_colors",
    "rooftop": "rooftops",
    "status": "statuses",
}
WORDS = ("make", "model", "trim", "condition", "transmission", "fuel", "driveline", "body")
SEARCHED = (*WORDS, "year", "engine", "exterior_color", "interior_color", "stock", "vin", "description")


class Strict(BaseModel):
    """A request without unknown members."""

    model_config = ConfigDict(extra="forbid")


class Filters(Strict):
    """The filter block."""

    make: list[str] = []
    model: list[str] = []
    trim: list[str] = []
    condition: list[Literal["new", "used", "cpo"]] = []
    transmission: list[str] = []
    fuel: list[str] = []
    driveline: list[str] = []
    body: list[str] = []
    rooftops: list[str] = []
    exterior_color: list[str] = []
    interior_color: list[str] = []
    electric_range_mi_min: Natural | None = None
    dc_fast_charge: bool = False
    year_min: Year | None = None
    year_max: Year | None = None
    price_min: Natural | None = None
    price_max: Natural | None = None
    mileage_max: Natural | None = None
    vin: str | None = None
    stock: str | None = None
    query: Annotated[str, Field(max_length=200)] | None = None


class Pagination(Strict):
    """A page."""

    skip: Natural = 0
    limit: Annotated[int, Field(ge=1, le=1000)] = 20


class Sort(Strict):
    """An order."""

    field: Literal["price", "list_price", "msrp", "mileage", "year", "make", "model", "stock", "updated_at"]
    order: Literal["asc", "desc"]


class Search(Strict):
    """inventory.search. inventory.facets has only its filters."""

    type: Literal["inventory.search.request", "inventory.facets.request"]
    filters: Filters = Filters()
    pagination: Pagination = Pagination()
    sort: Sort | None = None
    privacy: dict[str, Any] = {}


class Detail(Strict):
    """inventory.vehicle."""

    type: Literal["inventory.vehicle.request"]
    vin: str | None = None
    stock: str | None = None
    vehicle_id: str | None = None
    zip: Annotated[str, Field(min_length=1, max_length=16)] | None = None


class Consent(BaseModel):
    """What the customer agreed to."""

    granted_at: str
    allowed_channels: list[Literal["email", "phone", "sms"]] = Field(min_length=1)
    consent_text: str = Field(min_length=1)


class Customer(BaseModel):
    """The sender."""

    first_name: str = Field(min_length=1)
    last_name: str = Field(min_length=1)
    email: str | None = None
    phone: str | None = None


class Lead(BaseModel):
    """lead.submit."""

    # Otherwise an error shows a part of the customer, another one in each run.
    model_config = ConfigDict(hide_input_in_errors=True)

    customer: Customer
    consent: Consent


class Dealership(AgentExecutor):
    """The five skills over a list."""

    def __init__(self, stock: list[Unit], information: dict[str, Any]) -> None:
        self._stock = sorted(stock, key=lambda unit: unit["vehicle_id"])
        self._stock.sort(key=lambda unit: unit["changed_at"], reverse=True)
        self._by_vin = {unit["vin"]: unit for unit in stock}
        self._by_stock = {unit["stock"].casefold(): unit for unit in stock}
        self._by_id = {unit["vehicle_id"]: unit for unit in stock}
        self._texts = {unit["vehicle_id"]: _text(unit) for unit in stock}
        self._information = information
        self._leads: list[Lead] = []

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """A2A."""
        assert context.message is not None
        parts = get_data_parts(context.message.parts)
        if len(parts) != 1 or not isinstance(parts[0], dict):
            raise InvalidParamsError(message="Send one data part.")
        try:
            kind, data = self._answer(parts[0])
        except ValidationError as error:
            raise InvalidParamsError(message=str(error)) from error
        media_type = f"application/vnd.proto.{kind.replace('.', '-')}-response+json"
        await event_queue.enqueue_event(new_data_message({"type": f"{kind}.response", "data": data}, media_type))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """It has no tasks."""
        raise NotImplementedError

    def _answer(self, payload: dict[str, Any]) -> tuple[str, Any]:
        match payload.get("type"):
            case "dealer.information.request":
                return "dealer.information", self._information
            case "inventory.facets.request":
                return "inventory.facets", _facets(self._found(Search.model_validate(payload).filters))
            case "inventory.search.request":
                return "inventory.search", self._page(Search.model_validate(payload))
            case "inventory.vehicle.request":
                return "inventory.vehicle", self._unit(Detail.model_validate(payload))
            case "lead.submit.request":
                self._leads.append(Lead.model_validate(payload))
                return "lead.submit", {"lead_id": str(uuid4()), "status": "received"}
            case unknown:
                raise InvalidParamsError(message=f"No skill answers {unknown}.")

    def _found(self, filters: Filters) -> list[Unit]:
        found = self._stock
        for member in WORDS:
            if wanted := {word.casefold() for word in getattr(filters, member)}:
                found = [unit for unit in found if unit.get(member, "").casefold() in wanted]
        if filters.rooftops:
            names = {name.casefold() for name in filters.rooftops}
            found = [unit for unit in found if unit["rooftop"].casefold() in names]
        for member in ("exterior_color", "interior_color"):
            if colours := [set(colour.casefold().split()) for colour in getattr(filters, member)]:
                found = [
                    unit for unit in found if any(c <= set(unit.get(member, "").casefold().split()) for c in colours)
                ]
        for member, low, high in (
            ("price", filters.price_min, filters.price_max),
            ("year", filters.year_min, filters.year_max),
            ("mileage", None, filters.mileage_max),
            ("electric_range_mi", filters.electric_range_mi_min, None),
        ):
            if low is not None:
                found = [unit for unit in found if member in unit and unit[member] >= low]
            if high is not None:
                found = [unit for unit in found if member in unit and unit[member] <= high]
        if filters.dc_fast_charge:
            found = [unit for unit in found if unit.get("dc_fast_charge")]
        if filters.vin is not None:
            found = [unit for unit in found if unit["vin"] == filters.vin]
        if filters.stock is not None:
            found = [unit for unit in found if unit["stock"] == filters.stock]
        if filters.query:
            words = filters.query.casefold().split()
            found = [unit for unit in found if all(word in self._texts[unit["vehicle_id"]] for word in words)]
        return found

    def _page(self, request: Search) -> dict[str, Any]:
        found = self._found(request.filters)
        if sort := request.sort:
            known = [unit for unit in found if sort.field in unit]
            known.sort(key=lambda unit: unit["vehicle_id"])
            known.sort(key=lambda unit: unit[sort.field], reverse=sort.order == "desc")
            found = known + [unit for unit in found if sort.field not in unit]
        skip, limit = request.pagination.skip, min(request.pagination.limit, 100)
        return {"total": len(found), "skip": skip, "limit": limit, "vehicles": found[skip : skip + limit]}

    def _unit(self, request: Detail) -> Unit:
        found = (
            self._by_vin.get((request.vin or "").strip().upper())
            or self._by_stock.get((request.stock or "").casefold())
            or self._by_id.get(request.vehicle_id or "")
        )
        if found is None:
            raise InvalidParamsError(message="No such vehicle.")
        return found if request.zip is None else {**found, "zip": request.zip}


def _text(unit: Unit) -> str:
    return " ".join([*(str(unit.get(member, "")) for member in SEARCHED), *unit.get("features", ())]).casefold()


def _facets(units: list[Unit]) -> dict[str, Any]:
    facets: dict[str, Any] = {}
    for member, name in COUNTED.items():
        counts = Counter(unit[member] for unit in units if member in unit)
        facets[name] = [{"value": value, "count": count} for value, count in counts.most_common()]
    for member, name in RANGES.items():
        if values := [unit[member] for unit in units if member in unit]:
            facets[name] = {"min": min(values), "max": max(values)}
    return facets


def app() -> Starlette:
    """The server."""
    stock = json.loads(Path(os.environ[STOCK_FILE]).read_bytes())
    information = json.loads(Path(os.environ[DEALER_FILE]).read_bytes())
    return Starlette(routes=agent_routes(Dealership(stock, information)))
