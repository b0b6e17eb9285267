"""Unpacks feeds: ZIP, gzip and Excel workbooks (XLSX). Every size is bounded before memory or disk is used."""

import csv
import io
import zipfile
import zlib
from collections.abc import Iterator
from datetime import date, datetime, time
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from dealer_agent.inventory.feeds.decoding import Opener
from dealer_agent.inventory.feeds.feed import MOST_COLUMNS, MOST_FILE_MIB, MOST_ROWS, FeedError

MOST_ENTRIES = 1_000
"""The files and folders in an archive."""
MOST_RATIO = 200
"""How many times larger than the archive its content may be, above ALWAYS_MIB. CSV is 5 to 30 times larger."""
ALWAYS_MIB = 10
MOST_TEXTS_MIB = 64
"""The texts of a workbook, which are in memory as a whole."""

_ZIP, _GZIP = b"PK\x03\x04", b"\x1f\x8b"
_EMPTY_ZIP = b"PK\x05\x06"
_PIECE = 1 << 18
_END = b"PK\x05\x06"
_END_SIZE, _LONGEST_COMMENT, _LOCATOR_SIZE = 22, 65_535, 20
_WORKBOOK, _TEXTS = "xl/workbook.xml", "xl/sharedStrings.xml"
_PLAIN = "Send the export itself, as CSV, TAB-separated text or JSON, or one such file in a ZIP archive."


def unpack(feed: Opener | bytes, target: Path, most_bytes: int = MOST_FILE_MIB << 20) -> Opener:
    """The content of a packed feed, which is written to the file `target`; the feed itself if it is not packed.

    A sheet of a workbook becomes CSV. Raises FeedError for a broken archive, for one with more than one file, and for
    content of more than `most_bytes`.
    """
    opener: Opener = partial(io.BytesIO, feed) if isinstance(feed, bytes) else feed
    with opener() as file:
        start = file.read(4)
        if start not in (_ZIP, _EMPTY_ZIP) and not start.startswith(_GZIP):
            return opener
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        most = min(most_bytes, max(ALWAYS_MIB << 20, MOST_RATIO * size))
        try:
            with target.open("wb") as out:
                if start.startswith(_GZIP):
                    _copy(_gunzipped(file), out, most)
                else:
                    _unzip(file, out, most)
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError):
            raise FeedError("The archive is damaged, or packed in an unusual way. Send it again.") from None
    with target.open("rb") as unpacked:
        if unpacked.read(4).startswith((_ZIP, _GZIP)):
            raise FeedError(f"The archive has another archive or a workbook in it. {_PLAIN}")
    return partial(io.FileIO, target)


def _copy(pieces: Iterator[bytes], out: BinaryIO, most: int) -> None:
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > most:
            raise _too_large(most)
        out.write(piece)


def _too_large(most: int) -> FeedError:
    return FeedError(
        f"The unpacked file has more than {most >> 20:,} MiB: the largest file, or {MOST_RATIO} times the archive. "
        "Export the units for sale only."
    )


def _gunzipped(file: BinaryIO) -> Iterator[bytes]:
    """The content of one or several gzip members, in pieces of a bounded size."""
    unpacker = zlib.decompressobj(wbits=31)
    while packed := file.read(_PIECE):
        while packed:
            yield unpacker.decompress(packed, _PIECE)
            packed = unpacker.unconsumed_tail
            if unpacker.eof:
                packed = unpacker.unused_data.lstrip(b"\0")
                if packed:
                    unpacker = zlib.decompressobj(wbits=31)
    if not unpacker.eof:
        raise EOFError


def _unzip(file: BinaryIO, out: BinaryIO, most: int) -> None:
    _check_directory(file)
    with zipfile.ZipFile(file) as archive:
        entries = [entry for entry in archive.infolist() if not entry.is_dir()]
        if any(entry.flag_bits & 1 for entry in entries):
            raise FeedError("The archive is encrypted. Send it without a password.")
        if any(entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for entry in entries):
            raise NotImplementedError
        if any(entry.filename == _WORKBOOK for entry in entries):
            _check_workbook(entries, most)
            file.seek(0)
            _copy(_rows_of_workbook(file), out, most)
            return
        feeds = [entry for entry in entries if not _is_hidden(entry.filename)]
        if len(feeds) != 1:
            raise FeedError(f"The archive has {len(feeds)} files and must have exactly one. {_PLAIN}")
        if feeds[0].file_size > most:
            raise _too_large(most)
        with archive.open(feeds[0]) as packed:
            _copy(iter(partial(packed.read, _PIECE), b""), out, most)


