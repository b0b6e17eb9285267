"""The catalogue of one dealer (specification, parts 2.4 and 2.5; contract, parts 7 to 9). Pure.

An immutable snapshot: it is built once from the listings, shared by every request without a lock, and replaced whole by
the next one. Rows are listings in the default order, newest `changed_at` first.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any, NamedTuple, get_args

import numpy as np
from msgspec import UNSET, Struct, UnsetType

from dealer_agent.inventory.catalogue.columns import Column, Encoder, Mask, casefold_first, row_type
from dealer_agent.inventory.catalogue.facets import facets_of
from dealer_agent.inventory.catalogue.filters import Matcher
from dealer_agent.inventory.catalogue.lookup import Lookup
from dealer_agent.inventory.catalogue.orders import Orders, orders_by, page_by_score, page_of, page_of_all
from dealer_agent.inventory.catalogue.stock import Gone, Listing, Text
from dealer_agent.inventory.catalogue.text import Scores, TextCollector, TextIndex
from dealer_agent.protocol.requests import Filters, Sort, SortField
from dealer_agent.protocol.responses import Facets, TextCount


class Page(Struct, frozen=True, gc=False):
    """A part of the matching set: `total` counts the whole of it, `rows` and `listings` are the page in order.

    `listings` are ready JSON; `rows` number the snapshot's listings in the default order.
    """

    total: int
    rows: list[int]
    listings: list[bytes]


class Catalogue:
    """One dealer's stock, ready to be searched. Nothing in it changes; no method waits."""

    __slots__ = ("_columns", "_facets", "_json", "_lookup", "_matcher", "_orders", "_text")

    def __init__(
        self,
        json: list[bytes],
        columns: Mapping[str, Column[Any]],
        orders: Mapping[str, Orders],
        text: TextIndex,
        lookup: Lookup,
    ) -> None:
        """`Catalogue.build` makes one."""
        self._json = json
        self._columns = columns
        self._orders = orders
        self._text = text
        self._lookup = lookup
        self._matcher = Matcher(columns, lookup, len(json))
        self._facets = facets_of(columns, None)

    @classmethod
    def build(cls, listings: Iterable[Listing], gone: Sequence[Gone] = ()) -> "Catalogue":
        """The snapshot of these listings, in any order, and of the units that are gone and remembered.

        Only the listings' JSON is kept. Vehicle ids are distinct.
        """
        taken = _take(listings)
        given = np.array(sorted(range(len(taken.ids)), key=taken.ids.__getitem__), row_type(len(taken.ids)))
        # Newest change first, ties by ascending vehicle id (contract, part 7).
        order = given[np.argsort(-np.frombuffer(taken.changes, np.int64)[given], kind="stable")]
        ids = [taken.ids[place] for place in order.tolist()]
        by_id = np.array(sorted(range(len(ids)), key=ids.__getitem__), row_type(len(ids)))
        columns = {
            member: taken.encoders.pop(member).column(order, None if member in _NUMBERS else casefold_first)
            for member in list(taken.encoders)
        }
        columns["updated_at"] = Column.of_numbers(np.frombuffer(taken.updates, np.int64)[order])
        # The text first: it takes the most memory while it is made.
        text = taken.text.index(columns, order)
        return cls(
            [taken.json[place] for place in order.tolist()],
            {member: column for member, column in columns.items() if member not in _PASSING},
            {field: orders_by(columns[field], by_id) for field in get_args(SortField)},
            text,
            Lookup(zip(ids, columns["vin"].decoded(), columns["stock"].decoded(), strict=True), gone),
        )

    def __len__(self) -> int:
        return len(self._json)

    @property
    def makes(self) -> list[TextCount]:
        """The makes on the lot and how many there are of each, highest count first."""
        return self._facets.makes or []

    def search(self, filters: Filters | UnsetType, skip: int, limit: int, sort: Sort | UnsetType = UNSET) -> Page:
        """One page of what the filters find: the default order, or the best match first for a query without `sort`.

        `skip` past the end gives an empty page with the true total. The limit's default and cap are the caller's.
        """
        order = None if sort is UNSET else getattr(self._orders[sort.field], sort.order)
        mask, scores = self._found(filters)
        if mask is None:
            total = len(self._json)
            found = page_of_all(total, skip, limit, order)
        else:
            total = int(np.count_nonzero(mask))
            if scores is None or order is not None:
                found = page_of(mask, total, skip, limit, order)
            else:
                found = page_by_score(mask, scores, skip, limit)
        rows: list[int] = found.tolist()
        json = self._json
        return Page(total, rows, [json[row] for row in rows])

    def facets(self, filters: Filters | UnsetType = UNSET) -> Facets:
        """The facets of what the filters find."""
        mask, _ = self._found(filters)
        return self._facets if mask is None else facets_of(self._columns, mask)

    def find(self, vin: Text = UNSET, stock: Text = UNSET, vehicle_id: Text = UNSET) -> Listing | Gone | None:
        """The unit on the lot, else the unit that is gone, that the first matching identifier names."""
        found = self._lookup.find(vin, stock, vehicle_id)
        return Listing(self._json[found]) if isinstance(found, int) else found

    def _found(self, filters: Filters | UnsetType) -> tuple[Mask | None, Scores | None]:
        """The matching rows, None for all of them, and their scores where there is a query."""
        if filters is UNSET:
            return None, None
        mask = self._matcher.matching(filters)
        scores = self._text.scores(filters.query) if filters.query else None
        if scores is not None:
            found = scores != 0
            mask = found if mask is None else np.logical_and(mask, found, out=mask)
        return mask, scores


