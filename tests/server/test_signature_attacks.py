"""Attacks with signed requests on the real application (docs/explanation/attacks.md#agents-that-say-who-they-are)."""

import gzip
import json
import sqlite3
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Any

import httpx
import pytest
from tests.acceptance.running import eventually
from tests.http_signatures.signed import KEY, P256, P384
from tests.offering.conftest import OFFERS
from tests.server.conftest import OpenDealership
from tests.server.dealership import DATABASE, NO_LIMITS, Dealership, error_of, message, run_dealership, set_up
from tests.server.test_policies import give
from tests.storage.calls import read, write_at

from dealer_agent.callers import Policy
from dealer_agent.callers import signed as caller_of
from dealer_agent.callers.policy import QUARANTINED_LEADS_A_DAY
from dealer_agent.http_signatures.directory import directory_document
from dealer_agent.http_signatures.signature_base import Component, SignableRequest
from dealer_agent.http_signatures.signing import RequestSigner, signed_fields
from dealer_agent.http_signatures.web_bot_auth import TAG
from dealer_agent.server.nonces import NONCE_SECONDS, FileNonces
from dealer_agent.storage.key_sets import ask_for_keys, find_source, put_keys

pytestmark = [pytest.mark.requirement("signed-requests"), pytest.mark.usefixtures("looks_often")]
HONEST, OTHER = RequestSigner(KEY, "https://agent.example"), RequestSigner(P256, "https://other.example")
PUBLIC = "[service]\npublic_url = 'https://dealer.example'\n"


def know(opened: Dealership, *signers: RequestSigner) -> Dealership:
    """The dealership, with the keys of the agents."""
    now = datetime.now(UTC)
    with opened.store() as store:
        for signer in signers:
            write_at(now, store, "test-motors", ask_for_keys, [signer.origin])
            document = directory_document([signer.key])
            write_at(now, store, "test-motors", put_keys, signer.origin, document, now + timedelta(hours=1))
    known = opened.service.process.known_keys
    assert known is not None
    # The service reads them itself each second. The test does not wait for it.
    opened.portal.call(known.refresh)
    assert all(known.find(signer.origin) for signer in signers)
    return opened


@pytest.fixture
def opened(open_dealership: OpenDealership) -> Dealership:
    return know(open_dealership(NO_LIMITS + PUBLIC), HONEST, OTHER)


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory, stocked: Path) -> Iterator[Dealership]:
    """One dealership for tests that look at answers only."""
    folder = tmp_path_factory.mktemp("unchanged")
    set_up(folder, NO_LIMITS + PUBLIC, stocked=stocked)
    with run_dealership(folder) as running:
        yield know(running, HONEST, OTHER)


def body(skill: str, **members: Any) -> bytes:
    return json.dumps(message(skill, **members)).encode()


def signed(
    content: bytes, signer: RequestSigner = HONEST, authority: str = "dealer.example", path: str = "/message:send"
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
    unchanged: Dealership, skill: str, authority: str
) -> None:
    """The dealer sends the bytes and the Host of the request that it got to the address of another dealer."""
    content = body(skill)
    assert reason(send(unchanged, content, signed(content, authority=authority))) == "wrong_signature"


@pytest.mark.parametrize("authority", ["dealer.example", "Dealer.Example", "dealer.example:443", "dealer.example:8443"])
def test_the_hosts_of_the_dealer_are_accepted(unchanged: Dealership, authority: str) -> None:
    content = body("lead.submit")
    assert send(unchanged, content, signed(content, authority=authority)).status_code == 200


