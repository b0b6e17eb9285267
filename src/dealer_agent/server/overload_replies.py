"""The replies to requests that an overloaded process refuses. They are made in advance, except for ids and the time."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from dealer_agent.protocol.ids import new_ulid
from dealer_agent.protocol.vocabulary import Vocabulary
from dealer_agent.server.admission import too_busy
from dealer_agent.server.body import JSON
from dealer_agent.server.request_pipeline import Binding, reply_head

_SERVER_LINES, _LENGTH, _CALL_ID = b"<server>", b"<length>", b"<call>"
_ID, _TIME = b"0" * 26, b"2000-01-01T00:00:00.000Z"
_GAPS = re.compile(b"(" + b"|".join((_SERVER_LINES, _LENGTH, _CALL_ID, _ID, _TIME)) + b")")


class OverloadReplies:
    """The refusal in the format of each binding, in the default vocabulary."""

    def __init__(self, bindings: Iterable[Binding], words: Vocabulary) -> None:
        self._made = {binding.name: _made(binding, words) for binding in bindings}

    def reply(self, binding: Binding, body: bytes, server_lines: bytes) -> bytes:
        """The whole reply to a request with this body. `server_lines` are the server's own header lines."""
        pieces, length = self._made[binding.name]
        call_id = binding.call_id(body)
        gaps = {
            _SERVER_LINES: server_lines,
            _LENGTH: b"%d" % (length + len(call_id)),
            _CALL_ID: call_id,
            _ID: new_ulid().encode(),
            _TIME: datetime.now(UTC).isoformat(timespec="milliseconds").encode()[:-6] + b"Z",
        }
        return b"".join([gaps.get(piece, piece) for piece in pieces])


def _made(binding: Binding, words: Vocabulary) -> tuple[list[bytes], int]:
    """The reply in pieces, the gaps among them, and the length of its body without the call's id."""
    refused = too_busy()
    at = datetime.fromisoformat(_TIME.decode())
    status, body = binding.failure(refused, words, f"err_{_ID.decode()}", at, _CALL_ID)
    head = reply_head(JSON, refused.headers, _LENGTH.decode(), _ID.decode())
    whole = STATUS_LINE[status] + _SERVER_LINES + head + b"\r\n" + body
    return _GAPS.split(whole), len(body) - body.count(_CALL_ID) * len(_CALL_ID)
