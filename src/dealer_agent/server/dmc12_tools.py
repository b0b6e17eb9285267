"""Answers the tools of DMC-12 for the rails of `server.dmc12`. A call becomes requests of the caller to skills."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
from starlette.types import Scope

from dealer_agent.dealers.profile import DealerRooftop
from dealer_agent.dmc12 import handoff
from dealer_agent.dmc12.failures import CODE_OF, ToolError
from dealer_agent.dmc12.records import (
    disclosure_of,
    estimate_of,
    is_shown,
    masked,
    quote_of,
    record_of,
    reservation_of,
    status_of,
    store_of,
)
from dealer_agent.dmc12.searching import search_payload
from dealer_agent.dmc12.tools import (
    CHECK_AVAILABILITY,
    CREATE_RESERVATION,
    DEAL_HANDOFF,
    GET_VEHICLE,
    LIST_INVENTORY,
    LIST_STORES,
    PRICING_DISCLOSURE,
    RELEASE_RESERVATION,
    REQUEST_QUOTE,
    RESERVATION_STATUS,
    SEARCH_INVENTORY,
    Dmc12Tool,
    Json,
)
from dealer_agent.inventory.catalogue import Catalogue
from dealer_agent.inventory.catalogue.columns import Mask
from dealer_agent.inventory.listing import Listing, RemovedUnit
from dealer_agent.mcp_tools.words import SkillError
from dealer_agent.offers.pricing import NoPriceError, all_in_price, price_document, rooftop_of
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.protocol.problems import message_and_details
from dealer_agent.protocol.skill import (
    INVENTORY_SEARCH,
    INVENTORY_VEHICLE,
    LEAD_SUBMIT,
    OFFER_HOLD,
    OFFER_QUOTE,
    OFFER_RELEASE,
    OFFER_STATUS,
    InventorySearchRequest,
    Skill,
)
from dealer_agent.protocol.timestamps import utc_text
from dealer_agent.protocol.vehicle import Vehicle
from dealer_agent.server.bindings import DMC12
from dealer_agent.server.mcp import ask_skill, outer_request
from dealer_agent.server.service import Service
from dealer_agent.skills import Dealer

_ROWS_AT_ONCE = 500


class Dmc12Call:
    """A call of a tool. The scope has the dealer's service and the caller."""

    def __init__(self, scope: Scope, rail: str) -> None:
        self._scope, self._rail = scope, rail
        self._service: Service = scope["service"]

    async def result(self, tool: Dmc12Tool, arguments: Any) -> tuple[Json, bool]:
        """What a tool answers, and whether it failed: an object with `data` and `_metadata`."""
        trace = new_ulid()
        try:
            data, failed = await self._answer(tool, arguments), False
        except ToolError as failure:
            data, failed = failure.document(f"err_{trace}"), True
        about = {"trace_id": f"trc_{trace}", "tool": tool.name, "protocol": self._rail}
        return {"data": data, "_metadata": {**about, "timestamp": utc_text(datetime.now(UTC))}}, failed

    async def _answer(self, tool: Dmc12Tool, arguments: Any) -> Json:
        """Checks the arguments of a tool, and calls it. Raises ToolError."""
        if not isinstance(arguments, dict):
            raise ToolError("VALIDATION_FAILED", "The arguments of the tool must be a JSON object.")
        if tool is DEAL_HANDOFF and arguments.get("customer_consent") is not True:
            raise ToolError("CONSENT_REQUIRED", "customer_consent must be true: ask the customer for consent first.")
        if problems := tool.problems(arguments):
            raise ToolError("VALIDATION_FAILED", message_and_details(problems, "payload")[0])
        return await self._TOOLS[tool](self, arguments)

    async def _ask(self, skill: Skill, payload: Mapping[str, Any]) -> Json:
        """The `data` of a skill. Raises ToolError.

        The request passes the guards, and is counted. A tool may ask only for that, and not use the data.
        """
        response = await ask_skill(self._scope, skill, {**payload, "type": skill.request_type}, DMC12)
        if isinstance(response, SkillError):
            raise _failure_of(response)
        return response.data

    async def _search(self, arguments: Json) -> Json:
        records, _ = await self._matching(arguments, 0, arguments.get("limit", 10))
        return {"items": [record | {"similarity": None} for record in records], "count": len(records)}

    async def _list(self, arguments: Json) -> Json:
        offset, limit = arguments.get("offset", 0), arguments.get("limit", 25)
        records, total = await self._matching(arguments, offset, limit)
        return {"items": records, "total": total, "limit": limit, "offset": offset}

    async def _matching(self, arguments: Json, offset: int, limit: int) -> tuple[list[Json], int]:
        """A page of the records of the matching vehicles, and the number of all that match.

        It searches twice. The request to the skill passes the guards, and is counted as one of the caller. Its result
        is not used, because it also has vehicles that DMC-12 cannot show: without a price, or not available. The second
        search leaves these out.
        """
        payload = search_payload(arguments)
        if payload is None:
            return [], 0
        await self._ask(INVENTORY_SEARCH, payload | {"pagination": {"limit": 1}})
        dealer = self._service.dealer
        catalogue, listed = dealer.catalogue, await _listed_rows(self._service, dealer)
        request = msgspec.convert(payload, InventorySearchRequest)
        page = catalogue.search(request.filters, offset, limit, request.sort, only=listed)
        return [self._record(Listing(each).vehicle) for each in page.listings], page.total

    async def _vehicle(self, arguments: Json) -> Json:
        await self._ask(INVENTORY_VEHICLE, {"vin": arguments["vin"]})
        return self._record(self._unit(arguments["vin"]))

    async def _availability(self, arguments: Json) -> Json:
        """The status of each VIN. The first is asked for as a skill, so that the call is guarded and counted."""
        vins = arguments["vins"]
        try:
            await self._ask(INVENTORY_VEHICLE, {"vin": vins[0]})
        except ToolError as failure:
            if failure.code not in ("VEHICLE_NOT_FOUND", "VEHICLE_UNAVAILABLE"):
                raise
        return {"statuses": {vin: self._status(vin) for vin in vins}}

    def _status(self, vin: str) -> str:
        match self._service.dealer.catalogue.find(vin):
            case Listing(vehicle=vehicle) if is_shown(vehicle):
                return status_of(vehicle)
            case RemovedUnit():
                return "sold"
        return "unknown"

    async def _stores(self, _: Json) -> Json:
        await self._ask(LIST_STORES.skill, {})
        stores = [store for each in self._service.settings.dealer.rooftops if (store := store_of(each)) is not None]
        return {"stores": stores, "count": len(stores)}

    async def _disclosure(self, arguments: Json) -> Json:
        """The estimate of the full price of a vehicle.

        Raises ToolError if the dealer has no complete schedule of charges.
        """
        await self._ask(INVENTORY_VEHICLE, {"vin": arguments["vin"]})
        vehicle = self._unit(arguments["vin"])
        try:
            price = all_in_price(vehicle, self._rooftop(vehicle), None, self._service.settings.pricing)
        except NoPriceError as error:
            raise ToolError("NOT_CONFIGURED", str(error)) from None
        estimate = estimate_of(price_document(price), utc_text(datetime.now(UTC)))
        if estimate is None:
            words = (
                "This dealer has no complete schedule of taxes and charges for this place. Call request_quote for the "
                "price."
            )
            raise ToolError("NOT_CONFIGURED", words)
        return disclosure_of(estimate)

    async def _quote(self, arguments: Json) -> Json:
        payload = {"vin": arguments["vin"]}
        if reference := arguments.get("buyer_ref"):
            payload["buyer_ref"] = reference
        if isinstance(self._service.dealer.catalogue.find(arguments["vin"]), Listing):
            self._unit(arguments["vin"])
        return quote_of(await self._ask(OFFER_QUOTE, payload))

    async def _reserve(self, arguments: Json) -> Json:
        """Holds the vehicle of a quote."""
        # The same quote has the same key: a call that is sent again gets the same hold.
        quote_id = _id_of(arguments["quote_id"], "QUOTE_NOT_FOUND")
        payload = {"quote_id": quote_id, "idempotency_key": f"dmc12{quote_id}"}
        if reference := arguments.get("customer_ref"):
            payload["buyer_ref"] = reference
        hold = await self._ask(OFFER_HOLD, payload)
        if hold["status"] != "active":
            raise ToolError(
                "QUOTE_STATE", "This quote was reserved before, and the reservation has ended: ask for a new quote."
            )
        return self._reservation(hold)

    async def _release(self, arguments: Json) -> Json:
        """Ends a hold. One that has ended already is shown, and is not an error."""
        named = {"hold_id": _id_of(arguments["reservation_token"], "RESERVATION_NOT_FOUND")}
        try:
            return self._reservation(await self._ask(OFFER_RELEASE, named))
        except ToolError as failure:
            if failure.code != "RESERVATION_STATE":
                raise
        return self._reservation(await self._ask(OFFER_STATUS, named)) | {"already_closed": True}

    async def _reservation_status(self, arguments: Json) -> Json:
        named = {"hold_id": _id_of(arguments["reservation_token"], "RESERVATION_NOT_FOUND")}
        return self._reservation(await self._ask(OFFER_STATUS, named))

    async def _hand_off(self, arguments: Json) -> Json:
        """Sends the dealer a lead for an active hold, with the customer's consent.

        The receipt shows only masked addresses of the dealer.
        """
        hold_id = _id_of(arguments["reservation_token"], "RESERVATION_NOT_FOUND")
        hold = await self._ask(OFFER_STATUS, {"hold_id": hold_id})
        if hold["status"] == "expired":
            raise ToolError("RESERVATION_EXPIRED", "This reservation has expired.")
        if hold["status"] != "active":
            words = (
                "This reservation was handed off." if hold["status"] == "became_lead" else "This reservation has ended."
            )
            raise ToolError("RESERVATION_STATE", words, {"status": self._reservation(hold)["status"]})
        now = datetime.now(UTC)
        agent = outer_request(self._scope).caller.identity
        lead = handoff.lead_payload(arguments, hold, self._service.card.consent_text, agent, now)
        receipt = await self._ask(LEAD_SUBMIT, lead)
        unit = self._service.dealer.catalogue.find(vehicle_id=hold["vehicle_id"])
        rooftop = (
            self._rooftop(unit.vehicle) if isinstance(unit, Listing) else self._service.settings.dealer.rooftops[0]
        )
        return {
            "handoff_token": receipt["lead_id"],
            "sent_to_masked": masked([*rooftop.emails.values()][:1]) or "the dealer's CRM",
            "sent_at": utc_text(now),
            "status": "sent",
            "next_steps": "The dealer's staff contact the customer in the ways that the consent allows.",
        }

    _TOOLS: ClassVar[Mapping[Dmc12Tool, Callable[["Dmc12Call", Json], Awaitable[Json]]]] = {
        SEARCH_INVENTORY: _search,
        LIST_INVENTORY: _list,
        GET_VEHICLE: _vehicle,
        CHECK_AVAILABILITY: _availability,
        LIST_STORES: _stores,
        PRICING_DISCLOSURE: _disclosure,
        REQUEST_QUOTE: _quote,
        CREATE_RESERVATION: _reserve,
        RELEASE_RESERVATION: _release,
        RESERVATION_STATUS: _reservation_status,
        DEAL_HANDOFF: _hand_off,
    }

    def _unit(self, vin: str) -> Vehicle:
        """A unit in stock that DMC-12 can show. Raises ToolError."""
        listing = self._service.dealer.catalogue.find(vin)
        if not isinstance(listing, Listing) or not is_shown(listing.vehicle):
            raise ToolError("VEHICLE_NOT_FOUND", "No vehicle with a price has this VIN.")
        return listing.vehicle

    def _reservation(self, hold: Json) -> Json:
        match self._service.dealer.catalogue.find(vehicle_id=hold["vehicle_id"]):
            case Listing(vehicle=Vehicle(vin=str(vin))) | RemovedUnit(vin=str(vin)):
                return reservation_of(hold, vin)
        raise ToolError("RESERVATION_NOT_FOUND", "The vehicle of this reservation has left the stock, or has no VIN.")

    def _record(self, vehicle: Vehicle) -> Json:
        rooftop = self._rooftop(vehicle)
        today = datetime.now(ZoneInfo(rooftop.timezone)).date()
        return record_of(vehicle, str(rooftop.store_code), today)

    def _rooftop(self, vehicle: Vehicle) -> DealerRooftop:
        return rooftop_of(self._service.settings.dealer, vehicle)


