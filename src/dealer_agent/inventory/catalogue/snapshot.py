"""The catalogue of one dealer (specification, parts 2.4 and 2.5; contract, parts 7 to 9). Pure.

An immutable snapshot: it is made once from the listings, shared by every request without a lock, and replaced whole by
the next one. Rows are listings in the default order, newest `changed_at` first.
"""

from collections.abc import Iterable, Sequence
from io import BytesIO
from typing import get_args

import numpy as np
from msgspec import UNSET, Struct, UnsetType

from dealer_agent.inventory.catalogue.columns import Column, Mask
from dealer_agent.inventory.catalogue.documents import documents
from dealer_agent.inventory.catalogue.facets import facets_of
from dealer_agent.inventory.catalogue.filters import Matcher
from dealer_agent.inventory.catalogue.flat import Flat, FlatWriter
from dealer_agent.inventory.catalogue.lookup import Lookup
from dealer_agent.inventory.catalogue.making import FILTERED, write_snapshot
from dealer_agent.inventory.catalogue.orders import Orders, page_by_score, page_of, page_of_all
from dealer_agent.inventory.catalogue.stock import Gone, Listing, Text
from dealer_agent.inventory.catalogue.text import Scores, TextIndex
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

    def __init__(self, flat: Flat) -> None:
        """The snapshot of a flat form that `write_snapshot` made."""
        self._json = documents(flat, "listings")
        self._columns = {member: Column.read(flat, f"columns.{member}") for member in FILTERED}
        self._orders = {field: Orders.read(flat, f"orders.{field}") for field in get_args(SortField)}
        self._text = TextIndex(flat, len(self._json))
        self._lookup = Lookup(flat)
        self._matcher = Matcher(self._columns, self._lookup, len(self._json))
        self._facets = facets_of(self._columns, None)

    @classmethod
    def build(cls, listings: Iterable[Listing], gone: Sequence[Gone] = ()) -> "Catalogue":
        """The snapshot, in memory, of these listings, in any order, and of the units that are gone and remembered."""
        file = BytesIO()
        writer = FlatWriter(file)
        write_snapshot(writer, listings, gone)
        writer.finish()
        return cls(Flat(file.getvalue()))

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
