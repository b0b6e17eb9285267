"""Damaged feeds: what was done to each, and what an import must do with it.

`mutation_results` imports them.
"""

import json
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from tests.feeds.feed_files import ROOFTOPS, FeedFile, Row

Expected = Literal["refused", "held", "removed", "warned", "told", "harmless"]
"""`removed`: the unit is not for sale. `told`: refused, held or warned, by the columns of the layout."""


class Mutation(NamedTuple):
    """One way to damage a feed. `named_columns`: it changes a header, which a layout without one does not have."""

    name: str
    damage: Callable[[FeedFile], bytes]
    expected: Expected
    named_columns: bool = False


class JsonMutation(NamedTuple):
    """One way to damage the records of a JSON feed."""

    name: str
    damage: Callable[[list[dict[str, Any]]], bytes]
    expected: Expected


def _times(factor: float) -> Callable[[str], str]:
    return lambda text: str(round(float(text) * factor)) if text else ""


def _price(change: Callable[[str], str]) -> Callable[[FeedFile], bytes]:
    return lambda file: file.mapped("selling_price", change).data()


def _lines(file: FeedFile) -> list[str]:
    """The records of the file. No cell of the generated feeds has a line end."""
    return file.text().splitlines(keepends=True)


def _first_lines(share: float) -> Callable[[FeedFile], bytes]:
    def cut(file: FeedFile) -> bytes:
        lines = _lines(file)
        return "".join(lines[: round(len(lines) * share)]).encode()

    return cut


def _first_bytes(share: float) -> Callable[[FeedFile], bytes]:
    def cut(file: FeedFile) -> bytes:
        data = file.data()
        return data[: int(len(data) * share)]

    return cut


def _unquoted(file: FeedFile) -> str:
    """The file as TAB-separated text without quotes."""
    header = file.header or tuple(file.rows[0])
    rows = [header] if file.has_header else []
    rows += [tuple(row[name] for name in header) for row in file.rows]
    return "".join("\t".join(cells) + "\n" for cells in rows)