def _id_of(token: str, code: str) -> str:
    """An id of this service. Another text is nobody's. Raises ToolError with this code."""
    if not (token.isascii() and token.isalnum() and len(token) <= 64):
        raise ToolError(code, "There is nothing with this id.")
    return token


def _failure_of(error: SkillError) -> ToolError:
    named = ("until", "retry_after_seconds", "status")
    more = {name: error.details[name] for name in named if name in error.details}
    return ToolError(CODE_OF.get(error.code, "INTERNAL_ERROR"), error.message, more, error.error_id)


async def _listed_rows(service: Service, dealer: Dealer) -> Mask:
    """The mask of the rows that are available and that DMC-12 can show. A thread makes it, once for each stock."""
    # The key is not the catalogue itself, which would stay in memory after the next import.
    key, cached = (dealer.revision, len(dealer.catalogue)), service.documents.get(_listed_rows)
    if cached is None or cached[0] != key:
        making = asyncio.ensure_future(asyncio.to_thread(_mask, dealer.catalogue))
        cached = service.documents[_listed_rows] = key, making
    mask: Mask = await asyncio.shield(cached[1])
    return mask


def _mask(catalogue: Catalogue) -> Mask:
    """Which rows of the catalogue DMC-12 shows: available vehicles with what it needs."""

    def listed() -> Iterable[bool]:
        for begin in range(0, len(catalogue), _ROWS_AT_ONCE):
            for each in catalogue.listings(range(begin, min(begin + _ROWS_AT_ONCE, len(catalogue)))):
                vehicle = Listing(each).vehicle
                yield vehicle.status == "available" and is_shown(vehicle)

    return np.fromiter(listed(), np.bool_, len(catalogue))
