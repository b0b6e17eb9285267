"""What a defect is: a function between the checker and a conforming dealer, which breaks one requirement.

    @broken("search.filter.make")
    async def ignores_the_makes(call: Call, agent: Agent) -> Answer:
        return await agent(call.with_payload(lambda payload: payload.get("filters", {}).pop("make", None)))

    @broken("envelope.reply.message-id")
    async def repeats_the_id(call: Call, agent: Agent) -> Answer:
        answer = await agent(call)
        return answer.with_document(...)

A defect gets each request to the dealer, and answers it with the help of the dealer. What it breaks is so small that
only the check of this requirement fails in a whole run. A second defect of a requirement has a `name` of its own, the
name of the first is the id of the requirement. `sentences.toml` has a sentence for each name. Defects are modules of
`defects/`. A defect is checked on one target: the first revision, binding and vocabulary for which the requirement
exists (preferably 1.0.0, HTTP+JSON and proto), or those that the defect names.
"""

import copy
import json
import pkgutil
import tomllib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib import import_module
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

from dealer_agent.protocol.skill import SKILL_BY_REQUEST_TYPE

LISTENS_AT = "http://127.0.0.1:8080"
"""The address of the conforming dealer. Nothing listens there: its requests stay in the process."""

Change = Callable[[Any], object]
"""Changes a JSON value in place."""


@dataclass(frozen=True)
class Call:
    """One request to the agent. `url` is whole."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def path(self) -> str:
        """The path of the URL."""
        return urlsplit(self.url).path

    @cached_property
    def document(self) -> Any:
        """The JSON of the body; None if it has none."""
        return _json(self.body)

    @property
    def is_rpc(self) -> bool:
        """Whether it is a JSON-RPC call."""
        return isinstance(self.document, dict) and "jsonrpc" in self.document

    @property
    def payload(self) -> Any:
        """The payload of a skill request, in either binding; None if it has none."""
        return _payload(self.document)

    @property
    def skill(self) -> str | None:
        """The id of the skill of the request."""
        skill = SKILL_BY_REQUEST_TYPE.get(str((self.payload or {}).get("type")))
        return skill.id if skill else None

    def header(self, name: str) -> str | None:
        """The value of a header."""
        return next((value for each, value in self.headers if each.lower() == name.lower()), None)

    def with_header(self, name: str, value: str | None) -> "Call":
        """The same call with another value of a header; without the header for None."""
        return replace(self, headers=_with_header(self.headers, name, value))

    def with_document(self, change: Change) -> "Call":
        """The same call with a body that is changed in place. Unchanged if the body is not JSON."""
        return self if self.document is None else replace(self, body=_changed(self.document, change))

    def with_payload(self, change: Change) -> "Call":
        """The same call with another payload. Unchanged if it has none."""
        if self.payload is None:
            return self
        return self.with_document(lambda document: change(_payload(document)))


@dataclass(frozen=True)
class AgentResponse:
    """One response of the agent."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @cached_property
    def document(self) -> Any:
        """The JSON of the body; None if it has none."""
        return _json(self.body)

    @property
    def error(self) -> dict[str, Any] | None:
        """The member `error` of either binding."""
        error = self.document.get("error") if isinstance(self.document, dict) else None
        return error if isinstance(error, dict) else None

    @property
    def error_payload(self) -> Any:
        """The error payload of either binding; None for a success."""
        return _error_payload(self.document)

    @property
    def data(self) -> Any:
        """The `data` of a skill's successful response: a search page, a listing. None for an error."""
        return (_payload(self.document) or {}).get("data")

    def with_status(self, status: int) -> "AgentResponse":
        """The same response with another HTTP status."""
        return replace(self, status=status)

    def with_header(self, name: str, value: str | None) -> "AgentResponse":
        """The same response with another value of a header; without the header for None."""
        return replace(self, headers=_with_header(self.headers, name, value))

    def with_body(self, body: bytes) -> "AgentResponse":
        """The same response with another body."""
        return replace(self, body=body)

    def with_document(self, change: Change) -> "AgentResponse":
        """The same response with a body that is changed in place. Unchanged if the body is not JSON."""
        return self if self.document is None else self.with_body(_changed(self.document, change))

    def with_message(self, change: Change) -> "AgentResponse":
        """The same response with another response message. Unchanged for an error."""
        if _message(self.document) is None:
            return self
        return self.with_document(lambda document: change(_message(document)))

    def with_reply_payload(self, change: Change) -> "AgentResponse":
        """The same response with another payload (`type`, `data`, `message`). Unchanged for an error."""
        if _payload(self.document) is None:
            return self
        return self.with_document(lambda document: change(_payload(document)))

    def with_data(self, change: Change) -> "AgentResponse":
        """The same response with other `data` of the skill. Unchanged for an error."""
        return self.with_reply_payload(lambda payload: change(payload["data"]))

    def with_error(self, change: Change) -> "AgentResponse":
        """The same response with another member `error`. Unchanged for a success."""
        if self.error is None:
            return self
        return self.with_document(lambda document: change(document["error"]))

    def with_error_payload(self, change: Change) -> "AgentResponse":
        """The same response with another error payload. Unchanged for a success."""
        if self.error_payload is None:
            return self
        return self.with_document(lambda document: change(_error_payload(document)))


