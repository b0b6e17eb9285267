"""The structured fields of a message (RFC 9651), within bounds. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from dealer_agent.http_signatures.errors import SignatureRefused
from dealer_agent.http_signatures.structured_fields import read_dictionary, read_text

MAX_FIELD_BYTES = 2048
"""The most bytes of a structured field that is parsed: the sum of its lines."""

Headers = Sequence[tuple[bytes, bytes]]
"""Header fields in the order of the message. Names are in lower case, as in ASGI."""


class Fields:
    """The header fields of a message. Each is parsed at most once, and only if it has at most `limit` bytes."""

    def __init__(self, headers: Headers, limit: int = MAX_FIELD_BYTES) -> None:
        self._limit = limit
        self._values = dict(headers)
        if len(self._values) < len(headers):
            self._values = {}
            for name, line in headers:
                earlier = self._values.get(name)
                self._values[name] = line if earlier is None else earlier.strip(b" \t") + b", " + line.strip(b" \t")
        # By the name of a field, its members. A field is parsed once.
        self._dictionaries: dict[str, Mapping[str, Any]] = {}

    def value(self, name: str) -> str | None:
        """The value of a field: its lines, joined with a comma (RFC 9421, section 2.1)."""
        line = self._values.get(name.encode("latin-1", "replace"))
        return None if line is None else line.strip(b" \t").decode("latin-1")

    def dictionary(self, name: str) -> Mapping[str, Any]:
        """The members of a dictionary field; empty if it is absent. Raises SignatureRefused.

        A member is a value with its parameters: `(value, parameters)`. That of an inner list is a list of such pairs.
        """
        members = self._dictionaries.get(name)
        if members is None:
            members = self._dictionaries[name] = parse_dictionary(name, self.value(name), self._limit)
        return members


def parse_dictionary(name: str, value: str | None, limit: int = MAX_FIELD_BYTES) -> Mapping[str, Any]:
    """The members of a dictionary field. Raises SignatureRefused, also if a name is there twice."""
    if value is None:
        return {}
    if len(value) > limit:
        raise SignatureRefused("too_large", f"The header {name} has more than {limit} bytes: send a shorter one.")
    try:
        return read_dictionary(value)
    except ValueError:
        raise SignatureRefused(
            "malformed", f"The header {name} is not a dictionary of structured fields (RFC 9651): correct it."
        ) from None


def parse_text(name: str, value: str) -> str:
    """The string in a field whose value is a structured string. Raises SignatureRefused."""
    try:
        return read_text(value)
    except ValueError:
        raise SignatureRefused(
            "malformed", f"The header {name} is not a string of structured fields (RFC 9651): correct it."
        ) from None
