"""What a page, a host or a model must not be able to do at `/mcp`."""

import time
from typing import Any

import pytest
from tests.patching import replace_in
from tests.server.conftest import OpenDealership
from tests.server.dealership import NO_LIMITS, Dealership
from tests.server.mcp_calls import FORM, JO, OLD, STATE_REFUSED, call, post, text_of, ticked, use

pytestmark = pytest.mark.outside_protocol("MCP")

LEAD = {"customer": JO, "message": "Is it there?"}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


def leads_of(dealership: Dealership) -> int:
    """How many leads the dealer has."""
    with dealership.store() as store, store.read("test-motors") as tx:
        count: int = tx.connection.exec_driver_sql("SELECT count(*) FROM leads").scalar_one()
    return count


def asked(dealership: Dealership, arguments: dict[str, Any] = LEAD, **more: Any) -> str:
    """The state of a call that waits for the person."""
    result = use(dealership, "lead_submit", arguments, capabilities=FORM, **more)
    assert result["resultType"] == "input_required", result
    state: str = result["requestState"]
    return state


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("127.0.0.1:8080", None, 200),
        ("localhost:9", None, 200),
        ("[::1]:8080", None, 200),
        ("203.0.113.9", None, 200),
        ("Cars.Example.com", None, 200),
        ("cars.example.com:443", None, 200),
        ("other.example.com.", None, 200),
        ("evil.example.com", None, 421),
        ("cars.example.com.evil.example", None, 421),
        ("127.0.0.1.evil.example", None, 421),
        ("localhost.evil.example:8080", None, 421),
        ("cars.example.com", "https://cars.example.com", 200),
        ("cars.example.com", "https://chat.example.com", 200),
        ("cars.example.com", "http://cars.example.com", 403),
        ("cars.example.com", "https://cars.example.com.evil.example", 403),
        ("cars.example.com", "https://evil.example.com", 403),
        ("cars.example.com", "http://localhost:6274", 403),
        ("cars.example.com", "null", 403),
        ("cars.example.com", "", 403),
        ("localhost:8080", "http://localhost:6274", 200),
        ("localhost:8080", "http://127.0.0.1:1", 200),
        ("localhost:8080", "http://evil.example.com", 403),
        ("localhost:8080", "file://localhost", 403),
        ("localhost:8080", "http://[", 403),
    ],
)
def test_only_known_hosts_and_origins_are_answered(
    published: Dealership, host: str, origin: str | None, status: int
) -> None:
    headers = {"host": host} | ({} if origin is None else {"origin": origin})
    answer = post(published, PING, headers=headers)
    assert answer.status_code == status
    readable = answer.headers.get("access-control-allow-origin")
    assert readable == (origin if status == 200 else None)
    if status != 200:
        assert answer.json()["error"]["code"] == -32600


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory, stocked: Any) -> Any:
    from tests.server.dealership import run_dealership, set_up

    folder = tmp_path_factory.mktemp("published")
    mcp = '[mcp]\nallowed_hosts = ["other.example.com"]\nallowed_origins = ["https://chat.example.com"]\n'
    set_up(folder, '[service]\npublic_url = "https://cars.example.com"\n' + mcp + NO_LIMITS, stocked=stocked)
    with run_dealership(folder) as opened:
        yield opened


def test_nobody_is_asked_about_a_lead_that_needs_a_token(open_dealership: OpenDealership) -> None:
    opened = open_dealership('[auth]\nmode = "bearer"\nskills = ["lead.submit"]\n' + NO_LIMITS)
    _, token = opened.new_token()
    opened.app.dealers.opened.clear()
    assert text_of(use(opened, "lead_submit", LEAD, capabilities=FORM)).startswith("AUTH_REQUIRED: ")
    assert asked(opened, token=token)


