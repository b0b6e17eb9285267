"""The policies of agents and their history, on each database."""

import pytest
from tests.soak import sqlite_first
from tests.storage.calls import read, write_at
from tests.storage.samples import DEALER, MONDAY, TUESDAY

from dealer_agent.callers import Policy
from dealer_agent.storage import agent_policies
from dealer_agent.storage.agent_policies import policy_history, read_policies, set_policy
from dealer_agent.storage.errors import TooManyPolicies
from dealer_agent.storage.isolation import ALL_DEALERS
from dealer_agent.storage.seen_agents import seen_agents
from dealer_agent.storage.stock.reading import read_revision
from dealer_agent.storage.store import Store
from dealer_agent.storage.tokens import create_token, list_tokens, note_use

AGENT = "https://agent.example"
LIMITED = Policy("limit", frozenset({"inventory.search"}), (("inventory.search", "1/minute"),), 5)


@sqlite_first()
@pytest.mark.requirement("policies")
def test_the_last_change_of_an_agent_holds_and_the_others_are_its_history(store: Store) -> None:
    write_at(MONDAY, store, DEALER, set_policy, AGENT, LIMITED, actor="ann", reason="new")
    write_at(TUESDAY, store, DEALER, set_policy, AGENT, Policy("block"), actor="bob", reason="spam")
    write_at(TUESDAY, store, DEALER, set_policy, "signed", Policy("quarantine"), actor="bob")
    assert read(store, DEALER, read_policies) == {AGENT: Policy("block"), "signed": Policy("quarantine")}
    assert read(store, DEALER, policy_history, AGENT, 9) == [
        (AGENT, Policy("block"), "spam", "bob", TUESDAY),
        (AGENT, LIMITED, "new", "ann", MONDAY),
    ]
    assert len(read(store, DEALER, policy_history, AGENT, 1)) == 1


@pytest.mark.requirement("policies")
def test_a_forgotten_policy_does_not_hold_and_stays_in_the_history(store: Store) -> None:
    write_at(MONDAY, store, DEALER, set_policy, AGENT, Policy("block"), actor="ann")
    write_at(TUESDAY, store, DEALER, set_policy, AGENT, None, actor="ann")
    assert read(store, DEALER, read_policies) == {}
    assert [change.policy for change in read(store, DEALER, policy_history, AGENT, 9)] == [None, Policy("block")]


@sqlite_first()
@pytest.mark.requirement("policies")
def test_policies_belong_to_their_dealer_or_to_the_installation(store: Store) -> None:
    write_at(MONDAY, store, DEALER, set_policy, AGENT, Policy("block"), actor="ann")
    write_at(MONDAY, store, ALL_DEALERS, set_policy, AGENT, Policy("quarantine"), actor="ann")
    assert read(store, "lakeside", read_policies) == {}
    assert read(store, DEALER, read_policies) == {AGENT: Policy("block")}
    assert read(store, ALL_DEALERS, read_policies) == {AGENT: Policy("quarantine")}


@sqlite_first()
@pytest.mark.requirement("policy-changes")
def test_a_change_counts_as_one_of_the_tokens(store: Store) -> None:
    for number, policy in enumerate((Policy("block"), Policy("allow"), None), 1):
        write_at(MONDAY, store, DEALER, set_policy, AGENT, policy, actor="ann")
        assert read(store, DEALER, read_revision).tokens == number
    assert read(store, "lakeside", read_revision).tokens == 0


@sqlite_first()
@pytest.mark.requirement("request-bounds")
def test_the_agents_with_a_policy_are_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_policies, "MOST_POLICIES", 2)
    for agent in ("token", "signed", "signed"):
        write_at(MONDAY, store, DEALER, set_policy, agent, Policy("block"), actor="ann")
    with pytest.raises(TooManyPolicies, match="agents forget"):
        write_at(MONDAY, store, DEALER, set_policy, AGENT, Policy("block"), actor="ann")
    write_at(MONDAY, store, DEALER, set_policy, "signed", None, actor="ann")
    write_at(MONDAY, store, DEALER, set_policy, AGENT, Policy("block"), actor="ann")


@pytest.mark.outside_protocol("commands")
def test_a_token_shows_its_last_use(store: Store) -> None:
    token = write_at(MONDAY, store, DEALER, create_token, "Website", b"\x01" * 32, scopes=["leads:write"])
    assert read(store, DEALER, seen_agents)[f"token:{token}"].seen_at is None
    for used_at in (TUESDAY, MONDAY):
        write_at(TUESDAY, store, DEALER, note_use, {token: used_at, "unknown": used_at})
    write_at(TUESDAY, store, DEALER, note_use, {})
    (found,) = read(store, DEALER, list_tokens)
    assert (found.used_at, found.scopes) == (TUESDAY, "leads:write")
    seen = read(store, DEALER, seen_agents)[f"token:{token}"]
    assert (seen.name, seen.seen_at) == ("Website", TUESDAY)
