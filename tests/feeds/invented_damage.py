"""Damage that vendors, spreadsheets, people and transfers cause, invented without knowledge of the checks.

`python -m tests.feeds.invented_damage` prints what an import does with each.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import date, timedelta
from functools import cache
from typing import Literal, NamedTuple

from tests.feeds.feed_files import ROOFTOPS, FeedFile, Row, feed_file
from tests.feeds.mutation_results import Result, result_of, stock_of

_RowsChange = Callable[[list[Row]], Sequence[Row]]
_RowChange = Callable[[Row], Row]


class Damage(NamedTuple):
    """A kind of damage, what makes it, and what buyers see if nothing stops it."""

    name: str
    damage: Callable[[FeedFile], bytes]
    wrong: str


@cache
def good_file() -> FeedFile:
    """The stock in vAuto's layout, with status words and with dates in the past of the imports."""
    file = feed_file("vauto")
    file = file.mapped("inventory_date", lambda day: (date.fromisoformat(day) - timedelta(days=270)).isoformat())
    rows = [row | {"Status Code": "Available"} for row in file.rows]
    others = tuple(row | {"Status Code": "Available"} for row in file.others)
    return replace(file, rows=tuple(rows), others=others, header=(), columns=file.columns | {"status": "Status Code"})


def _rows(change: _RowsChange) -> Callable[[FeedFile], bytes]:
    return lambda file: file.with_rows(change([dict(row) for row in file.rows])).data()


def _is_used(row: Row) -> bool:
    return row["New/Used"] != "new"


def _is_new(row: Row) -> bool:
    return not _is_used(row)


def _any(_: Row) -> bool:
    return True


def _some(change: _RowChange, where: Callable[[Row], bool] = _any, most: int = 1000) -> Callable[[FeedFile], bytes]:
    """Changes the first rows of a kind."""

    def changed(rows: list[Row]) -> list[Row]:
        chosen = [number for number, row in enumerate(rows) if where(row)][:most]
        return [row | change(row) if number in chosen else row for number, row in enumerate(rows)]

    return _rows(changed)


def _cell(column: str, value: str | Callable[[str], str]) -> _RowChange:
    return lambda row: {column: value if isinstance(value, str) else value(row[column])}


def _times(factor: float) -> Callable[[str], str]:
    return lambda cell: str(round(int(cell) * factor))


def _grouped(mark: str) -> Callable[[str], str]:
    return lambda cell: f"{int(cell):,}".replace(",", mark)


def _shifted(*columns: str, by: int = 1) -> Callable[[FeedFile], bytes]:
    """Moves columns by some rows, as a sort or an insertion in a part of a spreadsheet does."""

    def moved(rows: list[Row]) -> list[Row]:
        return [row | {name: rows[number - by][name] for name in columns} for number, row in enumerate(rows)]

    return _rows(moved)


def _sorted_alone(column: str) -> Callable[[FeedFile], bytes]:
    def changed(rows: list[Row]) -> list[Row]:
        cells = sorted((row[column] for row in rows), key=int)
        return [row | {column: cell} for row, cell in zip(rows, cells, strict=True)]

    return _rows(changed)


def _filled_down(column: str, start: int, step: int) -> Callable[[FeedFile], bytes]:
    """The cells below one, filled with its value, which grows by `step`."""

    def changed(rows: list[Row]) -> list[Row]:
        first = int(rows[start][column])
        return [
            row if number < start else row | {column: str(first + step * (number - start))}
            for number, row in enumerate(rows)
        ]

    return _rows(changed)


def _swapped(a: str, b: str, where: Callable[[Row], bool] = _any) -> Callable[[FeedFile], bytes]:
    return _some(lambda row: {a: row[b], b: row[a]}, where)


def _added(file: FeedFile, *rows: Row) -> bytes:
    return file.with_rows([*file.rows, *rows]).data()


def _other_dealer(file: FeedFile) -> list[Row]:
    """Rows of cars that another dealer has."""
    swap = str.maketrans("ABCDEFGHJK0123456789", "BCDEFGHJKA1234567890")
    return [
        row | {"VIN": _with_check_digit(row["VIN"][:11] + row["VIN"][11:].translate(swap)), "Stock #": f"X{number:05}"}
        for number, row in enumerate(file.rows)
    ]


