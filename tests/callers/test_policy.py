"""Which policy holds for a caller (docs/protocol.md#policies)."""

import pytest

from dealer_agent.callers import ANONYMOUS, Caller, Policy, PolicyBook, issued, signed, token_caller
from dealer_agent.callers.policy import ANONYMOUS_LEADS_A_DAY, LEADS_A_DAY, QUARANTINED_LEADS_A_DAY, PolicyState

AGENT = "https://agent.example"
BLOCK, QUARANTINE, ALLOW, LIMIT = (Policy(state) for state in ("block", "quarantine", "allow", "limit"))


@pytest.mark.parametrize(
    ("own", "shared", "settings", "state"),
    [
        ({}, {}, {}, "allow"),
        ({}, {}, {"signed": BLOCK}, "block"),
        ({}, {"signed": LIMIT}, {"signed": BLOCK}, "limit"),
        ({"signed": QUARANTINE}, {"signed": LIMIT}, {"signed": BLOCK}, "quarantine"),
        ({"signed": QUARANTINE}, {AGENT: BLOCK}, {}, "block"),
        ({AGENT: ALLOW}, {AGENT: BLOCK}, {"signed": BLOCK}, "allow"),
        ({"https://other.example": BLOCK, "anonymous": BLOCK}, {"token": BLOCK}, {"issued": BLOCK}, "allow"),
    ],
)
@pytest.mark.requirement("policies")
def test_of_several_policies_for_an_agent_the_most_exact_one_holds(
    own: dict[str, Policy], shared: dict[str, Policy], settings: dict[str, Policy], state: PolicyState
) -> None:
    book = PolicyBook(own, shared, settings)  # type: ignore[arg-type]
    assert book.of(signed(AGENT)).state == state


@pytest.mark.parametrize(
    ("caller", "agent"),
    [
        (ANONYMOUS, "anonymous"),
        (token_caller("T1"), "token"),
        (signed(AGENT), "signed"),
        (issued("https://login.example", "one"), "issued"),
    ],
)
@pytest.mark.requirement("policies")
def test_a_class_has_the_policy_of_its_section(caller: Caller, agent: str) -> None:
    book = PolicyBook({}, {}, {agent: BLOCK})  # type: ignore[dict-item]
    others = {ANONYMOUS, token_caller("T1"), signed(AGENT), issued("https://login.example", "one")} - {caller}
    assert book.of(caller).is_blocked
    assert not any(book.of(other).is_blocked for other in others)


@pytest.mark.parametrize(
    ("caller", "policies", "most"),
    [
        (ANONYMOUS, {}, ANONYMOUS_LEADS_A_DAY),
        (ANONYMOUS, {"anonymous": Policy("limit", leads_a_day=5)}, 5),
        (ANONYMOUS, {"anonymous": QUARANTINE}, QUARANTINED_LEADS_A_DAY),
        (signed(AGENT), {}, ANONYMOUS_LEADS_A_DAY),
        (signed(AGENT), {AGENT: Policy("allow")}, None),
        (token_caller("T1"), {}, None),
        (issued("https://login.example", "one"), {}, None),
        (signed(AGENT), {AGENT: QUARANTINE}, QUARANTINED_LEADS_A_DAY),
        (signed(AGENT), {AGENT: Policy("quarantine", leads_a_day=100)}, 100),
        (signed(AGENT), {AGENT: Policy("limit", leads_a_day=3)}, 3),
    ],
)
@pytest.mark.requirement("leads-a-day")
def test_strangers_and_callers_in_quarantine_have_a_number_of_leads_a_day(
    caller: Caller, policies: dict[str, Policy], most: int | None
) -> None:
    for book in (PolicyBook(policies, {}, {}), PolicyBook({}, policies, {})):
        policy = book.of(caller)
        assert policy.leads_a_day == most
        assert policy.rules == ({} if most is None else {LEADS_A_DAY: f"{most}/day"})


@pytest.mark.requirement("leads-a-day")
def test_without_the_default_only_a_policy_bounds_the_leads_of_strangers() -> None:
    assert PolicyBook({}, {}, {}, None).of(ANONYMOUS).leads_a_day is None
    assert PolicyBook({"anonymous": Policy("limit", leads_a_day=5)}, {}, {}, None).of(ANONYMOUS).leads_a_day == 5


@pytest.mark.requirement("policies")
def test_the_source_of_a_policy_is_named() -> None:
    book = PolicyBook({AGENT: BLOCK}, {"signed": LIMIT}, {})
    assert book.source_of(AGENT)[1:] == (AGENT, "dealer")
    assert book.source_of("https://other.example")[1:] == ("signed", "installation")
    assert book.source_of("token:T1")[1:] == ("token", "settings")
