"""Feeds with implausible units, and good feeds in an unusual form: what an import must do with each.

`mutation_results` imports them.
"""

import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import openpyxl
from tests.feeds.feed_files import FeedFile, Row
from tests.feeds.feed_mutations import Expected, JsonMutation, Mutation

_AT = 5


def one(member: str, change: Callable[[str], str] | str) -> Callable[[FeedFile], bytes]:
    """One unit with another value."""

    def damage(file: FeedFile) -> bytes:
        column = file.columns[member]
        text = change if isinstance(change, str) else change(file.rows[_AT][column])
        return _with_row(file, file.rows[_AT] | {column: text}).data()

    return damage


def _with_row(file: FeedFile, *rows: Row) -> FeedFile:
    return file.with_rows([*file.rows[:_AT], *rows, *file.rows[_AT + 1 :]])


def _some_prices(count: int, change: Callable[[str], str]) -> Callable[[FeedFile], bytes]:
    def damage(file: FeedFile) -> bytes:
        column = file.columns["selling_price"]
        rows = [row | {column: change(row[column])} if n < count else row for n, row in enumerate(file.rows)]
        return file.with_rows(rows).data()

    return damage


def _all_prices(change: Callable[[str], str]) -> Callable[[FeedFile], bytes]:
    return lambda file: file.mapped("selling_price", lambda text: change(text) if text else "").data()


def with_status(file: FeedFile, words: Callable[[int], str]) -> FeedFile | None:
    """The file with a column for the status. None for a layout that has no such column."""
    names = {"canonical": "status", "vauto": "Status Code", "google": "availability", "meta": "availability"}
    name = names.get(file.layout, "Status" if file.has_header else None)
    if name is None:
        return None
    rows = tuple({**row, name: words(n)} for n, row in enumerate(file.rows))
    return replace(file, rows=rows, header=())


def _status(word: str) -> Callable[[FeedFile], bytes]:
    def damage(file: FeedFile) -> bytes:
        changed = with_status(file, lambda n: word if n == _AT else "available")
        assert changed is not None, "a layout without a header has no column for the status"
        return changed.data()

    return damage


def _twice(**members: str) -> Callable[[FeedFile], bytes]:
    def damage(file: FeedFile) -> bytes:
        row = file.rows[_AT]
        other = row | {file.columns[member]: value for member, value in members.items()}
        return file.with_rows([*file.rows, other]).data()

    return damage


def _cheaper(file: FeedFile) -> bytes:
    price = file.columns["selling_price"]
    row = file.rows[_AT]
    return file.with_rows([*file.rows, row | {price: str(int(row[price]) - 3_000)}]).data()


def _one_cell_more(file: FeedFile) -> bytes:
    """A comma too many before the VIN of one row, so that all its cells move to the right."""
    header = file.header or tuple(file.rows[0])
    lines = file.text().splitlines(keepends=True)
    number = _AT + file.has_header
    cells = [file.rows[_AT][name] for name in header]
    at = header.index(file.columns["vin"])
    shifted = [*cells[:at], "", *cells[at:]]
    lines[number] = ",".join(f'"{cell}"' for cell in shifted) + "\r\n"
    return "".join(lines).encode()


def _other_dealer(file: FeedFile) -> bytes:
    """The feed with the units of another dealer."""
    columns = file.columns
    others = [
        row
        | {
            columns["rooftop_hints"]: "Elsewhere Motors",
            columns["vin"]: _other_vin(row[columns["vin"]]),
            columns["stock"]: f"E{n}",
        }
        for n, row in enumerate(file.rows[:15])
    ]
    return file.with_rows([*file.rows, *others]).data()


def _other_vin(vin: str) -> str:
    return vin[:-1] + ("1" if vin[-1] != "1" else "2")


def _many_new(file: FeedFile) -> bytes:
    columns = file.columns
    others = [
        row | {columns["vin"]: _other_vin(row[columns["vin"]]), columns["stock"]: f"N{n}"}
        for n, row in enumerate(file.rows[:25])
    ]
    return file.with_rows([*file.rows, *others]).data()


UNITS = (
    Mutation("one price is 1", one("selling_price", "1"), "held"),
    Mutation("one price is a monthly payment", one("selling_price", "199"), "held"),
    Mutation("one price times 100", one("selling_price", lambda text: f"{text}00"), "held"),
    Mutation("one price is negative", one("selling_price", "-28995"), "held"),
    Mutation("one price is 0", one("selling_price", "0"), "held"),
    Mutation("one price is in Canadian dollars", one("selling_price", "CAD 28995"), "held"),
    Mutation("nine prices are 1", _some_prices(9, lambda _: "1"), "refused"),
    Mutation("nine prices are 199", _some_prices(9, lambda _: "199"), "refused"),
    Mutation("nine prices times 100", _some_prices(9, lambda text: f"{text}00"), "refused"),
    Mutation("eight prices in cents", _some_prices(8, lambda text: f"{text}00"), "refused"),
    Mutation("one mileage is 999999", one("mileage", "999999"), "held"),
    Mutation("one mileage is negative", one("mileage", "-41200"), "held"),
    Mutation("one VIN is in scientific notation", one("vin", "1.23E+16"), "held"),
    Mutation("one model says that the unit is sold", one("model", lambda text: f"{text} *SOLD*"), "held"),
    Mutation("one stock number says that the unit is sold", one("stock", lambda text: f"{text} SOLD"), "held"),
    Mutation("one description begins with SOLD", one("description", lambda text: f"*SOLD* {text}"), "held"),
    Mutation("one row is there twice, with a lower price", _cheaper, "held"),
    Mutation("one row is there twice, with another mileage", _twice(mileage="7"), "held"),
    Mutation("one row has a comma too many", _one_cell_more, "held"),
    Mutation("the units of another dealer are in the file", _other_dealer, "warned"),
    Mutation("the file has many new units", _many_new, "refused"),
)
"""Damaged units in a feed whose stock is known."""