_VIN_VALUES = dict(zip("ABCDEFGHJKLMNPRSTUVWXYZ", map(int, "12345678123457923456789"), strict=True)) | {
    digit: int(digit) for digit in "0123456789"
}
_VIN_WEIGHTS = (8, 7, 6, 5, 4, 3, 2, 10, 0, 9, 8, 7, 6, 5, 4, 3, 2)


def _with_check_digit(vin: str) -> str:
    total = sum(_VIN_VALUES[sign] * weight for sign, weight in zip(vin, _VIN_WEIGHTS, strict=True)) % 11
    return vin[:8] + ("X" if total == 10 else str(total)) + vin[9:]


def _copied(**cells: str) -> Callable[[FeedFile], bytes]:
    """A copy of a used car's row with other cells, at the end of the file."""
    columns = {"stock": "Stock #", "price": "Price", "miles": "Odometer", "rooftop": "DealerId", "model": "Model"}

    def damaged(file: FeedFile) -> bytes:
        row = next(row for row in file.rows if _is_used(row))
        return _added(file, row | {columns[name]: cell for name, cell in cells.items()})

    return damaged


def _test_unit(file: FeedFile) -> bytes:
    row = file.others[0] | {"Stock #": "TEST123", "Model": "Test Vehicle", "Description": "TEST - DO NOT USE"}
    return _added(file, row)


def _unquoted(file: FeedFile) -> bytes:
    """Descriptions with commas, in a file whose writer does not quote. The description is before other columns."""
    header = [name for name in file.rows[0] if name != "Description"]
    header.insert(header.index("Price"), "Description")
    lines = [",".join(header)]
    for number, row in enumerate(file.rows):
        extra = "Clean, one owner, " if number % 8 == 0 else ""
        lines.append(",".join(extra + row[name] if name == "Description" else row[name] for name in header))
    return "\n".join(lines).encode()


def _appended_older(file: FeedFile) -> bytes:
    """Yesterday's export below today's, with its header and its prices."""
    old = file.mapped("selling_price", lambda cell: str(int(cell) - 700))
    return file.data() + old.data()


def _french_words(row: Row) -> Row:
    return {
        "New/Used": "Neuf" if _is_new(row) else "Usagé",
        "Fuel": {"gas": "Essence", "electric": "Électrique", "hybrid": "Hybride"}.get(row["Fuel"], row["Fuel"]),
        "Transmission": "Automatique",
        "Certified": "Oui" if row["Certified"] == "Yes" else "Non",
    }


def _old_file(file: FeedFile) -> bytes:
    """The file of three weeks ago: two sold units are in it, three new ones are not, some prices are higher."""
    rows = [
        row | {"Price": str(int(row["Price"]) + 500)} if number % 3 == 0 else row
        for number, row in enumerate(file.rows[3:])
    ]
    return file.with_rows([*rows, *file.others[:2]]).data()


