"""Heads of a dealer's hash chains, for records outside the database. Pure.

A head is the number of rows of a chain, and the hash of the last row. Its text is one line: the dealer's id, the chain,
the number of rows, the hash in hexadecimal digits, and the time in UTC.

    ridgeline consents 1204 9c56...64 digits... 2026-03-02T09:30:00Z
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple, Self

MOST_CHARACTERS = 512
"""The most characters of a head."""

_HEAD = re.compile(
    r"(?P<dealer>[a-z0-9-]{1,100}) (?P<chain>consents|accesses) (?P<count>[0-9]{1,18}) (?P<hash>[0-9a-f]{64}|-)"
    r" (?P<at>[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)"
)
_FORM = "%Y-%m-%dT%H:%M:%SZ"


class Head(NamedTuple):
    """The head of a chain at a time. The hash of a chain without rows is empty."""

    dealer_id: str
    chain: str
    rows: int
    hash: bytes
    at: datetime

    def __str__(self) -> str:
        """The head as one line of text."""
        return f"{self.dealer_id} {self.chain} {self.rows} {self.hash.hex() or '-'} {self.at.astimezone(UTC):{_FORM}}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parses a line that `str` of a head returned. Raises ValueError."""
        found = _HEAD.fullmatch(text.strip())
        if found is None:
            raise ValueError("is no head: write a line as `dealer-agent consent head` prints it")
        hexadecimal = "" if found["hash"] == "-" else found["hash"]
        at = datetime.strptime(found["at"], _FORM).replace(tzinfo=UTC)
        return cls(found["dealer"], found["chain"], int(found["count"]), bytes.fromhex(hexadecimal), at)


def by_chain(heads: Iterable[Head], dealer_id: str) -> dict[str, Mapping[int, bytes]]:
    """The hashes of a dealer's heads by chain and number of rows, for the checks of the chains.

    Raises ValueError for two heads with the same number and different hashes: the chain was rewritten.
    """
    found: dict[str, dict[int, bytes]] = {"consents": {}, "accesses": {}}
    for head in heads:
        if head.dealer_id != dealer_id or head.rows == 0:
            continue
        if found[head.chain].setdefault(head.rows, head.hash) != head.hash:
            raise ValueError(
                f"two recorded heads of {head.chain} count {head.rows} and have different hashes: the record was "
                "written anew in between"
            )
    return dict(found)