def test_many_origins_do_not_multiply_the_rate_of_leads(open_dealership: OpenDealership) -> None:
    opened = know(open_dealership(PUBLIC), HONEST, OTHER)
    allowed = RequestSigner(P384, "https://allowed.example")
    give(opened, allowed.origin, Policy("allow"))
    know(opened, allowed)
    eventually("the policy holds", lambda: opened.service.policies.source_of(allowed.origin).agent == allowed.origin)
    answers = [send_lead(opened, n, (HONEST, OTHER)[n % 2]) for n in range(11)]
    assert [answer.status_code for answer in answers] == [200] * 10 + [429]
    assert opened.post(message("lead.submit")).status_code == 429
    # The dealer has said something about this one.
    assert send_lead(opened, 20, allowed).status_code == 200


def send_lead(opened: Dealership, number: int, signer: RequestSigner, **members: Any) -> httpx.Response:
    customer = {"first_name": "Jo", "last_name": "Example", "email": f"jo{number}@example.com"}
    content = body("lead.submit", customer=customer, **members)
    return send(opened, content, signed(content, signer))


@pytest.mark.requirement("replayed-signatures")
def test_a_signature_is_not_used_again_elsewhere(opened: Dealership) -> None:
    content = body("inventory.search")
    headers = signed(content)
    assert send(opened, content, headers).status_code == 200
    rpc = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message("inventory.search")})
    for path, sent in [("/message:send", content), ("/message:send?x=1", content), ("/rpc", rpc.encode())]:
        assert reason(send(opened, sent, headers, path)) in ("replayed", "wrong_signature")
    for path in ("/message:send/", "/d/other/message:send", "/mcp"):
        assert send(opened, content, headers, path).status_code in (401, 404)


@pytest.mark.requirement("replayed-signatures")
def test_a_second_signature_does_not_make_the_nonce_of_the_first_usable_again(opened: Dealership) -> None:
    """The first signature counts, whatever follows it. So its nonce is used up, alone and together with another."""
    content = body("lead.submit")
    first, second = signed(content), signed(content, OTHER)
    # A signature has the same label in both headers. Both signers write `agent`, so the second one gets another label.
    both = first | {
        name: f"{first[name]}, {second[name].replace('agent=', 'other=', 1)}"
        for name in ("signature", "signature-input")
    }
    assert send(opened, content, both).status_code == 200
    assert reason(send(opened, content, first)) == "replayed"
    assert reason(send(opened, content, both)) == "replayed"


@pytest.mark.requirement("signed-leads", "wrong-signature")
@pytest.mark.parametrize(
    "digest",
    [
        "sha-256=:{other}:",
        "sha-256=:{right}:, sha-512=:{other}:",
        "sha-512=:{other}:, sha-256=:{right}:",
        "md5=:{right}:",
        "sha-256={right}",
        'sha-256=":{right}:"',
        "sha-256=:{right}:, sha-256=:{other}:",
        "SHA-256=:{right}:",
        "sha-256=(:{right}:)",
        "sha-256",
        "",
    ],
)
def test_a_digest_that_is_signed_must_be_that_of_the_body(unchanged: Dealership, digest: str) -> None:
    content = body("lead.submit")
    right, other = (b64encode(sha256(each).digest()).decode() for each in (content, b"other"))
    unsigned = [(b"host", b"dealer.example"), (b"signature-agent", f'agent="{HONEST.origin}"'.encode())]
    fields = [*unsigned, (b"content-digest", digest.format(right=right, other=other).encode())]
    now = int(time.time())
    parameters = {"created": now, "expires": now + 60, "keyid": KEY.thumbprint, "nonce": token_hex(8), "tag": TAG}
    components: list[Component] = [(name, {}) for name in ("@method", "@authority", "@path", "content-digest")]
    components.append(("signature-agent", {"key": "agent"}))
    request = SignableRequest("POST", "dealer.example", "/message:send", "", fields)
    headers = {name.decode(): value.decode() for name, value in fields}
    headers |= signed_fields([("agent", HONEST.key, components, parameters)], request, fields)
    assert reason(send(unchanged, content, headers)) in ("wrong_digest", "unsupported", "malformed")


