"""Lists what is wrong with a request (docs/protocol.md#errors) or with the settings, as problems. Pure."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec

from dealer_agent.protocol.errors import MissingRequiredField, ProtocolError, SchemaValidationFailed

RECEIVED_LIMIT = 200
"""The most characters of a received value that an error repeats."""

PROBLEMS_SHOWN = 100
"""The most problems that an error lists. It counts the others (docs/protocol.md#bounds)."""

PROBLEM_LIMIT, MESSAGE_LIMIT = 400, 1000
"""The most characters in an error's message of one problem, and of all, without the number of others
(docs/protocol.md#error-message)."""

Path = tuple[str | int, ...]
"""Names of members and indexes of items, from the outermost value inwards."""

Place = Literal["payload", "envelope"]
"""The value in which the paths of problems begin."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with the value at `path`. `message` continues a sentence that begins with the name of the value.

    The others are for requests. `keyword` is the JSON Schema keyword that failed. `received` holds the received value;
    it is None if there is no value, or if the value is personal. `expected` is what to send, if only one value is
    valid. `left_out` counts further problems that are not described.
    """

    path: Path
    message: str
    keyword: str = ""
    received: tuple[Any] | None = None
    expected: str | None = None
    left_out: int = 0

    @property
    def pointer(self) -> str:
        """The path as an RFC 6901 JSON pointer."""
        return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in self.path)

    def below(self, *steps: str | int) -> "Problem":
        """The same problem, with its path in a value that contains this value at `steps`."""
        return replace(self, path=(*steps, *self.path))

    def as_details(self) -> dict[str, Any]:
        """This problem as an entry of `details.errors`."""
        entry = {"instancePath": self.pointer, "keyword": self.keyword, "message": self.message}
        return entry | {"received": _cut(self.received[0])} if self.received else entry


def validation_error(problems: list[Problem], where: Place) -> ProtocolError:
    """The error that reports all problems. Its message describes each by pointer, up to `MESSAGE_LIMIT`."""
    only_missing = all(problem.keyword == "required" for problem in problems)
    kind = MissingRequiredField if only_missing else SchemaValidationFailed
    return kind(*message_and_details(problems, where))


def message_and_details(problems: list[Problem], where: Place) -> tuple[str, dict[str, Any]]:
    """An error's message and details for at least one problem. The problems are sorted by pointer."""
    ordered = sorted(problems, key=lambda problem: (problem.pointer, problem.keyword))
    first = ordered[0]
    details: dict[str, Any] = {"in": where, "instancePath": first.pointer}
    if first.received:
        details["received"] = _cut(first.received[0])
    if first.expected:
        details["expected"] = first.expected
    details["errors"] = [problem.as_details() for problem in ordered[:PROBLEMS_SHOWN]]
    count = len(ordered) + sum(problem.left_out for problem in ordered)
    if count > PROBLEMS_SHOWN:
        details["errors_left_out"] = count - PROBLEMS_SHOWN
    return _message(ordered, count), details


def _message(ordered: list[Problem], count: int) -> str:
    """All of `count` problems, as far as they fit. Many clients show nothing of an error but this."""
    message = f"{count} problems: " if count > 1 else ""
    shown = 0
    for problem in ordered:
        text = _on_one_line(f"{problem.pointer or 'body'}: {problem.message}")[:PROBLEM_LIMIT]
        if len(message) + len(text) > MESSAGE_LIMIT:
            break
        message += "; " * bool(shown) + text
        shown += 1
    return message + f" ({count - shown} more in details.errors)" * (count > shown)


def _on_one_line(text: str) -> str:
    """The text with a space for each character that could control a terminal."""
    return "".join(character if character.isprintable() else " " for character in text)


def _cut(received: object) -> object:
    """A received value for an error. A long text is cut. A large object or array becomes its JSON text, cut."""
    if isinstance(received, str):
        return received[:RECEIVED_LIMIT]
    if isinstance(received, dict | list):
        text = msgspec.json.encode(received)
        return received if len(text) <= RECEIVED_LIMIT else text.decode()[:RECEIVED_LIMIT]
    return received