PRICES = (
    Damage(
        "a tenth of the prices in cents",
        _some(_cell("Price", lambda c: f"{c}00"), most=3),
        "a price 100 times too high",
    ),
    Damage(
        "payments per month as prices of new units", _some(_cell("Price", _times(1 / 65)), _is_new), "$800 for a car"
    ),
    Damage("payments per month of two units", _some(_cell("Price", _times(1 / 65)), _is_used, 2), "$450 for a car"),
    Damage("lease texts as prices", _some(_cell("Price", "$299/mo"), _is_new), "$299 for a new car"),
    Damage("lease totals as prices", _some(_cell("Price", "10764"), _is_new, 5), "36 lease payments as the price"),
    Damage("99999 where a price is to be asked", _some(_cell("Price", "99999"), _is_new, 2), "$99,999 for a car"),
    Damage("1 where a price is to be asked", _some(_cell("Price", "1"), _is_new, 3), "$1 for a car"),
    Damage(
        "MSRP as the price of new units",
        _some(lambda row: {"Price": row["MSRP"]}, _is_new),
        "no discount, or a price below the true one",
    ),
    Damage("wholesale prices of used units", _some(_cell("Price", _times(0.87)), _is_used), "prices 13 % too low"),
    Damage("wholesale prices of three units", _some(_cell("Price", _times(0.8)), _is_used, 3), "prices 20 % too low"),
    Damage("Canadian dollars without a sign", _some(_cell("Price", _times(1.37))), "prices 37 % too high"),
    Damage("Canadian dollars with CAD", _some(_cell("Price", lambda c: f"{_times(1.37)(c)} CAD")), "37 % too high"),
    Damage("euros", _some(_cell("Price", lambda c: f"{_grouped('.')(c)},00 €")), "another currency"),
    Damage("points as marks of thousands", _some(_cell("Price", _grouped("."))), "$32 for a car"),
    Damage("points as marks of thousands, two units", _some(_cell("Price", _grouped(".")), most=2), "$32 for a car"),
    Damage(
        "all rebates taken off new units",
        _some(_cell("Price", lambda c: str(int(c) - 7500)), _is_new),
        "a price that few customers get",
    ),
    Damage("down payments as prices", _some(_cell("Price", "1995"), _is_used, 4), "$1,995 for a car"),
    Damage(
        "the last digit of a price lost", _some(_cell("Price", lambda c: c[:-1]), _is_used, 4), "a tenth of the price"
    ),
    Damage("the first digit of a price lost", _some(_cell("Price", lambda c: c[1:]), _is_used, 3), "$20,000 too low"),
    Damage("the price column sorted alone", _sorted_alone("Price"), "each car has another car's price"),
    Damage("the price column one row lower", _shifted("Price"), "each car has another car's price"),
    Damage("a price filled down", _filled_down("Price", 20, 0), "13 cars with one price"),
    Damage("a price filled down as a series", _filled_down("Price", 20, 1), "13 cars with wrong prices"),
    Damage(
        "two prices in a cell",
        _some(_cell("Price", lambda c: f"{c} (was {_times(1.1)(c)})"), _is_used),
        "a wrong price",
    ),
    Damage(
        "two digits of one price swapped",
        _some(_cell("Price", lambda c: c[1] + c[0] + c[2:]), lambda row: row["Price"][:2] in {"18", "28"}, 1),
        "$82,000 for a car of $28,000",
    ),
    Damage("negative prices", _some(_cell("Price", lambda c: f"-{c}"), most=5), "no price, or a wrong one"),
    Damage("the model year as price", _some(lambda row: {"Price": row["Year"]}, most=3), "$2,024 for a car"),
    Damage("the mileage as price", _some(lambda row: {"Price": row["Odometer"]}, _is_used, 4), "a random price"),
)

MILEAGES = (
    Damage("kilometres in all rows", _some(_cell("Odometer", _times(1.609)), _is_used), "61 % too many miles"),
    Damage("kilometres of three units", _some(_cell("Odometer", _times(1.609)), _is_used, 3), "61 % too many miles"),
    Damage("thousands of miles", _some(_cell("Odometer", _times(0.001)), _is_used), "a used car with 28 miles"),
    Damage("thousands of miles, three units", _some(_cell("Odometer", _times(0.001)), _is_used, 3), "28 miles"),
    Damage("no mileage entered yet: 1", _some(_cell("Odometer", "1"), _is_used, 4), "a used car with 1 mile"),
    Damage(
        "123456 miles in every new row", _some(_cell("Odometer", "123456"), _is_new, 2), "a new car with 123,456 miles"
    ),
    Damage("tenths of miles", _some(_cell("Odometer", lambda c: f"{c}0"), _is_used, 3), "ten times the miles"),
    Damage("price and mileage swapped", _swapped("Price", "Odometer", _is_used), "a random price and mileage"),
    Damage("mileage and stock date one row lower", _shifted("Odometer", "Inventory Date"), "another car's mileage"),
    Damage("a mileage filled down", _filled_down("Odometer", 20, 0), "13 cars with one mileage"),
)

