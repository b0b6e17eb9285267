"""The revisions of the protocol, as far as checks need to know how they differ. Pure.

`0.1.0` and `1.0.0` are the revisions of the service's own specification. The others are the published versions of the
Auto Agent Protocol. The revision of a card follows from its extension URIs and from the spelling of its members.
"""

from dataclasses import dataclass
from typing import Any, Literal

from dealer_agent.protocol.published_versions import PUBLISHED_VERSIONS, PublishedVersion

Binding = Literal["JSONRPC", "HTTP+JSON"]


@dataclass(frozen=True)
class Revision:
    """How one revision differs from the others. The defaults are those of revision 1.0.0.

    `name` is what `--revision` and the tables of requirements call it. `extension` is its extension URI, if it is a
    published version.
    """

    name: str
    extension: str | None = None
    snake_case: bool = False
    """The members of the card are in snake_case."""
    bindings: tuple[Binding, ...] = ("JSONRPC", "HTTP+JSON")
    """The bindings that the revision has."""
    only_vocabulary: str | None = None
    """The one vocabulary of the revision; None if it has more."""
    unsearchable: frozenset[str] = frozenset()
    """Fields of a vehicle without filters and facets in the revision."""
    error_data: Literal["of the vocabulary", "payload", "details"] = "of the vocabulary"
    """The form of `error.data` in JSON-RPC: the error payload alone, or the array of details."""
    problem_members: tuple[str, str] = ("instancePath", "message")
    """The members of an entry of `details.errors` that have the pointer and the text."""
    condition_code: str = "SCHEMA_VALIDATION_FAILED"
    """The code for a condition from the wrong list."""
    needs_version_header: bool = False
    """A request without `A2A-Version` or `A2A-Extensions` is refused."""

    @property
    def is_published(self) -> bool:
        """Whether it is a version of the Auto Agent Protocol."""
        return self.name.startswith("aap/")


def _published(version: PublishedVersion) -> Revision:
    """A published version as a revision, for the checks that know only revisions."""
    return Revision(
        f"aap/{version.name}",
        version.extension_uri,
        bindings=("JSONRPC", "HTTP+JSON") if version.has_http_json else ("JSONRPC",),
        only_vocabulary="autoagent",
        unsearchable=version.unsearchable,
        error_data="details" if version.has_a2a_errors else "payload",
        problem_members=("instanceLocation", "error"),
        condition_code="INVALID_CONDITION",
        needs_version_header=version.needs_headers,
    )


REVISIONS: dict[str, Revision] = {
    each.name: each
    for each in (
        Revision("0.1.0", snake_case=True),
        Revision("1.0.0"),
        *map(_published, PUBLISHED_VERSIONS.values()),
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
            if uris[0] == revision.extension:
                return revision
    return REVISIONS["1.0.0"]
