"""The requirements as data: one file for each subject, in `requirements/*.toml`.

Each table is one sentence that a dealer agent must, should or may fulfil. Its name is the id:

    ["envelope.reply.message-id"]
    MUST = "The messageId of a response differs from that of the request."
    source = "specification §2.1 message"
    link = "protocol.md#reply-message-id"
    advice = "Create a new id for each response, for example a ULID."

The id begins with the subject, and does not change. `source` is what demands it: a section of the specification of the
service, a schema or a rule of the published versions (`AAP`), a section of another standard, or `dealer-agent`: a
decision of this project. These decisions are a profile, which is checked only if the run asks for it. What only a
published version demands is also a decision of this project where another revision is concerned. `link` is an anchor of
docs/protocol.md, or a URL of another specification. `advice` says what to do if the check fails. A table without `link`
or `advice` has that of the table above it. The table `[all]` has members that the others of its file share. The other
members are optional:

- `implied_by`: ids of requirements, or their beginnings. If one of them fails too, reports show the failure below it.
- `implies`: beginnings of ids, of which this one becomes the first cause. It is for what many checks build on.
- `skills`: the check needs these skills. It is skipped if the card does not offer one of them.
- `revisions`, `bindings`, `vocabularies`: the requirement exists only there (`revision.py` has the names).
- `per`: how often it is checked. `target` (the default): for each card, binding and vocabulary. `interface`: for each
  card and binding, in the first vocabulary of the card. `card`: once for each card. `binding`: once for each binding,
  and `dealer`: once, at the first card that has the requirement. Use the widest that is enough: each request counts
  against the rate limits of the target.
- `leads = true`: the check submits leads, and runs only with `--leads`.
- `refused` or `accepted`: the members of a request of the first skill that must be refused, or answered. Such a row
  needs no check in Python.
- `each`: the table is a template, with one requirement for each of these parameters: an array, or the name of those in
  `fields.PARAMETERS`. A later table with the id of such a requirement replaces members of it (its level: `level`).
"""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Literal

import msgspec

from dealer_agent.checker.fields import PARAMETERS

Level = Literal["MUST", "SHOULD", "MAY"]
Scope = Literal["target", "interface", "card", "binding", "dealer"]

LEVELS: tuple[Level, ...] = ("MUST", "SHOULD", "MAY")
OWN = "dealer-agent"
"""The source of this project's decisions, and their profile."""
PROFILES = (OWN,)


class Requirement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row. An empty tuple of revisions, bindings or vocabularies means all."""

    id: str
    level: Level
    says: str
    source: Annotated[str, msgspec.Meta(min_length=1)]
    link: str
    advice: str
    implied_by: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    revisions: tuple[str, ...] = ()
    bindings: tuple[str, ...] = ()
    vocabularies: tuple[str, ...] = ()
    per: Scope = "target"
    leads: bool = False
    refused: dict[str, Any] | None = None
    accepted: dict[str, Any] | None = None

    @property
    def subject(self) -> str:
        """The first word of the id, for example `search`."""
        return self.id.partition(".")[0]

    @property
    def rank(self) -> int:
        """The position of the level in the order of reports: MUST first."""
        return LEVELS.index(self.level)

    def profile(self, *, published: bool) -> str | None:
        """The profile to which the requirement belongs in a published version, or in another revision.

        None: it is checked in every run.
        """
        return OWN if self.source == OWN or (self.source.startswith("AAP ") and not published) else None

    def is_among(self, names: Iterable[str]) -> bool:
        """Whether these ids, or beginnings of ids, name the requirement."""
        return is_below(self.id, names)

    def applies_to(self, revision: str, binding: str, vocabulary: str) -> bool:
        """Whether the requirement exists there. An empty list of the row means everywhere."""
        return (
            (not self.revisions or revision in self.revisions)
            and (not self.bindings or binding in self.bindings)
            and (not self.vocabularies or vocabulary in self.vocabularies)
        )


@cache
def requirements() -> dict[str, Requirement]:
    """All rows by id, in the order of the files' names and of their rows."""
    folder = sorted(files(__package__).joinpath("requirements").iterdir(), key=lambda each: each.name)
    return read_rows({file.name: file.read_text("utf-8") for file in folder})


def read_rows(texts: Mapping[str, str]) -> dict[str, Requirement]:
    """The rows of these files by id.

    Raises ValueError for an id that occurs twice, KeyError for members of a row that does not exist, and
    msgspec.ValidationError for a wrong row.
    """
    rows: dict[str, dict[str, Any]] = {}
    for name, text in texts.items():
        for row in _rows(tomllib.loads(text)):
            if "says" not in row:
                # A later table, which replaces members of a row that `each` made.
                rows[row["id"]].update(row)
            elif row["id"] in rows:
                raise ValueError(f"{name}: the id {row['id']} occurs twice")
            else:
                rows[row["id"]] = row
    bases = {name: row.pop("implies") for name, row in rows.items() if "implies" in row}
    for name, row in rows.items():
        first = [base for base, ids in bases.items() if name != base and is_below(name, ids)]
        row["implied_by"] = [*first, *row.get("implied_by", ())]
    return {name: msgspec.convert(row, Requirement) for name, row in rows.items()}


def is_below(name: str, ids: Iterable[str]) -> bool:
    """Whether these ids, or beginnings of ids, name an id."""
    return any(name == each or name.startswith(f"{each}.") for each in ids)


def _rows(document: dict[str, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The rows of a file. A row without `says` replaces members of a generated one."""
    common = document.pop("all", {})
    above: dict[str, Any] = {}
    for name, table in document.items():
        level = next((each for each in LEVELS if each in table), None)
        if level is None:
            yield {"id": name, **table}
            continue
        row = {**common, **above, "id": name, "level": level, "says": table.pop(level), **table}
        above = {"link": row["link"], "advice": row["advice"]}
        if "each" in row:
            each = row.pop("each")
            for parameters in PARAMETERS[each] if isinstance(each, str) else each:
                yield _filled(row, parameters)
        else:
            yield row


def _filled(template: dict[str, Any], parameters: dict[str, Any]) -> dict[str, Any]:
    """A template with its parameters, of which `value` may have any type. The revisions are those of the parameters."""

    def fill(node: Any) -> Any:
        if isinstance(node, dict):
            return {fill(name): fill(value) for name, value in node.items()}
        if isinstance(node, list):
            return [fill(each) for each in node]
        if node == "{value}":
            return parameters["value"]
        return node.format_map(parameters) if isinstance(node, str) else node

    return {"revisions": parameters.get("revisions", []), **fill(template)}
