"""Signs requests as an agent (docs/protocol.md#signed-requests). Pure."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dealer_agent.http_signatures.content_digest import content_digest
from dealer_agent.http_signatures.fields import Fields, Headers
from dealer_agent.http_signatures.keys import PrivateKey, encode
from dealer_agent.http_signatures.signature_base import Component, Response, SignableRequest, signature_base
from dealer_agent.http_signatures.structured_fields import write_member
from dealer_agent.http_signatures.web_bot_auth import TAG

LABEL = "agent"
LIFE_SECONDS = 60
"""How long a signature of a request is valid."""


@dataclass(frozen=True, slots=True)
class RequestSigner:
    """Signs requests. `origin` is where the agent publishes its key directory, such as `https://agent.example`."""

    key: PrivateKey
    origin: str

    def sign(
        self, method: str, authority: str, path: str, query: str, body: bytes, now: float, nonce: str | None = None
    ) -> dict[str, str]:
        """The headers to add to a request. `path` and `query` are as sent; `now` is in seconds since 1970.

        The signature covers method, authority, path and query, and the body if there is one.
        """
        headers = {"signature-agent": f'{LABEL}="{self.origin}"'}
        components: list[Component] = [("@method", {}), ("@authority", {}), ("@path", {})]
        if query:
            components.append(("@query", {}))
        components.append(("signature-agent", {"key": LABEL}))
        if body:
            headers["content-digest"] = content_digest(body)
            components.append(("content-digest", {}))
        request = SignableRequest(
            method, authority, path, query, [(name.encode(), value.encode()) for name, value in headers.items()]
        )
        parameters = {
            "created": int(now),
            "expires": int(now) + LIFE_SECONDS,
            "keyid": self.key.thumbprint,
            "alg": self.key.algorithm,
            "nonce": nonce or encode(secrets.token_bytes(32)),
            "tag": TAG,
        }
        return headers | signed_fields([(LABEL, self.key, components, parameters)], request, request.headers)


def signed_fields(
    signatures: Sequence[tuple[str, PrivateKey, Sequence[Component], Mapping[str, Any]]],
    message: SignableRequest | Response,
    headers: Headers,
) -> dict[str, str]:
    """The fields signature-input and signature: of label, key, components and parameters of each signature."""
    fields = Fields(headers)
    inputs, values = [], []
    for label, key, components, parameters in signatures:
        base = signature_base(components, parameters, message, fields)
        inputs.append(f"{label}={write_member((list(components), parameters))}")
        values.append(f"{label}={write_member((key.sign(base), {}))}")
    return {"signature-input": ", ".join(inputs), "signature": ", ".join(values)}
