"""Attacks with signed requests on the real application (docs/explanation/attacks.md#agents-that-say-who-they-are)."""

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.acceptance.running import eventually
from tests.http_signatures.signed import KEY, P256
from tests.server.conftest import OpenDealership
from tests.server.dealership import NO_LIMITS, Dealership, error_of, message

from dealer_agent.http_signatures.directory import directory_document
from dealer_agent.http_signatures.signing import Signer
from dealer_agent.server import limits
from dealer_agent.server.nonces import NONCE_SECONDS, FileNonces
from dealer_agent.storage.key_sets import ask_for_keys, put_keys
from tests.storage.calls import write_at

pytestmark = pytest.mark.requirement("signed-requests")
HONEST, OTHER = Signer(KEY, "https://agent.example"), Signer(P256, "https://other.example")
PUBLIC = "[service]\npublic_url = 'https://dealer.example'\n"


def know(opened: Dealership, *signers: Signer) -> Dealership:
    """The dealership, when it has the keys of the agents."""
    now = datetime.now(UTC)
    with opened.store() as store:
        for signer in signers:
            write_at(now, store, "test-motors", ask_for_keys, [signer.origin])
            document = directory_document([signer.key])
            write_at(now, store, "test-motors", put_keys, signer.origin, document, now + timedelta(hours=1))
    known = opened.service.process.known_keys
    assert known is not None
    for signer in signers:
        eventually("the keys are loaded", lambda origin=signer.origin: known.find(origin))
    return opened


@pytest.fixture
def opened(open_dealership: OpenDealership) -> Dealership:
    return know(open_dealership(NO_LIMITS + PUBLIC), HONEST, OTHER)


def body(skill: str, **members: Any) -> bytes:
    return json.dumps(message(skill, **members)).encode()


def signed(
    content: bytes, signer: Signer = HONEST, authority: str = "dealer.example", path: str = "/message:send"
) -> dict[str, str]:
    return {"host": authority, **signer.sign("POST", authority, path, "", content, time.time())}


def send(opened: Dealership, content: bytes, headers: dict[str, str], path: str = "/message:send") -> httpx.Response:
    return opened.post(content, path, headers=headers)


def reason(answer: httpx.Response) -> str:
    assert answer.status_code == 401, answer.text
    return str(error_of(answer)["details"]["reason"])


@pytest.mark.parametrize("skill", ["inventory.search", "lead.submit"])
@pytest.mark.parametrize("authority", ["evil.example", "dealer.example.evil.example", "127.0.0.1:8080", "localhost"])
def test_a_dealer_that_got_a_signed_request_cannot_send_it_on(
    opened: Dealership, skill: str, authority: str
) -> None:
    """It sends the bytes and the Host of the request that it got, to the address of another dealer."""
    content = body(skill)
    assert reason(send(opened, content, signed(content, authority=authority))) == "wrong_signature"


@pytest.mark.parametrize("authority", ["dealer.example", "Dealer.Example", "dealer.example:443", "dealer.example:8443"])
def test_the_hosts_of_the_dealer_are_accepted(opened: Dealership, authority: str) -> None:
    content = body("lead.submit")
    assert send(opened, content, signed(content, authority=authority)).status_code == 200
