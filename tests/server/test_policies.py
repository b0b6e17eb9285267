"""What the policy of a caller and the scopes of its token allow (docs/protocol.md#callers)."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from tests.acceptance.running import eventually
from tests.server.conftest import EACH_BINDING, OpenDealership
from tests.server.dealership import ACCORD, NO_LIMITS, Dealership, error_of, lead, message, run_dealership
from tests.server.test_order_of_checks import BINDINGS, on
from tests.storage.calls import read, write_at

from dealer_agent.callers import Policy
from dealer_agent.protocol.skill import SKILLS
from dealer_agent.server.tokens import new_token
from dealer_agent.storage.agent_policies import set_policy
from dealer_agent.storage.leads.stored_leads import LIST_LEADS, leads_in
from dealer_agent.storage.tokens import create_token, list_tokens
from dealer_agent.storage.transaction import Transaction

DEALER = "test-motors"


def give(opened: Dealership, agent: str, policy: Policy | None) -> None:
    with opened.store() as store:
        write_at(datetime.now(UTC), store, DEALER, set_policy, agent, policy, actor="test")


def token_with(opened: Dealership, *scopes: str) -> tuple[str, str]:
    """The identity and the text of a new token."""
    fresh = new_token()
    with opened.store() as store:
        now = datetime.now(UTC)
        token_id = write_at(now, store, DEALER, create_token, "Buyer", fresh.secret_hash, scopes=scopes)
    return f"token:{token_id}", fresh.text(token_id)


def ask(opened: Dealership, skill: str, token: str | None = None, path: str = "/message:send") -> httpx.Response:
    sent = message(skill, **({"vin": ACCORD} if skill == "inventory.vehicle" else {}))
    return opened.post(on(path, sent), path, token=token)


def result(answer: httpx.Response) -> tuple[int, str, str | None]:
    code = error_of(answer)["code"] if "error" in answer.json() else ""
    return answer.status_code, code, answer.headers.get("www-authenticate")


@BINDINGS
@pytest.mark.requirement("blocked-caller", "rpc-http-status", "order-blocked-json")
def test_a_blocked_caller_gets_403_before_its_body_is_read(open_dealership: OpenDealership, path: str) -> None:
    opened = open_dealership()
    (blocked, token), (_, other) = token_with(opened), token_with(opened)
    give(opened, blocked, Policy("block"))
    with run_dealership(opened.folder) as again:
        for skill in SKILLS:
            assert result(ask(again, skill.id, token, path)) == (403, "AUTH_REQUIRED", None)
            assert ask(again, skill.id, other, path).status_code == 200
            assert ask(again, skill.id, None, path).status_code == 200
        assert result(again.post(b"not json", path, token=token)) == (403, "AUTH_REQUIRED", None)
        assert again.get("/.well-known/agent-card.json").status_code == 200


@BINDINGS
@pytest.mark.requirement("blocked-caller")
def test_blocked_anonymous_callers_are_asked_who_they_are(open_dealership: OpenDealership, path: str) -> None:
    opened = open_dealership()
    _, token = token_with(opened)
    give(opened, "anonymous", Policy("block"))
    with run_dealership(opened.folder) as again:
        for skill in SKILLS:
            assert result(ask(again, skill.id, None, path)) == (401, "AUTH_REQUIRED", "Bearer")
            assert ask(again, skill.id, token, path).status_code == 200
        assert again.get("/cards/0.1.0.json").json()["auth_type"] == "bearer"


@pytest.mark.requirement("blocked-caller", "version-no-auth-required")
def test_a_published_version_refuses_a_blocked_caller_with_a_plain_text(open_dealership: OpenDealership) -> None:
    opened = open_dealership()
    blocked, token = token_with(opened)
    give(opened, blocked, Policy("block"))
    with run_dealership(opened.folder) as again:
        for path in ("/aap/1.0/message:send", "/aap/1.0/rpc"):
            answer = again.post(
                on(path.rpartition("/1.0")[2], message("inventory.search", "autoagent")), path, token=token
            )
            assert (answer.status_code, answer.headers["content-type"]) == (403, "text/plain; charset=utf-8")


ONLY_SEARCH = frozenset({"inventory.search"})


@BINDINGS
@pytest.mark.requirement("policy-skills")
def test_a_policy_allows_only_its_skills(open_dealership: OpenDealership, path: str) -> None:
    opened = open_dealership(NO_LIMITS + '[agents.anonymous]\nskills = ["inventory.search", "dealer.information"]\n')
    limited, token = token_with(opened)
    give(opened, limited, Policy("limit", ONLY_SEARCH))
    with run_dealership(opened.folder) as again:
        for skill in SKILLS:
            known = (200, "", None) if skill.id in ONLY_SEARCH else (403, "AUTH_REQUIRED", None)
            assert result(ask(again, skill.id, token, path)) == known
            is_open = skill.id in ("inventory.search", "dealer.information")
            stranger = (200, "", None) if is_open else (401, "AUTH_REQUIRED", "Bearer")
            assert result(ask(again, skill.id, None, path)) == stranger
        assert again.get("/cards/0.1.0.json").json()["auth_type"] == "none"
        declared = {
            each["id"]: "securityRequirements" in each for each in again.get("/cards/1.0.0.json").json()["skills"]
        }
        assert [skill.id for skill in SKILLS if not declared[skill.id]] == ["dealer.information", "inventory.search"]


@EACH_BINDING
@pytest.mark.requirement("scopes", "order-skill-scope", "order-scope-rate")
@pytest.mark.usefixtures("limits_kept")
def test_a_token_opens_the_skills_of_its_scopes(open_dealership: OpenDealership, path: str) -> None:
    rates = NO_LIMITS.replace('lead_submit = ""', 'lead_submit = "1/hour"')
    opened = open_dealership('[service]\nskills_off = ["inventory.facets"]\n' + rates)
    tokens = {scope: token_with(opened, *scope)[1] for scope in ((), ("inventory:read",), ("leads:write",))}
    with run_dealership(opened.folder) as again:
        for scopes, token in tokens.items():
            for skill in SKILLS:
                if skill.id == "inventory.facets":
                    expected: tuple[int, str, str | None] = result(ask(again, skill.id, None, path))
                    assert expected[1] == "UNSUPPORTED_SKILL"
                elif not scopes or skill.scope in scopes:
                    expected = 200, "", None
                else:
                    expected = 403, "AUTH_REQUIRED", f'error="insufficient_scope" scope="{skill.scope}"'
                status, code, challenge = result(ask(again, skill.id, token, path))
                if status == 403 and challenge is not None:
                    challenge = " ".join(re.findall(r'\b(?:error|scope)="[^"]*"', challenge))
                assert (status, code, challenge) == expected
        # A request without the scope is refused before its skill's rate, and does not count.
        for _ in range(3):
            assert ask(again, "lead.submit", tokens["inventory:read",], path).status_code == 403
        assert ask(again, "lead.submit", tokens["leads:write",], path).status_code == 429


@pytest.mark.requirement("policy-rates", "retry-after")
@pytest.mark.usefixtures("limits_kept")
def test_the_rates_of_a_policy_replace_those_of_the_dealer(open_dealership: OpenDealership) -> None:
    rates = NO_LIMITS.replace('inventory_search = ""', 'inventory_search = "2/hour"')
    opened = open_dealership(rates + '[agents.anonymous.rates]\ninventory_facets = "1/hour"\n')
    (slow, slow_token), (fast, fast_token), (_, usual) = (token_with(opened) for _ in range(3))
    give(opened, slow, Policy("limit", rates=(("inventory.search", "1/hour"),)))
    give(opened, fast, Policy("allow", rates=(("inventory.search", ""),)))

    def answered(token: str | None, skill: str = "inventory.search") -> int:
        return sum(ask(again, skill, token).status_code == 200 for _ in range(4))

    with run_dealership(opened.folder) as again:
        assert [answered(token) for token in (slow_token, usual, fast_token, None)] == [1, 2, 4, 2]
        assert [answered(token, "inventory.facets") for token in (slow_token, None)] == [4, 1]
        assert 0 < int(ask(again, "inventory.search", slow_token).headers["retry-after"]) <= 3600


@EACH_BINDING
@pytest.mark.requirement("leads-a-day")
@pytest.mark.usefixtures("limits_kept")
def test_leads_a_day_count_valid_leads_of_each_caller(open_dealership: OpenDealership, path: str) -> None:
    opened = open_dealership(NO_LIMITS + "[agents.anonymous]\nleads_a_day = 2\n")
    (limited, token), (_, other) = token_with(opened), token_with(opened)
    give(opened, limited, Policy("limit", leads_a_day=1))
    numbers = iter(range(1000))

    def send(token: str | None, address: str | None = None, **members: Any) -> int:
        customer = {"first_name": "Sam", "last_name": "Sample", "email": f"sam{next(numbers)}@example.com"}
        sent = message("lead.submit")
        sent["message"]["parts"][0]["data"] = {**lead(), "customer": customer, **members}
        answer = again.post(on(path, sent), path, token=token, address=address)
        # Over JSON-RPC, the status of an error in the lead is 200.
        code = result(answer)[1]
        return 422 if code in ("SCHEMA_VALIDATION_FAILED", "CONTACT_CONSENT_REQUIRED") else answer.status_code

    with run_dealership(opened.folder) as again:
        malformed: list[dict[str, Any]] = [{"nickname": "x"}, {"consent": {}}]
        for bad in malformed:
            assert send(token, **bad) == send(None, **bad) == 422
        assert [send(token) for _ in range(2)] == [200, 429]
        assert [send(None) for _ in range(3)] == [200, 200, 429]
        assert send(None, "198.51.100.8") == 200
        assert [send(other) for _ in range(4)] == [200] * 4
        assert ask(again, "inventory.search", token).status_code == 200


@pytest.mark.requirement("leads-a-day")
def test_without_a_rate_of_leads_strangers_have_no_number_of_leads_a_day(open_dealership: OpenDealership) -> None:
    assert open_dealership(NO_LIMITS).service.anonymous_policy.leads_a_day is None
    assert open_dealership("").service.anonymous_policy.leads_a_day == 1000


@pytest.mark.requirement("policies")
def test_anonymous_callers_may_use_every_skill_by_default(open_dealership: OpenDealership) -> None:
    opened = open_dealership("")
    assert opened.service.closed_skills == frozenset()
    assert opened.service.open_skills == {skill.id for skill in SKILLS}


@pytest.mark.requirement("caller-decides")
def test_the_caller_is_the_sender_of_a_lead_whatever_the_payload_says(open_dealership: OpenDealership) -> None:
    opened = open_dealership()
    identity, token = token_with(opened)
    with run_dealership(opened.folder) as again:
        for number, given in enumerate((token, None)):
            sent = message("lead.submit")
            sent["message"]["parts"][0]["data"] = {
                **lead(),
                "source_agent": {"name": identity, "url": "https://agent.example"},
                "customer": {"first_name": "Sam", "last_name": "Sample", "email": f"sam{number}@example.com"},
            }
            assert again.post(sent, token=given).status_code == 200

    def callers(tx: Transaction) -> set[str | None]:
        return {each.caller for each in leads_in(tx, tx.execute(LIST_LEADS, {"limit": 9}))}

    with opened.store() as store:
        assert read(store, DEALER, callers) == {identity, None}


@pytest.mark.requirement("policy-changes")
@pytest.mark.usefixtures("looks_often")
def test_a_running_service_sees_a_change_of_a_policy(open_dealership: OpenDealership) -> None:
    opened = open_dealership()
    identity, token = token_with(opened)

    def becomes(skill: str, given: str | None, status: int) -> None:
        eventually(f"{skill} gets {status}", lambda: ask(opened, skill, given).status_code == status)

    becomes("inventory.search", token, 200)
    give(opened, identity, Policy("block"))
    becomes("inventory.search", token, 403)
    give(opened, identity, Policy("limit", ONLY_SEARCH))
    becomes("inventory.search", token, 200)
    assert ask(opened, "inventory.facets", token).status_code == 403
    give(opened, identity, None)
    becomes("inventory.facets", token, 200)
    give(opened, "anonymous", Policy("limit", ONLY_SEARCH))
    becomes("inventory.facets", None, 401)
    assert ask(opened, "inventory.search").status_code == 200
    skills = opened.get("/cards/1.0.0.json").json()["skills"]
    assert [each["id"] for each in skills if "securityRequirements" not in each] == ["inventory.search"]
    give(opened, "anonymous", Policy("allow"))
    becomes("inventory.facets", None, 200)
    assert "securitySchemes" not in opened.get("/cards/1.0.0.json").json()


@pytest.mark.outside_protocol("a flag for the transaction of the lead")
def test_the_lead_of_a_caller_in_quarantine_is_marked(
    open_dealership: OpenDealership, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = open_dealership()
    quarantined, token = token_with(opened)
    give(opened, quarantined, Policy("quarantine"))
    with run_dealership(opened.folder) as again:
        intake = again.service.dealer.lead_intake
        seen: list[bool] = []
        submit: Callable[..., Any] = type(intake).submit

        async def noted(self: Any, prepared: Any, *rest: Any) -> Any:
            seen.append(prepared.quarantined)
            return await submit(self, prepared, *rest)

        monkeypatch.setattr(type(intake), "submit", noted)
        answers = [ask(again, "lead.submit", given) for given in (token, None)]
    assert seen == [True, False]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert [json.loads(answer.content)["message"]["parts"][0]["data"]["data"]["status"] for answer in answers] == [
        "received"
    ] * 2


@pytest.mark.outside_protocol("commands")
def test_the_last_use_of_a_token_is_saved_with_the_counts(open_dealership: OpenDealership) -> None:
    opened = open_dealership()
    (used, token), (unused, _) = token_with(opened, "inventory:read"), token_with(opened)
    with run_dealership(opened.folder) as again:
        assert ask(again, "lead.submit", token).status_code == 403
    with opened.store() as store:
        uses = {f"token:{each.token_id}": each.used_at for each in read(store, DEALER, list_tokens)}
    assert uses[used] is not None
    assert uses[unused] is None
