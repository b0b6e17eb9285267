"""What the sender of a lead asks afterwards, over the wire (docs/protocol.md#after-the-lead)."""

import json
from datetime import datetime
from typing import Any

import httpx
import pytest
from tests.acceptance.running import succeed_here
from tests.offering.conftest import OFFERS, Agent, Offered, Offering, data_of
from tests.server.dealership import NO_LIMITS, error_of, message, run_dealership
from tests.server.test_customer_pages import EAST, LATER, NOON
from tests.server.test_policies import token_with
from tests.server.test_signature_attacks import HONEST, OTHER, PUBLIC, body, know, reason, send, signed
from tests.skills.sample_dealers import everything_stored

from dealer_agent.protocol.offers import OFFERS_EXTENSION
from dealer_agent.protocol.published_versions import PUBLISHED_VERSIONS
from dealer_agent.protocol.skill import AFTER_LEAD_SKILLS

NAMED = {"a2a-extensions": OFFERS_EXTENSION}
DRIVE = {"appointment_type": "test_drive", "appointment_at": NOON}
UNKNOWN = "01KE7AQ2N0V5X3J8R6T4Y9W1ZX"


def booking(offering: Offered, extra: str = "", **more: Any) -> Offering:
    """A dealership that books test drives."""
    return offering(OFFERS + EAST + extra, **more)


def submit(agent: Agent, headers: dict[str, str] | None = None, path: str = "/message:send", **members: Any) -> Any:
    """The data of the response to a lead with a test drive."""
    members = {"appointment": DRIVE} | members
    vendor = "autoagent" if path.startswith("/aap") else "proto"
    sent = message("lead.submit", vendor, **members)
    return data_of(agent.dealership.post(sent, path, token=agent.token, headers=headers))


def ask_all(agent: Agent, lead_id: str, **members: Any) -> list[httpx.Response]:
    """The responses of the three skills."""
    return [
        agent.ask("lead.status", lead_id=lead_id, **members),
        agent.ask("visit.move", lead_id=lead_id, appointment_at=LATER, idempotency_key="move", **members),
        agent.ask("visit.cancel", lead_id=lead_id, idempotency_key="cancel", **members),
    ]


def codes(answers: list[httpx.Response]) -> set[tuple[int, str]]:
    return {(answer.status_code, error_of(answer)["code"]) for answer in answers}


@pytest.mark.requirement("lead-status", "visit-move", "visit-cancel", "lead-sender")
@pytest.mark.parametrize("binding", ["http+json", "json-rpc"])
@pytest.mark.parametrize("vendor", ["proto", "autoagent"])
def test_a_known_sender_sees_moves_and_cancels(offering: Offered, binding: str, vendor: str) -> None:
    opened = booking(offering)
    agent, other = opened.agents
    answer = submit(agent, NAMED)
    assert "lead_secret" not in answer, "it proves who it is"

    def ask(skill: str, **members: Any) -> dict[str, Any]:
        sent = message(skill, vendor, lead_id=answer["lead_id"], **members)
        if binding == "http+json":
            return dict(data_of(opened.dealership.post(sent, token=agent.token))["visit"])
        called = opened.dealership.call_rpc(sent, token=agent.token).json()
        return dict(called["result"]["message"]["parts"][0]["data"]["data"]["visit"])

    first = ask("lead.status")
    assert (first["status"], first["place"]) == ("confirmed", {"name": "Test Motors East"})
    assert datetime.fromisoformat(first["at"]) == datetime.fromisoformat(NOON)
    moved = ask("visit.move", appointment_at=LATER, idempotency_key="one")
    assert datetime.fromisoformat(moved["at"]) == datetime.fromisoformat(LATER)
    assert codes(ask_all(other, answer["lead_id"])) == {(404, "LEAD_NOT_FOUND")}
    assert ask("visit.cancel", idempotency_key="two")["status"] == "cancelled"


@pytest.mark.requirement("lead-secret", "lead-sender", "error-lead-not-found")
def test_an_anonymous_sender_needs_the_secret_of_its_lead(offering: Offered) -> None:
    opened = booking(offering)
    answer = submit(opened.stranger, NAMED)
    lead_id, secret = answer["lead_id"], answer["lead_secret"]
    assert len(secret) == 32
    refused = [
        *ask_all(opened.stranger, lead_id),
        *ask_all(opened.stranger, lead_id, secret="A" * 32),
        *ask_all(opened.agents[0], lead_id),
        *ask_all(opened.stranger, UNKNOWN, secret=secret),
    ]
    assert codes(refused) == {(404, "LEAD_NOT_FOUND")}
    assert len({json.dumps((error_of(each)["message"], error_of(each)["details"])) for each in refused}) == 1
    assert all(each.status_code == 200 for each in ask_all(opened.stranger, lead_id, secret=secret))


