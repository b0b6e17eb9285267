"""Signers of others are verified, and they verify what we sign (docs/protocol.md#signed-requests)."""

import json
import subprocess
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import http_message_signatures as foreign
import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from tests.acceptance.test_javascript_client import installed
from tests.http_signatures.signed import BODY, KEY, ORIGIN, SIGNER, known, with_headers

from dealer_agent.http_signatures.content_digest import content_digest
from dealer_agent.http_signatures.directory import MEDIA_TYPE, directory_document, read_directory
from dealer_agent.http_signatures.keys import encode
from dealer_agent.http_signatures.web_bot_auth import TAG, VerifiedRequest, check_body, check_coverage, verify_request

pytestmark = pytest.mark.outside_protocol("signers and verifiers of others")
JS = Path(__file__).with_name("js")
URL = "https://dealer.example/v1/message:send"
NOW = time.time()
JWK = KEY.jwk | {"d": encode(bytes(range(32)))}
LEAD = ({"name": "@method"}, {"name": "@authority"}, {"name": "@path"}, {"name": "content-digest"})


def node(action: str, **parts: Any) -> dict[str, str]:
    """What the package web-bot-auth of npm answers."""
    asked = {"action": action, "url": URL, "jwk": JWK, "created": int(NOW) - 1, "lives": 120} | parts
    told = subprocess.run(
        [installed(JS), "web_bot_auth.mjs"],
        cwd=JS,
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert told.returncode == 0, told.stderr
    answer: dict[str, str] = json.loads(told.stdout)
    return answer


@pytest.mark.parametrize(
    ("action", "agent", "component"),
    [
        ("sign", f'"{ORIGIN}"', {"name": "signature-agent"}),
        ("sign", f'sig1="{ORIGIN}"', {"name": "signature-agent"}),
        ("signMember", f'sig1="{ORIGIN}"', {"name": "signature-agent", "parameters": {"key": "sig1"}}),
    ],
    ids=["string", "whole dictionary", "member"],
)
def test_a_lead_signed_by_packages_of_npm_is_verified(action: str, agent: str, component: dict[str, Any]) -> None:
    headers = node(action, headers={"signature-agent": agent}, components=[*LEAD, component], body=BODY.decode())
    found = verify_request(with_headers(headers), NOW, known)
    assert isinstance(found, VerifiedRequest)
    assert (found.origin, found.thumbprint) == (ORIGIN, KEY.thumbprint)
    check_coverage(found)
    check_body(found, BODY)


def test_a_directory_signed_by_web_bot_auth_is_read() -> None:
    document = directory_document([KEY])
    headers = node(
        "directory", url=f"{ORIGIN}/.well-known/http-message-signatures-directory", headers={"content-type": MEDIA_TYPE}
    )
    lines = [(name.encode(), value.encode()) for name, value in headers.items()]
    assert {*read_directory(lines, document, "agent.example", NOW).keys} == {KEY.thumbprint}


def test_http_message_sig_of_npm_verifies_what_we_sign() -> None:
    headers = SIGNER.sign("POST", "dealer.example", "/v1/message:send", "", BODY, time.time() - 1)
    assert node("verify", headers=headers) == {"label": "agent"}


class Message:
    """A request as the package http-message-signatures takes it."""

    method = "POST"
    url = URL

    def __init__(self, headers: dict[str, str]) -> None:
        self.headers = headers


RESOLVER = foreign.MappingKeyResolver(
    public_keys={KEY.thumbprint: ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32))).public_key()},
    private_keys={KEY.thumbprint: ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32)))},
)


def test_a_lead_signed_by_http_message_signatures_is_verified() -> None:
    message = Message({"signature-agent": f'sig="{ORIGIN}"', "content-digest": content_digest(BODY)})
    foreign.HTTPMessageSigner(signature_algorithm=foreign.algorithms.ED25519, key_resolver=RESOLVER).sign(
        message,
        key_id=KEY.thumbprint,
        created=datetime.fromtimestamp(NOW, UTC),
        expires=datetime.fromtimestamp(NOW, UTC) + timedelta(seconds=60),
        nonce="a nonce",
        tag=TAG,
        label="sig",
        use_existing_digest=True,
        covered_component_ids=("@method", "@authority", "@target-uri", '"signature-agent";key="sig"', "content-digest"),
    )
    found = verify_request(with_headers({name.lower(): value for name, value in message.headers.items()}), NOW, known)
    assert isinstance(found, VerifiedRequest)
    check_coverage(found)
    check_body(found, BODY)


def test_http_message_signatures_verifies_what_we_sign() -> None:
    message = Message(SIGNER.sign("POST", "dealer.example", "/v1/message:send", "", BODY, time.time() - 1))
    verifier = foreign.HTTPMessageVerifier(signature_algorithm=foreign.algorithms.ED25519, key_resolver=RESOLVER)
    (result,) = verifier.verify(message, expect_tag=TAG, body=BODY)
    assert result.nonce
