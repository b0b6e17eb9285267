"""Orders of the stock, and pages of an order (docs/protocol.md#inventory-search). Pure.

In both directions, ties are sorted by ascending `vehicle_id`, and absent values come last. Rows are listings in the
default order, so the default order needs no permutation.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dealer_agent.inventory.catalogue.columns import EncodedColumn, Mask, Rows
from dealer_agent.inventory.catalogue.flat_arrays import FlatArrays, FlatWriter

# Below this number of rows, using a whole column is faster than deciding to use less.
_PIECE = 16_384
# Ranking one matching row costs about as much as walking past this many rows in order.
_RANKING_COST = 6


class Order(NamedTuple):
    """The rows in order, and the rank of each row."""

    rows: Rows
    ranks: Rows

    @staticmethod
    def read(flat: FlatArrays, name: str) -> "Order":
        """Reads the order of that name."""
        return Order(flat.array(f"{name}.rows"), flat.array(f"{name}.ranks"))

    def write(self, writer: FlatWriter, name: str) -> None:
        """Writes what `read` reads."""
        writer.array(f"{name}.rows", self.rows)
        writer.array(f"{name}.ranks", self.ranks)


def orders_by(column: EncodedColumn[Any], by_id: Rows) -> dict[str, Order]:
    """The orders `asc` and `desc` by a column. `by_id` are the rows by ascending vehicle id.

    Texts that differ only in case are ties.
    """
    absent = len(column.values)
    sort_keys = np.arange(absent + 1)
    if column.values and isinstance(column.values[0], str):
        folded = [value.casefold() for value in column.values]
        sort_keys[1:-1] = np.cumsum([left != right for left, right in pairwise(folded)])
    descending = absent - 1 - sort_keys
    # Absent values come last in both directions.
    descending[-1] = absent
    return {"asc": _order(sort_keys[column.codes], by_id), "desc": _order(descending[column.codes], by_id)}


def _order(keys: NDArray[np.int_], by_id: Rows) -> Order:
    rows = by_id[np.argsort(keys[by_id], kind="stable")]
    ranks = np.empty(len(rows), np.int32)
    ranks[rows] = np.arange(len(rows), dtype=np.int32)
    return Order(rows, ranks)


def page_of(mask: Mask, total: int, skip: int, limit: int, order: Order | None) -> Rows:
    """One page of the rows in the mask, which has `total` rows. `order` None is the default order."""
    end = min(skip + limit, total)
    if skip >= end:
        return _NO_ROWS
    count = len(mask)
    if count <= _PIECE:
        rows = mask.nonzero()[0] if order is None else order.rows[mask[order.rows]]
        return rows[skip:end]
    # To fill the page, reading in pieces passes about `end / total` of all rows. Ranking looks at all matching rows.
    if order is not None and total * total * _RANKING_COST < end * count:
        ranks = order.ranks[mask.nonzero()[0]]
        ranks.sort()
        return order.rows[ranks[skip:end]]
    return _page_from_pieces(mask, total, skip, end, order)


def page_of_few(rows: Rows, skip: int, limit: int, order: Order | None) -> Rows:
    """One page of `rows`, which are ascending row numbers. `order` None is the default order."""
    end = min(skip + limit, len(rows))
    if order is None or skip >= end:
        return rows[skip:end]
    ranks = order.ranks.take(rows)
    ranks.sort()
    return order.rows.take(ranks[skip:end])


def page_by_score(rows: Rows, scores: NDArray[np.uint16], skip: int, limit: int) -> Rows:
    """One page of `rows`, which are ascending row numbers, by descending score. Ties are in the default order."""
    end = min(skip + limit, len(rows))
    if skip >= end:
        return _NO_ROWS
    marks = scores[rows]
    if len(rows) <= _PIECE:
        return rows[_best_first(marks)[skip:end]]
    # Only the rows above the page's last score need sorting. Rows with that score are already in the default order.
    reached = np.cumsum(np.bincount(marks)[::-1])
    last = len(reached) - 1 - np.searchsorted(reached, end)
    above = marks > last
    best = rows[above]
    best = best[_best_first(marks[above])]
    return np.concatenate((best[skip:end], rows[marks == last][max(0, skip - len(best)) : end - len(best)]))


_NO_ROWS: Rows = np.empty(0, np.intp)


def _best_first(scores: NDArray[np.uint16]) -> NDArray[np.intp]:
    return np.argsort(np.iinfo(np.uint16).max - scores, kind="stable")


def _page_from_pieces(mask: Mask, total: int, skip: int, end: int, order: Order | None) -> Rows:
    """The matching rows from `skip` to `end` in an order. It reads the mask in pieces, until the page is full."""
    count = len(mask)
    # A quarter more than the rows that are needed on average, so that one piece is usually enough.
    step = max(_PIECE, count * end // total * 5 // 4)
    found: list[Rows] = []
    matched = 0
    for start in range(0, count, step):
        piece = mask[start : start + step] if order is None else mask[order.rows[start : start + step]]
        hits = int(np.count_nonzero(piece))
        if matched + hits > skip:
            found.append(piece.nonzero()[0][max(0, skip - matched) : end - matched] + start)
        matched += hits
        if matched >= end:
            break
    rows = np.concatenate(found)
    return rows if order is None else order.rows[rows]
