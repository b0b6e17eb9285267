"""The catalogue of one dealer: search, facets, and single vehicles (docs/protocol.md#inventory-search). Pure.

A catalogue is an immutable snapshot. It is built once, all requests share it without a lock, and the next snapshot
replaces it. Rows are listings in the default order: newest `changed_at` first.
"""

from collections.abc import Iterable, Sequence
from io import BytesIO
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET, Struct, UnsetType

from dealer_agent.inventory.catalogue.columns import Column, Mask, Rows
from dealer_agent.inventory.catalogue.facets import FacetTable
from dealer_agent.inventory.catalogue.filters import Matcher, MatchingRows
from dealer_agent.inventory.catalogue.flat_arrays import FlatArrays, FlatWriter
from dealer_agent.inventory.catalogue.flat_tables import Documents
from dealer_agent.inventory.catalogue.lookup import Lookup, Text
from dealer_agent.inventory.catalogue.snapshot_builder import FILTERED, write_snapshot
from dealer_agent.inventory.catalogue.sort_orders import Order, page_by_score, page_of, page_of_few
from dealer_agent.inventory.catalogue.text_search import Scores, TextIndex
from dealer_agent.inventory.listing import LISTING_ID, Listing, RemovedUnit
from dealer_agent.protocol.errors import VehicleNotFound, VehicleUnavailable
from dealer_agent.protocol.requests import SORT_FIELDS, Filters, Sort
from dealer_agent.protocol.responses import Facets

_MOST_COPIED = 20_000


class ListingPage(Struct, frozen=True, gc=False):
    """A page of the matching set, in order. `total` counts the whole set.

    `listings` are encoded JSON. `rows` has the row number of each listing (its place in the default order).
    """

    total: int
    rows: list[int]
    listings: list[bytes]


class PriceMisses(NamedTuple):
    """The units that match a search but for its price limits: those without a price, and those with another price.

    The ids are those of some of these units. Those with the nearest prices come first.
    """

    no_price: int
    outside: int
    no_price_ids: list[str]
    outside_ids: list[str]


class Catalogue:
    """One dealer's stock. Immutable, and no method blocks."""

    __slots__ = ("_columns", "_facet_table", "_facets", "_json", "_lookup", "_matcher", "_orders", "_text")

    def __init__(self, flat: FlatArrays, *, copies_listings: bool = True) -> None:
        """Opens a snapshot that `write_snapshot` wrote.

        `copies_listings`: the listings of a small stock are also kept as objects, which makes pages a little faster.
        """
        self._json = Documents(flat, "listings", most_copied=_MOST_COPIED if copies_listings else 0)
        self._columns: dict[str, Column[Any]] = {name: Column(flat, f"columns.{name}") for name in FILTERED}
        self._orders = {
            (field, direction): Order.read(flat, f"orders.{field}.{direction}")
            for field in SORT_FIELDS
            for direction in ("asc", "desc")
        }
        self._text = TextIndex(flat, len(self._json))
        self._lookup = Lookup(flat)
        self._matcher = Matcher(self._columns, self._lookup, len(self._json))
        self._facet_table = FacetTable(flat, self._columns)
        self._facets = self._facet_table.facets_of(None)

    @classmethod
    def build(cls, listings: Iterable[Listing], gone: Sequence[RemovedUnit] = ()) -> "Catalogue":
        """A snapshot in memory of these listings, in any order, and of the removed units that are remembered."""
        file = BytesIO()
        writer = FlatWriter(file)
        write_snapshot(writer, listings, gone)
        writer.finish()
        return cls(FlatArrays(file.getvalue()))

    def __len__(self) -> int:
        return len(self._json)

    def search(
        self,
        filters: Filters | UnsetType,
        skip: int,
        limit: int,
        sort: Sort | UnsetType = UNSET,
        only: Mask | None = None,
    ) -> ListingPage:
        """One page of the matching set, by default newest first. With a query and no `sort`, the best match is first.

        A `skip` past the end returns an empty page with the correct total. The caller bounds `limit`. Rows that are not
        in the mask `only` do not match.
        """
        order = None if sort is UNSET else self._orders[sort.field, sort.order]
        found, scores = self._found(filters)
        if only is not None:
            found = MatchingRows(only, None) if found is None else found.within(only)
        if found is None:
            total = len(self._json)
            end = min(skip + limit, total)
            page = np.arange(skip, end) if order is None else order.rows[skip:end]
        elif scores is not None and order is None:
            matching = found.rows()
            total = len(matching)
            page = page_by_score(matching, scores, skip, limit)
        elif found.mask is not None:
            total = int(np.count_nonzero(found.mask))
            page = page_of(found.mask, total, skip, limit, order)
        else:
            matching = found.rows()
            total = len(matching)
            page = page_of_few(matching, skip, limit, order)
        rows: list[int] = page.tolist()
        return ListingPage(total, rows, self._json.having(rows))

    def facets(self, filters: Filters | UnsetType = UNSET) -> Facets:
        """The facets of the matching set."""
        found, _ = self._found(filters)
        return self._facets if found is None else self._facet_table.facets_of(found.rows())

    def price_misses(self, filters: Filters, most: int) -> PriceMisses:
        """What the price limits of a search exclude. At most `most` ids of each kind are named."""
        found, _ = self._found(msgspec.structs.replace(filters, price_min=UNSET, price_max=UNSET))
        rows: Rows = np.arange(len(self._json)) if found is None else found.rows()
        price = self._columns["price"]
        no_price, outside = price.outside(*price.interval(filters.price_min, filters.price_max), rows)
        return PriceMisses(len(no_price), len(outside), self._ids(no_price[:most]), self._ids(outside[:most]))

    def spelling(self, field: str, text: str) -> str | None:
        """The first value of the stock that a filter on this field finds with `text`, as the stock has it."""
        return self._matcher.spelling(field, text)

    def listings(self, rows: Iterable[int]) -> list[bytes]:
        """The JSON of the listings in these rows, which are below the length of the catalogue."""
        return self._json.having(rows)

    def _ids(self, rows: Rows) -> list[str]:
        return [LISTING_ID.decode(listing).vehicle_id for listing in self._json.having(rows.tolist())]

    def find(self, vin: Text = UNSET, stock: Text = UNSET, vehicle_id: Text = UNSET) -> Listing | RemovedUnit | None:
        """The unit of the first identifier that matches: in stock, else removed."""
        found = self._lookup.find(vin, stock, vehicle_id)
        return Listing(self._json.having((found,))[0]) if isinstance(found, int) else found

    def listing(self, vin: Text, stock: Text, vehicle_id: Text) -> Listing:
        """The same, of a unit in stock. Raises VehicleNotFound and VehicleUnavailable."""
        found = self.find(vin, stock, vehicle_id)
        if found is None:
            raise VehicleNotFound("No listing has this VIN, stock number or vehicle id.")
        if isinstance(found, RemovedUnit):
            raise VehicleUnavailable("This vehicle is no longer available.", {"vehicle_id": found.vehicle_id})
        return found

    def _found(self, filters: Filters | UnsetType) -> tuple[MatchingRows | None, Scores | None]:
        """The matching rows, None for all rows, and their scores for the query."""
        if filters is UNSET:
            return None, None
        found = self._matcher.matching(filters)
        scores = self._text.scores(filters.query) if filters.query else None
        if scores is None:
            return found, None
        if found is None:
            return MatchingRows(scores != 0, None), scores
        if found.mask is not None:
            return MatchingRows(np.logical_and(found.mask, scores, out=found.mask), None), scores
        rows = found.rows()
        return MatchingRows(None, rows[scores.take(rows) != 0]), scores
