"""One unit by its VIN, stock number or vehicle id, on the lot or remembered (contract, parts 6 and 9). Pure."""

from collections.abc import Iterable, Sequence

from msgspec import UNSET

from dealer_agent.inventory.catalogue.stock import Gone, Text


class _Rows:
    """The rows of each identifier. Rarely are there two of one: these stand apart."""

    __slots__ = ("_all", "_first")

    def __init__(self) -> None:
        self._first: dict[str, int] = {}
        self._all: dict[str, tuple[int, ...]] = {}

    def add(self, identifier: str, row: int) -> None:
        first = self._first.setdefault(identifier, row)
        if first != row:
            self._all[identifier] = (*self._all.get(identifier, (first,)), row)

    def first(self, identifier: str) -> int | None:
        return self._first.get(identifier)

    def every(self, identifier: str) -> tuple[int, ...]:
        row = self._first.get(identifier)
        return () if row is None else self._all.get(identifier, (row,))


class Lookup:
    """Identifiers of the stock, row by row in the default order, and of the units gone.

    VINs are compared upper-cased and stripped, stock numbers without regard to case, vehicle ids as they are.
    """

    __slots__ = ("_gone_ids", "_gone_stocks", "_gone_vins", "_ids", "_stocks", "_vins")

    def __init__(self, stock: Iterable[tuple[str, Text, Text]], gone: Sequence[Gone]) -> None:
        """`stock` has vehicle id, VIN and stock number of each row."""
        self._ids = _Rows()
        self._vins = _Rows()
        self._stocks = _Rows()
        for row, (vehicle_id, vin, number) in enumerate(stock):
            self._ids.add(vehicle_id, row)
            if key := _vin_key(vin):
                self._vins.add(key, row)
            if key := _stock_key(number):
                self._stocks.add(key, row)
        self._gone_ids = {unit.vehicle_id: unit for unit in gone}
        self._gone_vins = {key: unit for unit in gone if (key := _vin_key(unit.vin))}
        self._gone_stocks = {key: unit for unit in gone if (key := _stock_key(unit.stock))}

    def find(self, vin: Text, stock: Text, vehicle_id: Text) -> int | Gone | None:
        """A row, a unit gone, or None: the first identifier that matches decides, VIN, then stock, then vehicle id.

        Of two units with one stock number the newer, which is the first in the default order. A unit gone is found
        only where none on the lot has the same identifier.
        """
        for key, rows, gone in (
            (_vin_key(vin), self._vins, self._gone_vins),
            (_stock_key(stock), self._stocks, self._gone_stocks),
            ("" if vehicle_id is UNSET else vehicle_id, self._ids, self._gone_ids),
        ):
            if key:
                found = rows.first(key)
                if found is not None:
                    return found
                if key in gone:
                    return gone[key]
        return None

    def rows_of_vin(self, vin: str) -> tuple[int, ...]:
        """The rows that have this VIN."""
        return self._vins.every(_vin_key(vin))

    def rows_of_stock(self, stock: str) -> tuple[int, ...]:
        """The rows that have this stock number."""
        return self._stocks.every(_stock_key(stock))


def _vin_key(vin: Text) -> str:
    return "" if vin is UNSET else vin.strip().upper()


def _stock_key(stock: Text) -> str:
    return "" if stock is UNSET else stock.casefold()
