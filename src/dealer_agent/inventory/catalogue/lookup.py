"""The lookup of listings and removed units by identifier (docs/protocol.md#inventory-vehicle). Pure."""

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, UnsetType

from dealer_agent.inventory.catalogue.flat_arrays import FlatArrays, FlatWriter
from dealer_agent.inventory.catalogue.flat_tables import Documents, DocumentWriter, Identifiers
from dealer_agent.inventory.listing import RemovedUnit

Text = str | UnsetType

_GONE = msgspec.json.Decoder(RemovedUnit)


class Lookup:
    """The identifiers of the stock and of the removed units.

    VINs are compared upper-cased and stripped, stock numbers case-insensitively, vehicle ids as they are.
    """

    __slots__ = ("_gone", "_gone_units", "_here")

    def __init__(self, flat: FlatArrays) -> None:
        self._here = tuple(Identifiers(flat, f"here.{name}") for name in _KEYS)
        self._gone = tuple(Identifiers(flat, f"gone.{name}") for name in _KEYS)
        self._gone_units = Documents(flat, "gone")

    @staticmethod
    def write(
        writer: FlatWriter,
        vins: Sequence[Text],
        stocks: Sequence[Text],
        ids: Sequence[str],
        gone: Sequence[RemovedUnit],
    ) -> None:
        """Writes the identifiers of each row and the removed units. Of equal identifiers, the last is found."""
        last_first = gone[::-1]
        documents = DocumentWriter(writer, "gone")
        for unit in last_first:
            documents.add(msgspec.json.encode(unit))
        documents.finish()
        removed = ([u.vin for u in last_first], [u.stock for u in last_first], [u.vehicle_id for u in last_first])
        for where, columns in (("here", (vins, stocks, ids)), ("gone", removed)):
            for (name, key), identifiers in zip(_KEYS.items(), columns, strict=True):
                Identifiers.write(writer, f"{where}.{name}", list(map(key, identifiers)))

    def find(self, vin: Text, stock: Text, vehicle_id: Text) -> int | RemovedUnit | None:
        """A row, a removed unit, or None. The first identifier that matches decides: VIN, then stock, then vehicle id.

        If two units have the same stock number, the newer one is found: it is the first in the default order. A removed
        unit is found only if no unit in stock has the same identifier.
        """
        keys = (_vin_key(vin), _stock_key(stock), _id_key(vehicle_id))
        for key, here, gone in zip(keys, self._here, self._gone, strict=True):
            if key:
                if rows := here.all(key):
                    return rows[0]
                if rows := gone.all(key):
                    return _GONE.decode(self._gone_units.having(rows[:1])[0])
        return None

    def rows_of_vin(self, vin: str) -> list[int]:
        """The rows with this VIN."""
        return self._here[0].all(_vin_key(vin))

    def rows_of_stock(self, stock: str) -> list[int]:
        """The rows with this stock number."""
        return self._here[1].all(_stock_key(stock))


def _vin_key(vin: Text) -> str:
    return "" if vin is UNSET else vin.strip().upper()


def _stock_key(stock: Text) -> str:
    return "" if stock is UNSET else stock.casefold()


def _id_key(vehicle_id: Text) -> str:
    return "" if vehicle_id is UNSET else vehicle_id


_KEYS = {"vin": _vin_key, "stock": _stock_key, "id": _id_key}
