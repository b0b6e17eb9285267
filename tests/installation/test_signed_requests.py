"""Signed requests in an installation: what is signed for one dealer is no request to another (docs/protocol.md)."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from tests.http_signatures.signed import KEY, ORIGIN, SIGNER
from tests.installation.platform import DEALERS, INSTALLATION_TOML, add, make_installation, run_installation
from tests.server.dealership import Dealership, error_of, message

from dealer_agent.callers import Policy
from dealer_agent.http_signatures.directory import directory_document
from dealer_agent.storage.agent_policies import set_policy
from dealer_agent.storage.key_sets import ask_for_keys, put_keys

pytestmark = pytest.mark.requirement("signed-requests", "replayed-signatures")
NORTH, SOUTH = DEALERS
PLATFORM, NORTH_HOST, SOUTH_HOST = "agents.example.com", "cars.north.example", "cars.south.example"
HOUR = timedelta(hours=1)


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dealership]:
    """An installation that has the keys of the agent."""
    installation = make_installation(
        tmp_path_factory.mktemp("signed") / "installation", f'{INSTALLATION_TOML}\n[rate_limits]\nbad_tokens = ""\n'
    )
    add(installation, NORTH, hosts=(NORTH_HOST,))
    add(installation, SOUTH, hosts=(SOUTH_HOST,))
    with run_installation(installation) as running:
        known = running.app.dealers.process.known_keys
        assert known is not None
        with known.store.write(known.owner, datetime.now(UTC)) as tx:
            ask_for_keys(tx, [ORIGIN])
            put_keys(tx, ORIGIN, directory_document([KEY]), tx.now + HOUR)
        # It does so itself each second.
        running.portal.call(known.refresh)
        yield running


def body(skill: str, **members: Any) -> bytes:
    return json.dumps(message(skill, **members)).encode()


def signed(content: bytes, host: str, path: str) -> dict[str, str]:
    return {"host": host, **SIGNER.sign("POST", host, path, "", content, time.time())}


def reason(answer: httpx.Response) -> str:
    assert answer.status_code == 401, answer.text
    return str(error_of(answer)["details"]["reason"])


@pytest.mark.parametrize("skill", ["inventory.search", "lead.submit"])
@pytest.mark.parametrize(
    ("host", "path"), [(PLATFORM, f"/d/{NORTH}/message:send"), (NORTH_HOST, "/message:send")], ids=["path", "host"]
)
def test_a_request_that_was_signed_for_one_dealer_is_refused_at_the_others(
    platform: Dealership, skill: str, host: str, path: str
) -> None:
    content = body(skill)
    others = [(PLATFORM, f"/d/{SOUTH}/message:send"), (SOUTH_HOST, "/message:send")]
    for other_host, other_path in others:
        fresh = signed(content, host, path) | {"host": other_host}
        assert reason(platform.post(content, other_path, headers=fresh)) == "wrong_signature"
    headers = signed(content, host, path)
    assert platform.post(content, path, headers=headers).status_code == 200
    for other_host, other_path in others:
        answer = platform.post(content, other_path, headers=headers | {"host": other_host})
        assert reason(answer) in ("wrong_signature", "replayed")
    # Also with the host that was signed.
    answer = platform.post(content, "/message:send", headers=headers | {"host": SOUTH_HOST, "x-forwarded-host": host})
    assert reason(answer) in ("wrong_signature", "replayed")


def test_the_host_of_one_dealer_is_not_one_of_another(platform: Dealership) -> None:
    """The signature is right, and the path is that of another dealer."""
    content, path = body("inventory.search"), f"/d/{SOUTH}/message:send"
    answer = platform.post(content, path, headers=signed(content, NORTH_HOST, path))
    assert answer.status_code in (401, 404)


def test_a_nonce_is_used_up_for_all_dealers(platform: Dealership) -> None:
    content = body("inventory.search")
    paths = [f"/d/{dealer}/message:send" for dealer in DEALERS]
    sent = []
    for path in paths:
        headers = SIGNER.sign("POST", PLATFORM, path, "", content, time.time(), nonce="one nonce")
        sent.append(platform.post(content, path, headers={"host": PLATFORM, **headers}))
    assert sent[0].status_code == 200
    assert reason(sent[1]) == "replayed"


@pytest.mark.requirement("policies", "blocked-caller")
def test_the_policy_of_one_dealer_is_not_one_of_another(platform: Dealership) -> None:
    known = platform.app.dealers.process.known_keys
    assert known is not None
    with known.store.write(NORTH, datetime.now(UTC)) as tx:
        set_policy(tx, ORIGIN, Policy("block"), actor="test", reason="")

    def status(dealer: str) -> int:
        content, path = body("inventory.search"), f"/d/{dealer}/message:send"
        return platform.post(content, path, headers=signed(content, PLATFORM, path)).status_code

    deadline = time.monotonic() + 60
    while status(NORTH) != 403 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert (status(NORTH), status(SOUTH)) == (403, 200)