@pytest.mark.requirement("signed-leads")
def test_a_body_with_a_content_encoding_is_no_other_body(unchanged: Dealership) -> None:
    content = body("lead.submit")
    packed = gzip.compress(content)
    for sent, digest_of in [(packed, content), (content, packed)]:
        answer = send(unchanged, sent, signed(digest_of) | {"content-encoding": "gzip"})
        assert answer.status_code in (401, 415)


@pytest.mark.requirement("signed-leads", "offer-known-callers")
def test_a_signature_of_the_host_alone_is_enough_to_read_and_not_to_act_for_the_agent(
    open_dealership: OpenDealership,
) -> None:
    """Who sees such a signature, in the log of a proxy, can send other requests with it while it is valid."""
    opened = know(open_dealership(f"{NO_LIMITS}{PUBLIC}{OFFERS}"), HONEST)
    lead_id, key = "01KE7AQ2N0V5X3J8R6T4Y9W1ZB", {"idempotency_key": "one"}
    acting: dict[str, dict[str, Any]] = {
        "lead.submit": {},
        "offer.hold": {"quote_id": lead_id, **key},
        "offer.release": {"hold_id": lead_id},
        "offer.status": {"hold_id": lead_id},
        "lead.status": {"lead_id": lead_id},
        "visit.move": {"lead_id": lead_id, "appointment_at": "2026-12-01T10:00:00Z", **key},
        "visit.cancel": {"lead_id": lead_id, **key},
    }
    for skill, members in acting.items():
        content = body(skill, **members)
        for headers in (signed(b""), _of_host_alone()):
            assert reason(send(opened, content, headers)) == "not_covered", skill
        whole = send(opened, content, signed(content))
        assert whole.status_code in (200, 404), whole.text
    for skill in ("inventory.search", "dealer.information"):
        assert send(opened, body(skill), _of_host_alone()).status_code == 200


def _of_host_alone() -> dict[str, str]:
    now = int(time.time())
    parameters = {"created": now, "expires": now + 60, "keyid": KEY.thumbprint, "tag": TAG}
    fields = [(b"signature-agent", f'agent="{HONEST.origin}"'.encode())]
    components: list[Component] = [("@authority", {}), ("signature-agent", {"key": "agent"})]
    request = SignableRequest("POST", "dealer.example", "/message:send", "", fields)
    headers = {name.decode(): value.decode() for name, value in fields} | {"host": "dealer.example"}
    return headers | signed_fields([("agent", HONEST.key, components, parameters)], request, fields)


@pytest.mark.requirement("caller-decides")
def test_one_agent_reaches_nothing_of_another(opened: Dealership) -> None:
    members = {"idempotency_key": "one-key"}
    content, other = body("lead.submit", **members), body("lead.submit", message="Another.", **members)
    first = send(opened, content, signed(content)).json()["message"]["parts"][0]["data"]["data"]
    theirs = send(opened, other, signed(other, OTHER)).json()["message"]["parts"][0]["data"]["data"]
    claimed = body("lead.submit", source_agent=HONEST.origin, message="A third.", **members)
    anonymous = opened.post(claimed).json()["message"]["parts"][0]["data"]["data"]
    assert {first["status"], theirs["status"], anonymous["status"]} == {"received"}
    assert len({first["lead_id"], theirs["lead_id"], anonymous["lead_id"]}) == 3
    assert send(opened, other, signed(other)).status_code == 409


@pytest.mark.requirement("caller-decides", "signed-requests")
def test_a_token_and_the_signature_of_another_agent_are_those_of_the_token(opened: Dealership) -> None:
    token_id, token = opened.new_token()
    content = body("lead.submit")
    eventually(
        "the token is known",
        lambda: opened.post(message("inventory.search"), token=token).status_code == 200,
    )
    headers = signed(content) | {"authorization": f"Bearer {token}"}
    assert send(opened, content, headers).status_code == 200
    with closing(sqlite3.connect(opened.folder / DATABASE)) as database:
        assert database.execute("SELECT caller FROM leads").fetchall() == [(f"token:{token_id}",)]
    assert send(opened, content, signed(content) | {"authorization": "Bearer dat_x_y"}).status_code == 401
    wrong = signed(b"other") | {"authorization": f"Bearer {token}"}
    assert reason(send(opened, content, wrong)) == "wrong_digest"