STATUSES = (
    Damage("a code for sold that is new: SLD", _some(_cell("Status Code", "SLD"), most=3), "sold cars"),
    Damage(
        "wholesale and auction units", _some(_cell("Status Code", "Wholesale"), _is_used, 3), "cars not for the public"
    ),
    Damage("sold in French", _some(_cell("Status Code", "Vendu"), most=3), "sold cars"),
    Damage("sold in the stock number", _some(_cell("Stock #", lambda c: f"{c}-SOLD"), most=2), "sold cars"),
    Damage("sold in the model", _some(_cell("Model", lambda c: f"{c} **SOLD**"), most=2), "sold cars"),
    Damage(
        "sold in the description", _some(_cell("Description", "SOLD! Thank you, Smith family!"), most=2), "sold cars"
    ),
    Damage("loaner units", _some(_cell("Status Code", "Service Loaner"), most=2), "cars that are not for sale now"),
    Damage("an employee's units", _some(_cell("Status Code", "Do Not Advertise"), most=2), "cars not for sale"),
)

IDENTITIES = (
    Damage(
        "a digit of a VIN wrong", _some(_cell("VIN", lambda c: c[:-1] + str(9 - int(c[-1]))), most=2), "a wrong VIN"
    ),
    Damage("the last 8 of the VINs", _some(_cell("VIN", lambda c: c[-8:])), "no true VIN"),
    Damage(
        "letters O and I in VINs", _some(_cell("VIN", lambda c: c.replace("0", "O").replace("1", "I"))), "wrong VINs"
    ),
    Damage("placeholder VINs", _some(_cell("VIN", "11111111111111111"), _is_new, 3), "cars merged under one false VIN"),
    Damage("the VIN column one row lower", _shifted("VIN"), "each VIN has another car's data"),
    Damage("VIN and stock number one row lower", _shifted("VIN", "Stock #"), "each VIN has another car's data"),
    Damage("a row copied for another car", _copied(model="Legacy", stock="U99901", price="19994"), "two cars in one"),
    Damage("one car at both rooftops", _copied(rooftop=ROOFTOPS[0], price="30743"), "one of two prices and places"),
    Damage(
        "a trade-in with a wrong year", _some(_cell("Year", lambda c: str(int(c) - 10)), _is_used, 2), "a wrong year"
    ),
    Damage("make and model swapped", _swapped("Make", "Model"), "cars that nobody finds"),
    Damage("the year of the stock date", _some(_cell("Year", "2026"), _is_used), "used cars made younger"),
    Damage("a test unit", _test_unit, "a car that does not exist"),
    Damage("the condition of all rows is new", _some(_cell("New/Used", "new")), "used cars sold as new"),
    Damage("three used units as new", _some(_cell("New/Used", "new"), _is_used, 3), "used cars sold as new"),
    Damage("all used units certified", _some(_cell("Certified", "Yes"), _is_used), "a warranty that is not given"),
)

PLACES = (
    Damage(
        "rows of a dealer of another group",
        lambda file: _added(file, *(r | {"DealerId": "Lakeside Kia"} for r in _other_dealer(file)[:5])),
        "another dealer's cars",
    ),
    Damage("the file of another dealer", lambda f: f.with_rows(_other_dealer(f)).data(), "another dealer's cars"),
    Damage("all units at one rooftop", _some(_cell("DealerId", ROOFTOPS[0])), "the wrong place for a visit"),
    Damage(
        "the rooftops swapped",
        _some(_cell("DealerId", lambda c: ROOFTOPS[c == ROOFTOPS[0]])),
        "the wrong place for a visit",
    ),
    Damage("a file of three weeks ago", _old_file, "sold cars and old prices"),
    Damage("only the rows that changed", lambda f: f.with_rows(f.rows[:5]).data(), "most cars missing"),
    Damage("only new units", lambda f: f.with_rows([r for r in f.rows if _is_new(r)]).data(), "used cars missing"),
    Damage("yesterday's export below today's", _appended_older, "yesterday's prices"),
    Damage("commas without quotes", _unquoted, "cells in other columns"),
    Damage("French words", _some(_french_words), "no condition, no fuel"),
)

_COMING_SOON = "https://images.example.com/coming_soon.jpg"
_LOGO = "https://images.example.com/dealer-logo.png"

