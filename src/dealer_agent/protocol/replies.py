"""The reply's envelope, put together from ready JSON (specification, part 2.1). Pure."""

from functools import lru_cache
from typing import NamedTuple

import msgspec

from dealer_agent.protocol.envelope import Request
from dealer_agent.protocol.skill import Skill
from dealer_agent.protocol.vocabulary import Vocabulary


class Answer(NamedTuple):
    """A skill's reply: the JSON of `data`, and a sentence for the reader beside it."""

    data: bytes
    message: str | None = None


def reply_body(request: Request, message_id: str, answer: Answer) -> bytes:
    """`{"message": ...}` around a skill's answer, in the vocabulary of its request."""
    head, tail = _frame(request.skill, request.vocabulary)
    context = b""
    if request.context_id is not None:
        context = b'"contextId":' + msgspec.json.encode(request.context_id) + b","
    words = b"" if answer.message is None else b',"message":' + msgspec.json.encode(answer.message)
    return b"".join((b'{"message":{"messageId":"', message_id.encode(), b'",', context, head, answer.data, words, tail))


@lru_cache(maxsize=64)
def _frame(skill: Skill, vocabulary: Vocabulary) -> tuple[bytes, bytes]:
    head = b'"role":"ROLE_AGENT","parts":[{"data":{"type":"' + skill.response_type.encode() + b'","data":'
    tail = b'},"mediaType":"' + vocabulary.response_media_type(skill).encode() + b'"}]}}'
    return head, tail