_STATUS_WORDS: dict[str, Expected] = {
    "Frontline?": "held",
    "RTL": "held",
    "0": "held",
    "Sold Retail": "removed",
    "Sold - Pending Delivery": "removed",
    "SLD": "removed",
    "Retailed": "removed",
    "Out for Auction": "removed",
}

STATUSES = tuple(
    Mutation(f"the status of a unit is {word}", _status(word), expected, True)
    for word, expected in _STATUS_WORDS.items()
)
"""Words of the status. The unit is held back, or it is not for sale."""

FIRST_UNITS = (
    Mutation("first import: one price is 1", one("selling_price", "1"), "held"),
    Mutation("first import: one price is a monthly payment", one("selling_price", "199"), "held"),
    Mutation("first import: one price times 100", one("selling_price", lambda text: f"{text}00"), "held"),
    Mutation("first import: one price is negative", one("selling_price", "-28995"), "held"),
    Mutation("first import: one price is in Canadian dollars", one("selling_price", "CAD 28995"), "held"),
    Mutation("first import: one mileage is 999999", one("mileage", "999999"), "held"),
    Mutation("first import: one row has a comma too many", _one_cell_more, "held"),
    Mutation("first import: one row is there twice, with a lower price", _cheaper, "held"),
    Mutation("first import: prices in Canadian dollars", _all_prices(lambda text: f"CAD {text}"), "refused"),
)


def _grouped(mark: str) -> Callable[[str], str]:
    return lambda text: f"{int(text):,}".replace(",", mark)


def _above(lines: str) -> Callable[[FeedFile], bytes]:
    return lambda file: lines.encode() + file.data()


def _zipped(*notes: str) -> Callable[[FeedFile], bytes]:
    def pack(file: FeedFile) -> bytes:
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w") as archive:
            for name in notes:
                archive.writestr(name, "The export of the inventory.")
            archive.writestr("export.csv", file.data())
        return made.getvalue()

    return pack


def _workbook(file: FeedFile) -> bytes:
    book = openpyxl.Workbook()
    notes = book.active
    assert notes is not None
    notes.append(("Inventory of today",))
    sheet = book.create_sheet()
    header = file.header or tuple(file.rows[0])
    sheet.append(header)
    for row in file.rows:
        sheet.append([row[name] for name in header])
    made = io.BytesIO()
    book.save(made)
    return made.getvalue()


def _without_scheme(file: FeedFile) -> bytes:
    return file.mapped("photos", lambda text: text.replace("https://", "//")).data()


GOOD_FORMS = (
    Mutation("a line sep=, above the header", _above("sep=,\r\n"), "harmless", True),
    Mutation("a line sep=; above the header", lambda f: b"sep=;\r\n" + f.separated_by(";").data(), "harmless", True),
    Mutation("title lines above the header", _above("Inventory\r\nas of today,,\r\n\r\n"), "harmless", True),
    Mutation("a ZIP archive with a readme", _zipped("README.txt", "terms.pdf"), "harmless"),
    Mutation("a workbook with a second sheet", _workbook, "harmless", True),
    Mutation("prices are written as $54932*", _all_prices(lambda text: f"${text}*"), "harmless"),
    Mutation("prices are written as 54 932", _all_prices(_grouped(" ")), "harmless"),
    Mutation("prices are written as 54.932", _all_prices(_grouped(".")), "harmless"),
    Mutation("prices are written as 54932,00", _all_prices(lambda text: f"{text},00"), "harmless"),
    Mutation("prices are written as 54.932,00", _all_prices(lambda text: f"{_grouped('.')(text)},00"), "harmless"),
    Mutation("addresses of photos begin with //", _without_scheme, "harmless"),
)
"""Good files. The stock stays the same."""

OTHER_FORMS: tuple[tuple[str, str, Callable[[str], str]], ...] = (
    ("models in capitals", "model", str.upper),
    ("mileages are TMU in some rows", "mileage", lambda text: "TMU" if text.startswith("9") else text),
)
"""Good files that change facts: the member, and its change."""


def _first_record(change: Callable[[dict[str, Any]], None]) -> Callable[[list[dict[str, Any]]], bytes]:
    def damage(records: list[dict[str, Any]]) -> bytes:
        change(records[_AT])
        return json.dumps(records).encode()

    return damage


def _price(record: dict[str, Any], value: object) -> None:
    holder = record["offers"] if isinstance(record.get("offers"), dict) else record
    holder[next(name for name in ("price", "internetPrice") if name in holder)] = value


JSON_UNITS = (
    JsonMutation("JSON: one price is 1", _first_record(lambda record: _price(record, 1)), "held"),
    JsonMutation("JSON: one price is a monthly payment", _first_record(lambda record: _price(record, "199")), "held"),
    JsonMutation("JSON: one price is negative", _first_record(lambda record: _price(record, -28995)), "held"),
    JsonMutation(
        "JSON: one model says that the unit is sold",
        _first_record(lambda record: record.update(model=f"{record['model']} *SOLD*")),
        "held",
    ),
)

EXPECTED: dict[str, Expected] = {each.name: each.expected for each in (*UNITS, *STATUSES, *FIRST_UNITS, *GOOD_FORMS)}
EXPECTED |= {each.name: each.expected for each in JSON_UNITS}