@pytest.mark.requirement("quarantine-reply", "leads-a-day")
def test_a_quarantined_agent_is_refused_only_after_its_leads_a_day_like_a_limited_one(opened: Dealership) -> None:
    """Otherwise the response would say that it is in quarantine."""
    give(opened, HONEST.origin, Policy("quarantine"))
    most = QUARANTINED_LEADS_A_DAY
    give(opened, OTHER.origin, Policy("limit", leads_a_day=most))
    eventually("the policy holds", lambda: opened.service.policies.of(caller_of(HONEST.origin)).is_quarantined)
    eventually(
        "the other one, too",
        lambda: opened.service.policies.of(caller_of(OTHER.origin)).leads_a_day == most,
    )
    first, second = ([send_lead(opened, n, signer) for n in range(most + 1)] for signer in (HONEST, OTHER))
    statuses = [200] * most + [429]
    assert [answer.status_code for answer in first] == [answer.status_code for answer in second] == statuses
    assert {*error_of(first[-1])["details"]} == {*error_of(second[-1])["details"]}


@pytest.mark.requirement("blocked-caller")
@pytest.mark.parametrize(
    "agent",
    ["https://Agent.Example", "https://agent.example:443", "https://agent.example/", "https://AGENT.example:0443"],
)
def test_no_spelling_of_an_origin_evades_its_block(opened: Dealership, agent: str) -> None:
    give(opened, HONEST.origin, Policy("block"))
    eventually("the policy holds", lambda: opened.service.policies.of(caller_of(HONEST.origin)).is_blocked)
    content = body("inventory.search")
    assert send(opened, content, signed(content, RequestSigner(KEY, agent))).status_code == 403


@pytest.mark.requirement("replayed-signatures")
@pytest.mark.parametrize("back", [0.5, 10.0, NONCE_SECONDS - 1.0])
def test_a_nonce_is_remembered_when_the_clock_is_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, back: float
) -> None:
    nonces, now = FileNonces(tmp_path / "nonces.bin"), [2_000_000_000.0]
    monkeypatch.setattr(nonces._used, "_clock", lambda: now[0])
    assert nonces.remember(b"one")
    now[0] -= back
    assert not nonces.remember(b"one")
    now[0] += back + NONCE_SECONDS - 1
    assert not nonces.remember(b"one")
    now[0] += 1
    assert nonces.remember(b"one")
    nonces.close()


@pytest.mark.requirement("replayed-signatures")
def test_a_full_table_of_nonces_forgets_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dealer_agent.server.nonces.BLOCKS", 8)
    nonces = FileNonces(tmp_path / "nonces.bin")
    keys = [n.to_bytes(16) for n in range(2000)]
    kept = [key for key in keys if nonces.remember(key)]
    assert 0 < len(kept) < len(keys)
    assert not any(nonces.remember(key) for key in keys)
    # After a restart, too.
    nonces.close()
    again = FileNonces(tmp_path / "nonces.bin")
    assert not any(again.remember(key) for key in kept)
    again.close()


@pytest.mark.requirement("known-keys")
def test_the_keys_of_an_agent_with_a_policy_are_pinned(opened: Dealership) -> None:
    give(opened, HONEST.origin, Policy("allow"))
    give(opened, OTHER.origin, Policy("block"))

    def pinned() -> set[str]:
        with opened.store() as store:
            rows = [read(store, "test-motors", find_source, each.origin) for each in (HONEST, OTHER)]
        return {row.source for row in rows if row is not None and row.pinned_until is not None}

    eventually("the keys are pinned", lambda: pinned() == {HONEST.origin, OTHER.origin})
