"""The agents in the console: who calls, what each may do, and tokens that are shown once."""

import re
import time
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from tests.console.browsers import ROOT
from tests.console.conftest import SignedIn
from tests.console.test_stock_pages import HOSTILE, UNCLOSED, Tags
from tests.server.dealership import Dealership, message

from dealer_agent.storage.agent_policies import policy_history, read_policies
from dealer_agent.storage.daily_counts import add_counts
from dealer_agent.storage.leads.outcomes import set_mark

pytestmark = pytest.mark.outside_protocol("console")

AGENTS = f"{ROOT}/agents"
SIGNED = "https://agent.example"


def make_token(browser_page: str) -> str:
    """The text of the token that a page shows."""
    found = re.search(r'readonly value="([^"]+)"', browser_page)
    assert found is not None, browser_page
    return found[1]


def send(console: Dealership, token: str, body: dict[str, Any]) -> httpx.Response:
    """The answer to a request with a new token, once the service has noticed the token."""
    for _ in range(100):
        answer = console.post(body, token=token)
        if answer.status_code != 401:
            break
        time.sleep(0.1)
    assert answer.status_code == 200, answer.text
    return answer


def cell(page: str, agent: str, label: str) -> str:
    """What the list has about an agent."""
    row = next(row for row in page.split("<tr>") if agent in row)
    found = re.search(rf'data-label="{label}">(.*?)</td>', row, re.DOTALL)
    assert found is not None, row
    return re.sub(r"<[^>]+>", "", found[1]).strip()


def test_a_token_is_shown_once_and_opens_the_skills(console: Dealership, signed_in: SignedIn) -> None:
    owner = signed_in()
    made = owner.post(f"{AGENTS}/tokens", {"name": "Buyer bot", "days": "30"})
    token = make_token(made.text)
    assert made.headers["cache-control"] == "no-store"
    listed = owner.get(f"{AGENTS}/tokens").text
    assert "Buyer bot" in listed
    assert token not in listed
    send(console, token, message("dealer.information"))
    token_id = re.search(r'name="token" value="(\w+)"', listed)
    assert token_id is not None
    assert owner.post(f"{AGENTS}/tokens/revoke", {"token": token_id[1]}).status_code == 303
    assert "revoked" in owner.get(f"{AGENTS}/tokens").text
    assert owner.post(f"{AGENTS}/tokens/revoke", {"token": token_id[1]}).status_code == 422


def test_only_an_owner_who_has_just_proved_it_makes_a_token(signed_in_there: SignedIn) -> None:
    form = {"name": "Buyer bot"}
    assert signed_in_there("manager").post(f"{AGENTS}/tokens", form).status_code == 403
    assert "Make the token" not in signed_in_there("manager").get(f"{AGENTS}/tokens").text


@pytest.mark.parametrize("form", [{"name": " "}, {"name": "A", "days": "0"}, {"name": "A", "scope": "everything"}])
def test_a_wrong_token_is_not_made(signed_in_there: SignedIn, form: dict[str, str]) -> None:
    owner = signed_in_there()
    assert owner.post(f"{AGENTS}/tokens", form).status_code == 422
    assert "No tokens yet" in owner.get(f"{AGENTS}/tokens").text


def test_the_list_says_what_became_of_the_leads_of_an_agent(console: Dealership, signed_in: SignedIn) -> None:
    token_id, token = console.new_token()
    answer = send(console, token, message("lead.submit")).json()
    lead_id = answer["message"]["parts"][0]["data"]["data"]["lead_id"]
    with console.store() as store, store.write("test-motors") as tx:
        assert set_mark(tx, lead_id, "spam", by="Kim")
    viewer = signed_in("viewer")
    page = viewer.get(AGENTS).text
    assert (cell(page, token_id, "Leads"), cell(page, token_id, "Bad")) == ("1", "1")
    assert (cell(page, "Anonymous", "Leads"), cell(page, "Anonymous", "Bad")) == ("0", "0")
    assert "proved by a token" in cell(page, token_id, "Agent")
    one = viewer.get(f"{AGENTS}/agent?id=token:{token_id}").text
    assert re.search(r"<dt>Spam</dt><dd>1</dd>", one)
    assert "Change what it may do" not in one


