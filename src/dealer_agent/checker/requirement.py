"""The requirements as data: one table for each subject, in `requirements/*.toml`.

Each row is one sentence that a dealer agent must, should or may fulfil:

    [[requirement]]
    id = "envelope.reply.message-id"
    level = "MUST"
    says = "The messageId of a reply differs from that of the request."
    link = "protocol.md#reply-message-id"
    advice = "Create a new id for each reply, for example a ULID."

`id` begins with the subject, and does not change. `link` is an anchor of docs/protocol.md, or a URL of another
specification. `advice` says what to do if the check fails. The other members are optional:

- `skills`: the check needs these skills. It is skipped if the card does not offer one of them.
- `revisions`, `bindings`, `vocabularies`: the requirement exists only there (`revision.py` has the names).
- `per`: how often it is checked. `target` (the default): for each card, binding and vocabulary. `interface`: for each
  card and binding, in the first vocabulary of the card. `card`: once for each card. `dealer`: once, at the first card
  that has the requirement. Use the widest that is enough: each request counts against the rate limits of the target.
- `leads = true`: the check submits leads, and runs only with `--leads`.
"""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Literal

import msgspec

Level = Literal["MUST", "SHOULD", "MAY"]
Scope = Literal["target", "interface", "card", "dealer"]

LEVELS: tuple[Level, ...] = ("MUST", "SHOULD", "MAY")


class Requirement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row. An empty tuple of revisions, bindings or vocabularies means all."""

    id: str
    level: Level
    says: str
    link: str
    advice: str
    skills: tuple[str, ...] = ()
    revisions: tuple[str, ...] = ()
    bindings: tuple[str, ...] = ()
    vocabularies: tuple[str, ...] = ()
    per: Scope = "target"
    leads: bool = False

    @property
    def subject(self) -> str:
        """The first word of the id, for example `search`."""
        return self.id.partition(".")[0]

    def applies_to(self, revision: str, binding: str, vocabulary: str) -> bool:
        """Whether the requirement exists there. An empty list of the row means everywhere."""
        return (
            (not self.revisions or revision in self.revisions)
            and (not self.bindings or binding in self.bindings)
            and (not self.vocabularies or vocabulary in self.vocabularies)
        )


@cache
def requirements() -> dict[str, Requirement]:
    """All rows by id, in the order of the files' names and of their rows.

    Raises ValueError for an id that occurs twice, and msgspec.ValidationError for a wrong row.
    """
    found: dict[str, Requirement] = {}
    for file in sorted(files(__package__).joinpath("requirements").iterdir(), key=lambda each: each.name):
        if not file.name.endswith(".toml"):
            continue
        for each in msgspec.convert(tomllib.loads(file.read_text("utf-8"))["requirement"], list[Requirement]):
            if each.id in found:
                raise ValueError(f"{file.name}: the id {each.id} occurs twice")
            found[each.id] = each
    return found
