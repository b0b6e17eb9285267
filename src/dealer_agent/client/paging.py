"""All pages of a search, although the stock can change between two pages (docs/protocol.md#gap-changing-stock).

All pages of the changes of the stock, too.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

import msgspec

from dealer_agent.client.errors import MalformedResponse, SearchIncomplete
from dealer_agent.client.result import SkippedListing
from dealer_agent.client.results import SearchPage, StockChanges, Vehicle

LONGEST_PAGE = 100
"""The size of a page that the client asks for. A dealer can send less."""
MOST_PASSES = 3
"""How often the client reads all pages when the stock changes meanwhile."""

GetPage = Callable[[int], Awaitable[SearchPage]]
Listing = Vehicle | SkippedListing


class Vehicles(AsyncIterator[Vehicle]):
    """The vehicles of a search. `skipped` are the listings so far that cannot be read."""

    def __init__(self, listings: AsyncGenerator[Listing]) -> None:
        self._listings = listings
        self.skipped: list[SkippedListing] = []

    async def __anext__(self) -> Vehicle:
        while isinstance(listing := await anext(self._listings), SkippedListing):
            self.skipped.append(listing)
        return listing

    async def aclose(self) -> None:
        """Ends the search."""
        await self._listings.aclose()


def identity(listing: Listing) -> str:
    """What tells a listing from others: its id. Some versions do not demand one: then the VIN, the stock number, or all
    of the listing.
    """
    if isinstance(listing, SkippedListing):
        return msgspec.json.encode(listing.listing).decode()
    named = listing.vehicle_id or listing.vin or listing.stock
    return named or msgspec.json.encode(listing).decode()


def _listings(page: SearchPage) -> list[Listing]:
    """All listings of a page, each at its place."""
    found: list[Listing] = [*page.vehicles]
    for skipped in page.skipped:
        found.insert(skipped.index, skipped)
    return found


async def every_listing(get_page: GetPage, most: int) -> AsyncGenerator[Listing]:
    """Every listing of a search once. `get_page` gets the number of vehicles to leave out.

    Each page repeats the last vehicle of the page before. If it does not, vehicles have moved, and one can be missing.
    Then all pages are read again, for the vehicles that were not seen. Raises SearchIncomplete after the last vehicle
    if the vehicles move each time.
    """
    seen: set[str] = set()
    for _ in range(MOST_PASSES):
        rows = overlap = 0
        last = ""
        in_pass: set[str] = set()
        while True:
            page = await get_page(rows - overlap)
            found = _listings(page)
            if overlap and (not found or identity(found[0]) != last):
                break
            for listing in found[overlap:]:
                if identity(listing) in seen:
                    continue
                if len(seen) == most:
                    raise SearchIncomplete(f"There are more than {most:,} vehicles: add filters.", seen=most)
                seen.add(identity(listing))
                yield listing
            rows += len(found) - overlap
            if rows >= page.total:
                return
            ids = set(map(identity, found))
            if ids <= in_pass:
                break  # The dealer repeats a page, or has less than it says.
            in_pass |= ids
            last = identity(found[-1])
            # A dealer whose pages have one vehicle cannot repeat any.
            overlap = min(1, len(found) - 1)
    raise SearchIncomplete(
        f"The vehicles moved between pages in {MOST_PASSES} readings. {len(seen):,} were found, and some may be "
        "missing. Search again.",
        seen=len(seen),
    )


async def every_change(
    get_page: Callable[[str | None], Awaitable[StockChanges]], cursor: str | None
) -> AsyncGenerator[StockChanges]:
    """Every page of changes since a cursor. Raises MalformedResponse for a dealer that never comes to an end."""
    while True:
        page = await get_page(cursor)
        if page.more and page.cursor == cursor:
            raise MalformedResponse(
                "The dealer repeats a page of changes: its cursor is the one that was sent. Tell the dealer."
            )
        yield page
        if not page.more:
            return
        cursor = page.cursor
