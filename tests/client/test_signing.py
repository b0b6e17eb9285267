"""The client signs each request anew, over exactly what it sends, and only requests to skills."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from time import time
from typing import Any

import httpx
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.client.dealers import PAGE, application, card, result

from dealer_agent.client import DealerAgent, HttpExchange, Retries, Signer, errors
from dealer_agent.http_signatures.directory import directory_document, stored_key_set
from dealer_agent.http_signatures.keys import private_key_of
from dealer_agent.http_signatures.signature_base import SignableRequest
from dealer_agent.http_signatures.web_bot_auth import VerifiedRequest, check_body, check_coverage, verify_request

pytestmark = pytest.mark.requirement("signed-requests")

URL = "http://dealer.test"
ORIGIN = "https://agent.example"
KEY = private_key_of(Ed25519PrivateKey.generate())
KEYS = stored_key_set(directory_document([KEY]), 0.0, 0.0)


def verified(url: str, method: str, headers: httpx.Headers | dict[str, str], content: bytes) -> VerifiedRequest:
    """The signature of a request as a dealer verifies it. Raises SignatureRefused."""
    target = httpx.URL(url)
    path, _, query = target.raw_path.decode().partition("?")
    lines = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    request = SignableRequest(method, target.netloc.decode(), path, query, lines)
    found = verify_request(request, time(), {ORIGIN: KEYS}.get)
    assert isinstance(found, VerifiedRequest)
    check_body(found, content)
    return found


def exchanges(respond: Callable[[bytes], tuple[int, object, dict[str, str]]], **options: Any) -> list[HttpExchange]:
    """The requests of one search."""
    seen: list[HttpExchange] = []

    async def search() -> None:
        discovered = DealerAgent.discover(
            URL, app=application(card(URL), respond), signer=Signer(KEY, ORIGIN), on_exchange=seen.append, **options
        )
        async with discovered as agent:
            await agent.search()

    asyncio.run(search())
    return seen


def test_each_attempt_has_a_signature_of_its_own() -> None:
    answers = iter([503, 503, 200])

    def respond(body: bytes) -> tuple[int, object, dict[str, str]]:
        return next(answers), result(body, PAGE), {"retry-after": "0"}

    fetched, *attempts = exchanges(respond, retries=Retries(most=2))
    found = [verified(each.url, each.method, dict(each.request_headers), each.request) for each in attempts]
    assert "signature" not in fetched.request_headers
    assert len({each.nonce for each in found}) == len(attempts) == 3
    for each in found:
        check_coverage(each)


@pytest.mark.parametrize(
    ("method", "url", "content"),
    [
        ("POST", "https://Dealer.Example:443/rpc", b"{}"),
        ("POST", "http://127.0.0.1:8080/d/a%20b/message:send?x=%41&y", b"[1]"),
        ("GET", "https://dealer.example", b""),
        ("DELETE", "https://dealer.example/tasks?", b""),
    ],
)
def test_the_signature_is_over_what_is_sent(method: str, url: str, content: bytes) -> None:
    request = httpx.Request(method, url, content=content)
    next(Signer(KEY, ORIGIN).auth_flow(request))
    path, _, query = request.url.raw_path.decode().partition("?")
    sent = SignableRequest(
        method, request.headers["host"], path, query, [(n.lower(), v) for n, v in request.headers.raw]
    )
    found = verify_request(sent, time(), {ORIGIN: KEYS}.get)
    assert isinstance(found, VerifiedRequest)
    assert (found.covers_target, found.content_digest is not None) == (True, bool(content))


def test_a_second_signature_replaces_the_first() -> None:
    request = httpx.Request("POST", URL, content=b"{}")
    signer = Signer(KEY, ORIGIN)
    signer.sign(request)
    signer.sign(request)
    assert len(request.headers.get_list("signature-input")) == len(request.headers.get_list("signature")) == 1


def test_a_refused_signature_is_an_error_with_its_reason() -> None:
    def respond(body: bytes) -> tuple[int, object, dict[str, str]]:
        payload = {"code": "AUTH_REQUIRED", "message": "Sign.", "details": {"reason": "expired"}, "error_id": "1"}
        number = msgspec.json.decode(body)["id"]
        return (
            401,
            {"jsonrpc": "2.0", "id": number, "error": {"code": -32000, "message": "Sign.", "data": [payload]}},
            {},
        )

    with pytest.raises(errors.AuthRequired) as refused:
        exchanges(respond)
    assert (refused.value.reason, refused.value.retryable) == ("expired", False)
    assert "keys directory" in refused.value.advice


@pytest.mark.parametrize(
    ("text", "origin", "message"),
    [
        (b"", ORIGIN, "is not a private JWK"),
        (b"-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n", ORIGIN, "is not a private key in PEM"),
        (None, ORIGIN, "cannot be read: No such file"),
        (b'{"kty":"OKP","crv":"Ed25519","d":"%s"}', "https://agent.example/keys", "is not the origin of an agent"),
        (b'{"kty":"OKP","crv":"Ed25519","d":"%s"}', "agent.example", "is not the origin of an agent"),
    ],
)
def test_a_wrong_key_or_origin_is_a_wrong_argument(
    text: bytes | None, origin: str, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "key"
    if text is not None:
        file.write_bytes(text.replace(b"%s", b"nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"))
    with pytest.raises(errors.InvalidRequest, match=message):
        Signer.from_file(file, origin)
