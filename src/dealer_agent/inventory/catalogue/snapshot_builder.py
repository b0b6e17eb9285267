"""The making of a snapshot: listings in, the flat form out (contract, parts 6 to 8). Pure.

Listings are read once, one by one, and none is kept: of a large stock only what is sorted is in memory, never the
listings themselves.
"""

from array import array
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from operator import attrgetter
from typing import Any, NamedTuple, get_args

import numpy as np
from msgspec import UNSET

from dealer_agent.inventory.catalogue.columns import Coded, Encoder, row_type
from dealer_agent.inventory.catalogue.contents import Listing, RemovedUnit, Text
from dealer_agent.inventory.catalogue.documents import DocumentWriter
from dealer_agent.inventory.catalogue.flat_arrays import FlatWriter
from dealer_agent.inventory.catalogue.lookup import Lookup
from dealer_agent.inventory.catalogue.sort_orders import orders_by
from dealer_agent.inventory.catalogue.text_search import TextCollector
from dealer_agent.protocol.requests import SortField


def write_snapshot(writer: FlatWriter, listings: Iterable[Listing], gone: Sequence[RemovedUnit]) -> None:
    """Adds what `Catalogue` reads, of these listings, in any order, and of the units that are gone and remembered.

    Vehicle ids are distinct.
    """
    json = DocumentWriter(writer, "listings")
    taken = _take(listings, json)
    count = len(taken.ids)
    given = np.array(sorted(range(count), key=taken.ids.__getitem__), row_type(count))
    # Newest change first, ties by ascending vehicle id (contract, part 7).
    order = given[np.argsort(-np.frombuffer(taken.changes, np.int64)[given], kind="stable")]
    json.finish(order)
    columns = {member: taken.encoders.pop(member).column(order) for member in list(taken.encoders)}
    columns["updated_at"] = Coded.of_numbers(np.frombuffer(taken.updates, np.int64)[order])
    # The text first: it takes the most memory while it is made.
    taken.text.write(writer, columns, order)
    for member in FILTERED:
        columns[member].write(writer, f"columns.{member}")
    row_of = np.empty_like(order)
    row_of[order] = np.arange(count, dtype=order.dtype)
    by_id = row_of[given]
    for field in get_args(SortField):
        orders_by(columns[field], by_id).write(writer, f"orders.{field}")
    places = order.tolist()
    vins, stocks, ids = ([each[place] for place in places] for each in (taken.vins, taken.stocks, taken.ids))
    Lookup.write(writer, vins, stocks, ids, gone)


_MEMBERS = (
    "vehicle_type",
    "stock",
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
    "year",
    "price",
    "list_price",
    "msrp",
    "mileage",
    "displacement_cc",
    "electric_range_mi",
    "dc_fast_charge",
)
# What only orders and text are made from.
_PASSING = frozenset({"stock", "engine", "list_price", "msrp"})
FILTERED = tuple(member for member in _MEMBERS if member not in _PASSING)
"""The members of a listing that filters and facets look at: each is a column of the snapshot."""

_values = attrgetter(*_MEMBERS)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NEVER = -(2**62)

_AT_ONCE = 5_000
"""Listings that are taken together: columns are filled faster by many values than by one."""


class _Taken(NamedTuple):
    """What is kept of the listings, in the order in which they came. Times are microseconds since 1970."""

    ids: list[str]
    vins: list[Text]
    stocks: list[Text]
    changes: "array[int]"
    updates: "array[int]"
    encoders: dict[str, Encoder[Any]]
    text: TextCollector


def _take(listings: Iterable[Listing], json: DocumentWriter) -> _Taken:
    """Reads the listings once; none of them is needed afterwards."""
    encoders: dict[str, Encoder[Any]] = {member: Encoder() for member in _MEMBERS}
    taken = _Taken([], [], [], array("q"), array("q"), encoders, TextCollector())
    coming = iter(listings)
    while some := list(islice(coming, _AT_ONCE)):
        vehicles = [listing.vehicle for listing in some]
        for listing in some:
            json.add(listing.json)
        taken.ids.extend(vehicle.vehicle_id for vehicle in vehicles)
        taken.vins.extend(vehicle.vin for vehicle in vehicles)
        taken.stocks.extend(vehicle.stock for vehicle in vehicles)
        taken.changes.extend(
            _NEVER if vehicle.changed_at is UNSET else (vehicle.changed_at - _EPOCH) // _MICROSECOND
            for vehicle in vehicles
        )
        taken.updates.extend((vehicle.updated_at - _EPOCH) // _MICROSECOND for vehicle in vehicles)
        types, *others = zip(*map(_values, vehicles), strict=True)
        # A listing without a type is a car wherever types are looked at (2.4).
        encoders["vehicle_type"].extend(given or "car" for given in types)
        for member, values in zip(_MEMBERS[1:], others, strict=True):
            encoders[member].extend(values)
        for vehicle in vehicles:
            taken.text.add(vehicle)
    return taken
