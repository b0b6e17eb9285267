"""The examples work without changes: pasted, about another vehicle, at another time, in another place."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import Path

import pytest

from dealer_agent.apidocs.examples import curl_command, example_body, example_call, example_payload, json_text
from dealer_agent.protocol.card import TOKEN_VARIABLE
from dealer_agent.protocol.skill import SKILL_BY_ID, SKILLS, Skill
from dealer_agent.protocol.vocabulary import AUTOAGENT, proto

pytestmark = pytest.mark.requirement("openapi-document")

PROTO = proto()
AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
SEARCH = SKILL_BY_ID["inventory.search"]
LEAD = SKILL_BY_ID["lead.submit"]


def test_the_lead_of_the_example_was_consented_to_when_it_is_said() -> None:
    """A consent granted in the future is INVALID_CONSENT, so the example's is never ahead of `now`."""
    now = datetime(2027, 3, 1, 23, 59, 59, 999999, tzinfo=UTC)
    lead = example_payload(LEAD, now=now)
    assert datetime.fromisoformat(lead["consent"]["granted_at"]) <= now
    assert datetime.fromisoformat(lead["submitted_at"]) <= now
    assert datetime.fromisoformat(lead["appointment"]["appointment_at"]) > now + timedelta(days=1)
    assert "lead_submission" in lead["consent"]["scope"]
    assert lead["customer"]["preferred_contact"] in lead["consent"]["allowed_channels"]


def test_two_different_example_leads_have_different_idempotency_keys() -> None:
    """A key used again with another payload would be IDEMPOTENCY_CONFLICT."""
    lead = SKILL_BY_ID["lead.submit"]
    sent = [
        example_payload(lead, now=now, vin=vin)
        for now in (AT, AT + timedelta(seconds=1))
        for vin in ("1HGCY2F57RA000001", "1HGCY2F57RA000002")
    ]
    assert len({payload["idempotency_key"] for payload in sent}) == 4
    assert example_payload(lead, now=AT) == example_payload(lead, now=AT)


def body_of(command: str) -> str:
    """The text after `-d` in a command."""
    return command.partition("-d '")[2].removesuffix("'")


def test_every_form_of_the_example_asks_about_the_vehicle_and_the_time_that_it_is_given() -> None:
    """The demo's commands name a vehicle that is in stock, and a consent that was given today."""
    vin = "1HGCY2F57RA000009"
    payload = example_payload(LEAD, now=AT, vin=vin)
    assert (payload["submitted_at"], payload["vehicle_of_interest"]["vin"]) == ("2026-11-20T12:00:00Z", vin)
    bodies = [
        example_body(LEAD, PROTO, now=AT, vin=vin),
        example_call(example_body(LEAD, PROTO, now=AT, vin=vin))["params"],
        json.loads(body_of(curl_command("https://agent.example.com", LEAD, PROTO, now=AT, vin=vin))),
    ]
    assert [body["message"]["parts"][0]["data"] for body in bodies] == [payload] * 3


@pytest.fixture
def far_from_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("far_from_utc")
@pytest.mark.parametrize("zone", [timezone(timedelta(hours=-5)), UTC], ids=str)
def test_the_times_of_a_lead_are_utc_wherever_it_is_made_and_the_visit_on_the_hour(zone: tzinfo) -> None:
    """What is compared under an idempotency key does not depend on the machine."""
    lead = example_payload(LEAD, now=datetime(2026, 11, 20, 12, 34, 56, tzinfo=UTC).astimezone(zone))
    assert lead["submitted_at"] == lead["consent"]["granted_at"] == "2026-11-20T12:34:56Z"
    assert lead["appointment"]["appointment_at"] == "2026-11-22T19:00:00Z"
    assert lead["idempotency_key"].startswith("example-20261120T123456-")


def run_pasted(command: str, folder: Path, **environment: str) -> list[str]:
    """What `curl` is called with when the command is pasted into a shell."""
    curl = folder / "curl"
    curl.write_text('#!/bin/sh\nfor word do printf "%s\\0" "$word"; done\n')
    curl.chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        env={"PATH": f"{folder}:{os.defpath}", **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split("\0")[:-1]


@pytest.mark.parametrize("skill", SKILLS, ids=lambda skill: skill.id)
def test_a_pasted_command_sends_the_example(skill: Skill, tmp_path: Path) -> None:
    base = "https://agent.example.com/a'b$(echo c)"
    words = run_pasted(curl_command(base, skill, AUTOAGENT), tmp_path)
    assert words[:2] == ["-sS", f"{base}/message:send"]
    assert words[2:4] == ["-H", "Content-Type: application/json"]
    assert words[4] == "-d"
    assert json.loads(words[5]) == example_body(skill, AUTOAGENT)


def test_a_pasted_command_takes_its_token_from_the_environment(tmp_path: Path) -> None:
    """The token is in the shell, never in the command."""
    command = curl_command("https://agent.example.com", SEARCH, PROTO, bearer=True)
    words = run_pasted(command, tmp_path, **{TOKEN_VARIABLE: "made-up token"})
    assert words[4:6] == ["-H", "Authorization: Bearer made-up token"]
    assert "made-up" not in command


@pytest.mark.parametrize("skill", SKILLS, ids=lambda skill: skill.id)
def test_a_command_is_indented_for_a_page_and_on_one_line_for_a_terminal(skill: Skill) -> None:
    page, terminal = (
        curl_command("https://agent.example.com", skill, PROTO),
        curl_command("https://agent.example.com", skill, PROTO, compact=True),
    )
    assert json.loads(body_of(page)) == json.loads(body_of(terminal))
    assert ("\n  " in body_of(page), "\n" in body_of(terminal)) == (True, False)


@pytest.mark.parametrize(
    "value", [{}, [], [1, "a"], {"é": None}, {"a": [{"b": "c" * 90}, []]}, example_body(SEARCH, PROTO)], ids=repr
)
def test_json_for_people_is_the_same_json(value: object) -> None:
    assert json.loads(json_text(value)) == value


def test_json_for_people_has_their_letters_in_it() -> None:
    assert json_text({"name": ["José", "Zoë"]}) == '{"name": ["José", "Zoë"]}'