@pytest.mark.requirement("lead-secret")
def test_only_a_lead_that_names_the_extension_has_a_secret(offering: Offered) -> None:
    opened = booking(offering, agents=0)
    plain = submit(opened.stranger)
    assert set(plain) == {"lead_id", "status", "appointment", "dealer"}
    other = submit(opened.stranger, {"a2a-extensions": "https://other.example"}, customer=person("lee"))
    assert set(other) == set(plain)
    listed = {"a2a-extensions": f"https://other.example, {OFFERS_EXTENSION}"}
    assert "lead_secret" in submit(opened.stranger, listed, customer=person("kim"))
    off = offering(EAST, agents=0)
    assert "lead_secret" not in submit(off.stranger, NAMED)


def person(name: str) -> dict[str, str]:
    return {"first_name": name, "last_name": "Example", "email": f"{name}@example.com"}


@pytest.mark.requirement("lead-secret", "offers-off")
def test_a_published_version_never_has_the_secret(offering: Offered) -> None:
    opened = booking(offering, agents=0)
    version = PUBLISHED_VERSIONS["1.0"]
    lead = message("lead.submit", "autoagent", idempotency_key="one")
    lead["message"]["parts"][0]["data"]["consent"]["source_agent"] = "Example Shopping Agent"
    headers = {"a2a-extensions": f"{version.extension_uri}, {OFFERS_EXTENSION}", "a2a-version": "1.0"}
    first = opened.dealership.post(lead, headers=NAMED)
    assert "lead_secret" in first.text
    again = opened.dealership.post(lead, version.path + "/message:send", headers=headers)
    assert again.status_code == 200, again.text
    assert first.json()["message"]["parts"][0]["data"]["data"]["lead_id"] in again.text
    assert "lead_secret" not in again.text
    new = json.loads(json.dumps(lead).replace("jordan@example.com", "pat@example.com").replace('"one"', '"two"'))
    fresh = opened.dealership.post(new, version.path + "/message:send", headers=headers)
    assert fresh.status_code == 200, fresh.text
    assert "lead_secret" not in fresh.text


@pytest.mark.requirement("after-lead-off")
def test_the_skills_are_off_with_the_leads(offering: Offered) -> None:
    off = [skill.id for skill in AFTER_LEAD_SKILLS]
    for extra in ('[service]\nskills_off = ["lead.submit"]\n' + OFFERS, ""):
        opened = offering(extra, agents=0)
        assert codes(ask_all(opened.stranger, UNKNOWN)) == {(404, "UNSUPPORTED_SKILL")}
        listed = {skill["id"] for skill in opened.dealership.get("/cards/1.0.0.json").json()["skills"]}
        assert listed.isdisjoint(off)


@pytest.mark.requirement("after-lead-scopes", "scopes")
def test_each_skill_needs_its_scope(offering: Offered) -> None:
    dealership = booking(offering, agents=0).dealership
    tokens = {scope: token_with(dealership, scope)[1] for scope in ("leads:read", "visits:write", "leads:write")}
    with run_dealership(dealership.folder) as again:
        for scope, token in tokens.items():
            status, move, cancel = (answer.status_code for answer in ask_all(Agent(again, token), UNKNOWN))
            assert status == (404 if scope == "leads:read" else 403)
            assert {move, cancel} == {404 if scope == "visits:write" else 403}


@pytest.mark.requirement("unknown-leads-apart", "lead-sender")
def test_guesses_are_counted_for_each_address(offering: Offered) -> None:
    limits = NO_LIMITS.replace('unknown_leads = ""', 'unknown_leads = "3/hour"')
    opened = booking(offering, agents=1)
    folder = opened.dealership.folder
    settings = (folder / "dealer.toml").read_text().replace(NO_LIMITS, limits)
    (folder / "dealer.toml").write_text(settings)
    with run_dealership(folder) as dealership:
        agent, stranger = Agent(dealership, opened.agents[0].token), Agent(dealership, None)
        answer = submit(stranger, NAMED)
        guesses = [stranger.ask("lead.status", lead_id=answer["lead_id"], secret=f"{n}").status_code for n in range(5)]
        assert guesses == [404, 404, 404, 429, 429]
        right = stranger.ask("lead.status", lead_id=answer["lead_id"], secret=answer["lead_secret"])
        assert right.status_code == 200, "a right secret is still accepted"
        assert agent.ask("lead.status", lead_id=UNKNOWN).status_code == 429
        elsewhere = dealership.post(message("lead.status", lead_id=UNKNOWN), address="203.0.113.9")
        assert elsewhere.status_code == 404


