"""Defines the two vocabularies: the names of the protocol on the wire (docs/protocol.md#vocabulary). Pure."""

from dataclasses import dataclass
from functools import cached_property

from dealer_agent.protocol.skill import ALL_SKILLS, Skill


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """One vocabulary: the names of media types, error payloads, domain and extensions.

    Without `extension_0_1_0`, the card of revision 0.1.0 has no extension of this vocabulary. With `a2a_errors`, the
    `data` of a JSON-RPC error is A2A's array of details. Otherwise it is the payload alone.
    """

    name: str
    error_type: str
    domain: str
    extension_1_0_0: str
    extension_0_1_0: str | None
    a2a_errors: bool

    @property
    def error_type_url(self) -> str:
        """The `@type` of an error payload."""
        return f"type.googleapis.com/{self.error_type}"

    def request_media_type(self, skill: Skill) -> str:
        """The media type of a request part."""
        return f"application/vnd.{self.name}.{skill.stem}-request+json"

    def response_media_type(self, skill: Skill) -> str:
        """The media type of a response part."""
        return f"application/vnd.{self.name}.{skill.stem}-response+json"


PROTO_EXTENSION_0_1_0 = "https://proto.example/extensions/a2a-automotive-retail/v0.1"


def proto(
    domain: str = "proto.example",
    extension_1_0_0: str = "https://proto.example/extensions/a2a-automotive-retail/v1.0",
    extension_0_1_0: str = PROTO_EXTENSION_0_1_0,
) -> Vocabulary:
    """The vocabulary `proto`. The domain and the URIs of the extensions are settings."""
    return Vocabulary("proto", "proto.error", domain, extension_1_0_0, extension_0_1_0, a2a_errors=True)


AUTOAGENT = Vocabulary(
    "autoagent",
    "aap.error",
    "autoagentprotocol.org",
    "https://autoagentprotocol.org/extensions/a2a-automotive-retail/v1.0",
    # Public v0.1 is another protocol, and no published version is revision 0.1.0 of the binding.
    None,
    a2a_errors=False,
)


def bare_media_type(text: str) -> str:
    """A media type for comparisons: without parameters, in lower case."""
    return text.partition(";")[0].strip().lower()


JSON_MODES = ("application/json", "application/*", "*/*")
"""The output modes that cover every response."""


@dataclass(frozen=True)
class Vocabularies:
    """The vocabularies that a service understands. It answers in `default` if the request names none.

    Published versions have no `other` vocabulary.
    """

    default: Vocabulary
    other: Vocabulary | None = None

    @cached_property
    def both(self) -> tuple[Vocabulary, ...]:
        """The vocabularies, the default one first."""
        return (self.default,) if self.other is None else (self.default, self.other)

    @cached_property
    def requests(self) -> dict[str, tuple[Vocabulary, Skill]]:
        """The vocabulary and skill of each media type of a request."""
        return {
            vocabulary.request_media_type(skill): (vocabulary, skill)
            for vocabulary in self.both
            for skill in ALL_SKILLS
        }

    @cached_property
    def extensions(self) -> frozenset[str]:
        """The URIs of the profile's extensions, in both vocabularies and both revisions."""
        named = ((vocabulary.extension_1_0_0, vocabulary.extension_0_1_0) for vocabulary in self.both)
        return frozenset(uri for uris in named for uri in uris if uri is not None)

    @cached_property
    def accepted(self) -> dict[str, frozenset[str]]:
        """The output modes that match the response of each skill: media types of both vocabularies, JSON, wildcards."""
        return {skill.id: frozenset((*JSON_MODES, *self.response_types(skill))) for skill in ALL_SKILLS}

    def request_types(self, skill: Skill) -> list[str]:
        """The media types of a request part of the skill."""
        return [vocabulary.request_media_type(skill) for vocabulary in self.both]

    def response_types(self, skill: Skill) -> list[str]:
        """The media types of a response part of the skill."""
        return [vocabulary.response_media_type(skill) for vocabulary in self.both]

    def of_media_type(self, media_type: object) -> Vocabulary:
        """The vocabulary of a part's media type; the default if the media type names none."""
        if isinstance(media_type, str):
            bare = bare_media_type(media_type)
            for vocabulary in self.both:
                if bare.startswith(f"application/vnd.{vocabulary.name}."):
                    return vocabulary
        return self.default

    def accepts(self, modes: list[str], skill: Skill) -> bool:
        """Whether one of the buyer's output modes matches the skill's response (docs/protocol.md#envelope)."""
        covering = self.accepted[skill.id]
        return not covering.isdisjoint(modes) or any(bare_media_type(mode) in covering for mode in modes)


def vocabularies_of(default: str, proto_vocabulary: Vocabulary) -> Vocabularies:
    """The vocabularies of a service. `default` is the name of its default vocabulary: `proto` or `autoagent`."""
    return (
        Vocabularies(AUTOAGENT, proto_vocabulary)
        if default == AUTOAGENT.name
        else Vocabularies(proto_vocabulary, AUTOAGENT)
    )
