"""Leads of hosts of the revisions 2025-06-18 and 2025-11-25: the question on the stream, and the answer beside it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.acceptance.running import eventually
from tests.server.conftest import OpenDealership
from tests.server.dealership import ACCORD, NO_LIMITS, Dealership
from tests.server.mcp_calls import OLD, post
from tests.server.mcp_streams import LEAD, Stream, answer_to, initialize, lead_call, session_at
from tests.server.test_mcp_attacks import leads_of

from dealer_agent.server import mcp_questions
from dealer_agent.storage.mcp_answers import MCP_ANSWER

pytestmark = pytest.mark.outside_protocol("MCP")


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_questions, "LOOK_SECONDS", 0.02)


def text_of(response: dict[str, Any]) -> str:
    words: str = response["result"]["content"][0]["text"]
    return words


def stored_answers(dealership: Dealership) -> list[bytes]:
    """The answers that wait in the database."""
    with dealership.store() as store, store.read("test-motors") as tx:
        rows = tx.connection.exec_driver_sql("SELECT result FROM jobs WHERE kind = ?", (MCP_ANSWER,)).all()
    return [str(row[0]).encode() for row in rows]


@pytest.mark.parametrize("revision", mcp_questions.ASKING_REVISIONS)
def test_a_person_agrees_to_a_lead(open_dealership: OpenDealership, revision: str) -> None:
    opened = open_dealership()
    session = session_at(opened, revision)
    stream = Stream(opened, session, lead_call(LEAD | {"vehicle_of_interest": {"vin": ACCORD}}))
    event_id, question = stream.event()
    assert event_id
    assert question["method"] == "elicitation/create"
    assert "\n- vehicle: 2024 Honda Accord, used, $28,500, stock N-7\n" in question["params"]["message"]
    assert list(question["params"]["requestedSchema"]["properties"]) == ["email", "phone", "sms"]
    assert leads_of(opened) == 0
    taken = post(opened, answer_to(question, email=True), revision, headers={"mcp-session-id": session})
    assert (taken.status_code, taken.content) == (202, b"")
    _, response = stream.event()
    assert (response["id"], response["result"]["structuredContent"]["status"]) == ("call-7", "received")
    assert response["result"].keys() <= {"content", "structuredContent", "isError"}
    stream.done.result(60)
    assert leads_of(opened) == 1
    assert stored_answers(opened) == []


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"result": {"action": "decline"}}, "NOT SENT: The person declined."),
        ({"result": {"action": "cancel"}}, "NOT SENT: The person closed the question."),
        ({"result": {"action": "accept", "content": {}}}, "NOT SENT: The person ticked no way of contact"),
        ({"error": {"code": -1, "message": "no screen"}}, "NOT SENT: The host could not ask the person."),
    ],
    ids=["decline", "cancel", "no tick", "error"],
)
def test_without_agreement_nothing_is_sent(dealership: Dealership, answer: dict[str, Any], words: str) -> None:
    before, session = leads_of(dealership), session_at(dealership)
    stream = Stream(dealership, session, lead_call())
    _, question = stream.event()
    sent = {"jsonrpc": "2.0", "id": question["id"], **answer}
    assert post(dealership, sent, OLD, headers={"mcp-session-id": session}).status_code == 202
    assert text_of(stream.event()[1]).startswith(words)
    assert leads_of(dealership) == before


def test_a_broken_stream_continues_without_a_second_question(open_dealership: OpenDealership) -> None:
    opened = open_dealership()
    session = session_at(opened)
    broken = Stream(opened, session, lead_call())
    event_id, question = broken.event()
    broken.leave()
    # The answer arrives while nobody waits for it.
    assert post(opened, answer_to(question, email=True), OLD, headers={"mcp-session-id": session}).status_code == 202
    assert leads_of(opened) == 0
    (waiting,) = stored_answers(opened)
    assert b"accept" not in waiting
    stream = Stream(opened, session, last_event_id=event_id)
    _, response = stream.event()
    assert (response["id"], response["result"]["structuredContent"]["status"]) == ("call-7", "received")
    # The response was lost again: the dealer has one lead, and the model is told so.
    stream.done.result(60)
    post(opened, answer_to(question, email=True), OLD, headers={"mcp-session-id": session})
    assert text_of(Stream(opened, session, last_event_id=event_id).event()[1]).startswith("ALREADY SENT: ")
    assert leads_of(opened) == 1


def test_of_two_answers_to_a_question_only_the_first_counts(open_dealership: OpenDealership) -> None:
    opened = open_dealership()
    session = session_at(opened)
    stream = Stream(opened, session, lead_call())
    event_id, question = stream.event()
    stream.leave()
    for answer in (answer_to(question, "decline"), answer_to(question, email=True)):
        post(opened, answer, OLD, headers={"mcp-session-id": session})
    response = Stream(opened, session, last_event_id=event_id).event()[1]
    assert text_of(response).startswith("NOT SENT: The person declined.")
    assert leads_of(opened) == 0


def test_only_a_host_that_can_ask_gets_a_session(dealership: Dealership) -> None:
    for capabilities, has_session in (
        ({}, False), ({"elicitation": {"url": {}}}, False), ({"elicitation": {}}, True),
        ({"elicitation": {"form": {}, "url": {}}}, True),
    ):  # fmt: skip
        opened = post(dealership, initialize(OLD, capabilities))
        assert ("mcp-session-id" in opened.headers) is has_session
    assert "mcp-session-id" not in post(dealership, initialize("2025-03-26")).headers


def test_a_session_is_one_visible_text_that_every_reading_tool_accepts(dealership: Dealership) -> None:
    session = session_at(dealership)
    assert session.isascii()
    assert session.isprintable()
    assert len(session) < 500
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "inventory_facets", "arguments": {}}}
    found = post(dealership, call, OLD, headers={"mcp-session-id": session})
    assert found.json()["result"]["structuredContent"]["makes"]


def test_an_invalid_lead_is_refused_without_a_question(dealership: Dealership) -> None:
    stream = Stream(dealership, session_at(dealership), lead_call({"customer": {"name": "Jo"}}))
    assert "did you mean /customer/first_name" in text_of(stream.whole())


@pytest.mark.parametrize("session", ["x", "v1.AAAA", "\x7f", "v1." + "A" * 300])
def test_an_unknown_session_has_ended(dealership: Dealership, session: str) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert post(dealership, call, OLD, headers={"mcp-session-id": session}).status_code == 404
    resumed = dealership.get("/mcp", host="localhost", mcp_session_id=session, last_event_id="x")
    assert resumed.status_code == 404


def test_a_session_ends_after_a_day_and_a_question_after_a_quarter_of_an_hour(
    dealership: Dealership, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = session_at(dealership)
    stream = Stream(dealership, session, lead_call())
    event_id, question = stream.event()
    now = datetime.now(UTC)

    class Later(datetime):
        ahead = mcp_questions.QUESTION_SECONDS

        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return now.astimezone(tz) + timedelta(seconds=cls.ahead)

    monkeypatch.setattr(mcp_questions, "datetime", Later)
    assert text_of(stream.event()[1]) == "NOT SENT: The person has not answered in time."
    headers = {"mcp-session-id": session}
    assert post(dealership, answer_to(question, email=True), OLD, headers=headers).status_code == 400
    assert dealership.get("/mcp", host="localhost", mcp_session_id=session, last_event_id=event_id).status_code == 404
    Later.ahead = mcp_questions.SESSION_SECONDS + 60
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert post(dealership, ping, OLD, headers=headers).status_code == 404


def test_the_answer_of_another_session_counts_for_nothing(dealership: Dealership) -> None:
    mine, other = session_at(dealership), session_at(dealership)
    stream = Stream(dealership, mine, lead_call())
    event_id, question = stream.event()
    refused = post(dealership, answer_to(question, email=True), OLD, headers={"mcp-session-id": other})
    assert refused.status_code == 400
    post(dealership, answer_to(question, email=True), OLD)
    assert stored_answers(dealership) == []
    assert dealership.get("/mcp", host="localhost", mcp_session_id=other, last_event_id=event_id).status_code == 404
    made_up = answer_to({"id": event_id}, email=True)
    assert post(dealership, made_up, OLD, headers={"mcp-session-id": mine}).status_code == 400
    stream.leave()


def test_the_token_of_the_call_is_that_of_the_lead(open_dealership: OpenDealership) -> None:
    opened = open_dealership('[auth]\nmode = "bearer"\nskills = ["lead.submit"]\n' + NO_LIMITS)
    (_, mine), (_, yours) = opened.new_token(), opened.new_token()
    opened.app.dealers.opened.clear()
    session = session_at(opened)
    assert text_of(Stream(opened, session, lead_call()).whole()).startswith("AUTH_REQUIRED: ")
    stream = Stream(opened, session, lead_call(), authorization=f"Bearer {mine}")
    event_id, question = stream.event()
    stream.leave()
    post(opened, answer_to(question, email=True), OLD, headers={"mcp-session-id": session})
    # Another token continues no stream of this one.
    other = Stream(opened, session, last_event_id=event_id, authorization=f"Bearer {yours}").event()[1]
    assert other["error"]["message"] == "Invalid or expired requestState"
    assert leads_of(opened) == 0


def test_the_questions_of_a_process_and_of_an_address_are_bounded(
    dealership: Dealership, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_questions, "MOST_WAITING", 3)
    monkeypatch.setattr(mcp_questions, "MOST_OF_ADDRESS", 2)
    session = session_at(dealership)
    streams = [Stream(dealership, session, lead_call()) for _ in range(2)]
    streams[1].event()
    streams[0].event()
    refused = Stream(dealership, session, lead_call()).whole()
    assert text_of(refused).startswith("NOT SENT: Too many people are being asked now.")
    third = Stream(dealership, session, lead_call(), address="198.51.100.9")
    third.event()
    assert text_of(Stream(dealership, session, lead_call(), address="198.51.100.10").whole()).startswith("NOT SENT: ")
    streams[0].leave()
    again = Stream(dealership, session, lead_call())
    again.event()
    for stream in (*streams[1:], third, again):
        stream.leave()


def test_a_host_that_reads_no_stream_gets_the_other_way(dealership: Dealership) -> None:
    headers = {"mcp-session-id": session_at(dealership), "accept": "application/json"}
    response = post(dealership, lead_call(), OLD, headers=headers)
    assert response.status_code in (200, 406)
    assert response.status_code == 406 or text_of(response.json()).startswith("NOT SENT: ")


def test_a_large_lead_is_asked_about_but_its_stream_cannot_continue(dealership: Dealership) -> None:
    stream = Stream(dealership, session_at(dealership), lead_call(LEAD | {"trade_in": {"description": "x" * 10_000}}))
    event_id, question = stream.event()
    assert question["method"] == "elicitation/create"
    assert event_id == ""
    stream.leave()


@pytest.mark.usefixtures("looks_often")
def test_an_answer_that_nobody_reads_is_removed(open_dealership: OpenDealership) -> None:
    opened = open_dealership()
    session = session_at(opened)
    stream = Stream(opened, session, lead_call())
    _, question = stream.event()
    stream.leave()
    post(opened, answer_to(question, email=True), OLD, headers={"mcp-session-id": session})
    assert len(stored_answers(opened)) == 1
    store = opened.service.mcp_answers.store
    with store.write("test-motors") as tx:
        tx.connection.exec_driver_sql("UPDATE jobs SET due_at = 0 WHERE kind = ?", (MCP_ANSWER,))
    eventually("the answer is removed", lambda: not stored_answers(opened))
