"""Unpacks feeds: ZIP, gzip and Excel workbooks (XLSX). Every size is bounded before memory or disk is used."""

import csv
import errno
import io
import os
import zipfile
import zlib
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from operator import attrgetter
from pathlib import PurePosixPath
from struct import Struct
from typing import TYPE_CHECKING, BinaryIO

from dealer_agent.feeds.files.decoding import Opener
from dealer_agent.feeds.files.feed import MOST_FILE_MIB, FeedError
from dealer_agent.feeds.files.workbook import MAIN_PART, rows_of_workbook

MOST_ENTRIES = 1_000
"""The files and folders in an archive."""
MOST_RATIO = 200
"""How many times larger than the archive its content may be, above ALWAYS_MIB. CSV is 5 to 30 times larger."""
ALWAYS_MIB = 10
MOST_MEMBERS = 20_000
"""The members of a gzip file. Programs that pack in parallel write one for each 64 KiB."""

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_ZIP, _GZIP = b"PK\x03\x04", b"\x1f\x8b"
_EMPTY_ZIP = b"PK\x05\x06"
_PIECE = 1 << 18
_END, _LOCATOR_64 = b"PK\x05\x06", b"PK\x06\x07"
_END_RECORD = Struct("<10x H L 6x")
"""The end of the central directory. Of its fields: the number of the entries, and the bytes of the directory."""
_HEADER_SIZE, _LONGEST_COMMENT, _LOCATOR_SIZE = 30, 65_535, 20
_MOST_DIRECTORY_BYTES = 1 << 20
_DAMAGED = "The archive is damaged, or packed in an unusual way. Send it again."
_NOTES = frozenset({".md", ".pdf", ".doc", ".docx", ".rtf", ".log", ".nfo", ".md5", ".sha256", ".xsd", ".jpg", ".png"})
_PLAIN = "Send the export itself, as CSV, TAB-separated text or JSON, or one such file in a ZIP archive."


def unpack(feed: Opener | bytes, target: BinaryIO, most_bytes: int = MOST_FILE_MIB << 20) -> Opener:
    """The content of a packed feed, which is written to the empty file `target`; the feed itself if it is not packed.

    `target` may have no name, so that nothing stays on the disk if the process is killed. A sheet of a workbook becomes
    CSV. Raises FeedError for a broken archive, for one with more than one file, and for content of more than
    `most_bytes`.
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
            if start.startswith(_GZIP):
                _copy(_gunzipped(file), target, most)
            else:
                _unzip(file, target, most)
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, LookupError, ValueError):
            raise FeedError(_DAMAGED) from None
        except OSError as error:
            if error.errno == errno.EINVAL:  # `zipfile` looks for an entry before the start of the file.
                raise FeedError(_DAMAGED) from None
            raise
    target.flush()
    unpacked = partial(_opened, target)
    with unpacked() as file:
        if file.read(4).startswith((_ZIP, _GZIP)):
            raise FeedError(f"The archive has another archive or a workbook in it. {_PLAIN}")
    return unpacked


class _View(io.RawIOBase):
    """Reads an open file from its start, with a position of its own."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: os.fstat(self._file.fileno()).st_size}
        self._at = start[whence] + offset
        return self._at

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        view = memoryview(buffer).cast("B")
        read = os.pread(self._file.fileno(), len(view), self._at)
        view[: len(read)] = read
        self._at += len(read)
        return len(read)


def _opened(file: BinaryIO) -> BinaryIO:
    return io.BufferedReader(_View(file), _PIECE)


def _copy(pieces: Iterator[bytes], out: BinaryIO, most: int) -> None:
    """Writes the pieces of a file. Raises FeedError beyond `most` bytes."""
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > most:
            raise _too_large(most)
        out.write(piece)


def _too_large(most: int) -> FeedError:
    return FeedError(
        f"The unpacked file has more than {most >> 20:,} MiB: more than a file may have, or {MOST_RATIO} times "
        "the archive. Export the units for sale only."
    )