CONTENT = (
    Damage("a placeholder photo", _some(_cell("Photos", _COMING_SOON), most=8), "a picture of no car"),
    Damage(
        "the first car's photos for all",
        _rows(lambda rows: [r | {"Photos": rows[0]["Photos"]} for r in rows]),
        "a Tacoma",
    ),
    Damage("the logo as first photo", _some(_cell("Photos", lambda c: f"{_LOGO}|{c}")), "a logo in place of the car"),
    Damage("photos one row lower", _shifted("Photos"), "another car's photos"),
    Damage("photos on the vendor's own network", _some(_cell("Photos", "http://10.0.0.7/a.jpg")), "no photo"),
    Damage("descriptions one row lower", _shifted("Description"), "another car's description"),
    Damage("a template with its marks", _some(_cell("Description", "{{year}} {{make}} {{model}}")), "marks"),
    Damage(
        "UTF-8 read as Windows-1252 and written again",
        lambda f: f.text().encode().decode("cp1252", "replace").encode(),
        "TrÃ¨s propre",
    ),
    Damage("escaped HTML", _some(_cell("Description", lambda c: f"&lt;p&gt;{c}&lt;br&gt;")), "marks"),
    Damage(
        "a note for the staff", _some(_cell("Description", "Floor 21,500, frame damage, send to auction")), "a secret"
    ),
    Damage("another price in descriptions", _some(_cell("Description", "Now only $9,999!")), "two prices"),
    Damage("doors as trim", _some(_cell("Series", "4dr")), "no trim"),
    Damage("trims one row lower", _shifted("Series"), "another car's trim"),
    Damage("litres per 100 km as MPG", _some(_cell("City MPG", lambda c: c and str(round(235 / int(c))))), "8 MPG"),
    Damage("links to the home page", _some(_cell("Vehicle Detail Link", "https://www.example.com/")), "not the car"),
    Damage("links one row lower", _shifted("Vehicle Detail Link"), "another car's page"),
    Damage("links of the vendor's test site", _some(_cell("Vehicle Detail Link", "http://localhost/x")), "no page"),
    Damage("colours swapped", _swapped("Colour", "Interior Color"), "the wrong colour"),
    Damage("stock dates of 1900", _some(_cell("Inventory Date", "1900-01-00")), "no date"),
    Damage("stock dates of the export", _some(_cell("Inventory Date", "2026-03-02")), "old units as new arrivals"),
    Damage("all fuels are gas", _some(_cell("Fuel", "gas")), "electric cars as gas cars"),
)

DAMAGE = (*PRICES, *MILEAGES, *STATUSES, *IDENTITIES, *PLACES, *CONTENT)


Seen = Literal["refused", "held", "warned", "as meant", "unseen"]

