"""Reads an Excel workbook (XLSX) as a stream: the rows of its only visible sheet with units. Pure.

Only the shared texts and the formats of dates are in memory. Rows, cells, texts and styles are counted while they are
read, so a hostile workbook costs no more than the bounds of docs/reference/feeds.md. Libraries that load a sheet
reserve its rectangle. python-calamine 0.9 reads 50,000 rows in 0.4 s, and this module in 2.9 s. But of a file of 5 KB
with one cell in row 100,000, calamine takes 3 GiB, and one with a cell in the last row and column aborts its process.
"""

import posixpath
import re
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, time, timedelta
from functools import lru_cache
from itertools import islice
from typing import TypeVar
from xml.parsers import expat

from dealer_agent.feeds.files.feed import (
    MOST_CELL,
    MOST_CELLS,
    MOST_COLUMNS,
    MOST_LINE,
    MOST_ROWS,
    MOST_STYLES,
    MOST_TEXTS_MIB,
    FeedError,
)
from dealer_agent.feeds.files.layouts import GENERIC, understand

MAIN_PART = "xl/workbook.xml"

_MOST_SHEETS = 1_000
_MOST_SHEET_ROWS, _MOST_ROW_CELLS = 1_048_576, 16_384
"""The rows and columns of Excel. Empty ones can have formats, so a sheet can have more of them than a feed."""
_MOST_DEPTH = 100
_MOST_ELEMENTS = 4 * MOST_CELLS
_MOST_NAMES = 1_000
"""Names of elements and attributes of a part. The parser keeps each of them."""
_MOST_TOKEN = 1 << 20
"""Bytes of one tag or comment, which the parser keeps as a whole."""
_PIECE = 1 << 16
_FIRST_ROWS = 100
"""A sheet whose first rows are empty has no cells."""
_XML = (".xml", ".rels", ".vml")

_EPOCH, _EPOCH_1904 = datetime(1899, 12, 30), datetime(1904, 1, 1)  # noqa: DTZ001 - cells have no zone.
_LAST_DAY = 2_958_466
"""The day after 9999-12-31, counted from the epoch."""
_DATE_FORMATS = frozenset((*range(14, 23), 45, 47))
"""The ids of the built-in formats that show a date or a time."""
_LITERAL = re.compile(r'"[^"]*"|\\.|\[[^\]]*\]|_.|\*.')
"""The parts of a format that are not placeholders."""
_PLACEHOLDER = re.compile("[dmhysDMHYS]")
_REFERENCE = re.compile("([A-Z]{1,3})[0-9]*")

Row = list[str]


def _has_units(rows: Iterator[Row]) -> bool:
    """Whether one of the rows names a column for the VIN or the stock number, and others."""
    headers = (understand(row, GENERIC) for row in rows if len(row) <= MOST_COLUMNS)
    return any(header.names_units and header.understood > 1 for header in headers)


def rows_of_workbook(archive: zipfile.ZipFile) -> Iterator[Row]:
    """The rows of the only visible sheet with units, as text. A blank row is empty.

    Raises FeedError for a workbook that breaks its format, has a DTD in any part, or is over a bound.
    """
    try:
        for entry in archive.infolist():
            if entry.filename.lower().endswith(_XML):
                _check_prolog(archive, entry)
        book = _Book(archive)
        sheets = [name for name in book.sheets() if any(islice(book.rows(name), _FIRST_ROWS))]
        if len(sheets) > 1:
            sheets = [name for name in sheets if _has_units(islice(book.rows(name), _FIRST_ROWS))] or sheets
        if len(sheets) != 1:
            raise FeedError(f"The workbook has {len(sheets)} sheets with cells. Keep the sheet of the inventory only.")
        yield from book.rows(sheets[0])
    except (expat.ExpatError, LookupError, ValueError):  # A workbook that breaks its own format.
        raise _unreadable() from None


def _unreadable() -> FeedError:
    return FeedError("The workbook cannot be read. Save the sheet as CSV.")


def _refuse_dtd(*_: object) -> None:
    raise FeedError("The workbook has a document type definition, which Excel never writes. Save the sheet as CSV.")


