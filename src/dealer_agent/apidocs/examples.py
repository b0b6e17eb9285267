"""The documentation of each skill (skill_docs.json), with examples of requests, responses and commands. Pure.

The people, phones and vehicles are invented. Responses are converted to the wire types, so they have the same shape.
"""

import json
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from dealer_agent.apidocs.components import PARTS
from dealer_agent.protocol.card import TOKEN_VARIABLE
from dealer_agent.protocol.envelope import Request
from dealer_agent.protocol.errors import ERRORS, ProtocolError
from dealer_agent.protocol.response_bodies import SkillResult, http_error_body, json_rpc_error_body, response_pieces
from dealer_agent.protocol.skill import DEALER_INFORMATION, INVENTORY_SEARCH, INVENTORY_VEHICLE, SKILL_BY_ID, Skill
from dealer_agent.protocol.vocabulary import Vocabulary

EXAMPLE_VIN = "1HGCY2F57RA000001"
EXAMPLE_TIME = datetime(2026, 1, 5, 15, 0, tzinfo=UTC)
"""The default time of the examples. It is long past, so no consent in them is granted in the future."""

_REPLY_ID = "01KE7AQHV0C8D2F4G6H1J3K5MF"
_ERROR_ID = "err_01KE7AQMD5N7Q9S2T4V6X8Z1BG"


class SkillDocs(Struct, frozen=True):
    """What the documentation says of one skill.

    `question` is what the skill answers, in a shopper's words. The example request has `message_id` and the members of
    `request` (`example_payload`). The example response has `reply` as its data, and `reply_message`.
    """

    question: str
    example_question: str
    message_id: str
    request: dict[str, Any]
    reply: Any
    reply_message: str | None = None


def _read_skill_docs() -> dict[Skill, SkillDocs]:
    """The documentation of each skill, with the example response as the type of its data."""
    text = files(__package__).joinpath("skill_docs.json").read_text("utf-8")
    docs = msgspec.json.decode(text, type=dict[str, SkillDocs])
    # The example of a vehicle is the one that the example of a search finds.
    docs[INVENTORY_VEHICLE.id].reply.update(docs[INVENTORY_SEARCH.id].reply["vehicles"][0])
    return {
        skill: msgspec.structs.replace(docs[skill_id], reply=msgspec.convert(docs[skill_id].reply, skill.data))
        for skill_id, skill in SKILL_BY_ID.items()
    }


SKILL_DOCS = _read_skill_docs()


def example_payload(skill: Skill, *, now: datetime = EXAMPLE_TIME, vin: str = EXAMPLE_VIN) -> dict[str, Any]:
    """A request payload. `now` is when the customer of a lead consents. `vin` is the vehicle of interest."""
    moment = now.astimezone(UTC).replace(microsecond=0)
    visit = (moment + timedelta(days=2)).replace(hour=19, minute=0, second=0)
    text = json.dumps(SKILL_DOCS[skill].request)
    for name, value in (
        ("NOW", f"{moment:%Y-%m-%dT%H:%M:%SZ}"),
        ("VISIT", f"{visit:%Y-%m-%dT%H:%M:%SZ}"),
        ("KEY", f"example-{moment:%Y%m%dT%H%M%S}-{vin}"),
        ("VIN", vin),
    ):
        text = text.replace(f'"{name}"', json.dumps(value))
    return {"type": skill.request_type, **json.loads(text)}


def example_body(
    skill: Skill, vocabulary: Vocabulary, *, now: datetime = EXAMPLE_TIME, vin: str = EXAMPLE_VIN
) -> dict[str, Any]:
    """The whole body of `POST /message:send`: the payload of `example_payload` in its envelope."""
    part = {
        "data": example_payload(skill, now=now, vin=vin),
        "mediaType": vocabulary.request_media_type(skill),
    }
    return {
        "message": {"messageId": SKILL_DOCS[skill].message_id, "role": "ROLE_USER", "parts": [part]},
        "configuration": {"acceptedOutputModes": [vocabulary.response_media_type(skill)]},
    }