def _gunzipped(file: BinaryIO) -> Iterator[bytes]:
    """The content of one or several gzip members, in pieces of a bounded size."""
    unpacker = zlib.decompressobj(wbits=31)
    members = 1
    while packed := file.read(_PIECE):
        while packed:
            yield unpacker.decompress(packed, _PIECE)
            packed = unpacker.unconsumed_tail
            if unpacker.eof:
                packed = unpacker.unused_data.lstrip(b"\0")
                if packed:
                    members += 1
                    if members > MOST_MEMBERS:
                        raise FeedError(
                            f"The gzip file has more than {MOST_MEMBERS:,} parts. Compress the feed again as one part."
                        )
                    unpacker = zlib.decompressobj(wbits=31)
    if not unpacker.eof:
        raise EOFError


def _unzip(file: BinaryIO, out: BinaryIO, most: int) -> None:
    """Unpacks the one file of a ZIP archive. A workbook, which is a ZIP archive too, becomes CSV."""
    _check_central_directory(file)
    with zipfile.ZipFile(file) as archive:
        _check_overlaps(archive.infolist())
        entries = [entry for entry in archive.infolist() if not entry.is_dir()]
        if any(entry.flag_bits & 1 for entry in entries):
            raise FeedError("The archive is encrypted. Send it without a password.")
        if any(entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for entry in entries):
            raise NotImplementedError
        if any(entry.filename == MAIN_PART for entry in entries):
            if sum(entry.file_size for entry in entries) > most:
                raise _too_large(most)
            _copy(_csv_of(rows_of_workbook(archive)), out, most)
            return
        shown = [entry for entry in entries if not _is_hidden(entry.filename)]
        feeds = [entry for entry in shown if not _is_note(entry.filename)] or shown
        if len(feeds) != 1:
            raise FeedError(f"The archive has {len(feeds)} files and must have exactly one. {_PLAIN}")
        if feeds[0].file_size > most:
            raise _too_large(most)
        with archive.open(feeds[0]) as packed:
            _copy(iter(partial(packed.read, _PIECE), b""), out, most)


def _is_hidden(name: str) -> bool:
    """Whether a file of an archive is not content, such as those that macOS adds."""
    parts = name.split("/")
    return parts[0] == "__MACOSX" or parts[-1].startswith(".")


def _is_note(name: str) -> bool:
    """Whether a file of an archive describes the feed beside it."""
    path = PurePosixPath(name.lower())
    return path.suffix in _NOTES or path.name.startswith(("readme", "license", "copyright", "manifest", "checksum"))


def _check_central_directory(file: BinaryIO) -> None:
    """Checks the record at the end of a ZIP file, before `zipfile` reads all its entries into memory.

    Raises FeedError for too many entries, and BadZipFile if there is no such record.
    """
    size = file.seek(0, io.SEEK_END)
    file.seek(max(0, size - _END_RECORD.size - _LONGEST_COMMENT - _LOCATOR_SIZE))
    tail = file.read()
    file.seek(0)
    at = tail.rfind(_END)
    if at < 0 or len(tail) < at + _END_RECORD.size:
        raise zipfile.BadZipFile
    entries, directory_bytes = _END_RECORD.unpack_from(tail, at)
    # The 64-bit form is for archives over 4 GiB, or with more than 65,535 files.
    has_64_bit_form = _LOCATOR_64 in tail[max(0, at - _LOCATOR_SIZE) : at]
    if has_64_bit_form or entries > MOST_ENTRIES:
        raise FeedError(f"The archive has more than {MOST_ENTRIES:,} files. {_PLAIN}")
    if directory_bytes > _MOST_DIRECTORY_BYTES:
        raise FeedError(f"The list of the files in the archive has more than 1 MiB. {_PLAIN}")


def _check_overlaps(entries: list[zipfile.ZipInfo]) -> None:
    """Raises BadZipFile for entries that share bytes, so that a small archive has a large content."""
    in_order = sorted(entries, key=attrgetter("header_offset"))
    for entry, following in pairwise(in_order):
        if entry.header_offset + _HEADER_SIZE + entry.compress_size > following.header_offset:
            raise zipfile.BadZipFile


def _csv_of(rows: Iterator[list[str]]) -> Iterator[bytes]:
    """The rows as CSV, row by row."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        writer.writerow(row)
        yield text.getvalue().encode()
        text.seek(0)
        text.truncate()
