"""What all types of responses have in common. Pure."""

from typing import Any

import msgspec
from msgspec import Struct


class Result(Struct, frozen=True, kw_only=True, omit_defaults=True, repr_omit_defaults=True):
    """A response, or a part of it. Results are immutable. They can be compared, copied and pickled.

    A member that the response does not have is None, and is not printed.
    """

    def to_dict(self) -> dict[str, Any]:
        """The members as values of JSON. A member that is None is left out."""
        members: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return members


class SkippedListing(Result, frozen=True):
    """A listing that cannot be read, for example one whose price is a text.

    `index` is its place on the page. `reason` says what is wrong with it, with a pointer. `listing` is the listing as
    received.
    """

    index: int
    reason: str
    listing: Any