def test_a_person_who_agrees_sends_one_lead(open_dealership: OpenDealership) -> None:
    opened = open_dealership('[leads]\nconsent_text = "You may call me, {dealer}."\n' + NO_LIMITS)
    first = use(opened, "lead_submit", LEAD, capabilities=FORM)
    question = first["inputRequests"]["consent"]["params"]
    assert question["message"].startswith("You may call me, Test Motors.\n")
    assert leads_of(opened) == 0
    sent = use(opened, "lead_submit", LEAD, capabilities=FORM, state=first["requestState"], answer=ticked(email=True))
    assert sent["structuredContent"]["status"] == "received"
    assert leads_of(opened) == 1
    # The response is lost and the host repeats it: the dealer has one lead.
    again = use(opened, "lead_submit", LEAD, capabilities=FORM, state=first["requestState"], answer=ticked(email=True))
    assert text_of(again).startswith("ALREADY SENT: ")
    assert leads_of(opened) == 1


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"action": "decline"}, "NOT SENT: The person declined."),
        ({"action": "cancel"}, "NOT SENT: The person closed the question."),
        (ticked(), "NOT SENT: The person ticked no way of contact"),
        (ticked(email=False), "NOT SENT: The person ticked no way of contact"),
    ],
)
def test_without_agreement_nothing_is_sent(dealership: Dealership, answer: dict[str, Any], words: str) -> None:
    before = leads_of(dealership)
    result = use(dealership, "lead_submit", LEAD, capabilities=FORM, state=asked(dealership), answer=answer)
    assert result["isError"]
    assert text_of(result).startswith(words)
    assert leads_of(dealership) == before


@pytest.mark.parametrize(
    "claim",
    [
        {"consent": {"granted_at": "2026-01-01T00:00:00Z", "allowed_channels": ["email"], "consent_text": "yes",
                     "scope": ["lead_submission"]}},
        {"consent": None},
        {"source_agent": "Somebody"},
        {"idempotency_key": "mine"},
        {"submitted_at": "2026-01-01T00:00:00Z"},
    ],
    ids=lambda claim: next(iter(claim)),
)  # fmt: skip
def test_a_model_cannot_assert_consent(dealership: Dealership, claim: dict[str, Any]) -> None:
    before = leads_of(dealership)
    result = use(dealership, "lead_submit", LEAD | claim, capabilities=FORM)
    assert text_of(result).startswith(f"NOT SENT: Leave out {next(iter(claim))}.")
    assert leads_of(dealership) == before


def test_a_reading_tool_cannot_send_a_lead(dealership: Dealership) -> None:
    before = leads_of(dealership)
    consent = {"granted_at": "2026-01-01T00:00:00Z", "allowed_channels": ["email"], "consent_text": "yes"}
    claimed = LEAD | {
        "type": "lead.submit.request",
        "source_agent": "x",
        "consent": consent | {"scope": ["lead_submission"]},
    }
    result = use(dealership, "inventory_search", claimed, capabilities=FORM)
    assert text_of(result).startswith("SCHEMA_VALIDATION_FAILED: ")
    assert leads_of(dealership) == before


def test_an_answer_to_no_question_counts_for_nothing(dealership: Dealership) -> None:
    before = leads_of(dealership)
    result = use(dealership, "lead_submit", LEAD, capabilities=FORM, answer=ticked(email=True))
    assert result["resultType"] == "input_required"
    assert leads_of(dealership) == before


@pytest.mark.parametrize("capabilities", [{}, {"elicitation": {"url": {}}}, {"sampling": {}}])
def test_a_host_that_cannot_ask_gets_a_refusal_with_the_dealers_phone(
    dealership: Dealership, capabilities: dict[str, Any]
) -> None:
    result = use(dealership, "lead_submit", LEAD, capabilities=capabilities)
    assert text_of(result).startswith("NOT SENT: Test Motors needs the person's own consent")
    assert "call +12025550140" in text_of(result)


def test_older_revisions_over_http_cannot_send_a_lead(dealership: Dealership) -> None:
    before = leads_of(dealership)
    result = use(dealership, "lead_submit", LEAD, revision=OLD, answer=ticked(email=True))
    assert text_of(result).startswith("NOT SENT: Test Motors needs the person's own consent")
    assert leads_of(dealership) == before


def test_an_invalid_lead_is_refused_by_the_dealer_before_the_person_is_asked(open_dealership: OpenDealership) -> None:
    opened = open_dealership(NO_LIMITS.replace('malformed_leads = ""', 'malformed_leads = "1/hour"'))
    wrong = {"customer": {"first_name": "Jo", "last_name": "Doe", "email": "nobody"}}
    first = use(opened, "lead_submit", wrong, capabilities=FORM)
    assert "- /customer/email: must be an e-mail address" in text_of(first)
    assert text_of(use(opened, "lead_submit", wrong, capabilities=FORM)).startswith("RATE_LIMITED")


