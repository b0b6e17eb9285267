"""All pages of a search, although the stock can change between two pages (docs/protocol.md#gap-changing-stock)."""

from collections.abc import AsyncIterator, Awaitable, Callable

from dealer_agent.client.errors import SearchIncomplete
from dealer_agent.protocol.skill import SearchPage
from dealer_agent.protocol.vehicle import Vehicle

LONGEST_PAGE = 100
"""The size of a page that the client asks for. A dealer can send less."""
MOST_PASSES = 3
"""How often the client reads all pages when the stock changes meanwhile."""

GetPage = Callable[[int], Awaitable[SearchPage]]


async def every_vehicle(get_page: GetPage, most: int) -> AsyncIterator[Vehicle]:
    """Every vehicle of a search once. `get_page` gets the number of vehicles to leave out.

    A pass is one reading of all pages. It is complete if the total stayed the same and no vehicle came twice. If not,
    vehicles moved between pages, and a further pass finds those that were missed. A pass with the vehicles of the one
    before is also enough. Raises SearchIncomplete after the last vehicle if no pass was.
    """
    known: set[str] = set()
    before: set[str] = set()
    for _ in range(MOST_PASSES):
        in_pass: set[str] = set()
        skip, rows, totals = 0, 0, set[int]()
        while True:
            page = await get_page(skip)
            totals.add(page.total)
            fresh = {vehicle.vehicle_id for vehicle in page.vehicles} - in_pass
            for vehicle in page.vehicles:
                if vehicle.vehicle_id in known:
                    continue
                if len(known) == most:
                    raise SearchIncomplete(f"There are more than {most:,} vehicles: add filters.", seen=most)
                known.add(vehicle.vehicle_id)
                yield vehicle
            in_pass |= fresh
            rows += len(page.vehicles)
            skip += len(page.vehicles)
            # Without a new vehicle, the dealer repeats a page for ever.
            if not fresh or rows >= page.total:
                break
        if len(totals) == 1 and (len(in_pass) == rows == page.total or in_pass == before):
            return
        before = in_pass
    raise SearchIncomplete(
        f"The stock changed while it was read {MOST_PASSES} times: {len(known):,} vehicles were found, and some may be "
        "missing. Search again.",
        seen=len(known),
    )
