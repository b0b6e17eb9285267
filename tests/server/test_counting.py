"""What agents ask is counted by day: exactly while few requests come, from a sample while many come."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text
from tests.inventory.oracle import worlds
from tests.inventory.oracle.oracle import FilterBlock, Listing, matches
from tests.server.dealership import ACCORD, LEAF, NO_LIMITS, Dealership, message, run_dealership, set_up
from tests.soak import examples
from tests.storage.current import make_current
from tests.storage.samples import CIPHER, DEALER, MONDAY
from tests.storage.service_role import prepared_schema

from dealer_agent.inventory.catalogue import Catalogue
from dealer_agent.inventory.catalogue import Listing as CatalogueListing
from dealer_agent.protocol.requests import Filters
from dealer_agent.protocol.skill import InventorySearchRequest, InventoryVehicleRequest
from dealer_agent.protocol.vehicle import Vehicle
from dealer_agent.server.counting import MOST_KEPT, MOST_WAITING, Counting, RequestCounts
from dealer_agent.storage.daily_counts import Subject, sum_counts
from dealer_agent.storage.errors import StorageError
from dealer_agent.storage.store import Store

pytestmark = pytest.mark.outside_protocol("daily counts")

ZONE = "America/Chicago"
TODAY = MONDAY.date()
SEARCH = "inventory.search"
LOT: list[dict[str, Any]] = [
    {"make": "Honda", "model": "Accord", "body": "sedan", "price": 28_500},
    {"make": "Honda", "model": "Accord", "body": "sedan"},
    {"make": "Big Tex", "model": "70TV", "body": "Flatbed", "price": 3_000},
]


def catalogue_of(listings: Sequence[Mapping[str, Any]]) -> Catalogue:
    members: dict[str, Any] = {"status": "available", "rooftop": "North", "updated_at": MONDAY}
    return Catalogue.build(
        [
            CatalogueListing.of(Vehicle(**{"vehicle_id": f"v{number}"} | members | dict(listing)))
            for number, listing in enumerate(listings)
        ]
    )


class Counted:
    """Counting on a store, with the stock of one dealer."""

    def __init__(self, store: Store, catalogue: Catalogue, agents: Sequence[str] = ()) -> None:
        self.store = store
        self.requests = RequestCounts()
        self.catalogue = catalogue
        self.counting = Counting(store, self.requests, lambda _: self.catalogue)
        self.dealer = self.requests.of_dealer(DEALER, ZONE, agents)

    def search(self, block: FilterBlock, caller: str = "", user_agent: bytes = b"") -> None:
        filters = msgspec.convert(block, Filters)
        total = self.catalogue.search(filters, 0, 1).total
        payload, data = InventorySearchRequest(filters=filters), b'{"total":%d,"skip":0' % total
        self.dealer.count_answer(SEARCH, caller, {b"user-agent": user_agent}, payload, data)

    def look(self, vehicle_id: str) -> None:
        data = msgspec.json.encode({"vehicle_id": vehicle_id, "make": "Honda"})
        self.dealer.count_answer("inventory.vehicle", "", {}, InventoryVehicleRequest(), data)

    def read(self, now: datetime = MONDAY) -> None:
        asyncio.run(self.counting.read(now))

    def sums(self, dealer_id: str = DEALER, day: date = TODAY) -> dict[Subject, dict[str, int]]:
        """What is stored of a day, after all that was counted is saved."""
        asyncio.run(self.counting.save())
        with self.store.read(dealer_id) as tx:
            return {subject: numbers for subject, numbers in sum_counts(tx, day, day).items() if numbers}


@pytest.fixture(scope="module")
def sqlite_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    url = f"sqlite:///{tmp_path_factory.mktemp('counts')}/dealer.db"
    make_current(url)
    with Store.open(url, CIPHER) as opened:
        yield opened


@pytest.fixture
def counted(sqlite_store: Store) -> Iterator[Counted]:
    with emptied(sqlite_store):
        yield Counted(sqlite_store, catalogue_of(LOT))


@contextmanager
def emptied(store: Store) -> Iterator[None]:
    with store.write(DEALER) as tx:
        tx.connection.execute(text("DELETE FROM daily_counts"))
    yield


PRICES = ("price_min", "price_max")


def oracle(listings: Sequence[Listing], blocks: Sequence[FilterBlock]) -> dict[Subject, Counter[str]]:
    """The counts of searches, computed listing by listing."""
    searches: Counter[str] = Counter(examined=len(blocks))
    no_price, outside = Counter[str](), Counter[str]()
    for block in blocks:
        searches["found_nothing"] += not any(matches(listing, block) for listing in listings)
        if not any(name in block for name in PRICES):
            continue
        searches["with_price"] += 1
        searches["price_checked"] += 1
        others = {name: value for name, value in block.items() if name not in PRICES}
        for listing in listings:
            if matches(listing, others) and not matches(listing, block):
                found = outside if "price" in listing else no_price
                found[listing["vehicle_id"]] += 1
    searches["no_price_units"], searches["outside_price_units"] = no_price.total(), outside.total()
    return {"searches": searches, "no_price": no_price, "outside_price": outside}


@given(st.data())
@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
def test_the_counts_of_few_searches_equal_those_of_an_oracle(sqlite_store: Store, data: st.DataObject) -> None:
    listings = data.draw(worlds.stocks(most=20))
    blocks = data.draw(st.lists(worlds.filter_blocks(), min_size=1, max_size=6))
    # Most blocks get a price limit: it is what the analysis is about.
    limits = st.sampled_from([{}, {"price_max": 20_000}, {"price_min": 20_000}, {"price_min": 1, "price_max": 19_999}])
    blocks = [{**block, **data.draw(limits)} for block in blocks]
    catalogue = Catalogue.build([CatalogueListing.of(Vehicle(**listing)) for listing in listings])
    with emptied(sqlite_store):
        counted = Counted(sqlite_store, catalogue)
        for block in blocks:
            counted.search(block)
            counted.read()
        sums = counted.sums()
    for subject, expected in oracle(listings, blocks).items():
        assert Counter(sums.get(subject, {})) == expected, subject
    assert sums["requests"] == {"inventory.search OK": len(blocks)}


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"make": ["chevy"]}, {"make": {"Chevrolet": 1}}),
        ({"make": ["Honda", "honda "]}, {"make": {"Honda": 1}}),
        ({"make": ["BIG TEX"]}, {"make": {"Big Tex": 1}}),
        ({"make": ["me@example.com"]}, {"make": {"other": 1}}),
        ({"make": ["honda"], "model": ["accord"]}, {"make": {"Honda": 1}, "model": {"Honda: Accord": 1}}),
        ({"make": ["honda"], "model": ["Call me"]}, {"make": {"Honda": 1}, "model": {"Honda: other": 1}}),
        ({"make": ["toyota"], "model": ["rav-4"]}, {"make": {"Toyota": 1}, "model": {"Toyota: RAV4": 1}}),
        ({"model": ["ACCORD", "RAV4"]}, {"model": {"Accord": 1, "other": 1}}),
        ({"make": ["honda", "ford"], "model": ["ACCORD"]}, {"make": {"Honda": 1, "Ford": 1}, "model": {"Accord": 1}}),
        ({"body": ["pickup", "flatbed", "zorb"]}, {"body": {"truck": 1, "Flatbed": 1, "other": 1}}),
        ({"query": "red chevy pickup for jordan@example.com"}, {"make": {"Chevrolet": 1}, "body": {"truck": 1}}),
        ({"price_max": 20_000}, {"price": {"up to 20000": 1}}),
        ({"price_max": 20_001, "price_min": 5}, {"price": {"up to 25000": 1}}),
        ({"price_max": 100_001}, {"price": {"above 100000": 1}}),
        ({"price_min": 30_000}, {"price": {"from 30000": 1}}),
        ({"price_min": 10}, {"price": {"from 0": 1}}),
        ({"make": [], "dc_fast_charge": False, "query": ""}, {}),
        ({"make": ["x" * 200] * 50}, {"make": {"other": 1}}),
    ],
)
def test_only_canonical_words_and_words_of_the_stock_are_stored(
    counted: Counted, block: dict[str, Any], expected: dict[str, dict[str, int]]
) -> None:
    counted.search(block)
    counted.read()
    sums = counted.sums()
    assert {name: sums[name] for name in ("make", "model", "body", "price") if name in sums} == expected
    nothing = {name.removeprefix("nothing_"): numbers for name, numbers in sums.items() if "nothing_" in name}
    nothing.pop("filter", None)
    assert nothing == (expected if sums["searches"]["found_nothing"] else {})


def test_the_filters_of_a_search_that_found_nothing_are_counted(counted: Counted) -> None:
    counted.search({"make": ["honda"], "year_min": 2020, "price_max": 0, "model": [], "dc_fast_charge": True})
    counted.read()
    assert counted.sums()["nothing_filter"] == dict.fromkeys(("make", "year_min", "price_max", "dc_fast_charge"), 1)


def test_the_units_that_a_price_limit_excludes_are_counted_nearest_first(sqlite_store: Store) -> None:
    with emptied(sqlite_store):
        lot: list[dict[str, Any]] = [{"make": "Honda", "price": 10_000 + number} for number in range(30)]
        counted = Counted(sqlite_store, catalogue_of([*lot, {"make": "Honda"}, {"make": "Ford"}]))
        counted.search({"make": ["Honda"], "price_max": 10_002})
        counted.read()
        sums = counted.sums()
    assert sums["no_price"] == {"v30": 1}
    assert sums["outside_price"] == {f"v{number}": 1 for number in range(3, 23)}
    assert sums["searches"]["outside_price_units"] == 27, "all are counted, some are named"


def test_a_flood_is_counted_and_a_sample_of_it_is_read(counted: Counted) -> None:
    for _ in range(MOST_KEPT + 10):
        counted.search({"make": ["honda"], "price_max": 20_000})
    for _ in range(MOST_WAITING + 2):
        counted.read()
    sums = counted.sums()
    assert sums["requests"] == {"inventory.search OK": MOST_KEPT + 10}
    assert sums["searches"]["examined"] == sums["searches"]["with_price"] == sums["make"]["Honda"] == MOST_KEPT
    assert sums["searches"]["price_checked"] == MOST_WAITING, "it is a pass over the stock"


def test_requests_are_counted_by_token_or_by_the_named_user_agent(sqlite_store: Store) -> None:
    with emptied(sqlite_store):
        counted = Counted(sqlite_store, catalogue_of(LOT), agents=["ChatGPT-User", "Acme"])
        for user_agent in (b"chatgpt-user/2.0", b"Mozilla/5.0 Acme", b"", b"ACME Shopper 7", b"x" * 5000):
            counted.search({}, user_agent=user_agent)
        counted.search({}, caller="token:T1", user_agent=b"Acme")
        counted.dealer.count(SEARCH, "RATE_LIMITED", "token:T1", {})
        counted.read()
        sums = counted.sums()
    assert sums["agents"] == {
        "ChatGPT-User inventory.search": 1,
        "Acme inventory.search": 1,
        "token:T1 inventory.search": 1,
        "other inventory.search": 3,
    }
    assert sums["requests"] == {"inventory.search OK": 6, "inventory.search RATE_LIMITED": 1}


def test_requests_count_for_the_day_of_the_dealers_zone(counted: Counted) -> None:
    abroad = counted.requests.of_dealer("lakeside", "Asia/Tokyo")
    for hour, day in ((4, 1), (6, 2), (16, 2)):
        counted.look("v1")
        abroad.count("inventory.facets", "OK", "", {})
        counted.read(datetime(2026, 3, 2, hour, tzinfo=UTC))
        assert counted.sums(day=date(2026, 3, day))["viewed"]["v1"] >= 1
    assert counted.sums(day=date(2026, 3, 1))["viewed"] == {"v1": 1}
    assert counted.sums(day=date(2026, 3, 2))["viewed"] == {"v1": 2}
    assert counted.sums("lakeside", date(2026, 3, 2))["requests"] == {"inventory.facets OK": 2}
    assert counted.sums("lakeside", date(2026, 3, 3))["requests"] == {"inventory.facets OK": 1}


def test_a_dealer_without_requests_costs_nothing(counted: Counted) -> None:
    assert counted.requests.take() == []
    counted.look("v1")
    assert len(counted.requests.take()) == 1
    assert counted.requests.take() == []


def test_a_database_that_fails_loses_nothing_and_counts_nothing_twice(counted: Counted) -> None:
    counted.look("v1")
    counted.read()
    with counted.store.write(DEALER) as tx:
        tx.connection.execute(text("ALTER TABLE daily_counts RENAME TO elsewhere"))
    with pytest.raises(StorageError):
        asyncio.run(counted.counting.save())
    counted.look("v1")
    counted.read()
    with counted.store.write(DEALER) as tx:
        tx.connection.execute(text("ALTER TABLE elsewhere RENAME TO daily_counts"))
    assert counted.sums()["viewed"] == {"v1": 2}
    assert counted.sums()["viewed"] == {"v1": 2}


def test_the_counts_of_several_dealers_are_written_under_row_level_security(postgresql_server: str) -> None:
    with prepared_schema(postgresql_server) as (_, service), Store.open(service, CIPHER) as store:
        counted = Counted(store, catalogue_of(LOT))
        others = [counted.requests.of_dealer(f"dealer-{number}", ZONE) for number in range(3)]
        counted.look("v1")
        for number, other in enumerate(others):
            for _ in range(number + 1):
                other.count("inventory.facets", "OK", "", {})
        counted.read()
        assert counted.sums()["viewed"] == {"v1": 1}
        for number in range(3):
            assert counted.sums(f"dealer-{number}")["requests"] == {"inventory.facets OK": number + 1}


def test_the_running_service_counts_requests_and_saves_them_when_it_stops(tmp_path: Path, stocked: Path) -> None:
    set_up(tmp_path, NO_LIMITS + '[reports]\nagents = ["ChatGPT-User"]\n', stocked=stocked)
    with run_dealership(tmp_path) as sample_dealer:
        token_id, token = sample_dealer.new_token()
        sample_dealer.portal.call(_wait_for_token, sample_dealer, token)
        first, expired = message("lead.submit", idempotency_key="k1", customer=CUSTOMER), message("lead.submit")
        expired["message"]["parts"][0]["data"]["consent"]["expires_at"] = "2020-01-01T00:00:00Z"
        answers = [
            sample_dealer.post(message(SEARCH, filters={"make": ["honda"], "price_max": 20_000})),
            sample_dealer.post(
                message(SEARCH, filters={"make": ["toyota"]}), headers={"user-agent": "ChatGPT-User/1.0"}
            ),
            sample_dealer.post(message("inventory.vehicle", vin=ACCORD), token=token),
            sample_dealer.call_rpc(message("inventory.vehicle", vin=LEAF)),
            sample_dealer.post(message("inventory.vehicle", vin="1HGCY2F57RA999999")),
            sample_dealer.post(b"{"),
            *(sample_dealer.post(first) for _ in range(2)),
            sample_dealer.post(message("lead.submit", customer=CUSTOMER)),
            sample_dealer.post(expired),
        ]
    assert [answer.status_code for answer in answers[:4]] == [200] * 4
    with sample_dealer.store() as store, store.read("test-motors") as tx:
        sums = sum_counts(tx, date(2000, 1, 1), date(2100, 1, 1))
    assert sums["viewed"].keys() == {_id_of(answers[2]), _id_of(answers[3])}
    assert sums["make"] == {"Honda": 1, "Toyota": 1}
    assert sums["nothing_make"] == {"Honda": 1, "Toyota": 1}
    assert sums["agents"] == {
        "other inventory.search": 1,
        "ChatGPT-User inventory.search": 1,
        f"token:{token_id} inventory.vehicle": 1,
        "other inventory.vehicle": 1,
        "other lead.submit": 1,
    }
    refused = {item: number for item, number in sums["requests"].items() if not item.endswith(" OK")}
    assert refused == {
        "inventory.vehicle VEHICLE_NOT_FOUND": 1,
        "unknown SCHEMA_VALIDATION_FAILED": 1,
        "lead.submit REPEATED": 1,
        "lead.submit DUPLICATE": 1,
        "lead.submit INVALID_CONSENT": 1,
    }


CUSTOMER = {"first_name": "Jordan", "last_name": "Example", "email": "jordan@example.com"}


def _id_of(answer: Any) -> str:
    found = answer.json()
    data = found.get("result", found)["message"]["parts"][0]["data"]["data"]
    return str(data["vehicle_id"])


async def _wait_for_token(sample_dealer: Dealership, token: str) -> None:
    """Waits until the service knows a token."""
    async with asyncio.timeout(120):
        while sample_dealer.service.tokens.owner(token) is None:
            await asyncio.sleep(0.02)
