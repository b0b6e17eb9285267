"""Detects the encoding of a feed and decodes it. Pure functions."""

import codecs
import io
import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import BinaryIO, NamedTuple

from charset_normalizer import from_bytes

from dealer_agent.feeds.files.feed import FeedError

_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_BINARY = (
    (b"PK\x03\x04", "a ZIP archive or an Excel workbook: unpack it, or save the sheet as CSV"),
    (b"\x1f\x8b", "compressed with gzip: unpack it first"),
    (b"\xd0\xcf\x11\xe0", "an old Excel workbook: save the sheet as CSV"),
    (b"%PDF", "a PDF document: ask for the export as CSV"),
    (b"\x89PNG", "an image: ask for the export as CSV"),
    (b"\xff\xd8\xff", "an image: ask for the export as CSV"),
    (b"GIF8", "an image: ask for the export as CSV"),
    (b"BZh", "compressed with bzip2: unpack it first"),
    (b"\xfd7zXZ\0", "compressed with xz: unpack it first"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive: unpack it first"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd: unpack it first"),
    (b"SQLite format 3\0", "a database: ask for the export as CSV"),
)
_SAMPLE = 65_536
_PIECE = 1 << 20
_START = 262_144
_EMPTY = "The file is empty. Export the inventory again."
MIXED = "utf-8, cp1252"
"""UTF-8 with bytes that are not: those are read as Windows-1252."""
_AS_CP1252 = "dealer_agent.cp1252"
_ESCAPED = re.compile("[\udc80-\udcff]")
_GARBLED = (
    b"\xc3\x83\xc2",
    b"\xc3\x82\xc2",
    b"\xc3\xa2\xe2\x82\xac",
    b"\xc3\xa2\xc2\x80",
    b"\xc3\xb0\xc5\xb8",
    b"\xef\xbf\xbd",
)
"""What remains of UTF-8 that a program read as Windows-1252, and U+FFFD, which remains of a lost character."""
_SAMPLE_ZEROS = 0.02
"""The share of zero bytes above which a file is not text. Some exports contain a few."""


Opener = Callable[[], BinaryIO]
"""Opens a feed at its start. A feed is read several times, and is too large to be in memory."""


def check_size(feed: Opener, what: str, most_mib: int) -> None:
    """Raises FeedError for more than `most_mib` MiB. `what` is the subject of the message, such as `A file`."""
    with feed() as file:
        size = file.seek(0, io.SEEK_END)
    if size > most_mib << 20:
        raise FeedError(f"{what} may have at most {most_mib:,} MiB. Export the units for sale only, as CSV.")


def pieces_of(feed: Opener) -> Iterator[bytes]:
    """The bytes of a feed, piece by piece."""
    with feed() as file:
        while piece := file.read(_PIECE):
            yield piece


def _utf16_without_mark(sample: bytes) -> str | None:
    """The name of the encoding if every other byte is zero, as in UTF-16 of Latin text."""
    for name, zeros in (("utf-16-le", sample[1::2]), ("utf-16-be", sample[::2])):
        if zeros and zeros.count(0) > 0.6 * len(zeros):
            return name
    return None


def encoding_of(feed: Opener) -> str:
    """The name of the encoding. Raises FeedError for an empty file and for one that is not text."""
    with feed() as file:
        sample = file.read(_SAMPLE)
    if all(piece.isspace() for piece in pieces_of(feed)):
        raise FeedError(_EMPTY)
    for magic, what in _BINARY:
        if sample.startswith(magic):
            raise FeedError(f"The file is {what}.")
    for mark, name in _BOMS:
        if sample.startswith(mark):
            return name
    if b"\0" in sample:
        wide = _utf16_without_mark(sample)
        if wide is not None:
            return wide
        if sample.count(0) > _SAMPLE_ZEROS * len(sample):
            raise FeedError("The file is not text. Export the inventory as CSV, TAB-separated text or JSON.")
    if _is_written_in(feed, "utf-8"):
        return "utf-8"
    strays = stray_bytes(feed)
    is_cp1252 = _is_written_in(feed, "cp1252")
    # In other encodings, few sequences of bytes are valid characters of UTF-8.
    if strays.others and (is_cp1252 or strays.others >= strays.strays):
        return MIXED
    if is_cp1252:
        return "cp1252"
    guess = from_bytes(sample).best()
    if guess is None:
        raise FeedError("The file's encoding cannot be recognised. Export the inventory as UTF-8.")
    return guess.encoding


def _is_written_in(feed: Opener, name: str) -> bool:
    """Whether all bytes of the file are valid in an encoding."""
    decoder = codecs.getincrementaldecoder(name)()
    try:
        for piece in pieces_of(feed):
            decoder.decode(piece)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


class StrayBytes(NamedTuple):
    """Bytes that are not UTF-8, the line of the first, and the number of other characters beyond ASCII."""

    strays: int
    line: int
    others: int


def stray_bytes(feed: Opener) -> StrayBytes:
    """The bytes of a file in UTF-8 that are not UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="surrogateescape")
    count = line = others = 0
    lines = 1
    for piece in chain(pieces_of(feed), (b"",)):
        text = decoder.decode(piece, final=not piece)
        found = _ESCAPED.search(text)
        if found is not None and not count:
            line = lines + text.count("\n", 0, found.start())
        strays = len(_ESCAPED.findall(text))
        count += strays
        others += len(text) - strays - len(text.encode("ascii", "ignore"))
        lines += text.count("\n")
    return StrayBytes(count, line, others)


def _read_as_cp1252(error: UnicodeError) -> tuple[str, int]:
    """The handler of decoding errors of a file with mixed encodings."""
    assert isinstance(error, UnicodeDecodeError), "it is used for decoding only"
    return error.object[error.start : error.end].decode("cp1252", "replace"), error.end


codecs.register_error(_AS_CP1252, _read_as_cp1252)


class Survey(NamedTuple):
    """What the bytes of a file show. `line_end`: it ends with a line end or a quote. `garbled` counts characters."""

    lines: int
    line_end: bool
    garbled: int


def survey(feed: Opener, encoding: str) -> Survey:
    """Reads a file once."""
    marks = _GARBLED if encoding.startswith("utf-8") else ()
    feeds = returns = garbled = 0
    end = b""
    for piece in pieces_of(feed):
        feeds += piece.count(b"\n")
        returns += piece.count(b"\r")
        if marks and not piece.isascii():
            garbled += sum(map(piece.count, marks))
        end = piece[-4:]
    return Survey(max(feeds, returns), end.rstrip(b"\0")[-1:] in (b"\n", b"\r", b'"'), garbled)


def open_text(feed: Opener, encoding: str) -> io.TextIOWrapper:
    """The file as lines of text, with its own line ends."""
    if encoding == MIXED:
        return io.TextIOWrapper(feed(), encoding="utf-8", errors=_AS_CP1252, newline="")
    return io.TextIOWrapper(feed(), encoding=encoding, errors="replace", newline="")


def start_of(feed: Opener, encoding: str) -> str:
    """The first characters of the file. Raises FeedError for a blank file."""
    with open_text(feed, encoding) as text:
        start = text.read(_START)
    if not start.strip("\ufeff\0 \t\r\n"):
        raise FeedError(_EMPTY)
    return start
