"""The reply of inventory.search: totals, pages, and what of them is echoed."""

from typing import Any

from dealer_agent.checker.check import Skipped, check, expect
from dealer_agent.checker.searches import PAGE, Page, key_of, search
from dealer_agent.checker.target import Target

_FIRST = {"skip": 0, "limit": PAGE}
_FORM = {"skip": 0, "limit": 9}
_ORDER = {"field": "year", "order": "desc"}
_PAGES = 4
"""How many small pages are compared with a large one."""


def _is_count(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0 and value == int(value)


@check("search.total")
async def total(target: Target) -> None:
    """The total is a number of vehicles."""
    page = await search(target, pagination=_FORM)
    expect(_is_count(page.data.get("total")), f"total is {page.data.get('total')!r}.", target)


@check("search.vehicles")
async def vehicles(target: Target) -> None:
    """The vehicles are objects in an array."""
    found = (await search(target, pagination=_FORM)).data.get("vehicles")
    good = isinstance(found, list) and all(isinstance(each, dict) for each in found)
    expect(good, "vehicles is no array of objects.", target)


@check("search.type-only")
async def type_only(target: Target) -> None:
    """A request without any option finds the whole stock."""
    page = await search(target)
    listings = await target.material.listings()
    expect(bool(page.vehicles) or not listings, "A search without filters finds nothing.", target)
    expect(page.total == target.material.total, f"A search without filters has the total {page.total}.", target)


@check("search.echo")
async def echo(target: Target) -> None:
    """The reply says which skip and limit were applied."""
    data = (await search(target, pagination=_FORM)).data
    expect(_is_count(data.get("skip")) and _is_count(data.get("limit")), "The reply has no skip or no limit.", target)


@check("search.skip-echo")
async def skip_echo(target: Target) -> None:
    """The echo of skip is that of the request."""
    page = await search(target, pagination={"skip": 3, "limit": 5})
    if "skip" not in page.data:
        raise Skipped("The reply has no skip.")
    expect(page.data["skip"] == 3, f"skip is 3 in the request and {page.data['skip']!r} in the reply.", target)


@check("search.limit-echo")
async def limit_echo(target: Target) -> None:
    """The echo of limit is the limit of the request, or a lower one of the dealer."""
    page = await search(target, pagination={"skip": 3, "limit": 5})
    limit = page.data.get("limit")
    if not _is_count(limit):
        raise Skipped("The reply has no limit.")
    expect(1 <= (limit or 0) <= 5, f"limit is 5 in the request and {limit!r} in the reply.", target)


@check("search.largest-limit-echo")
async def largest_limit_echo(target: Target) -> None:
    """The echo of a large limit is the one that was applied: no page is larger than it says."""
    page = await search(target, pagination={"limit": 999})
    limit = page.data.get("limit")
    if not _is_count(limit):
        raise Skipped("The reply has no limit.")
    expect(
        len(page.vehicles) <= (limit or 0), f"limit is {limit}, and the page has {len(page.vehicles)} vehicles.", target
    )


@check("search.page-size")
async def page_size(target: Target) -> None:
    """No page is larger than the limit of the request."""
    await target.material.some_listings()
    page = await search(target, pagination={"skip": 0, "limit": 2})
    expect(len(page.vehicles) <= 2, f"With limit 2, the page has {len(page.vehicles)} vehicles.", target)


@check("search.page-full")
async def page_full(target: Target) -> None:
    """A page has as many vehicles as limit and total allow."""
    page = await search(target, pagination={"skip": 1, "limit": 4})
    limit = page.data.get("limit", 4)
    if page.total is None or not _is_count(limit):
        raise Skipped("The reply has no total, or a wrong limit.")
    most = max(0, min(limit, page.total - 1))
    expect(len(page.vehicles) >= most, f"A page of {most} vehicles has {len(page.vehicles)}.", target)


@check("search.default-skip")
async def default_skip(target: Target) -> None:
    """Without skip, the first page is returned."""
    page, other = (
        await search(target, pagination={"limit": 6}),
        await search(target, pagination={"skip": 0, "limit": 6}),
    )
    expect(page.keys == other.keys, "Without skip, another page is returned than with skip 0.", target)


@check("search.default-limit")
async def default_limit(target: Target) -> None:
    """The default page has at most 50 vehicles, as the specification recommends."""
    page = await search(target)
    expect(len(page.vehicles) <= 50, f"Without limit, the page has {len(page.vehicles)} vehicles.", target)


@check("search.skip-past-end")
async def skip_past_end(target: Target) -> None:
    """Beyond the last vehicle, the page is empty."""
    page = await search(target, pagination={"skip": 10_000_000, "limit": 10})
    expect(not page.vehicles, "A skip beyond the last vehicle returns vehicles.", target)


@check("search.skip-past-end-total")
async def skip_past_end_total(target: Target) -> None:
    """Beyond the last vehicle, the total is still that of all matching vehicles."""
    page = await search(target, pagination={"skip": 10_000_000, "limit": 10})
    first = await search(target, pagination=_FIRST)
    expect(page.total == first.total, f"The total is {first.total}, and {page.total} beyond the last vehicle.", target)


@check("search.total-of-pages")
async def total_of_pages(target: Target) -> None:
    """Each page has the same total."""
    first = await search(target, pagination=_FIRST)
    page = await search(target, pagination={"skip": 2, "limit": 3})
    expect(page.total == first.total, f"The total is {first.total} on one page and {page.total} on another.", target)


@check("search.last-vehicle")
async def last_vehicle(target: Target) -> None:
    """The total counts what paging finds: the last position has a vehicle, and the one after it has none."""
    count = (await search(target, pagination=_FIRST)).total or 0
    if not count:
        raise Skipped("The stock is empty.")
    page = await search(target, pagination={"skip": count - 1, "limit": 10})
    expect(
        len(page.vehicles) == 1, f"At position {count} of {count}, the page has {len(page.vehicles)} vehicles.", target
    )


@check("search.pages-differ")
async def pages_differ(target: Target) -> None:
    """Paging in the default order returns no vehicle twice."""
    found: list[str] = []
    for number in range(_PAGES):
        found += (await search(target, pagination={"skip": 5 * number, "limit": 5})).keys
    twice = next((key for key in found if found.count(key) > 1), None)
    expect(twice is None, f"Pages of 5 vehicles have {twice} twice.", target)


@check("search.pages-in-order")
async def pages_in_order(target: Target) -> None:
    """Small pages of a sorted search have the vehicles of a large page, in its order."""
    await target.material.some_listings()
    large = await search(target, sort=_ORDER, pagination={"skip": 0, "limit": 3 * _PAGES})
    small: list[str] = []
    for number in range(_PAGES):
        small += (await search(target, sort=_ORDER, pagination={"skip": 3 * number, "limit": 3})).keys
    expect(
        _begins(large.keys, small),
        "Pages of 3 vehicles do not have the vehicles of a larger page in its order.",
        target,
    )


@check("search.same-twice")
async def same_twice(target: Target) -> None:
    """The same search returns the same vehicles in the same order."""
    first = await search(target, pagination={"skip": 0, "limit": 7})
    payload = target.payload("inventory.search", pagination={"skip": 0, "limit": 7})
    again = target.answer(await target.send(payload, fresh=True)).get("vehicles")
    keys = [key_of(each) for each in again if isinstance(each, dict)] if isinstance(again, list) else []
    expect(keys == first.keys, "The same search returns other vehicles the second time.", target)


@check("search.empty-filters")
async def empty_filters(target: Target) -> None:
    """Empty filters are no constraint."""
    await _expect_whole(target, await search(target, filters={}))


@check("search.empty-pagination")
async def empty_pagination(target: Target) -> None:
    """An empty pagination is the default page."""
    await _expect_whole(target, await search(target, pagination={}))


@check("search.empty-privacy")
async def empty_privacy(target: Target) -> None:
    """An empty privacy is allowed."""
    await _expect_whole(target, await search(target, privacy={}))


@check("search.smallest-limit")
async def smallest_limit(target: Target) -> None:
    """The limit 1 is allowed."""
    await search(target, pagination={"limit": 1})


@check("search.largest-limit")
async def largest_limit(target: Target) -> None:
    """The limit 1000 is allowed."""
    await search(target, pagination={"limit": 1000})


@check("privacy.anonymous")
async def anonymous(target: Target) -> None:
    """An anonymous search is answered."""
    await search(target, privacy={"anonymous": True})


@check("privacy.not-anonymous")
async def not_anonymous(target: Target) -> None:
    """A search that is not anonymous is answered."""
    await search(target, privacy={"anonymous": False})


@check("privacy.same-answer")
async def same_answer(target: Target) -> None:
    """Who asks anonymously finds the same vehicles."""
    page = await search(target, privacy={"anonymous": True}, pagination={"limit": 5})
    other = await search(target, privacy={"anonymous": False}, pagination={"limit": 5})
    expect(page.total == other.total, f"Anonymously, {page.total} vehicles are found, and else {other.total}.", target)


async def _expect_whole(target: Target, page: Page) -> None:
    await target.material.listings()
    whole = target.material.total
    expect(page.total == whole, f"An empty member of the request finds {page.total} of {whole} vehicles.", target)


def _begins(long: list[str], short: list[str]) -> bool:
    """Whether two lists of different lengths are equal as far as both go."""
    return all(first == second for first, second in zip(long, short, strict=False)) and bool(short) == bool(long)