@pytest.mark.parametrize(
    "change",
    [
        {"message": "Call me at night."},
        {"customer": JO | {"email": "other@example.com"}},
        {"vehicle_of_interest": {"stock": "N-7"}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_an_answer_is_for_exactly_what_the_person_saw(dealership: Dealership, change: dict[str, Any]) -> None:
    before, state = leads_of(dealership), asked(dealership)
    changed = LEAD | change
    assert (
        use(dealership, "lead_submit", changed, capabilities=FORM, state=state, answer=ticked(email=True))
        == STATE_REFUSED
    )
    assert leads_of(dealership) == before


@pytest.mark.parametrize("state", ["", "v1.", "v1.AAAA", "{}", "x" * 50_000])
def test_a_made_up_state_is_refused(dealership: Dealership, state: str) -> None:
    assert (
        use(dealership, "lead_submit", LEAD, capabilities=FORM, state=state, answer=ticked(email=True)) == STATE_REFUSED
    )


def test_a_changed_state_is_refused(dealership: Dealership) -> None:
    state = asked(dealership)
    changed = state[:40] + ("A" if state[40] != "A" else "B") + state[41:]
    assert (
        use(dealership, "lead_submit", LEAD, capabilities=FORM, state=changed, answer=ticked(email=True))
        == STATE_REFUSED
    )


def test_another_replica_of_the_dealer_takes_the_answer(open_dealership: OpenDealership) -> None:
    # Two applications with the keys of one dealer, as replicas have them.
    state = asked(open_dealership())
    replica = open_dealership()
    sent = use(replica, "lead_submit", LEAD, capabilities=FORM, state=state, answer=ticked(email=True))
    assert sent["structuredContent"]["status"] == "received"


def test_the_state_of_another_caller_is_refused(open_dealership: OpenDealership) -> None:
    opened = open_dealership()
    (_, mine), (_, yours) = opened.new_token(), opened.new_token()
    opened.app.dealers.opened.clear()
    state = asked(opened, token=mine)
    for other in ({}, {"token": yours}):
        again = use(opened, "lead_submit", LEAD, capabilities=FORM, state=state, answer=ticked(email=True), **other)
        assert again == STATE_REFUSED
    accepted = use(opened, "lead_submit", LEAD, capabilities=FORM, state=state, answer=ticked(email=True), token=mine)
    assert accepted["structuredContent"]["status"] == "received"


def test_a_host_that_changes_its_name_sends_no_second_lead(dealership: Dealership) -> None:
    before, state = leads_of(dealership), asked(dealership)
    for host in ("Test Host", "Another Host", "A third host"):
        use(dealership, "lead_submit", LEAD, capabilities=FORM, state=state, answer=ticked(email=True), host=host)
    assert leads_of(dealership) == before + 1


def test_a_state_expires(dealership: Dealership, monkeypatch: pytest.MonkeyPatch) -> None:
    from mcp.server import request_state

    state, now = asked(dealership), time.time()
    replace_in(monkeypatch, request_state, "time", time=lambda: now + 901)
    assert (
        use(dealership, "lead_submit", LEAD, capabilities=FORM, state=state, answer=ticked(email=True)) == STATE_REFUSED
    )


def test_a_state_holds_nothing_readable_of_the_customer(dealership: Dealership) -> None:
    from base64 import urlsafe_b64decode

    sealed = urlsafe_b64decode(asked(dealership).removeprefix("v1.") + "==")
    assert b"Test Motors" not in sealed


def test_the_sdk_writes_nothing_of_a_caller_to_the_log(
    dealership: Dealership, capfd: pytest.CaptureFixture[str]
) -> None:
    mark = "Zyxwmark"
    post(dealership, {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": {mark: 1}}}, OLD)
    post(dealership, {"jsonrpc": "2.0", "id": mark, "method": mark, "params": {mark: mark}}, OLD)
    call(dealership, "tools/call", {"name": mark, "arguments": {mark: mark}, "requestState": mark})
    use(dealership, "lead_submit", {"customer": mark, mark: mark}, state=mark)
    said = capfd.readouterr()
    assert mark not in said.out + said.err
