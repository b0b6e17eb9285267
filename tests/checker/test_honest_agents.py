"""Dealer agents that follow the protocol: no check fails on them, whatever their settings.

In a normal run, the agents with other settings are checked at one card, and in the long one at all.
"""

import json
from collections import Counter
from pathlib import Path

import pytest
from tests.checker.agents import HonestAgent, check_agent, running
from tests.server.dealership import LISTENS_AT

from dealer_agent.checker.events import Verdict
from dealer_agent.checker.runner import Options
from dealer_agent.client import Signer
from dealer_agent.self_test.dealer import make_dealer, signer

pytestmark = pytest.mark.outside_protocol("checker")

each_card = pytest.mark.parametrize(
    "revisions", [("1.0.0",), pytest.param((), marks=pytest.mark.soak)], ids=["1.0.0", "all"]
)

MINIMAL = """
id = "one-lot"
name = "One Lot"
feed_price = "advertised"

[[rooftops]]
name = "The Lot"
timezone = "America/Denver"
"""
ONE_UNIT = json.dumps([{"stock": "1", "rooftop": "The Lot"}]).encode()

VARIANTS: dict[str, dict[str, str | bytes | None]] = {
    "minimal": {
        "dealer": MINIMAL,
        "feed": ONE_UNIT,
        "tables": '[service]\nskills_off = ["inventory.facets", "inventory.vehicle", "lead.submit"]\n',
    },
    "other skills": {"tables": '[service]\nskills_off = ["dealer.information", "inventory.search"]\n'},
    "empty stock": {"feed": None},
    "other caps": {
        "tables": "[search]\ndefault_limit = 3\nlimit_cap = 7\n[service]\nbody_limit_kib = 8\nbase_path = '/agent'\n"
    },
    "other vocabulary": {
        "tables": '[service]\nvocabulary = "autoagent"\nrevision = "0.1.0"\nerror_domain = "cars.example"\n'
        'extension_uri_1_0_0 = "https://cars.example/1"\nextension_uri_0_1_0 = "https://cars.example/0"\n'
        "lenient_configuration = true\n"
    },
}
"""How each variant differs from the dealer of the controls."""


def bad(verdicts: list[Verdict]) -> dict[str, list[str]]:
    """The requirements that failed or could not be checked, with sentence and variants."""
    found: dict[str, list[str]] = {}
    for each in verdicts:
        if each.outcome in ("fail", "could not check"):
            found.setdefault(f"{each.requirement.id}: {each.sentence}", []).append(str(each.variant))
    return found


def outcomes(verdicts: list[Verdict]) -> Counter[str]:
    return Counter(each.outcome for each in verdicts)


def test_no_check_fails_on_our_own_agent(honest: HonestAgent) -> None:
    verdicts = check_agent(honest, Options(rate=1e9))
    assert bad(verdicts) == {}
    assert outcomes(verdicts)["pass"] > 500


def test_no_check_of_leads_fails_on_our_own_agent(honest: HonestAgent) -> None:
    only = ("leads", "consent", "idempotency", "appointments")
    verdicts = check_agent(honest, Options(rate=1e9, leads=True, only=only))
    assert bad(verdicts) == {}
    assert outcomes(verdicts)["pass"] > 90


PROOFS = ("signed", "authentication", "cards", "envelope", "http")
"""Subjects that are about who calls, or that send requests of every form."""


@each_card
@pytest.mark.parametrize("variant", VARIANTS)
def test_no_check_fails_on_an_agent_with_other_settings(
    variant: str, revisions: tuple[str, ...], tmp_path: Path
) -> None:
    settings = VARIANTS[variant]
    make_dealer(tmp_path / "dealer", **settings)  # type: ignore[arg-type]
    base = "/agent" if "base_path" in str(settings) else ""
    with running(tmp_path / "dealer") as agent:
        verdicts = check_agent(agent, Options(rate=1e9, revisions=revisions), url=LISTENS_AT + base)
    assert bad(verdicts) == {}
    assert outcomes(verdicts)["pass"] > 200


@each_card
def test_a_dealer_that_asks_for_tokens_passes_with_one(
    asking_for_tokens: HonestAgent, revisions: tuple[str, ...]
) -> None:
    verdicts = check_agent(asking_for_tokens, Options(rate=1e9, revisions=revisions, token=asking_for_tokens.token))
    assert bad(verdicts) == {}
    assert outcomes(verdicts)["pass"] > 500


def test_a_run_that_signs_checks_all_that_is_signed(honest: HonestAgent, asking_for_tokens: HonestAgent) -> None:
    for agent, token in ((honest, None), (asking_for_tokens, asking_for_tokens.token)):
        options = Options(rate=1e9, revisions={"1.0.0"}, token=token, signer=signer(), leads=True, only=PROOFS)
        verdicts = check_agent(agent, options)
        assert bad(verdicts) == {}
        signed = {each.requirement.id: each.sentence for each in verdicts if each.requirement.subject == "signed"}
        assert signed == dict.fromkeys(signed, "")


def test_a_run_that_signs_needs_no_token(asking_for_tokens: HonestAgent) -> None:
    options = Options(rate=1e9, revisions={"1.0.0"}, signer=signer(), only=("search.total", "signed"))
    verdicts = check_agent(asking_for_tokens, options)
    assert bad(verdicts) == {}
    assert {each.requirement.id for each in verdicts if each.outcome == "pass"} == {"search.total", "signed.failure"}


def test_an_agent_that_knows_no_keys_of_the_run_is_no_failure(honest: HonestAgent) -> None:
    unknown = Signer(signer().key, "https://nobody.invalid")
    verdicts = check_agent(honest, Options(rate=1e9, revisions={"1.0.0"}, signer=unknown, only=("signed",)))
    said = {each.requirement.id: each.sentence for each in verdicts if each.outcome != "pass"}
    assert said.keys() == {"signed.wrong", "signed.body", "signed.replayed", "signed.lead-body", "signed.lead-digest"}
    assert "keys directory --check https://nobody.invalid" in said["signed.wrong"]


@each_card
def test_a_dealer_that_asks_for_tokens_is_skipped_without_one(
    asking_for_tokens: HonestAgent, revisions: tuple[str, ...]
) -> None:
    verdicts = check_agent(asking_for_tokens, Options(rate=1e9, revisions=revisions))
    assert bad(verdicts) == {}
    assert any("--token" in each.sentence for each in verdicts if each.outcome == "skipped")
