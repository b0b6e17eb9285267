"""A signature of a request to `/mcp` covers that request: its caller is also that of the skill."""

import json
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from tests.http_signatures.signed import KEY, ORIGIN, SIGNER
from tests.server.conftest import OpenDealership
from tests.server.dealership import DATABASE, Dealership
from tests.server.mcp_calls import FORM, HOST, JO, NEW, OLD, STATE_REFUSED, post, ticked, use
from tests.server.mcp_streams import Stream, answer_to, lead_call, session_at
from tests.storage.calls import write_at

from dealer_agent.http_signatures.directory import directory_document
from dealer_agent.storage.key_sets import ask_for_keys, put_keys

pytestmark = pytest.mark.requirement("signed-requests")
META = {
    "io.modelcontextprotocol/protocolVersion": NEW,
    "io.modelcontextprotocol/clientCapabilities": FORM,
    "io.modelcontextprotocol/clientInfo": {"name": "Test Host", "version": "1"},
}


@pytest.fixture
def opened(open_dealership: OpenDealership) -> Dealership:
    """A dealership that has the keys of the agent."""
    found, now = open_dealership(), datetime.now(UTC)
    document = directory_document([KEY])
    with found.store() as store:
        write_at(now, store, "test-motors", ask_for_keys, [ORIGIN])
        write_at(now, store, "test-motors", put_keys, ORIGIN, document, now + timedelta(hours=1))
    known = found.service.process.known_keys
    assert known is not None
    # The service reads them itself each second. The test does not wait for it.
    found.portal.call(known.refresh)
    return found


def call(name: str, arguments: dict[str, Any], **params: Any) -> bytes:
    params = {"name": name, "arguments": arguments, "_meta": META, **params}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()


def send(opened: Dealership, name: str, body: bytes, signed: dict[str, str]) -> httpx.Response:
    return post(opened, body, NEW, headers={"mcp-method": "tools/call", "mcp-name": name, **signed})


def sign(body: bytes) -> dict[str, str]:
    return SIGNER.sign("POST", HOST["host"], "/mcp", "", body, time.time())


def test_a_lead_through_mcp_is_that_of_the_agent_that_signs(opened: Dealership) -> None:
    body = call("lead_submit", {"customer": JO})
    asked = send(opened, "lead_submit", body, sign(body)).json()["result"]
    answer = {"inputResponses": {"consent": ticked(email=True)}, "requestState": asked["requestState"]}
    # The state belongs to the agent.
    again = {"state": asked["requestState"], "answer": ticked(email=True)}
    assert use(opened, "lead_submit", {"customer": JO}, capabilities=FORM, **again) == STATE_REFUSED
    body = call("lead_submit", {"customer": JO}, **answer)
    sent = send(opened, "lead_submit", body, sign(body)).json()["result"]
    assert sent["structuredContent"]["status"] == "received"
    with closing(sqlite3.connect(opened.folder / DATABASE)) as database:
        assert database.execute("SELECT caller FROM leads").fetchall() == [(ORIGIN,)]


@pytest.mark.requirement("wrong-signature", "replayed-signatures")
def test_a_signature_of_another_body_or_one_that_was_used_is_refused(opened: Dealership) -> None:
    body, other = call("inventory_search", {}), call("inventory_search", {"filters": {"make": ["Honda"]}})
    signature = sign(body)
    assert send(opened, "inventory_search", body, signature).status_code == 200
    for refused in (
        send(opened, "inventory_search", body, signature),
        send(opened, "inventory_search", other, sign(body)),
    ):
        assert refused.status_code == 401
        assert refused.json()["error"]["message"].startswith("AUTH_REQUIRED: ")
        assert refused.headers["www-authenticate"] == "Bearer"


@pytest.mark.requirement("replayed-signatures")
def test_an_agent_that_signs_continues_a_stream_that_broke(opened: Dealership) -> None:
    """Its call is in the id of the last event, and only this agent may continue it."""
    session, body = session_at(opened), lead_call({"customer": JO})
    stream = Stream(opened, session, body, **sign(json.dumps(body).encode()))
    event_id, question = stream.event()
    stream.leave()
    headers = {"mcp-session-id": session}
    assert post(opened, answer_to(question, email=True), OLD, headers=headers).status_code == 202
    signed = SIGNER.sign("GET", HOST["host"], "/mcp", "", b"", time.time())
    unsigned = Stream(opened, session, last_event_id=event_id)
    assert "requestState" in json.dumps(unsigned.event()[1]), "of another caller"
    assert post(opened, answer_to(question, email=True), OLD, headers=headers).status_code == 202
    continued = Stream(opened, session, None, last_event_id=event_id, **signed)
    assert continued.event()[1]["result"]["structuredContent"]["status"] == "received"
    assert (
        Stream(opened, session, None, last_event_id=event_id, **signed).whole()["error"]["message"].startswith("AUTH")
    )
    with closing(sqlite3.connect(opened.folder / DATABASE)) as database:
        assert database.execute("SELECT caller FROM leads").fetchall() == [(ORIGIN,)]