_STRINGS = (
    "stock",
    "vin",
    "make",
    "model",
    "trim",
    "condition",
    "status",
    "rooftop",
    "body",
    "transmission",
    "driveline",
    "engine",
    "fuel",
    "charge_port",
    "exterior_color",
    "interior_color",
)
_NUMBERS = (
    "year",
    "price",
    "list_price",
    "msrp",
    "mileage",
    "displacement_cc",
    "electric_range_mi",
    "dc_fast_charge",
)
# What only orders, lookup and text are made from.
_PASSING = frozenset({"stock", "vin", "engine", "list_price", "msrp", "updated_at"})
_values = attrgetter(*_STRINGS, *_NUMBERS)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NEVER = -(2**62)


def _microseconds(moment: datetime) -> int:
    """Since 1970, exactly: an object for each time would cost a large stock more memory than its columns."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


class _Taken(NamedTuple):
    """What is kept of the listings, in the order in which they came."""

    json: list[bytes]
    ids: list[str]
    changes: "array[int]"
    updates: "array[int]"
    encoders: dict[str, Encoder[Any]]
    text: TextCollector


def _take(listings: Iterable[Listing]) -> _Taken:
    """Reads the listings once; none of them is needed afterwards."""
    encoders: dict[str, Encoder[Any]] = {member: Encoder() for member in (*_STRINGS, *_NUMBERS)}
    adders = [encoder.add for encoder in encoders.values()]
    # A listing without a type is a car wherever types are looked at (2.4).
    add_type = encoders.setdefault("vehicle_type", Encoder()).add
    taken = _Taken([], [], array("q"), array("q"), encoders, TextCollector())
    for listing in listings:
        vehicle = listing.vehicle
        taken.json.append(listing.json)
        taken.ids.append(vehicle.vehicle_id)
        taken.changes.append(_NEVER if vehicle.changed_at is UNSET else _microseconds(vehicle.changed_at))
        taken.updates.append(_microseconds(vehicle.updated_at))
        for add, value in zip(adders, _values(vehicle), strict=True):
            add(value)
        add_type(vehicle.vehicle_type or "car")
        taken.text.add_prose(vehicle.features or (), vehicle.description or "")
    return taken