Agent = Callable[[Call], Awaitable[AgentResponse]]
"""The honest agent."""

Breaking = Callable[[Call, Agent], Awaitable[AgentResponse]]


@dataclass(frozen=True)
class Defect:
    """A broken dealer, and where it is checked. None: the first variant where the requirement exists."""

    name: str
    requirement: str
    says: str
    answer: Breaking
    revision: str | None
    binding: str | None
    vocabulary: str | None
    token: bool
    signed: bool
    base: str


# By the name of the defect.
_defects: dict[str, Defect] = {}


def broken(
    requirement_id: str,
    *,
    name: str = "",
    revision: str | None = None,
    binding: str | None = None,
    vocabulary: str | None = None,
    token: bool = False,
    signed: bool = False,
    base: str = LISTENS_AT,
) -> Callable[[Breaking], Breaking]:
    """Registers a function as a defect. With `token`, every skill needs a token, and the run has one.

    With `signed`, the run signs its requests, and the dealer knows its keys.

    `base` is the address that the run is given. The dealer answers at every address. Raises ValueError for a name that
    occurs twice, and KeyError for one without a sentence.
    """
    name = name or requirement_id

    def register(function: Breaking) -> Breaking:
        if name in _defects:
            raise ValueError(f"two defects have the name {name}")
        says = _sentence(name)
        _defects[name] = Defect(
            name, requirement_id, says, function, revision, binding, vocabulary, token, signed, base
        )
        return function

    return register


@cache
def defects() -> dict[str, Defect]:
    """All defects by name, in the order of the names. Imports the modules of `defects/`."""
    package = import_module(f"{__package__}.defects")
    for module in pkgutil.iter_modules(package.__path__):
        import_module(f"{package.__name__}.{module.name}")
    return dict(sorted(_defects.items()))


@cache
def sentences() -> dict[str, str]:
    """The rows of `sentences.toml`."""
    return tomllib.loads(files(__package__).joinpath("sentences.toml").read_text("utf-8"))


def _sentence(name: str) -> str:
    """What the dealer of a defect does: the row of its name, or else the longest one that is its beginning."""
    if name in sentences():
        return sentences()[name]
    beginnings = [each[:-1] for each in sentences() if each.endswith("*") and name.startswith(each[:-1])]
    if not beginnings:
        raise KeyError(f"sentences.toml has no sentence for {name}")
    start = max(beginnings, key=len)
    return sentences()[f"{start}*"].replace("{name}", name.removeprefix(start).replace("-", "_"))


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _changed(document: Any, change: Change) -> bytes:
    document = copy.deepcopy(document)
    change(document)
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _message(document: Any) -> Any:
    """The `message` of a request or response, in either binding."""
    for outer in ("params", "result"):
        if isinstance(document, dict) and isinstance(document.get(outer), dict):
            document = document[outer]
    message = document.get("message") if isinstance(document, dict) else None
    return message if isinstance(message, dict) else None


def _payload(document: Any) -> Any:
    message = _message(document)
    parts = message.get("parts") if message else None
    for part in parts if isinstance(parts, list) else []:
        if isinstance(part, dict) and isinstance(part.get("data"), dict):
            return part["data"]
    return None


def _error_payload(document: Any) -> Any:
    error = document.get("error") if isinstance(document, dict) else None
    data = error.get("data", error.get("details")) if isinstance(error, dict) else None
    for each in data if isinstance(data, list) else [data]:
        if isinstance(each, dict) and "error_id" in each:
            return each
    return None


def _with_header(headers: tuple[tuple[str, str], ...], name: str, value: str | None) -> tuple[tuple[str, str], ...]:
    others = tuple(each for each in headers if each[0].lower() != name.lower())
    return others if value is None else (*others, (name, value))
