"""The HTTP+JSON binding: `POST {base_url}/message:send` (specification, part 4)."""

from datetime import datetime

from dealer_agent.protocol.envelope import Request, decode_plain_request, decode_request, names_a_lead
from dealer_agent.protocol.errors import ProtocolError
from dealer_agent.protocol.replies import http_error_body
from dealer_agent.protocol.vocabulary import Vocabulary, Wire


class HttpJson:
    """Bodies are the message itself; errors carry their HTTP status."""

    name = "http+json"

    def decode(self, body: bytes, wire: Wire, *, lenient: bool) -> tuple[bytes, Request | ProtocolError]:
        """The request in the body; the binding has no call id."""
        try:
            return b"", decode_request(body, wire, lenient=lenient)
        except ProtocolError as error:
            return b"", error

    def decode_plain(self, body: bytes, wire: Wire) -> tuple[bytes, Request] | None:
        """The request of a reading skill, where nothing about it is unusual."""
        request = decode_plain_request(body, wire)
        return None if request is None else (b"", request)

    def names_a_lead(self, body: bytes) -> bool:
        """Whether the body's data is a lead."""
        return names_a_lead(body)

    def call_id(self, body: bytes) -> bytes:  # noqa: ARG002 - there is none in this binding.
        """None is sent."""
        return b""

    def success(self, call_id: bytes, reply: list[bytes]) -> list[bytes]:  # noqa: ARG002 - there is none in this binding.
        """The reply as it is."""
        return reply

    def failure(
        self,
        error: ProtocolError,
        words: Vocabulary,
        error_id: str,
        at: datetime,
        call_id: bytes,  # noqa: ARG002 - as above.
    ) -> tuple[int, bytes]:
        """The error envelope under its own status (specification, part 7)."""
        return error.http, http_error_body(error, words, error_id, at)
