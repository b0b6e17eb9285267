"""The responses to requests that an overloaded process refuses. All but ids, times and lengths is made once."""

import re
from datetime import UTC, datetime

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from dealer_agent.protocol.ids import new_ulid
from dealer_agent.protocol.vocabulary import Vocabulary
from dealer_agent.server.admission import too_busy
from dealer_agent.server.bindings import Binding
from dealer_agent.server.body import JSON
from dealer_agent.server.request_pipeline import reply_head
from dealer_agent.server.service import Service

_SERVER_LINES, _LENGTH, _CALL_ID = b"<server>", b"<length>", b"<call>"
_ID, _TIME = b"0" * 26, b"2000-01-01T00:00:00.000Z"
_PLACEHOLDERS = re.compile(b"(" + b"|".join((_SERVER_LINES, _LENGTH, _CALL_ID, _ID, _TIME)) + b")")


def overload_reply(service: Service, binding: Binding, body: bytes, server_lines: bytes) -> bytes:
    """The response to a request with this body, in the default vocabulary of the dealer.

    `server_lines` are the header lines that uvicorn adds.
    """
    kept = _template, binding
    if kept not in service.documents:
        service.documents[kept] = _template(binding, service.vocabularies.default)
    pieces, length = service.documents[kept]
    call_id = binding.call_id(body)
    values = {
        _SERVER_LINES: server_lines,
        _LENGTH: b"%d" % (length + len(call_id)),
        _CALL_ID: call_id,
        _ID: new_ulid().encode(),
        _TIME: datetime.now(UTC).isoformat(timespec="milliseconds").encode()[:-6] + b"Z",
    }
    return b"".join([values.get(piece, piece) for piece in pieces])


def _template(binding: Binding, vocabulary: Vocabulary) -> tuple[list[bytes], int]:
    """The response in pieces, some of them placeholders, and the length of its body without the call's id."""
    error = too_busy()
    at = datetime.fromisoformat(_TIME.decode())
    status, body = binding.encode_error(error, vocabulary, f"err_{_ID.decode()}", at, _CALL_ID)
    head = reply_head(JSON, error.headers, _LENGTH.decode(), _ID.decode())
    response = STATUS_LINE[status] + _SERVER_LINES + head + b"\r\n" + body
    return _PLACEHOLDERS.split(response), len(body) - body.count(_CALL_ID) * len(_CALL_ID)
