"""The revisions of the protocol, as far as checks need to know how they differ. Pure.

`0.1.0` and `1.0.0` are the revisions of the service's own specification. The others are the published versions of the
Auto Agent Protocol. The revision of a card follows from its extension URIs and from the spelling of its members.
"""

from dataclasses import dataclass
from typing import Any, Literal

Binding = Literal["JSONRPC", "HTTP+JSON"]

PUBLISHED = "https://autoagentprotocol.org/extensions/"
DRAFT = "https://draft.autoagentprotocol.invalid/extensions/aap/latest"
"""The URI of the draft of the next major version, which is not released."""
OF_1_0 = f"{PUBLISHED}a2a-automotive-retail/v1.0"

FOUND_AT_1_2 = (
    "vehicle_type",
    "displacement_cc",
    "electric_range_mi",
    "dc_fast_charge",
    "charge_port",
)
"""Members of a listing, with their filters and facets, that the published versions know from 1.2 on."""


@dataclass(frozen=True)
class Revision:
    """How one revision differs from the others. The defaults are those of revision 1.0.0.

    `name` is what `--revision` and the tables of requirements call it. `extensions` are its extension URIs.
    """

    name: str
    extensions: tuple[str, ...] = ()
    snake_case: bool = False
    """The members of the card are in snake_case."""
    bindings: tuple[Binding, ...] = ("JSONRPC", "HTTP+JSON")
    """The bindings that the revision has."""
    only_vocabulary: str | None = None
    """The one vocabulary of the revision; None if it has more."""
    left_out: frozenset[str] = frozenset()
    """Members without filters, facets and sorts in the revision. Listings do not have them, but for the range."""
    error_data: Literal["of the vocabulary", "payload", "details"] = "of the vocabulary"
    """The form of `error.data` in JSON-RPC: the error payload alone, or the array of details."""
    problem_members: tuple[str, str] = ("instancePath", "message")
    """In an entry of `details.errors`: the member with the pointer, and that with the text."""
    condition_code: str = "SCHEMA_VALIDATION_FAILED"
    """The code for a condition from the wrong list."""
    needs_version_header: bool = False
    """A request without `A2A-Version` or `A2A-Extensions` is refused."""

    @property
    def is_published(self) -> bool:
        """Whether it is a version of the Auto Agent Protocol."""
        return self.name.startswith("aap/")


_NOT_IN_1_2 = frozenset({"fees"})
_NOT_IN_1_1 = frozenset({*FOUND_AT_1_2, "battery_kwh", "motor_power_hp", "other_attributes", "fees"})
_ITEMS = ("instanceLocation", "error")


def _published(name: str, extension: str, **differences: Any) -> Revision:
    common: dict[str, Any] = {
        "bindings": ("JSONRPC",),
        "only_vocabulary": "autoagent",
        "error_data": "payload",
        "problem_members": _ITEMS,
        "condition_code": "INVALID_CONDITION",
    }
    return Revision(name, (extension,), **(common | differences))


REVISIONS: dict[str, Revision] = {
    each.name: each
    for each in (
        Revision("0.1.0", snake_case=True),
        Revision("1.0.0"),
        _published(
            "aap/1.0",
            OF_1_0,
            bindings=("JSONRPC", "HTTP+JSON"),
            left_out=_NOT_IN_1_1,
        ),
        _published("aap/1.1", f"{PUBLISHED}aap/v1.1", left_out=_NOT_IN_1_1),
        _published("aap/1.2", f"{PUBLISHED}aap/v1.2", left_out=_NOT_IN_1_2),
        _published("aap/1.3", f"{PUBLISHED}aap/v1.3"),
        _published(
            "aap/next",
            DRAFT,
            error_data="details",
            needs_version_header=True,
        ),
    )
}


def revision_of(card: dict[str, Any], uris: list[str]) -> Revision:
    """The revision of a card, from its members and its extension URIs.

    A card that names no published version, or another extension beside that of 1.0, is of the service's specification.
    """
    if "supported_interfaces" in card:
        return REVISIONS["0.1.0"]
    if len(uris) == 1:
        for revision in REVISIONS.values():
            if uris[0] in revision.extensions:
                return revision
    return REVISIONS["1.0.0"]