def example_call(body: dict[str, Any]) -> dict[str, Any]:
    """The JSON-RPC 2.0 call with the content of a body of `POST /message:send`."""
    return {"jsonrpc": "2.0", "id": "1", "method": "SendMessage", "params": body}


def curl_command(
    base_url: str,
    skill: Skill,
    vocabulary: Vocabulary,
    *,
    now: datetime = EXAMPLE_TIME,
    vin: str = EXAMPLE_VIN,
    bearer: bool = False,
    compact: bool = False,
) -> str:
    """A command for a POSIX shell. `base_url` is the URL of the HTTP+JSON interface, without a trailing slash.

    With `bearer`, the command reads a token from the environment. `compact` writes the body on one line.
    """
    example = example_body(skill, vocabulary, now=now, vin=vin)
    body = msgspec.json.encode(example).decode() if compact else json_text(example)
    token = [f'-H "Authorization: Bearer ${TOKEN_VARIABLE}"'] if bearer else []
    lines = [
        f"curl -sS {shlex.quote(f'{base_url}/message:send')}",
        "-H 'Content-Type: application/json'",
        *token,
        f"-d {shlex.quote(body)}",
    ]
    return " \\\n  ".join(lines)


_LINE = 88


def json_text(value: Any, indent: int = 0) -> str:
    """JSON for people: indented by two. A value that fits on one line is on one line."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + indent <= _LINE or not isinstance(value, dict | list):
        return flat
    inner = indent + 2
    if isinstance(value, dict):
        opened, closed = "{}"
        items = [f"{json.dumps(name)}: {json_text(item, inner)}" for name, item in value.items()]
    else:
        opened, closed = "[]"
        items = [json_text(item, inner) for item in value]
    lines = (",\n" + " " * inner).join(items)
    return f"{opened}\n{' ' * inner}{lines}\n{' ' * indent}{closed}"


def example_response(skill: Skill, vocabulary: Vocabulary) -> dict[str, Any]:
    """The successful response to `example_body`."""
    docs = SKILL_DOCS[skill]
    response = SkillResult(msgspec.json.encode(docs.reply), docs.reply_message)
    return _decoded(b"".join(response_pieces(Request(skill, vocabulary), _REPLY_ID, response)))


def example_json_rpc_response(vocabulary: Vocabulary) -> dict[str, Any]:
    """A successful JSON-RPC response."""
    return {"jsonrpc": "2.0", "id": "1", "result": example_response(DEALER_INFORMATION, vocabulary)}


class Status(NamedTuple):
    """What a status means, and one error that has it."""

    meaning: str
    example: ProtocolError

    def kinds(self) -> list[type[ProtocolError]]:
        """The errors with this status. For a status of the transport (413, 415), first the error sent with it."""
        kind, status = type(self.example), self.example.http
        return [kind] * (status != kind.http) + [
            other for other in ERRORS.values() if status in {other.http, *other.other_http}
        ]


def _status(http: int, code: str, meaning: str = "", example: Sequence[Any] = ()) -> Status:
    kind = ERRORS[code]
    return Status(meaning or kind.meaning, kind(*example, http=http) if example else kind(*kind.example))


STATUSES = {int(http): _status(int(http), **row) for http, row in PARTS["statuses"].items()}
"""Each HTTP status of errors (docs/protocol.md#errors), sorted."""


def example_error(status: int, vocabulary: Vocabulary) -> dict[str, Any]:
    """An error over HTTP+JSON with this status. Raises KeyError for a status that no error has."""
    return _decoded(http_error_body(STATUSES[status].example, vocabulary, _ERROR_ID, EXAMPLE_TIME))


def example_json_rpc_error(vocabulary: Vocabulary, status: int = 422) -> dict[str, Any]:
    """An error over JSON-RPC, in the form of the vocabulary. Raises KeyError as `example_error`."""
    return _decoded(json_rpc_error_body(STATUSES[status].example, vocabulary, _ERROR_ID, EXAMPLE_TIME, b'"1"'))


def _decoded(body: bytes) -> dict[str, Any]:
    return msgspec.json.decode(body, type=dict[str, Any])
