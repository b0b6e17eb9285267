"""Reads which extensions a request names (docs/protocol.md#envelope)."""

from collections.abc import Iterable
from itertools import islice

MOST_EXTENSIONS = 100
"""How many of the extensions that a request names are read."""


def named_extensions(headers: Iterable[tuple[bytes, bytes]]) -> list[str]:
    """The extensions in the headers `A2A-Extensions`, at most MOST_EXTENSIONS."""
    lines = (value.decode("latin-1") for name, value in headers if name == b"a2a-extensions")
    named = (uri.strip() for line in lines for uri in line.split(",", MOST_EXTENSIONS))
    return list(islice(named, MOST_EXTENSIONS))