class _Part:
    """The content of a part. A subclass has what it takes from the elements, in `start` and `end`."""

    def __init__(self) -> None:
        self.depth = self.elements = 0
        self.text: list[str] | None = None
        """The text that is read now."""
        self.length = 0

    def start(self, _name: str, _attributes: dict[str, str]) -> None:
        """Is called at the start of an element."""

    def end(self, _name: str) -> None:
        """Is called at the end of an element."""

    def collect(self) -> None:
        """Begins a text."""
        self.text, self.length = [], 0

    def collected(self) -> str:
        """Ends a text."""
        text = "".join(self.text or ())
        self.text = None
        return text

    def start_element(self, tag: str, attributes: dict[str, str]) -> None:
        self.depth += 1
        self.elements += 1
        if self.depth > _MOST_DEPTH or self.elements > _MOST_ELEMENTS:
            raise _unreadable()
        self.start(tag.rpartition(":")[2] if ":" in tag else tag, attributes)

    def end_element(self, tag: str) -> None:
        self.depth -= 1
        self.end(tag.rpartition(":")[2] if ":" in tag else tag)

    def characters(self, text: str) -> None:
        # One character more than a cell may have, so that the reader of the rows refuses the row.
        if self.text is not None and self.length <= MOST_CELL:
            self.text.append(text[: MOST_CELL + 1 - self.length])
            self.length += len(text)


def _read(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, part: _Part) -> Iterator[None]:
    """Reads a part piece by piece. It yields after each, so that the caller can take the rows so far.

    `zipfile` reads no more of it than the directory of the archive says. Raises FeedError.
    """
    # The parser keeps each name of an element or attribute here.
    names: dict[str, str] = {}
    parser = expat.ParserCreate(intern=names)
    parser.buffer_text = True
    parser.buffer_size = _PIECE
    parser.StartDoctypeDeclHandler = _refuse_dtd
    parser.StartElementHandler = part.start_element
    parser.EndElementHandler = part.end_element
    parser.CharacterDataHandler = part.characters
    done = 0
    with archive.open(entry) as file:
        while piece := file.read(_PIECE):
            parser.Parse(piece)
            done += len(piece)
            unparsed = done - parser.CurrentByteIndex
            if len(names) > _MOST_NAMES or unparsed > _MOST_TOKEN:
                raise _unreadable()
            yield
    parser.Parse(b"", True)
    yield


class _Root(_Part):
    def start(self, _name: str, _attributes: dict[str, str]) -> None:
        self.text = []


