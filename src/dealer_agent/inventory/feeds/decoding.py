"""Detects the encoding of a feed and decodes it. Pure functions."""

import codecs
import io

from charset_normalizer import from_bytes

from dealer_agent.inventory.feeds.feed import FeedError

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
_HEAD = 262_144
_EMPTY = "The file is empty. Export the inventory again."
_SAMPLE_ZEROS = 0.02
"""The share of zero bytes above which a file is not text. Some exports contain a few."""


def check_size(data: bytes, what: str, most_mib: int) -> None:
    """Raises FeedError for more than `most_mib` MiB. `what` is the subject of the message, such as `A file`."""
    if len(data) > most_mib << 20:
        raise FeedError(f"{what} may have at most {most_mib:,} MiB. Export the units for sale only, as CSV.")


def _utf16_without_mark(data: bytes) -> str | None:
    """The name of the encoding if every other byte is zero, as in UTF-16 of Latin text."""
    sample = data[:_SAMPLE]
    for name, zeros in (("utf-16-le", sample[1::2]), ("utf-16-be", sample[::2])):
        if zeros and zeros.count(0) > 0.6 * len(zeros):
            return name
    return None


def encoding_of(data: bytes) -> str:
    """The name of the encoding. Raises FeedError for an empty file and for one that is not text."""
    if not data or data.isspace():
        raise FeedError(_EMPTY)
    for magic, what in _BINARY:
        if data.startswith(magic):
            raise FeedError(f"The file is {what}.")
    for mark, name in _BOMS:
        if data.startswith(mark):
            return name
    if b"\0" in data[:_SAMPLE]:
        wide = _utf16_without_mark(data)
        if wide is not None:
            return wide
        if data.count(0, 0, _SAMPLE) > _SAMPLE_ZEROS * min(len(data), _SAMPLE):
            raise FeedError("The file is not text. Export the inventory as CSV, TAB-separated text or JSON.")
    for name in ("utf-8", "cp1252"):
        if _is_written_in(data, name):
            return name
    guess = from_bytes(data[:_SAMPLE]).best()
    if guess is None:
        raise FeedError("The file's encoding cannot be recognised. Export the inventory as UTF-8.")
    return guess.encoding


def _is_written_in(data: bytes, name: str) -> bool:
    """Decodes piece by piece. One emoji makes the text of a large file take four times its bytes in memory."""
    decoder = codecs.getincrementaldecoder(name)()
    try:
        for start in range(0, len(data), _PIECE):
            decoder.decode(data[start : start + _PIECE])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def open_text(data: bytes, encoding: str) -> io.TextIOWrapper:
    """The file as lines of text, with its own line ends."""
    return io.TextIOWrapper(io.BytesIO(data), encoding=encoding, errors="replace", newline="")


def head_of(data: bytes, encoding: str) -> str:
    """The first characters of the file. Raises FeedError for a blank file."""
    head = open_text(data[: 4 * _HEAD], encoding).read(_HEAD)
    if not head.strip("\ufeff\0 \t\r\n"):
        raise FeedError(_EMPTY)
    return head