def test_a_policy_is_changed_with_a_reason(console: Dealership, signed_in: SignedIn) -> None:
    manager = signed_in("manager", email="kim@example.com")
    block = {"agent": SIGNED, "state": "block"}
    assert manager.post(f"{AGENTS}/policy", block).status_code == 422
    changed = manager.post(f"{AGENTS}/policy", {**block, "reason": HOSTILE})
    assert changed.status_code == 303
    page = manager.get(changed.headers["location"]).text
    assert "<strong>block</strong>" in page
    assert "proved by its signature" in page
    assert "<script>alert" not in page
    limits = {"agent": SIGNED, "state": "limit", "reason": "Too many.", "leads_a_day": "5", "skill": "lead.submit"}
    assert manager.post(f"{AGENTS}/policy", {**limits, "rate-inventory.search": "60/minute"}).status_code == 303
    with console.store() as store, store.read("test-motors") as tx:
        policy = read_policies(tx)[SIGNED]
        history = policy_history(tx, SIGNED, 10)
    assert (policy.state, policy.leads_a_day, policy.rates) == ("limit", 5, (("inventory.search", "60/minute"),))
    assert [(each.set_by, each.reason) for each in history] == [
        ("kim@example.com", "Too many."),
        ("kim@example.com", HOSTILE),
    ]
    assert (
        manager.post(f"{AGENTS}/policy", {"agent": SIGNED, "state": "forget", "reason": "Solved."}).status_code == 303
    )
    assert manager.post(f"{AGENTS}/policy", {"agent": SIGNED, "state": "forget", "reason": "Again."}).status_code == 422


@pytest.mark.parametrize(
    "wrong",
    [
        {"state": "limit"},
        {"state": "limit", "rate-inventory.search": "often"},
        {"state": "limit", "skill": "lead.delete"},
        {"state": "quarantine", "leads_a_day": "-1"},
        {"state": "trust"},
    ],
)
def test_a_wrong_policy_changes_nothing(
    shared_console: Dealership, signed_in_there: SignedIn, wrong: dict[str, str]
) -> None:
    sent = {"agent": SIGNED, "reason": "A test.", **wrong}
    assert signed_in_there("manager").post(f"{AGENTS}/policy", sent).status_code == 422
    with shared_console.store() as store, store.read("test-motors") as tx:
        assert not read_policies(tx)


@pytest.mark.parametrize("name", [HOSTILE, UNCLOSED, "https://openai.com proved by its signature", "\u202emoc.ianepo"])
def test_a_name_never_looks_proved_or_becomes_markup(console: Dealership, signed_in: SignedIn, name: str) -> None:
    owner = signed_in()
    token = make_token(owner.post(f"{AGENTS}/tokens", {"name": name}).text)
    send(console, token, message("lead.submit", source_agent=name))
    for path in (AGENTS, f"{AGENTS}/tokens"):
        page = owner.get(path).text
        tags = Tags()
        tags.feed(page)
        assert (tags.scripts, tags.unsafe) == (2, [])
        marks = re.findall(r'<span class="mark-of good">([^<]*)</span>', page)
        assert set(marks) <= {"proved by a token"}
        assert "<bdi>" in page


def test_an_unknown_agent_has_no_page(signed_in: SignedIn) -> None:
    viewer = signed_in("viewer")
    for name in ("token:NOBODY", "http://agent.example", "", "%3Cscript%3E"):
        assert viewer.get(f"{AGENTS}/agent?id={name}").status_code == 404


def test_a_name_that_a_caller_only_claims_is_in_quotes(console: Dealership, signed_in: SignedIn) -> None:
    with console.store() as store, store.write("test-motors") as tx:
        add_counts(tx, datetime.now(UTC).date(), {"agents": {f"{UNCLOSED} inventory.search": 7}})
    page = signed_in("viewer").get(AGENTS).text
    tags = Tags()
    tags.feed(page)
    assert (tags.scripts, tags.unsafe) == (2, [])
    assert "claims to be <q><bdi>" in page
    assert "not proved</span>" in page
    assert "7 requests" in page
