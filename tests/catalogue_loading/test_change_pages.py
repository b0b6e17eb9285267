"""The changes of the stock, page by page, give what a search answers (docs/protocol.md#inventory-changes)."""

import json
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.feeds.recorded_days import VINS, Cars, RecordedDays, changes, dealer_named
from tests.soak import examples, sqlite_first
from tests.storage.current import make_current
from tests.storage.samples import CIPHER

from dealer_agent.catalogue_loading import change_pages
from dealer_agent.catalogue_loading.change_pages import ChangeReader
from dealer_agent.catalogue_loading.cursors import CURSOR_DAYS
from dealer_agent.catalogue_loading.listings import listing_policy
from dealer_agent.protocol.errors import CursorExpired, SchemaValidationFailed
from dealer_agent.protocol.stock_changes import LONGEST_CURSOR
from dealer_agent.storage.stock.recorded_units import prune_record
from dealer_agent.storage.store import Store

SAME_STORE = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=examples(80),
    deadline=None,
)
numbers = count()
KEY = CIPHER.permanent_key("stock cursors of this dealer")


@pytest.fixture
def store(database_url: str) -> Any:
    make_current(database_url)
    with Store.open(database_url, CIPHER) as opened:
        yield opened


@pytest.fixture
def days(store: Store) -> RecordedDays:
    return RecordedDays(store, dealer_named("ridgeline"))


class Mirror:
    """An agent that keeps a copy of the stock. It refuses changes that do not fit its copy."""

    def __init__(self, days: RecordedDays, key: bytes = KEY) -> None:
        self.days = days
        self.key = key
        self.copy: dict[str, Any] = {}
        self.cursor: str | None = None
        self.loaded = 0
        self.new_policy = False

    def page(self, limit: int) -> dict[str, Any]:
        """Asks for a page of a process that searches the revision `loaded`, and applies it."""
        reader = ChangeReader(self.days.store, listing_policy(self.days.profile), self.key)
        page: dict[str, Any] = json.loads(reader.read(self.cursor, limit, self.loaded, self.days.now))
        assert len(page["changes"]) <= limit
        assert len(page["cursor"]) <= LONGEST_CURSOR
        for change in page["changes"]:
            self.apply(**change)
        self.cursor = page["cursor"]
        return page

    def apply(self, vehicle_id: str, change: str, vehicle: dict[str, Any] | None = None) -> None:
        had = self.copy.pop(vehicle_id, None)
        assert (had is None) == (change == "added")
        assert (vehicle is None) == (change == "removed")
        if vehicle is not None:
            assert vehicle["vehicle_id"] == vehicle_id
            assert self.new_policy or vehicle != had
            self.copy[vehicle_id] = vehicle

    def read_all(self, limit: int = 500) -> int:
        """Reads pages while there are more. Returns how many."""
        for pages in range(1, 1000):
            if not self.page(limit)["more"]:
                return pages
        raise AssertionError("there are always more pages")


_full = dict.fromkeys(VINS, (20000, "North", False))
reads = st.tuples(st.just("read"), st.integers(1, 3), st.booleans())
steps = st.lists(
    st.one_of(changes, changes, reads, reads, reads, st.just(("policy",)), st.just(("import", _full, "", 1))),
    min_size=3,
    max_size=16,
)


_less = dict.fromkeys(VINS[2:], (21000, "South", False))
_read = ("read", 1, True)
BETWEEN_PAGES = [("import", _full, "", 1), _read, ("import", _less, "", 1), _read, _read, ("undo", {}, "", 1), _read]
BETWEEN_PAGES += [("hide", {}, VINS[5], 1), _read, _read, ("import", _full, "", 50), _read]
POLICIES = [("import", _full, "", 1), _read, ("policy",), _read, ("policy",), ("read", 3, True), ("read", 3, True)]
"""The policy changes, and changes back before the last page."""


@pytest.mark.requirement("changes")
@pytest.mark.requirement("changes-steady")
@sqlite_first()
@SAME_STORE
@example(BETWEEN_PAGES)
@example(POLICIES)
@given(steps)
def test_all_changes_in_order_give_what_a_search_over_everything_answers(store: Store, done: list[Any]) -> None:
    """The stock changes between pages: by imports, an undo, decisions about units, and the end of a held unit's day.

    A process may search an older stock than the newest one.
    """
    days = RecordedDays(store, dealer_named(f"dealer-{next(numbers)}"))
    mirror = Mirror(days)
    for kind, *values in done:
        match kind:
            case "policy":
                days.profile = replaced_policy(days)
                mirror.new_policy = True
            case "read":
                limit, is_newest = values
                if is_newest:
                    mirror.loaded = days.revision
                if not mirror.page(limit)["more"]:
                    assert mirror.copy == days.listings_at(mirror.loaded)
            case _:
                days.change(kind, *values)
    mirror.loaded = days.revision
    mirror.read_all(2)
    assert mirror.copy == days.listings_at(mirror.loaded)
    assert mirror.page(1)["changes"] == []


def replaced_policy(days: RecordedDays) -> Any:
    """The profile with another meaning of the prices of the feed."""
    other = "before_fees" if days.profile.feed_price == "advertised" else "advertised"
    return replace(days.profile, feed_price=other)


STOCK: Cars = dict.fromkeys(VINS, (20000, "North", False))