@pytest.mark.requirement("signed-leads")
@pytest.mark.parametrize("skill", ["lead.status", "visit.move", "visit.cancel"])
def test_the_signature_of_another_request_does_not_cancel_a_visit(offering: Offered, skill: str) -> None:
    opened = know(booking(offering, PUBLIC, agents=0).dealership, HONEST, OTHER)
    lead = body("lead.submit", appointment=DRIVE)
    lead_id = data_of(send(opened, lead, signed(lead)))["lead_id"]
    members = {"visit.move": {"appointment_at": LATER}}.get(skill, {})
    key = {} if skill == "lead.status" else {"idempotency_key": "one"}
    content = body(skill, lead_id=lead_id, **members, **key)
    search = body("inventory.search")
    headers = signed(search)
    assert reason(send(opened, content, headers)) == "wrong_digest"
    bare = {name: value for name, value in headers.items() if name != "content-digest"}
    assert send(opened, content, bare).status_code == 401
    foreign = send(opened, content, signed(content, OTHER))
    assert error_of(foreign)["code"] == "LEAD_NOT_FOUND"
    assert send(opened, content, signed(content)).status_code == 200


@pytest.mark.parametrize(
    ("skill", "members", "pointer"),
    [
        ("lead.status", {"lead_id": "a\u0000b"}, "/lead_id"),
        ("lead.status", {"lead_id": "a" * 65}, "/lead_id"),
        ("lead.status", {"secret": "a" * 65}, "/secret"),
        ("visit.move", {"appointment_at": "tomorrow"}, "/appointment_at"),
        ("visit.move", {"appointment_at": "2027-01-05T10:00:00"}, "/appointment_at"),
        ("visit.move", {"appointment_at": LATER, "duration_minutes": 10}, "/duration_minutes"),
        ("visit.move", {"appointment_at": LATER, "duration_minutes": 10**18}, "/duration_minutes"),
        ("visit.cancel", {"reason": "Zyxwreason" * 60}, "/reason"),
        ("visit.cancel", {"why": "x"}, "/why"),
    ],
)
def test_a_payload_beyond_its_bounds_is_refused_and_repeats_no_words(
    offering: Offered, skill: str, members: dict[str, Any], pointer: str
) -> None:
    opened = booking(offering, agents=0)
    key = {} if skill == "lead.status" else {"idempotency_key": "one"}
    refused = opened.stranger.ask(skill, **({"lead_id": UNKNOWN} | key | members))
    assert refused.status_code == 422
    assert error_of(refused)["details"]["instancePath"] == pointer
    assert "Zyxw" not in refused.text
    assert "aaaa" not in refused.text or pointer == "/lead_id"


def test_neither_secret_nor_reason_is_logged_or_stored_in_the_clear(
    offering: Offered, capfd: pytest.CaptureFixture[str]
) -> None:
    opened = booking(offering, agents=0)
    answer = submit(opened.stranger, NAMED, idempotency_key="one")
    secret = answer["lead_secret"]
    asked = {"lead_id": answer["lead_id"], "secret": secret}
    opened.stranger.ask("lead.status", **asked)
    opened.stranger.ask("visit.move", **asked, appointment_at="2020-01-01T00:00:00Z", idempotency_key="Zyxwkey")
    opened.stranger.ask("visit.cancel", **asked, idempotency_key="Zyxwkey", reason="Zyxwreason")
    opened.stranger.ask("visit.cancel", **asked, idempotency_key="Zyxwkey", reason="Zyxwother")
    written = capfd.readouterr()
    database = next(opened.dealership.folder.glob("*.db"))
    stored = everything_stored(f"sqlite:///{database}")
    raw = b"".join(each.read_bytes() for each in opened.dealership.folder.glob("*.db*"))
    for words in (secret, "Zyxw"):
        assert words not in written.out + written.err
        assert words not in stored
        assert words.encode() not in raw


@pytest.mark.requirement("lead-secret")
def test_a_secret_outlives_a_restart(offering: Offered) -> None:
    opened = booking(offering, agents=0)
    answer = submit(opened.stranger, NAMED)
    with run_dealership(opened.dealership.folder) as again:
        asked = again.ask("lead.status", lead_id=answer["lead_id"], secret=answer["lead_secret"])
    assert asked["visit"]["status"] == "confirmed"


@pytest.mark.requirement("visit-by-agent")
def test_staff_see_what_the_agent_did(offering: Offered) -> None:
    opened = booking(offering, agents=0)
    answer = submit(opened.stranger, NAMED)
    asked = {"lead_id": answer["lead_id"], "secret": answer["lead_secret"]}
    opened.stranger.ask("visit.move", **asked, appointment_at=LATER, idempotency_key="one")
    opened.stranger.ask("visit.cancel", **asked, idempotency_key="two", reason="We bought\nanother car.")
    shown = succeed_here("leads", "show", answer["lead_id"], "--dir", opened.dealership.folder)
    assert "The agent moved the visit, " in shown
    assert "The agent cancelled the visit, " in shown
    assert "reason: We bought\n    another car." in shown