def _half_a_last_row(file: FeedFile) -> bytes:
    *before, last = _unquoted(file).splitlines(keepends=True)
    cells = last.split("\t")
    return ("".join(before) + "\t".join(cells[: len(cells) // 2])).encode()


def _rotated(file: FeedFile, member: str) -> bytes:
    """Each unit gets the value of the unit before it."""
    column = file.columns[member]
    values = [row[column] for row in file.rows]
    return file.with_rows([row | {column: values[n - 1]} for n, row in enumerate(file.rows)]).data()


def _one_row(file: FeedFile, member: str, change: Callable[[str], str]) -> bytes:
    first = file.rows[5]
    column = file.columns[member]
    return file.with_rows([*file.rows[:5], first | {column: change(first[column])}, *file.rows[6:]]).data()


def _rooftop(file: FeedFile, keep: Callable[[str], bool]) -> bytes:
    return file.with_rows([row for row in file.rows if keep(row[file.columns["rooftop_hints"]])]).data()


def _shifted(file: FeedFile) -> bytes:
    """All cells but the first three move to the left, below an unchanged header."""
    header = file.header or tuple(file.rows[0])

    def shift(row: Row) -> Row:
        cells = [row[name] for name in header]
        return dict(zip(header, [*cells[:3], *cells[4:], ""], strict=True))

    return file.with_rows(list(map(shift, file.rows))).data()


def _replaced(file: FeedFile, share: float) -> bytes:
    kept = file.rows[: round(len(file.rows) * (1 - share))]
    others = [row | {file.columns["vin"]: _other_vin(row[file.columns["vin"]])} for row in file.rows[len(kept) :]]
    renamed = [row | {file.columns["stock"]: f"Z{n}"} for n, row in enumerate(others)]
    return file.with_rows([*kept, *renamed]).data()


def _other_vin(vin: str) -> str:
    return vin[:-1] + ("1" if vin[-1] != "1" else "2")


def _twice_encoded(file: FeedFile) -> bytes:
    return file.data().decode("cp1252", "replace").encode()


def _stray_byte(file: FeedFile) -> bytes:
    data = file.data()
    at = data.index("Très".encode(), len(data) // 2)
    return data[:at] + "Très".encode("cp1252") + data[at + len("Très".encode()) :]


def _renamed(member: str) -> Callable[[FeedFile], bytes]:
    return lambda file: file.named({member: "Feld 7"}).data()


def _dropped(member: str) -> Callable[[FeedFile], bytes]:
    return lambda file: file.without(member).data()


def _swapped(member: str, other: str) -> Callable[[FeedFile], bytes]:
    return lambda file: file.swapped(member, other).data()


def _mapped(member: str, change: Callable[[str], str]) -> Callable[[FeedFile], bytes]:
    return lambda file: file.mapped(member, change).data()


DELIMITED_MUTATIONS: tuple[Mutation, ...] = (
    Mutation("the price column is renamed", _renamed("selling_price"), "refused", True),
    Mutation("the VIN column is renamed", _renamed("vin"), "refused", True),
    Mutation("the column of stock numbers is renamed", _renamed("stock"), "refused", True),
    Mutation("the year column is renamed", _renamed("year"), "refused", True),
    Mutation("the column of photos is renamed", _renamed("photos"), "refused", True),
    Mutation("the column of colours is renamed", _renamed("exterior_color"), "warned", True),
    Mutation("the price column is dropped", _dropped("selling_price"), "refused", True),
    Mutation("the VIN column is dropped", _dropped("vin"), "refused", True),
    Mutation("the make column is dropped", _dropped("make"), "refused", True),
    Mutation("the model column is dropped", _dropped("model"), "refused", True),
    Mutation("the mileage column is dropped", _dropped("mileage"), "refused", True),
    Mutation("the condition column is dropped", _dropped("condition"), "refused", True),
    Mutation("the column of rooftops is dropped", _dropped("rooftop_hints"), "refused", True),
    Mutation("the description column is dropped", _dropped("description"), "warned", True),
    Mutation("prices times 10", _price(_times(10)), "refused"),
    Mutation("prices times 100", _price(_times(100)), "refused"),
    Mutation("prices divided by 10", _price(_times(0.1)), "refused"),
    Mutation("prices times 1.1", _price(_times(1.1)), "warned"),
    Mutation("prices are 0", _price(lambda _: "0"), "refused"),
    Mutation("prices are empty", _price(lambda _: ""), "refused"),
    Mutation("prices are the word Call", _price(lambda _: "Call"), "refused"),
    Mutation("prices are written as 28.995,00 EUR", _price(lambda text: f"{text[:-3]}.{text[-3:]},00 EUR"), "refused"),
    Mutation("prices are written as $28,995", _price(lambda text: f"${int(text):,}" if text else ""), "harmless"),
    Mutation("one price times 10", lambda file: _one_row(file, "selling_price", _times(10)), "held"),
    Mutation("each price is that of the row before", lambda file: _rotated(file, "selling_price"), "refused"),
    Mutation("price and mileage are swapped", _swapped("selling_price", "mileage"), "refused"),
    Mutation("year and mileage are swapped", _swapped("year", "mileage"), "refused"),
    Mutation("year and price are swapped", _swapped("year", "selling_price"), "refused"),
    Mutation("make and model are swapped", _swapped("make", "model"), "refused"),
    Mutation("VIN and stock number are swapped", _swapped("vin", "stock"), "refused"),
    Mutation("the colours are swapped", _swapped("exterior_color", "interior_color"), "warned"),
    Mutation("years have two digits", _mapped("year", lambda text: text[2:]), "refused"),
    Mutation("years are one too high", _mapped("year", lambda text: str(int(text) + 1)), "refused"),
    Mutation("each year is that of the row before", lambda file: _rotated(file, "year"), "refused"),
    Mutation("VINs have 16 characters", _mapped("vin", lambda text: text[:16]), "refused"),
    Mutation("VINs end with other characters", _mapped("vin", _other_vin), "refused"),
    Mutation(
        "all VINs are the same",
        lambda file: file.mapped("vin", lambda _: file.rows[0][file.columns["vin"]]).data(),
        "refused",
    ),
    Mutation("VINs are in lower case", _mapped("vin", str.lower), "harmless"),
    Mutation("stock numbers have another prefix", _mapped("stock", lambda text: f"X{text}"), "warned"),
    Mutation(
        "models are empty in half of the rows",
        lambda file: file.with_rows(
            [row | {file.columns["model"]: ""} if n % 2 else row for n, row in enumerate(file.rows)]
        ).data(),
        "refused",
    ),
    Mutation("mileages in kilometres", _mapped("mileage", _times(1.609)), "warned"),
    Mutation("all units are new", _mapped("condition", lambda _: "new"), "refused"),
    Mutation("conditions are not understood", _mapped("condition", lambda _: "excellent"), "refused"),
    Mutation("photos are dropped", _mapped("photos", lambda _: ""), "refused"),
    Mutation("photos but the first are dropped", _mapped("photos", lambda text: text.split("|")[0]), "refused"),
    Mutation(
        "addresses of photos are relative",
        _mapped("photos", lambda text: text.replace("https://images.example.com", "")),
        "refused",
    ),
    Mutation("a fifth of the bytes is missing", _first_bytes(0.8), "refused"),
    Mutation("the file ends inside its last row", lambda file: file.data()[:-300], "refused"),
    Mutation("the file ends inside its last row, without quotes", _half_a_last_row, "refused"),
    Mutation(
        "the file ends inside its last cell, without quotes", lambda file: _unquoted(file).encode()[:-3], "warned"
    ),
    Mutation("three tenths of the rows are missing", _first_lines(0.7), "refused"),
    Mutation("a fifth of the rows is missing", _first_lines(0.8), "warned"),
    Mutation("half of the rows are other vehicles", lambda file: _replaced(file, 0.5), "refused"),
    Mutation("no rows, only a header", lambda file: _lines(file)[0].encode(), "refused"),
    Mutation("the file is empty", lambda _: b"", "refused"),
    Mutation("UTF-8 with a byte order mark", lambda file: b"\xef\xbb\xbf" + file.data(), "harmless"),
    Mutation("UTF-16", lambda file: file.text().encode("utf-16"), "harmless"),
    Mutation("one byte of Windows-1252 in UTF-8", _stray_byte, "warned"),
    Mutation("UTF-8 that was read as Windows-1252", _twice_encoded, "warned"),
    Mutation("ASCII, with ? for all other characters", lambda file: file.text().encode("ascii", "replace"), "warned"),
    Mutation(
        "U+FFFD for all characters beyond ASCII", lambda file: file.data().decode("ascii", "replace").encode(), "warned"
    ),
    Mutation(
        "all rows of one rooftop are missing", lambda file: _rooftop(file, lambda name: name != ROOFTOPS[1]), "refused"
    ),
    Mutation("the rooftops have unknown names", _mapped("rooftop_hints", lambda name: f"Store {len(name)}"), "refused"),
    Mutation("all units are at one rooftop", _mapped("rooftop_hints", lambda _: ROOFTOPS[0]), "refused"),
    Mutation("separated by semicolons", lambda file: file.separated_by(";").data(), "harmless"),
    Mutation("separated by TABs", lambda file: file.separated_by("\t").data(), "harmless"),
    Mutation("separated by bars", lambda file: file.separated_by("|").data(), "harmless"),
    Mutation("separated by carets", lambda file: file.separated_by("^").data(), "refused"),
    Mutation("the header is missing", lambda file: "".join(_lines(file)[1:]).encode(), "refused", True),
    Mutation(
        "the header is there twice", lambda file: "".join([_lines(file)[0], *_lines(file)]).encode(), "harmless", True
    ),
    Mutation("all rows are there twice", lambda file: file.with_rows(file.rows * 2).data(), "warned"),
    Mutation("the rows have another order", lambda file: file.with_rows(file.rows[::-1]).data(), "harmless"),
    Mutation("the columns have another order", lambda file: file.reordered().data(), "harmless", True),
    Mutation(
        "an unknown column is added",
        lambda file: file.with_rows([{"Feld 7": "x", **row} for row in file.rows]).wide().data(),
        "harmless",
        True,
    ),
    Mutation("the cells move one column to the left", _shifted, "refused"),
    Mutation("lines end with CR", lambda file: file.text().replace("\r\n", "\r").encode(), "harmless"),
    Mutation("a quotation mark is not closed", lambda file: file.data().replace(b'",', b",", 1)[:], "refused"),
    Mutation(
        "a login page in place of the feed",
        lambda _: b"<!doctype html><html><body>Please log in.</body></html>",
        "refused",
    ),
    Mutation("an error message in place of the feed", lambda _: b'{"error": "unauthorized"}', "refused"),
    Mutation("a ZIP archive that is damaged", lambda file: b"PK\x03\x04" + file.data()[:500], "refused"),
)


def _each(change: Callable[[dict[str, Any]], None]) -> Callable[[list[dict[str, Any]]], bytes]:
    def damage(records: list[dict[str, Any]]) -> bytes:
        for record in records:
            change(record)
        return json.dumps(records).encode()

    return damage


_PRICES = ("price", "internetPrice", "offers")


def _change_prices(record: dict[str, Any], factor: int) -> None:
    name = next(name for name in _PRICES if name in record)
    holder, key = (record[name], "price") if name == "offers" else (record, name)
    holder[key] = int(holder[key]) * factor


def _rename_price(record: dict[str, Any]) -> None:
    name = next(name for name in _PRICES if name in record)
    holder, key = (record[name], "price") if name == "offers" else (record, name)
    holder["preis"] = holder.pop(key)


def _drop(record: dict[str, Any], *names: str) -> None:
    for name in names:
        record.pop(name, None)


def _html(records: list[dict[str, Any]]) -> str:
    scripts = (f'<script type="application/ld+json">{json.dumps(record)}</script>' for record in records)
    return f"<!doctype html><html>{''.join(scripts)}</html>"


def _json_lines(records: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


JSON_MUTATIONS: tuple[JsonMutation, ...] = (
    JsonMutation("JSON: the price is renamed", _each(_rename_price), "refused"),
    JsonMutation("JSON: prices times 10", _each(lambda record: _change_prices(record, 10)), "refused"),
    JsonMutation("JSON: prices are 0", _each(lambda record: _change_prices(record, 0)), "refused"),
    JsonMutation(
        "JSON: photos are dropped", _each(lambda record: _drop(record, "photos", "images", "image")), "refused"
    ),
    JsonMutation(
        "JSON: VINs are dropped", _each(lambda record: _drop(record, "vin", "vehicleIdentificationNumber")), "refused"
    ),
    JsonMutation(
        "JSON: three tenths of the records are missing",
        lambda records: json.dumps(records[: len(records) * 7 // 10]).encode(),
        "refused",
    ),
    JsonMutation(
        "JSON: the document ends inside a record", lambda records: json.dumps(records).encode()[:-100], "refused"
    ),
    JsonMutation("JSON: an empty list", lambda _: b"[]", "refused"),
    JsonMutation(
        "JSON: the list is in an object", lambda records: json.dumps({"vehicles": records}).encode(), "harmless"
    ),
    JsonMutation("JSON: one object a line", lambda records: _json_lines(records).encode(), "harmless"),
    JsonMutation(
        "JSON: one object a line, the last is cut", lambda records: _json_lines(records).encode()[:-100], "refused"
    ),
    JsonMutation(
        "JSON: UTF-8 that was read as Windows-1252",
        lambda records: json.dumps(records, ensure_ascii=False).encode().decode("cp1252", "replace").encode(),
        "warned",
    ),
    JsonMutation("JSON-LD in a web page", lambda records: _html(records).encode(), "harmless"),
    JsonMutation("JSON-LD in a web page that is cut", lambda records: _html(records).encode()[:-1000], "refused"),
)

FIRST_MUTATIONS: tuple[Mutation, ...] = (
    Mutation("first import: the price column is renamed", _renamed("selling_price"), "warned", True),
    Mutation("first import: the VIN column is renamed", _renamed("vin"), "warned", True),
    Mutation("first import: the make column is dropped", _dropped("make"), "warned", True),
    Mutation("first import: the column of rooftops is dropped", _dropped("rooftop_hints"), "warned", True),
    Mutation("first import: photos are dropped", _mapped("photos", lambda _: ""), "warned"),
    Mutation("first import: prices times 100", _price(_times(100)), "refused"),
    Mutation("first import: prices times 10", _price(_times(10)), "told"),
    Mutation("first import: prices divided by 10", _price(_times(0.1)), "told"),
    Mutation(
        "first import: prices are written as 28.995,00 EUR",
        _price(lambda text: f"{text[:-3]}.{text[-3:]},00 EUR"),
        "refused",
    ),
    Mutation("first import: years have two digits", _mapped("year", lambda text: text[2:]), "refused"),
    Mutation("first import: years are one too high", _mapped("year", lambda text: str(int(text) + 1)), "warned"),
    Mutation("first import: year and price are swapped", _swapped("year", "selling_price"), "refused"),
    Mutation("first import: price and mileage are swapped", _swapped("selling_price", "mileage"), "told"),
    Mutation("first import: make and model are swapped", _swapped("make", "model"), "warned"),
    Mutation("first import: VINs have 16 characters", _mapped("vin", lambda text: text[:16]), "refused"),
    Mutation(
        "first import: the rooftops have unknown names",
        _mapped("rooftop_hints", lambda name: f"Store {len(name)}"),
        "warned",
    ),
    Mutation("first import: UTF-8 that was read as Windows-1252", _twice_encoded, "warned"),
    Mutation("first import: one byte of Windows-1252 in UTF-8", _stray_byte, "warned"),
    Mutation(
        "first import: the file ends inside its last cell, without quotes",
        lambda file: _unquoted(file).encode()[:-3],
        "warned",
    ),
    Mutation("first import: the file ends inside its last row, without quotes", _half_a_last_row, "refused"),
)


def usual_next_day(file: FeedFile) -> bytes:
    """Of the units, 5 % are sold, 5 % are new, and 3 % have another price."""
    price = file.columns["selling_price"]
    rows = [*file.rows[: 2 * len(file.rows) // 3 - 2], *file.rows[2 * len(file.rows) // 3 :], *file.others[:2]]
    rows[4] = rows[4] | {price: str(round(int(rows[4][price]) * 0.96))}
    return file.with_rows(rows).data()