def _check_prolog(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> None:
    """Raises FeedError for a DTD, which can only be before the root element. A part that is not read may be broken."""
    root = _Root()
    with suppress(expat.ExpatError):
        for _ in _read(archive, entry, root):
            if root.text is not None:
                return


class _Relations(_Part):
    """The parts by their id, and the last one of each type."""

    def __init__(self) -> None:
        super().__init__()
        self.by_id: dict[str, str] = {}
        self.by_type: dict[str, str] = {}

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Notes the path of a part of the workbook, by its id and by its type."""
        if name == "Relationship" and attributes.get("TargetMode") != "External":
            path = posixpath.normpath(posixpath.join("/xl", attributes["Target"]))[1:]
            self.by_id[attributes["Id"]] = path
            self.by_type[attributes["Type"].rpartition("/")[2]] = path
            if len(self.by_id) > 2 * _MOST_SHEETS:
                raise _unreadable()


class _Sheets(_Part):
    """The relations of the visible sheets."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch = _EPOCH
        # The ids of the relations. A dict keeps the order of the sheets.
        self.visible: dict[str, None] = {}

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Notes the epoch of dates, and the visible sheets in their order."""
        if name == "workbookPr" and attributes.get("date1904") in ("1", "true"):
            self.epoch = _EPOCH_1904
        elif name == "sheet" and attributes.get("state", "visible") == "visible":
            relation = next(value for key, value in attributes.items() if key.rpartition(":")[2] == "id" and ":" in key)
            self.visible[relation] = None
            if len(self.visible) > _MOST_SHEETS:
                raise _unreadable()


class _Texts(_Part):
    """The texts that cells share. Readings of Japanese names are left out."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._is_reading = False
        self._pieces: list[str] = []

    def start(self, name: str, _attributes: dict[str, str]) -> None:
        if name == "t" and not self._is_reading:
            self.collect()
        elif name == "rPh":
            self._is_reading = True

    def end(self, name: str) -> None:
        """Joins the pieces of a shared text. Phonetic text is not part of it."""
        if name == "t" and self.text is not None:
            if text := self.collected():
                self._pieces.append(text)
        elif name == "si":
            self.texts.append("".join(self._pieces)[: MOST_CELL + 1])
            self._pieces = []
        elif name == "rPh":
            self._is_reading = False


class _Styles(_Part):
    """The styles of cells whose number is a date or a time."""

    def __init__(self) -> None:
        super().__init__()
        self.dates: set[int] = set()
        self._formats = set(_DATE_FORMATS)
        self._count = self._styles = 0
        self._in_cells = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Notes which styles show a number as a date."""
        if name == "cellXfs":
            self._in_cells = True
        elif name in ("xf", "numFmt"):
            self._count += 1
            if self._count > MOST_STYLES:
                raise FeedError(f"A workbook may have at most {MOST_STYLES:,} styles. Save the sheet as CSV.")
            if name == "numFmt":
                shown = _LITERAL.sub("", attributes["formatCode"][:1_000])
                number = int(attributes["numFmtId"])
                (self._formats.add if _PLACEHOLDER.search(shown) else self._formats.discard)(number)
            elif self._in_cells:
                if int(attributes.get("numFmtId", "0")) in self._formats:
                    self.dates.add(self._styles)
                self._styles += 1

    def end(self, name: str) -> None:
        if name == "cellXfs":
            self._in_cells = False


_Content = TypeVar("_Content", bound=_Part)


class _Book:
    """A workbook whose parts are read when they are needed."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._main_part = self._whole(MAIN_PART, _Sheets())
        self._relations = self._whole("xl/_rels/workbook.xml.rels", _Relations())
        styles, texts = (self._relations.by_type.get(kind) for kind in ("styles", "sharedStrings"))
        self.epoch = self._main_part.epoch
        self.dates: set[int] = set() if styles is None else self._whole(styles, _Styles()).dates
        self.texts: list[str] = []
        if texts is not None:
            if archive.getinfo(texts).file_size > MOST_TEXTS_MIB << 20:
                raise FeedError(f"A workbook may have at most {MOST_TEXTS_MIB} MiB of texts. Save the sheet as CSV.")
            self.texts = self._whole(texts, _Texts()).texts

    def _whole(self, name: str, part: _Content) -> _Content:
        for _ in _read(self._archive, self._archive.getinfo(name), part):
            pass
        return part

    def sheets(self) -> list[str]:
        """The parts of the visible sheets."""
        return list(dict.fromkeys(self._relations.by_id[each] for each in self._main_part.visible))

    def rows(self, name: str) -> Iterator[Row]:
        """The rows of a sheet, up to the last one with a value."""
        sheet = _Sheet(self)
        for _ in _read(self._archive, self._archive.getinfo(name), sheet):
            yield from sheet.rows
            sheet.rows.clear()
            if sheet.has_ended:
                return


class _Sheet(_Part):
    """The rows of a sheet, without blank rows at the end. No row is shorter than the first one with a value."""

    def __init__(self, book: _Book) -> None:
        super().__init__()
        self.rows: list[Row] = []
        self.has_ended = False
        self._texts, self._dates, self._epoch = book.texts, book.dates, book.epoch
        # Of the sheet: the numbers of the row that is read and of the last one with a value, how many cells were read,
        # and how many columns the first row with a value has.
        self._number = self._last = self._cells = self._width = 0
        # Of the row: its values, how many cells and characters it has, and the column of the cell that is read.
        self._row: Row = []
        self._row_cells = self._column = self._characters = 0
        # Of the cell: its type, its style, and its text if it is not in the table of texts.
        self._kind = "n"
        self._style = 0
        self._inline: list[str] = []
        self._inline_length = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "c":
            self._start_cell(attributes)
        elif name == "v" or (name == "t" and self._kind == "inlineStr"):
            self.collect()
        elif name == "row":
            self._start_row(attributes)

    def end(self, name: str) -> None:
        """Puts the value of a cell into its row, and ends rows and the sheet."""
        if name == "v":
            if value := self.collected():
                self._put(self._text_of(value))
        elif name == "c":
            if self._inline:
                self._put("".join(self._inline))
                self._inline, self._inline_length = [], 0
        elif name == "t" and self.text is not None:
            text = self.collected()
            if text and self._inline_length <= MOST_CELL:
                self._inline.append(text)
                self._inline_length += len(text)
        elif name == "row":
            self._end_row()
        elif name == "sheetData":
            self.has_ended = True

    def _start_row(self, attributes: dict[str, str]) -> None:
        number = int(attributes.get("r", self._number + 1))
        if not self._number < number <= _MOST_SHEET_ROWS:
            raise _unreadable()
        self._number = number
        self._row, self._row_cells, self._column, self._characters = [], 0, 0, 0

    def _end_row(self) -> None:
        """Adds a row, and empty ones for those that the file leaves out. All have at least the width of the first."""
        if not self._row:
            return
        if self._number > MOST_ROWS + 1:
            raise FeedError(f"A file may have at most {MOST_ROWS:,} rows. Export the units for sale only.")
        self.rows.extend([] for _ in range(self._last, self._number - 1))
        self._last = self._number
        self._width = self._width or len(self._row)
        self._row.extend([""] * (self._width - len(self._row)))
        self.rows.append(self._row)

    def _start_cell(self, attributes: dict[str, str]) -> None:
        """Counts a cell, and notes its column, type and style. Raises FeedError over a bound."""
        self._cells += 1
        if self._cells > MOST_CELLS:
            raise FeedError(f"A workbook may have at most {MOST_CELLS:,} cells. Save the sheet as CSV.")
        self._row_cells += 1
        if self._row_cells > _MOST_ROW_CELLS:
            raise _too_wide(self._row_cells)
        self._column += 1
        if "r" in attributes:
            self._column = _column(attributes["r"])
        self._kind = attributes.get("t", "n")
        self._style = int(attributes.get("s", "0"))

    def _put(self, value: str) -> None:
        """Sets the value of the cell that is read now."""
        if not value:
            return
        if self._column > MOST_COLUMNS:
            raise _too_wide(self._column)
        self._characters += len(value)
        if self._characters > MOST_LINE:
            raise FeedError(f"Row {self._number} has more than {MOST_LINE:,} characters. Save the sheet as CSV.")
        missing = self._column - len(self._row)
        if missing > 1:
            self._row.extend([""] * (missing - 1))
        if missing > 0:
            self._row.append(value)
        else:
            self._row[self._column - 1] = value

    def _text_of(self, value: str) -> str:
        """A value as text: a date without a time as a date, a whole number without a point."""
        match self._kind:
            case "s":
                index = int(value)
                if index < 0:
                    raise _unreadable()
                return self._texts[index]
            case "b":
                return "true" if value == "1" else "false"
            case "n":
                return self._number_text(value)
            case "d":
                return _iso(datetime.fromisoformat(value))
            case _:
                return value

    def _number_text(self, value: str) -> str:
        """A number as text. Excel stores dates as days since 1900 or 1904: only the cell's style tells them apart."""
        if self._style not in self._dates:
            if value.isdecimal() and value.isascii():
                return value
            number = float(value)
            return str(int(number)) if number.is_integer() else str(number)
        days = float(value)
        if not 0 <= days < _LAST_DAY:
            return value
        if days < 1:
            return (_EPOCH + _days(days)).time().isoformat()
        # Excel counts a 29 February 1900, which did not exist.
        return _iso(self._epoch + _days(days + (1 if days < 60 and self._epoch == _EPOCH else 0)))


def _days(days: float) -> timedelta:
    """Days as a duration, exact to a millisecond."""
    return timedelta(milliseconds=round(days * 86_400_000))


def _iso(at: datetime) -> str:
    return at.date().isoformat() if at.time() == time() else at.isoformat()


def _too_wide(columns: int) -> FeedError:
    return FeedError(f"A file may have at most {MOST_COLUMNS:,} columns, and this one has {columns:,}.")


@lru_cache(maxsize=1_024)
def _letters(letters: str) -> int:
    """The number of a column, from 1."""
    number = 0
    for letter in letters:
        number = 26 * number + ord(letter) - 64
    return number


def _column(reference: str) -> int:
    """The number of the column in a reference such as `AB12`, from 1."""
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        raise _unreadable()
    return _letters(match[1])