def _is_hidden(name: str) -> bool:
    """Whether a file of an archive is no content, such as those that macOS adds."""
    parts = name.split("/")
    return parts[0] == "__MACOSX" or parts[-1].startswith(".")


def _check_directory(file: BinaryIO) -> None:
    """Raises FeedError for too many entries, before `zipfile` reads them all into memory."""
    size = file.seek(0, io.SEEK_END)
    file.seek(max(0, size - _END_SIZE - _LONGEST_COMMENT - _LOCATOR_SIZE))
    tail = file.read()
    file.seek(0)
    at = tail.rfind(_END)
    if at < 0 or len(tail) < at + _END_SIZE:
        raise zipfile.BadZipFile
    entries = int.from_bytes(tail[at + 10 : at + 12], "little")
    directory = int.from_bytes(tail[at + 12 : at + 16], "little")
    # The 64-bit form is for archives over 4 GiB.
    if b"PK\x06\x07" in tail[max(0, at - _LOCATOR_SIZE) : at] or entries > MOST_ENTRIES or directory > 1 << 20:
        raise FeedError(f"The archive has more than {MOST_ENTRIES:,} files. {_PLAIN}")


def _check_workbook(entries: list[zipfile.ZipInfo], most: int) -> None:
    if sum(entry.file_size for entry in entries) > most:
        raise _too_large(most)
    if any(entry.filename == _TEXTS and entry.file_size > MOST_TEXTS_MIB << 20 for entry in entries):
        raise FeedError(f"A workbook may have at most {MOST_TEXTS_MIB} MiB of texts. Save the sheet as CSV.")


def _rows_of_workbook(file: BinaryIO) -> Iterator[bytes]:
    """The only sheet with cells as CSV, row by row."""
    # Imported here: it takes a quarter of a second, and few feeds are workbooks.
    from openpyxl import load_workbook

    try:
        book = load_workbook(file, read_only=True, data_only=True, keep_links=False)
        sheets = [sheet for sheet in book.worksheets if sheet.sheet_state == "visible" and _has_cells(sheet)]
    except (KeyError, ValueError, TypeError, AttributeError, SyntaxError):  # A workbook that breaks its own format.
        raise FeedError("The workbook cannot be read. Save the sheet as CSV.") from None
    if len(sheets) != 1:
        raise FeedError(f"The workbook has {len(sheets)} sheets with cells and must have exactly one.")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    try:
        for number, row in enumerate(_rows(sheets[0])):
            if number > MOST_ROWS:
                raise FeedError(f"A file may have at most {MOST_ROWS:,} rows. Export the units for sale only.")
            if len(row) > MOST_COLUMNS:
                raise FeedError(f"A file may have at most {MOST_COLUMNS:,} columns, and this one has {len(row):,}.")
            writer.writerow([_cell(value) for value in row])
            yield text.getvalue().encode()
            text.seek(0)
            text.truncate()
    except (KeyError, ValueError, TypeError, AttributeError, SyntaxError):
        raise FeedError("The workbook cannot be read. Save the sheet as CSV.") from None


def _rows(sheet: Any) -> Iterator[tuple[Any, ...]]:
    # The size that the sheet claims would pad every row.
    sheet.reset_dimensions()
    rows: Iterator[tuple[Any, ...]] = sheet.iter_rows(values_only=True)
    return rows


def _has_cells(sheet: Any) -> bool:
    return any(value is not None for row in islice(_rows(sheet), 100) for value in row)


def _cell(value: Any) -> str:
    """A value of a workbook as text: a date without a time as a date, a whole number without a point."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float() if value.is_integer():
            return str(int(value))
        case datetime() if value.time() == time():
            return value.date().isoformat()
        case datetime() | date() | time():
            return value.isoformat()
        case _:
            return str(value)
