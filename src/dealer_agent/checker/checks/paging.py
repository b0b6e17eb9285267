"""The reply of inventory.search: totals, pages, and what of them is echoed."""

from collections.abc import Callable
from typing import Any

from dealer_agent.checker.check import check, each_of
from dealer_agent.checker.exchange import Exchange, dicts
from dealer_agent.checker.forms import whole
from dealer_agent.checker.outcome import Skipped, expect
from dealer_agent.checker.searches import Page, key_of, search
from dealer_agent.checker.target import PAGE, Target

_ORDER = {"field": "year", "order": "desc"}
_PAGES = 4
"""How many small pages are compared with a large one."""


async def _page(target: Target, **pagination: int) -> Page:
    return await search(target, pagination=pagination)


async def _first(target: Target) -> Page:
    return await _page(target, skip=0, limit=PAGE)


async def _form(target: Target) -> list[tuple[dict[str, Any], Exchange | None]]:
    return [((await _page(target, skip=0, limit=9)).data, None)]


each_of(
    _form,
    {
        "search.total": lambda page: whole(page.get("total")) or f"total is {page.get('total')!r}.",
        "search.vehicles": lambda page: (
            (isinstance(page.get("vehicles"), list) and all(isinstance(each, dict) for each in page["vehicles"]))
            or "vehicles is no array of objects."
        ),
        "search.echo": lambda page: (
            (whole(page.get("skip")) and whole(page.get("limit"))) or "The reply has no skip or no limit."
        ),
    },
)


@check("search.type-only")
async def _(target: Target) -> None:
    page = await search(target)
    listings = await target.material.listings()
    expect(page.vehicles or not listings, "A search without filters finds nothing.")
    expect(page.total == target.material.total, f"A search without filters has the total {page.total}.")


@check("search.skip-echo")
async def _(target: Target) -> None:
    data = (await _page(target, skip=3, limit=5)).data
    if "skip" not in data:
        raise Skipped("The reply has no skip.")
    expect(data["skip"] == 3, f"skip is 3 in the request and {data['skip']!r} in the reply.")


def _limit_of(page: Page) -> int:
    limit = page.data.get("limit")
    if not whole(limit):
        raise Skipped("The reply has no limit.")
    return int(limit or 0)


@check("search.limit-echo")
async def _(target: Target) -> None:
    limit = _limit_of(await _page(target, skip=3, limit=5))
    expect(1 <= limit <= 5, f"limit is 5 in the request and {limit!r} in the reply.")


@check("search.largest-limit-echo")
async def _(target: Target) -> None:
    page = await _page(target, limit=999)
    limit = _limit_of(page)
    expect(len(page.vehicles) <= limit, f"limit is {limit}, and the page has {len(page.vehicles)} vehicles.")


@check("search.page-size")
async def _(target: Target) -> None:
    await target.material.some_listings()
    page = await _page(target, skip=0, limit=2)
    expect(len(page.vehicles) <= 2, f"With limit 2, the page has {len(page.vehicles)} vehicles.")


@check("search.page-full")
async def _(target: Target) -> None:
    page = await _page(target, skip=1, limit=4)
    limit = page.data.get("limit", 4)
    if page.total is None or not whole(limit):
        raise Skipped("The reply has no total, or a wrong limit.")
    most = max(0, min(limit, page.total - 1))
    expect(len(page.vehicles) >= most, f"A page of {most} vehicles has {len(page.vehicles)}.")


@check("search.default-skip")
async def _(target: Target) -> None:
    same = (await _page(target, limit=6)).keys == (await _page(target, skip=0, limit=6)).keys
    expect(same, "Without skip, another page is returned than with skip 0.")


@check("search.default-limit")
async def _(target: Target) -> None:
    page = await search(target)
    expect(len(page.vehicles) <= 50, f"Without limit, the page has {len(page.vehicles)} vehicles.")


@check("search.skip-past-end")
async def _(target: Target) -> None:
    page = await _page(target, skip=10_000_000, limit=10)
    expect(not page.vehicles, "A skip beyond the last vehicle returns vehicles.")


@check("search.skip-past-end-total")
async def _(target: Target) -> None:
    page, first = await _page(target, skip=10_000_000, limit=10), await _first(target)
    expect(page.total == first.total, f"The total is {first.total}, and {page.total} beyond the last vehicle.")


@check("search.total-of-pages")
async def _(target: Target) -> None:
    first, page = await _first(target), await _page(target, skip=2, limit=3)
    expect(page.total == first.total, f"The total is {first.total} on one page and {page.total} on another.")


@check("search.last-vehicle")
async def _(target: Target) -> None:
    count = (await _first(target)).total or 0
    if not count:
        raise Skipped("The stock is empty.")
    found = len((await _page(target, skip=count - 1, limit=10)).vehicles)
    expect(found == 1, f"At position {count} of {count}, the page has {found} vehicles.")


async def _small_pages(size: int, page: Callable[[int], Any]) -> list[str]:
    """The keys of the vehicles of some small pages."""
    return [key for number in range(_PAGES) for key in (await page(size * number)).keys]


@check("search.pages-differ")
async def _(target: Target) -> None:
    found = await _small_pages(5, lambda skip: _page(target, skip=skip, limit=5))
    twice = next((key for key in found if found.count(key) > 1), None)
    expect(twice is None, f"Pages of 5 vehicles have {twice} twice.")


@check("search.pages-in-order")
async def _(target: Target) -> None:
    await target.material.some_listings()
    large = (await search(target, sort=_ORDER, pagination={"skip": 0, "limit": 3 * _PAGES})).keys
    small = await _small_pages(3, lambda skip: search(target, sort=_ORDER, pagination={"skip": skip, "limit": 3}))
    # A dealer may have fewer vehicles, or a lower limit.
    same = all(first == second for first, second in zip(large, small, strict=False)) and bool(small) == bool(large)
    expect(same, "Pages of 3 vehicles do not have the vehicles of a larger page in its order.")


@check("search.same-twice")
async def _(target: Target) -> None:
    first = await _page(target, skip=0, limit=7)
    payload = target.payload("inventory.search", pagination={"skip": 0, "limit": 7})
    again = dicts(target.answer(await target.send(payload, fresh=True)).get("vehicles"))
    expect([key_of(each) for each in again] == first.keys, "The same search returns other vehicles the second time.")


@check("privacy.same-answer")
async def _(target: Target) -> None:
    page = await search(target, privacy={"anonymous": True}, pagination={"limit": 5})
    other = await search(target, privacy={"anonymous": False}, pagination={"limit": 5})
    expect(page.total == other.total, f"Anonymously, {page.total} vehicles are found, and else {other.total}.")
