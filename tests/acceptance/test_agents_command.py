"""`dealer-agent agents` as a person at the dealership and the operator of an installation see it."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.filled_dealer import customer, filled_dealer
from tests.acceptance.running import command_here, succeed_here
from tests.installation.platform import DEALERS, add, make_installation

from dealer_agent.callers import ANONYMOUS, issued, signed
from dealer_agent.callers.policy import ANONYMOUS_LEADS_A_DAY, QUARANTINED_LEADS_A_DAY

pytestmark = pytest.mark.outside_protocol("commands")

AGENT = "https://agent.example"
NORTH, SOUTH = DEALERS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    succeed_here("init", folder)
    return folder


def agents(folder: Path, *words: str) -> Any:
    return json.loads(succeed_here("agents", *words, "--dir", folder, "--json"))


def refused(folder: Path, *words: str) -> str:
    done = command_here("agents", *words, "--dir", folder)
    assert done.returncode == 2, done.stdout
    return " ".join(done.stderr.replace("\u2502", " ").split())


def states(folder: Path, *more: str) -> dict[str, tuple[str, str]]:
    return {each["agent"]: (each["state"], each["from"]) for each in agents(folder, "list", *more)}


def test_a_policy_is_set_shown_with_its_reason_and_forgotten(folder: Path) -> None:
    assert states(folder) == {"anonymous": ("allow", "settings, class anonymous")}
    succeed_here("agents", "quarantine", AGENT, "--reason", "wrong numbers", "--dir", folder)
    succeed_here("agents", "block", AGENT, "--reason", "spam", "--dir", folder)
    assert states(folder)[AGENT] == ("block", "dealer")
    shown = agents(folder, "show", AGENT)
    assert (shown["class"], shown["state"], shown["from"]) == ("signed", "block", "dealer")
    assert [(each["state"], each["reason"]) for each in shown["history"]] == [
        ("block", "spam"),
        ("quarantine", "wrong numbers"),
    ]
    text = succeed_here("agents", "show", AGENT, "--dir", folder)
    assert "reason: wrong numbers" in text
    commands = [line.split()[2] for line in text.splitlines() if line.startswith("  dealer-agent agents")]
    assert commands == ["allow", "limit", "quarantine", "block", "forget"]
    assert all(f"{AGENT}" in line for line in text.splitlines() if line.startswith("  dealer-agent agents"))
    agents(folder, "forget", AGENT)
    assert AGENT not in states(folder)
    assert [each["state"] for each in agents(folder, "show", AGENT)["history"]] == ["forget", "block", "quarantine"]
    assert "no policy of its own" in command_here("agents", "forget", AGENT, "--dir", folder).stderr


def test_a_client_id_that_has_characters_of_the_shell_is_quoted_in_the_commands(folder: Path) -> None:
    """The id of a client may be a text that the client has chosen."""
    agent = "https://login.example#https://host.example/$(reboot);'`x`"
    succeed_here("agents", "quarantine", agent, "--dir", folder)
    text = succeed_here("agents", "show", agent, "--dir", folder)
    commands = [shlex.split(line) for line in text.splitlines() if line.startswith("  dealer-agent agents")]
    assert [agent in words for words in commands] == [True] * 5


def test_a_limit_has_skills_rates_and_leads_a_day(folder: Path) -> None:
    words = ("--skill", "inventory.search", "--rate", "inventory.search=5/minute", "--leads-a-day", "3")
    made = agents(folder, "limit", "signed", *words)
    expected = {"skills": ["inventory.search"], "rates": {"inventory.search": "5/minute"}, "leads_a_day": 3}
    assert made.items() >= expected.items()
    shown = agents(folder, "show", AGENT)
    assert shown.items() >= (expected | {"state": "limit", "from": "dealer, class signed"}).items()


def test_an_agent_in_quarantine_and_an_anonymous_one_have_a_limit_of_leads_by_default(folder: Path) -> None:
    assert agents(folder, "quarantine", AGENT)["leads_a_day"] == QUARANTINED_LEADS_A_DAY
    assert agents(folder, "show", "anonymous")["leads_a_day"] == ANONYMOUS_LEADS_A_DAY


def test_allowing_an_agent_ends_its_limits(folder: Path) -> None:
    agents(folder, "limit", AGENT, "--skill", "inventory.search", "--leads-a-day", "3")
    assert agents(folder, "allow", AGENT).items() >= {"state": "allow", "skills": None, "leads_a_day": None}.items()


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (("block", "https://Agent.example/"), "did you mean https://agent.example?"),
        (("block", "anonymos"), "did you mean anonymous?"),
        (("block", "agent.example"), "write an origin such as"),
        (("block", "token:nothing"), "there is no token nothing; see dealer-agent tokens list"),
        (("limit", AGENT), "say what to limit"),
        (("limit", AGENT, "--skill", "inventory.serch"), "did you mean inventory.search?"),
        (("limit", AGENT, "--rate", "inventory.search"), "is not SKILL=RATE"),
        (("limit", AGENT, "--rate", "inventory.search=often"), "is not a rate limit"),
        (("block", AGENT, "--reason", "x" * 501), "at most 500"),
    ],
)
def test_a_wrong_word_is_refused_with_advice(folder: Path, words: tuple[str, ...], advice: str) -> None:
    assert advice in refused(folder, *words)
    assert states(folder) == {"anonymous": ("allow", "settings, class anonymous")}


def test_a_token_is_named_by_its_id_and_listed_with_its_name(folder: Path) -> None:
    made = json.loads(succeed_here("tokens", "create", "Acme", "--scope", "leads:write", "--dir", folder, "--json"))
    token_id = made["id"]
    assert made["scopes"] == ["leads:write"]
    assert f"did you mean token:{token_id}?" in refused(folder, "block", "Acme")
    assert f"did you mean token:{token_id}?" in refused(folder, "block", token_id)
    near = token_id[:-1] + ("A" if token_id[-1] != "A" else "B")
    assert f"did you mean token:{token_id}?" in refused(folder, "block", f"token:{near}")
    agents(folder, "block", f"token:{token_id}")
    (found,) = [each for each in agents(folder, "list") if each["class"] == "token"]
    assert (found["name"], found["state"]) == ("Acme", "block")
    (token,) = json.loads(succeed_here("tokens", "list", "--dir", folder, "--json"))
    assert (token["scopes"], token["last_used"]) == ("leads:write", None)
    wrong = command_here("tokens", "create", "Acme", "--scope", "leads:rite", "--dir", folder)
    assert "did you mean leads:write?" in " ".join(wrong.stderr.replace("\u2502", " ").split())


def test_the_table_fits_a_terminal(folder: Path) -> None:
    succeed_here("agents", "block", f"https://{'a' * 60}.example", "--dir", folder)
    text = succeed_here("agents", "list", "--dir", folder)
    assert f"https://{'a' * 60}.example" in text


def test_the_operator_sets_policies_for_all_dealers_and_a_dealer_its_own(tmp_path: Path) -> None:
    installation = make_installation(tmp_path / "agents")
    for dealer_id in DEALERS:
        add(installation, dealer_id)
    folder = installation.folder
    agents(folder, "block", AGENT, "--reason", "spam")
    agents(folder, "allow", AGENT, "--dealer", SOUTH)
    assert states(folder)[AGENT] == ("block", "installation")
    assert states(folder, "--dealer", NORTH)[AGENT] == ("block", "installation")
    assert states(folder, "--dealer", SOUTH)[AGENT] == ("allow", "dealer")
    assert [each["for"] for each in agents(folder, "show", AGENT, "--dealer", SOUTH)["history"]] == [
        "dealer",
        "all dealers",
    ]
    assert "add --dealer ID" in refused(folder, "block", "token:T1")


def test_leads_are_counted_and_listed_by_caller(tmp_path: Path) -> None:
    filled = filled_dealer(tmp_path / "dealer")
    client = issued("https://login.example", "shop")
    for number, caller in enumerate((ANONYMOUS, ANONYMOUS, signed(AGENT), client)):
        filled.take(caller=caller, customer=customer(number))
    counted = {each["agent"]: each["leads"] for each in agents(filled.folder, "list")}
    assert counted == {"anonymous": 2, AGENT: 1, client.identity: 1}
    shown = agents(filled.folder, "show", AGENT)
    assert shown["leads"] == 1
    assert shown["last_seen"] == shown["last_lead"] is not None

    def listed(agent: str) -> list[str | None]:
        words = ("leads", "list", "--agent", agent, "--json", "--dir", filled.folder)
        return [each["caller"] for each in json.loads(succeed_here(*words))]

    assert listed("anonymous") == [None, None]
    assert listed(AGENT) == [AGENT]
    assert listed(client.identity) == [client.identity]
    assert listed("https://other.example") == []
    assert "write an origin" in command_here("leads", "list", "--agent", "acme", "--dir", filled.folder).stderr
