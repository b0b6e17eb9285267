"""Builds a snapshot from listings. Pure.

Listings are read once and not kept, so that a large stock does not fill the memory: only values to sort stay in memory.
"""

from array import array
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from msgspec import UNSET

from dealer_agent.inventory.catalogue.columns import EncodedColumn, Encoder, row_type
from dealer_agent.inventory.catalogue.facets import write_facets
from dealer_agent.inventory.catalogue.flat_arrays import FlatWriter
from dealer_agent.inventory.catalogue.flat_tables import DocumentWriter
from dealer_agent.inventory.catalogue.lookup import Lookup, Text
from dealer_agent.inventory.catalogue.sort_orders import orders_by
from dealer_agent.inventory.catalogue.text_search import TextCollector
from dealer_agent.inventory.listing import Listing, RemovedUnit
from dealer_agent.protocol.requests import SORT_FIELDS
from dealer_agent.protocol.vehicle import FIELDS
from dealer_agent.protocol.vehicle_field import AnyOf, IsTrue, Range


def write_snapshot(writer: FlatWriter, listings: Iterable[Listing], gone: Sequence[RemovedUnit]) -> None:
    """Writes what `Catalogue` reads, from listings in any order and the removed units. Vehicle ids must be distinct."""
    json = DocumentWriter(writer, "listings")
    found = _collect(listings, json)
    count = len(found.ids)
    # Positions count the listings as they come, and rows count them in the order of the snapshot.
    positions_by_id = np.array(sorted(range(count), key=found.ids.__getitem__), row_type(count))
    changed_at = np.frombuffer(found.times["changed_at"], np.int64)
    # Newest change first, ties by ascending vehicle id (docs/protocol.md#inventory-search).
    order = positions_by_id[np.argsort(-changed_at[positions_by_id], kind="stable")]
    json.finish(order)
    # `pop` frees the values of an encoder as soon as its column is made.
    columns: dict[str, EncodedColumn[Any]] = {name: found.encoders.pop(name).column(order) for name in _COLUMNS}
    for name in _TIMES:
        columns[name] = EncodedColumn.of_numbers(np.frombuffer(found.times[name], np.int64)[order])
    # The text index comes first, because building it takes the most memory.
    found.text.write(writer, columns, order)
    for member in FILTERED:
        columns[member].write(writer, f"columns.{member}")
    write_facets(writer, columns)
    row_of = np.empty_like(order)
    row_of[order] = np.arange(count, dtype=order.dtype)
    rows_by_id = row_of[positions_by_id]
    for field in SORT_FIELDS:
        for direction, by_field in orders_by(columns[field], rows_by_id).items():
            by_field.write(writer, f"orders.{field}.{direction}")
    positions = order.tolist()
    vins, stocks, ids = ([each[position] for position in positions] for each in (found.vins, found.stocks, found.ids))
    Lookup.write(writer, vins, stocks, ids, gone)


FILTERED = [
    name
    for name, row in FIELDS.items()
    if isinstance(row.filter, AnyOf | Range | IsTrue) or row.counts is not None or row.minmax is not None
]
"""The fields that filters and facets use. Each is a column of the snapshot."""

_TIMES = [name for name, row in FIELDS.items() if row.field.sort and row.value_type is datetime]
_COLUMNS = [
    name
    for name, row in FIELDS.items()
    if name in FILTERED or row.field.search in ("name", "fact") or (row.field.sort and name not in _TIMES)
]
_values = attrgetter(*_COLUMNS)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NEVER = -(2**62)

_BATCH = 500
"""Listings that are read together: filling a column with many values at once is faster. More would delay requests."""


class _Collected(NamedTuple):
    """The values to sort, in the order in which the listings come. Times are microseconds since 1970."""

    ids: list[str]
    vins: list[Text]
    stocks: list[Text]
    # By the name of the member, one time for each listing.
    times: dict[str, "array[int]"]
    # By the name of the column.
    encoders: dict[str, Encoder[Any]]
    text: TextCollector


def _collect(listings: Iterable[Listing], json: DocumentWriter) -> _Collected:
    """Reads the listings once, in batches, and collects the values of each column."""
    found = _Collected(
        ids=[],
        vins=[],
        stocks=[],
        times={name: array("q") for name in (*_TIMES, "changed_at")},
        encoders={name: Encoder() for name in _COLUMNS},
        text=TextCollector(),
    )
    rest = iter(listings)
    while batch := list(islice(rest, _BATCH)):
        vehicles = [listing.vehicle for listing in batch]
        for listing in batch:
            json.add(listing.json)
        found.ids.extend(vehicle.vehicle_id for vehicle in vehicles)
        found.vins.extend(vehicle.vin for vehicle in vehicles)
        found.stocks.extend(vehicle.stock for vehicle in vehicles)
        for name, times in found.times.items():
            moments = map(attrgetter(name), vehicles)
            times.extend(_NEVER if at is UNSET else (at - _EPOCH) // _MICROSECOND for at in moments)
        for name, values in zip(_COLUMNS, zip(*map(_values, vehicles), strict=True), strict=True):
            default = FIELDS[name].field.absent_means
            found.encoders[name].extend(values if default is None else (value or default for value in values))
        found.text.extend(vehicles)
    return found