@pytest.mark.requirement("changes-bounds")
def test_a_page_has_at_most_the_bytes_that_it_may_have(days: RecordedDays, monkeypatch: pytest.MonkeyPatch) -> None:
    """A single change that is larger is a page of its own."""
    days.change("import", STOCK, "", 1)
    mirror = Mirror(days)
    mirror.loaded = days.revision
    monkeypatch.setattr(change_pages, "MOST_PAGE_BYTES", 900)
    assert mirror.read_all() > 1
    monkeypatch.setattr(change_pages, "MOST_PAGE_BYTES", 1)
    alone = Mirror(days)
    alone.loaded = days.revision
    assert alone.read_all() == len(VINS)
    assert alone.copy == mirror.copy == days.listings_at(days.revision)


@pytest.mark.requirement("changes-bounds")
def test_a_page_compares_at_most_some_units(days: RecordedDays, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a large stock in which little changed, a page may have no change, and more follow."""
    monkeypatch.setattr(change_pages, "MOST_COMPARED", 2)
    dated: Cars = dict.fromkeys(VINS, (20000, "North", True))
    days.change("import", dated, "", 1)
    mirror = Mirror(days)
    mirror.loaded = days.revision
    mirror.read_all()
    days.change("import", dated, "", 1)
    mirror.loaded = days.revision
    assert [mirror.page(9)["changes"] for _ in range(3)] == [[], [], []]
    assert mirror.copy == days.listings_at(days.revision)


@pytest.mark.requirement("changes-cursor")
@sqlite_first()
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda cursor: cursor[:-2] + ("AA" if cursor[-2:] != "AA" else "BB"), id="one that was changed"),
        pytest.param(lambda cursor: cursor[:10], id="a part of one"),
        pytest.param(lambda _: "x" * 40, id="one that was made up"),
        pytest.param(lambda _: "a", id="one of no whole byte"),
        pytest.param(lambda _: "\N{SNOWMAN}", id="one of other characters"),
    ],
)
def test_a_forged_cursor_is_refused(days: RecordedDays, damage: Any) -> None:
    days.change("import", STOCK, "", 1)
    mirror = Mirror(days)
    mirror.page(2)
    mirror.cursor = damage(mirror.cursor)
    with pytest.raises(SchemaValidationFailed, match="/cursor: is not a cursor of this dealer"):
        mirror.page(2)


@pytest.mark.requirement("changes-cursor")
def test_a_cursor_of_another_dealer_is_refused(days: RecordedDays) -> None:
    mirror = Mirror(days)
    mirror.page(2)
    mirror.key = CIPHER.permanent_key("stock cursors of another dealer")
    with pytest.raises(SchemaValidationFailed, match="is not a cursor of this dealer"):
        mirror.page(2)


@pytest.mark.requirement("error-cursor-expired")
@pytest.mark.requirement("changes-cursor")
def test_a_cursor_lasts_for_thirty_days(days: RecordedDays) -> None:
    days.change("import", STOCK, "", 1)
    mirror = Mirror(days)
    mirror.loaded = days.revision
    mirror.page(2)
    days.now += timedelta(days=CURSOR_DAYS)
    mirror.page(2)
    days.now += timedelta(days=CURSOR_DAYS, seconds=1)
    with pytest.raises(CursorExpired, match=r"more than 30 days old\. Begin again without a cursor"):
        mirror.page(2)


@pytest.mark.requirement("changes-cursor")
def test_a_cursor_of_a_stock_that_the_record_has_not_is_refused(days: RecordedDays) -> None:
    """The record was pruned, or the database is that of an older backup."""
    days.change("import", STOCK, "", 1)
    mirror = Mirror(days)
    mirror.loaded = days.revision
    mirror.read_all()
    for hours in (24, 48):
        days.change("import", STOCK, "", hours)
    mirror.loaded = days.revision
    prune_record(days.store, days.profile.id, now=days.now, keep_days=1, remember_days=1)
    with pytest.raises(
        CursorExpired, match=r"no record of its stock at the time of this cursor\. Begin again without a cursor"
    ):
        mirror.page(2)


@pytest.mark.requirement("changes-behind")
def test_a_reader_that_is_ahead_of_a_process_waits_for_it(days: RecordedDays) -> None:
    """Another process has loaded the newest stock already."""
    days.change("import", STOCK, "", 1)
    mirror = Mirror(days)
    mirror.loaded = days.revision
    mirror.read_all()
    copy = dict(mirror.copy)
    mirror.loaded -= 1
    assert (mirror.page(5)["more"], mirror.copy) == (False, copy)


@pytest.mark.requirement("changes-confirmed")
def test_a_listing_that_was_only_confirmed_is_changed(days: RecordedDays) -> None:
    """A unit to which the feed gives a time of its own is not confirmed by an import, so it is not changed."""
    cars: Cars = {VINS[0]: (20_000, "North", False), VINS[1]: (20_000, "North", True)}
    days.change("import", cars, "", 1)
    mirror = Mirror(days)
    mirror.loaded = days.revision
    mirror.read_all()
    days.change("import", cars, "", 1)
    mirror.loaded = days.revision
    (change,) = mirror.page(5)["changes"]
    assert (change["vehicle_id"], change["change"]) == (f"vin-{VINS[0]}", "changed")
