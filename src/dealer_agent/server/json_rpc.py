"""The JSON-RPC 2.0 binding: method `SendMessage` (contract, part 3; A2A §9)."""

from datetime import datetime

from dealer_agent.protocol.envelope import Request
from dealer_agent.protocol.errors import ProtocolError
from dealer_agent.protocol.json_rpc import (
    HTTP_STATUSES,
    call_id,
    decode_call,
    decode_plain_call,
    names_a_lead,
    result_pieces,
)
from dealer_agent.protocol.replies import json_rpc_error_body
from dealer_agent.protocol.vocabulary import Vocabulary, Wire


class JsonRpc:
    """Bodies are calls; every answer repeats the call's id."""

    name = "json-rpc"

    def decode(self, body: bytes, wire: Wire, *, lenient: bool) -> tuple[bytes, Request | ProtocolError]:
        """The call's id and its request."""
        return decode_call(body, wire, lenient=lenient)

    def decode_plain(self, body: bytes, wire: Wire) -> tuple[bytes, Request] | None:
        """The call's id and its request of a reading skill, where nothing about it is unusual."""
        return decode_plain_call(body, wire)

    def names_a_lead(self, body: bytes) -> bool:
        """Whether the call's data is a lead."""
        return names_a_lead(body)

    def call_id(self, body: bytes) -> bytes:
        """The id of the call in this body."""
        return call_id(body)

    def success(self, call_id: bytes, reply: list[bytes]) -> list[bytes]:
        """The reply as the call's result."""
        return result_pieces(call_id, reply)

    def failure(
        self, error: ProtocolError, words: Vocabulary, error_id: str, at: datetime, call_id: bytes
    ) -> tuple[int, bytes]:
        """A JSON-RPC error in the form of the request's vocabulary."""
        status = error.http if error.http in HTTP_STATUSES else 200
        return status, json_rpc_error_body(error, words, error_id, at, call_id)