EXPECTED: dict[str, tuple[Seen, Seen]] = {
    "a tenth of the prices in cents": ("held", "refused"),
    "payments per month as prices of new units": ("refused", "refused"),
    "payments per month of two units": ("held", "refused"),
    "lease texts as prices": ("refused", "refused"),
    "lease totals as prices": ("held", "refused"),
    "99999 where a price is to be asked": ("held", "held"),
    "1 where a price is to be asked": ("held", "refused"),
    "MSRP as the price of new units": ("unseen", "unseen"),
    "wholesale prices of used units": ("unseen", "warned"),
    "wholesale prices of three units": ("unseen", "unseen"),
    "Canadian dollars without a sign": ("unseen", "warned"),
    "Canadian dollars with CAD": ("refused", "refused"),
    "euros": ("refused", "refused"),
    "points as marks of thousands": ("as meant", "as meant"),
    "points as marks of thousands, two units": ("as meant", "as meant"),
    "all rebates taken off new units": ("unseen", "warned"),
    "down payments as prices": ("held", "refused"),
    "the last digit of a price lost": ("held", "refused"),
    "the first digit of a price lost": ("held", "refused"),
    "the price column sorted alone": ("held", "held"),
    "the price column one row lower": ("held", "refused"),
    "a price filled down": ("unseen", "warned"),
    "a price filled down as a series": ("warned", "warned"),
    "two prices in a cell": ("refused", "refused"),
    "two digits of one price swapped": ("unseen", "held"),
    "negative prices": ("held", "refused"),
    "the model year as price": ("held", "refused"),
    "the mileage as price": ("held", "held"),
    "kilometres in all rows": ("unseen", "warned"),
    "kilometres of three units": ("unseen", "warned"),
    "thousands of miles": ("refused", "refused"),
    "thousands of miles, three units": ("held", "held"),
    "no mileage entered yet: 1": ("held", "held"),
    "123456 miles in every new row": ("held", "held"),
    "tenths of miles": ("held", "held"),
    "price and mileage swapped": ("unseen", "refused"),
    "mileage and stock date one row lower": ("refused", "refused"),
    "a mileage filled down": ("held", "held"),
    "a code for sold that is new: SLD": ("as meant", "as meant"),
    "wholesale and auction units": ("as meant", "as meant"),
    "sold in French": ("held", "held"),
    "sold in the stock number": ("held", "held"),
    "sold in the model": ("held", "refused"),
    "sold in the description": ("held", "held"),
    "loaner units": ("held", "held"),
    "an employee's units": ("held", "held"),
    "a digit of a VIN wrong": ("unseen", "unseen"),
    "the last 8 of the VINs": ("refused", "refused"),
    "letters O and I in VINs": ("refused", "refused"),
    "placeholder VINs": ("held", "held"),
    "the VIN column one row lower": ("warned", "refused"),
    "VIN and stock number one row lower": ("warned", "refused"),
    "a row copied for another car": ("held", "held"),
    "one car at both rooftops": ("held", "held"),
    "a trade-in with a wrong year": ("unseen", "refused"),
    "make and model swapped": ("warned", "refused"),
    "the year of the stock date": ("held", "refused"),
    "a test unit": ("held", "held"),
    "the condition of all rows is new": ("refused", "refused"),
    "three used units as new": ("held", "refused"),
    "all used units certified": ("unseen", "warned"),
    "rows of a dealer of another group": ("warned", "warned"),
    "the file of another dealer": ("warned", "refused"),
    "all units at one rooftop": ("warned", "refused"),
    "the rooftops swapped": ("unseen", "warned"),
    "a file of three weeks ago": ("unseen", "unseen"),
    "only the rows that changed": ("unseen", "refused"),
    "only new units": ("unseen", "refused"),
    "yesterday's export below today's": ("refused", "refused"),
    "commas without quotes": ("refused", "refused"),
    "French words": ("refused", "refused"),
    "a placeholder photo": ("unseen", "refused"),
    "the first car's photos for all": ("warned", "warned"),
    "the logo as first photo": ("warned", "warned"),
    "photos one row lower": ("warned", "refused"),
    "photos on the vendor's own network": ("warned", "refused"),
    "descriptions one row lower": ("warned", "refused"),
    "a template with its marks": ("warned", "warned"),
    "UTF-8 read as Windows-1252 and written again": ("warned", "warned"),
    "escaped HTML": ("as meant", "as meant"),
    "a note for the staff": ("refused", "refused"),
    "another price in descriptions": ("unseen", "unseen"),
    "doors as trim": ("unseen", "warned"),
    "trims one row lower": ("unseen", "warned"),
    "litres per 100 km as MPG": ("warned", "warned"),
    "links to the home page": ("warned", "warned"),
    "links one row lower": ("warned", "refused"),
    "links of the vendor's test site": ("warned", "warned"),
    "colours swapped": ("unseen", "warned"),
    "stock dates of 1900": ("warned", "warned"),
    "stock dates of the export": ("unseen", "warned"),
    "all fuels are gas": ("unseen", "warned"),
}
"""The result of the first import, and of an import over the good stock.

A damage that is `unseen` is published, and nobody is told. One that is `as meant` does no harm: the reader understands
it.
"""


def invented_table() -> str:
    """The table of the invented damage in Markdown."""
    rows = [f"| {name} | {first} | {later} |" for name, (first, later) in EXPECTED.items()]
    return "\n".join(("| Damage | First import | Later import |", "|---|---|---|", *rows))


def all_results() -> Iterator[tuple[Damage, Result, Result]]:
    """Each damage with its results: of a first import, and of an import over the good stock."""
    good = good_file()
    with stock_of(None) as empty, stock_of(good.data()) as over:
        for each in DAMAGE:
            data = each.damage(good)
            yield each, result_of(empty, data), result_of(over, data)


if __name__ == "__main__":
    for damage, *both in all_results():
        print(f"{damage.name} (buyers see: {damage.wrong})")
        for when, result in zip(("first", "later"), both, strict=True):
            print(f"  {when}: {result.outcome} {', '.join(finding.sentence for finding in result.findings)}")
