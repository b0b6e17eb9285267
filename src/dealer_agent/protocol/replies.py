"""The reply's envelope, put together from ready JSON (specification, part 2.1). Pure."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

from dealer_agent.protocol.envelope import Request
from dealer_agent.protocol.skill import Skill
from dealer_agent.protocol.vocabulary import Vocabulary


class Answer(NamedTuple):
    """A skill's reply: the JSON of `data`, and a sentence for the reader beside it. `rest` continues `data`, in pieces.

    A page of listings is pieces until it is sent: every copy of it costs about as much as finding it.
    """

    data: bytes
    message: str | None = None
    rest: Sequence[bytes] = ()


def reply_pieces(request: Request, message_id: str, answer: Answer) -> list[bytes]:
    """`{"message": ...}` around a skill's answer, in the vocabulary of its request; in pieces."""
    head, tail = _frame(request.skill, request.vocabulary)
    context = b""
    if request.context_id is not None:
        context = b'"contextId":%b,' % msgspec.json.encode(request.context_id)
    if answer.message is not None:
        tail = b',"message":%b%b' % (msgspec.json.encode(answer.message), tail)
    opening = b'{"message":{"messageId":"%b",%b%b' % (message_id.encode(), context, head)
    return [opening, answer.data, *answer.rest, tail]


def reply_body(request: Request, message_id: str, answer: Answer) -> bytes:
    """The same in one piece."""
    return b"".join(reply_pieces(request, message_id, answer))


@lru_cache(maxsize=64)
def _frame(skill: Skill, vocabulary: Vocabulary) -> tuple[bytes, bytes]:
    head = b'"role":"ROLE_AGENT","parts":[{"data":{"type":"' + skill.response_type.encode() + b'","data":'
    tail = b'},"mediaType":"' + vocabulary.response_media_type(skill).encode() + b'"}]}}'
    return head, tail
