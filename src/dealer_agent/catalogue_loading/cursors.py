"""The cursors of `inventory.changes` (docs/protocol.md#inventory-changes). Pure.

A cursor says which stock its reader has, and how far a reader is that goes from one stock to a newer one. It is
authenticated with a key of the dealer, so nobody else can make one, and nothing is stored for it.
"""

import binascii
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Final, NamedTuple

import msgspec

CURSOR_DAYS: Final = 30
_MAC_BYTES: Final = 16
SEVERAL_POLICIES: Final = ""
"""The policy of a stock whose listings were sent while the policy changed. It is equal to no digest."""


class StockPoint(NamedTuple):
    """A stock under a policy. `at` is the time of the import, in microseconds: other databases have other times.

    `policy` is a digest of the policy of its listings, or SEVERAL_POLICIES. Revision 0 is the empty stock.
    """

    revision: int = 0
    at: int | None = None
    policy: str = SEVERAL_POLICIES


class Position(NamedTuple):
    """What a reader has: the stock `base`, and of `target`, if any, the units up to the vehicle id `after`.

    `database` is the kind of database, SQLite or PostgreSQL, in whose order these ids are.
    """

    base: StockPoint = StockPoint()
    target: StockPoint | None = None
    after: str = ""
    database: str = ""


class _Content(NamedTuple):
    issued: int
    position: Position


_content = msgspec.msgpack.Decoder(_Content)


def write_cursor(key: bytes, position: Position, now: datetime) -> str:
    """The cursor of a position."""
    content = msgspec.msgpack.encode(_Content(int(now.timestamp()), position))
    return urlsafe_b64encode(_mac(key, content) + content).rstrip(b"=").decode("ascii")


def read_cursor(key: bytes, cursor: str) -> tuple[Position, datetime] | None:
    """The position of a cursor, and when the cursor was made. None if it was not made with this key."""
    try:
        decoded = urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
    except (UnicodeEncodeError, binascii.Error):
        return None
    mac, content = decoded[:_MAC_BYTES], decoded[_MAC_BYTES:]
    if not hmac.compare_digest(mac, _mac(key, content)):
        return None
    issued, position = _content.decode(content)
    return position, datetime.fromtimestamp(issued, UTC)


def has_expired(issued: datetime, now: datetime) -> bool:
    """Whether a cursor is too old."""
    return now - issued > timedelta(days=CURSOR_DAYS)


def _mac(key: bytes, content: bytes) -> bytes:
    return hmac.digest(key, content, sha256)[:_MAC_BYTES]
