"""The vehicles that agents hold: the list, one hold or quote with its price, and what people do with a hold."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

from starlette.responses import Response

from dealer_agent.callers.caller import token_caller
from dealer_agent.console.acts import Act
from dealer_agent.console.pages.lead_rows import write
from dealer_agent.console.pages.stock import PAGE, Pages
from dealer_agent.console.requests import ConsoleRequest, not_found, refuse
from dealer_agent.holds import end_hold, shown_status
from dealer_agent.inventory.catalogue import Listing
from dealer_agent.operations.agents import kind_of
from dealer_agent.operations.offers import (
    LONGEST_REASON,
    MOST_HOURS,
    QuotedPrice,
    extend_by_staff,
    find_offer,
    quoted_price,
)
from dealer_agent.protocol.offers import HoldStatus
from dealer_agent.protocol.timestamps import parse_timestamp
from dealer_agent.storage.offers import StoredHold, find_hold, find_quotes, list_holds
from dealer_agent.storage.privacy.accesses import log_access
from dealer_agent.storage.tokens import list_tokens
from dealer_agent.storage.transaction import Transaction

NO_OFFER = "There is no such quote or hold. They are deleted after two years."
_LONGEST_ID = 200


class HoldRow(NamedTuple):
    """A hold as pages show it. `kind` is the class of its agent. `token_name` is empty unless a token proves the agent.

    `for_sale`: the stock has the vehicle. `is_open`: nobody else can hold it. `may_change`: the person may end it.
    """

    hold: StoredHold
    price: QuotedPrice
    kind: str
    token_name: str
    status: HoldStatus
    since: datetime | None
    until: datetime | None
    for_sale: bool
    is_open: bool
    may_change: bool


def rows_of(request: ConsoleRequest, tx: Transaction, stored: Sequence[StoredHold]) -> list[HoldRow]:
    """The rows of holds."""
    quotes = find_quotes(tx, {hold.quote_id for hold in stored})
    names = {token_caller(token.token_id).identity: token.name for token in list_tokens(tx)}
    return [
        _row(request, hold, quoted_price(quotes[hold.quote_id]), names.get(hold.caller, ""))
        for hold in stored
        if hold.quote_id in quotes
    ]


def _row(request: ConsoleRequest, hold: StoredHold, price: QuotedPrice, token_name: str) -> HoldRow:
    """A hold as the page shows it, with times of the vehicle's rooftop, and whether the person may change it."""
    rooftop = _rooftop_of(request, hold.vehicle_id)
    is_open = hold.holds_at(request.now)
    return HoldRow(
        hold,
        price,
        kind_of(hold.caller),
        token_name,
        shown_status(hold, request.now, is_for_sale=rooftop is not None),
        request.dealer.local(hold.created_at, rooftop),
        request.dealer.local(hold.ended_at or hold.expires_at, rooftop),
        rooftop is not None,
        is_open,
        is_open and request.may(Act.CHANGE_HOLD) and _is_own(request, rooftop),
    )


def list_(request: ConsoleRequest) -> Response:
    """The vehicles that agents hold now, or the holds that have ended."""
    is_ended, number = request.query.get("show") == "ended", request.page_number()
    with request.dealer.read(request.now) as tx:
        stored = list_holds(tx, PAGE + 1, which="ended" if is_ended else "open", skip=(number - 1) * PAGE)
        rows = rows_of(request, tx, stored[:PAGE])
    pages = Pages(number, (number - 1) * PAGE + len(stored))
    return request.page("holds.html", rows=rows, pages=pages, is_ended=is_ended)


def show(request: ConsoleRequest) -> Response:
    """A hold, or a quote without one, with the price that the agent got."""
    with request.dealer.read(request.now) as tx:
        offer = find_offer(tx, request.params["offer"][:_LONGEST_ID])
        if offer is None:
            not_found(NO_OFFER)
        rows = [] if offer.hold is None else rows_of(request, tx, [offer.hold])
    price = quoted_price(offer.quote)
    return request.page(
        "hold.html",
        row=rows[0] if rows else None,
        price=price,
        valid_until=request.dealer.local(parse_timestamp(price.valid_until)),
        quoted_to=offer.quote.caller,
        kind=kind_of(offer.quote.caller or "anonymous"),
        for_sale=_rooftop_of(request, offer.quote.vehicle_id) is not None,
        vehicle_id=offer.quote.vehicle_id,
        longest_reason=LONGEST_REASON,
        most_hours=MOST_HOURS,
    )


def extend(request: ConsoleRequest) -> Response:
    """Lets a hold end some hours from now."""
    hours = request.text("hours", 10)
    if not (hours.isascii() and hours.isdigit() and 1 <= int(hours) <= MOST_HOURS):
        refuse(f"The hours are a number from 1 to {MOST_HOURS}. Nothing was changed.")
    return _change(request, "extended", lambda tx, hold_id: extend_by_staff(tx, hold_id, int(hours)))


def end(request: ConsoleRequest) -> Response:
    """Ends a hold, also one that the dealer refuses. The agent learns that the dealer ended it, and not why."""
    why = request.text("reason", LONGEST_REASON)
    if not why:
        refuse("Write down why, for your own record. Nothing was changed.")
    return _change(request, "ended", lambda tx, hold_id: end_hold(tx, hold_id, why))


def _change(request: ConsoleRequest, done: str, change: Callable[[Transaction, str], StoredHold]) -> Response:
    """Changes the hold of the path, and leads to the page where the form was."""

    def work(tx: Transaction, _: object) -> StoredHold:
        """Finds the hold, checks that the person may change it, notes that in the access log, and changes it."""
        hold = find_hold(tx, request.params["offer"][:_LONGEST_ID])
        if hold is None:
            not_found(NO_OFFER)
        if not _is_own(request, _rooftop_of(request, hold.vehicle_id)):
            refuse("The vehicle is not at one of your rooftops. Ask a manager.", 403, "You may not do this")
        log_access(tx, request.actor, f"console: hold {hold.hold_id} {done}", leads=0)
        return change(tx, hold.hold_id)

    hold = write(request, work)
    if lead_id := request.text("lead", 40):
        return request.go("leads", lead_id, said=f"hold-{done}")
    return request.go("holds", hold.hold_id, said=f"hold-{done}")


def _rooftop_of(request: ConsoleRequest, vehicle_id: str) -> str | None:
    """The rooftop of a vehicle; None if it is not for sale."""
    listing = request.service().dealer.catalogue.find(vehicle_id=vehicle_id)
    return listing.vehicle.rooftop if isinstance(listing, Listing) else None


def _is_own(request: ConsoleRequest, rooftop: str | None) -> bool:
    """Whether a vehicle is at one of the person's rooftops. One that is gone belongs to everybody."""
    return rooftop is None or request.sees(rooftop)
