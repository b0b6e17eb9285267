"""`search_all` returns every vehicle once, although the stock changes between pages, or says that it cannot."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.client.dealers import VEHICLE, application, card, members_of, result

from dealer_agent.client import DealerAgent, Retries, errors
from dealer_agent.client.decoding import decode_lenient
from dealer_agent.client.paging import MOST_PASSES, Vehicles, every_listing
from dealer_agent.client.results import SearchPage

pytestmark = pytest.mark.outside_protocol("the client library")

NUMBERS = st.lists(st.integers(0, 30), unique=True, max_size=25)


def page(stock: list[int], skip: int, cap: int, **changes: Any) -> SearchPage:
    vehicles = [VEHICLE | {"vehicle_id": str(number)} for number in stock[skip : skip + cap]]
    return decode_lenient({"total": len(stock), "skip": skip, "limit": cap, "vehicles": vehicles} | changes, SearchPage)


def read(get_page: Callable[[int], SearchPage], most: int = 1_000) -> tuple[list[int], bool]:
    """The vehicles, and whether the search was complete."""

    async def collect() -> tuple[list[int], bool]:
        found: list[int] = []

        async def get(skip: int) -> SearchPage:
            return get_page(skip)

        try:
            async for vehicle in Vehicles(every_listing(get, most)):
                found.append(int(vehicle.vehicle_id or 0))  # noqa: PERF401 - what came before an error counts
        except errors.SearchIncomplete as error:
            return found[: error.seen], False
        return found, True

    return asyncio.run(collect())


@given(stock=NUMBERS, cap=st.integers(1, 10))
def test_a_stock_that_stays_the_same_is_read_once_and_in_order(stock: list[int], cap: int) -> None:
    pages: list[int] = []

    def get_page(skip: int) -> SearchPage:
        pages.append(skip)
        return page(stock, skip, cap)

    assert read(get_page) == (stock, True)
    assert len(pages) <= max(1, -(-len(stock) // max(1, cap - 1)))


@given(
    stock=NUMBERS,
    cap=st.integers(2, 10),
    # Before each page: numbers that leave the stock, and numbers that come into it.
    changes=st.lists(st.tuples(st.sets(st.integers(0, 30), max_size=4), st.sets(st.integers(0, 40), max_size=4))),
)
def test_a_vehicle_that_stays_in_a_changing_stock_is_never_missed_silently(
    stock: list[int], cap: int, changes: list[tuple[set[int], set[int]]]
) -> None:
    """The dealer sorts by number. A search that ends without an error has every vehicle that was there all the time."""
    current = set(stock)
    throughout = set(stock)
    waiting = iter(changes)

    def get_page(skip: int) -> SearchPage:
        nonlocal current, throughout
        leaving, coming = next(waiting, (set(), set()))
        current = (current - leaving) | coming
        throughout &= current
        return page(sorted(current), skip, cap)

    found, is_complete = read(get_page)
    assert len(found) == len(set(found))
    assert throughout <= set(found) or not is_complete


@given(stock=st.lists(st.sampled_from(["vin", "stock", "trim"]), max_size=12), cap=st.integers(1, 5))
def test_vehicles_without_an_id_are_told_apart_by_vin_stock_number_or_content(stock: list[str], cap: int) -> None:
    """Published versions demand no `vehicle_id`."""
    vehicles = [{"status": "available", name: str(number)} for number, name in enumerate(stock)]

    async def get(skip: int) -> SearchPage:
        return decode_lenient({"total": len(vehicles), "vehicles": vehicles[skip : skip + cap]}, SearchPage)

    async def collect() -> list[Any]:
        return [msgspec.to_builtins(vehicle) async for vehicle in Vehicles(every_listing(get, 100))]

    assert asyncio.run(collect()) == vehicles


def endless(skip: int) -> SearchPage:
    return page(list(range(skip, skip + 10)), 0, 10, total=10**18)


LIARS: dict[str, tuple[Callable[[int], SearchPage], int]] = {
    "always the first page": (lambda _: page(list(range(50)), 0, 10), 10),
    "a larger total than there is": (lambda skip: page(list(range(5)), skip, 10, total=50), 5),
    "nothing of what the total says": (lambda _: page([], 0, 10, total=50), 0),
    "one vehicle, always the same": (lambda _: page([7], 0, 1, total=50), 1),
    "no end": (endless, 1_000),
}


@pytest.mark.parametrize(("get_page", "found"), LIARS.values(), ids=LIARS)
def test_a_dealer_that_lies_about_its_pages_ends_the_search_with_an_error(
    get_page: Callable[[int], SearchPage], found: int
) -> None:
    asked = 0

    def counted(skip: int) -> SearchPage:
        nonlocal asked
        asked += 1
        return get_page(skip)

    numbers, is_complete = read(counted)
    assert (len(numbers), is_complete) == (found, False)
    assert asked <= max(2 * MOST_PASSES, 1_000 // 9 + 1, 50 * MOST_PASSES)


@given(stock=st.lists(st.booleans(), max_size=12), cap=st.integers(1, 5))
def test_listings_that_cannot_be_read_are_skipped_and_the_others_are_read(stock: list[bool], cap: int) -> None:
    listings = [
        VEHICLE | {"vehicle_id": str(number), "price": 1 if is_right else "1"} for number, is_right in enumerate(stock)
    ]

    async def get(skip: int) -> SearchPage:
        return decode_lenient({"total": len(listings), "vehicles": listings[skip : skip + cap]}, SearchPage)

    async def collect() -> tuple[list[str | None], list[Any]]:
        vehicles = Vehicles(every_listing(get, 100))
        return [each.vehicle_id async for each in vehicles], [each.listing for each in vehicles.skipped]

    found, skipped = asyncio.run(collect())
    assert found == [str(number) for number, is_right in enumerate(stock) if is_right]
    assert skipped == [listing for listing, is_right in zip(listings, stock, strict=True) if not is_right]


def test_search_all_passes_on_filters_sort_and_page_size() -> None:
    asked: list[dict[str, Any]] = []

    def respond(body: bytes) -> tuple[int, object, dict[str, str]]:
        asked.append(members_of(body))
        return 200, result(body, {"total": 0, "skip": 0, "limit": 5, "vehicles": []}), {}

    async def search() -> None:
        app = application(card("http://dealer.test"), respond)
        async with DealerAgent.discover("http://dealer.test", app=app, retries=Retries(most=0)) as agent:
            assert [each async for each in agent.search_all(make=["Honda"], sort="-price", page_size=5)] == []
            with pytest.raises(errors.InvalidRequest, match="did you mean make"):
                agent.search_all(makes=["Honda"])  # type: ignore[call-arg]

    asyncio.run(search())
    assert asked == [
        {
            "type": "inventory.search.request",
            "filters": {"make": ["Honda"]},
            "sort": {"field": "price", "order": "desc"},
            "pagination": {"skip": 0, "limit": 5},
        }
    ]
