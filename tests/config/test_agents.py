"""The section `[agents]` of the settings (docs/reference/settings.md#agents)."""

from pathlib import Path

import pytest
from tests.config.test_loading import LEAST

from dealer_agent.callers import Policy
from dealer_agent.config import Settings, SettingsError, load_settings


def load(folder: Path, more: str) -> Settings:
    folder.chmod(0o700)
    (folder / "dealer.toml").write_text(LEAST + more, encoding="utf-8")
    return load_settings(folder, {})


@pytest.mark.requirement("policies")
def test_without_the_section_every_class_may_use_everything(tmp_path: Path) -> None:
    policies = load(tmp_path, "").agents.policies
    assert policies == dict.fromkeys(("anonymous", "token", "signed", "issued"), Policy())


@pytest.mark.requirement("policies")
def test_a_section_is_the_policy_of_its_class(tmp_path: Path) -> None:
    policies = load(
        tmp_path,
        '[agents.signed]\nstate = "quarantine"\nleads_a_day = 5\nskills = ["lead.submit"]\n'
        '[agents.anonymous]\nrates = {inventory_search = "1/minute", lead_submit = ""}\n',
    ).agents.policies
    assert policies["signed"] == Policy(state="quarantine", skills=frozenset({"lead.submit"}), rates=(), leads_a_day=5)
    assert policies["anonymous"].rates == (("inventory.search", "1/minute"), ("lead.submit", ""))
    assert policies["token"] == Policy()


@pytest.mark.parametrize(
    ("section", "advice"),
    [
        ('[agents.anonymous]\nstate = "blok"\n', "did you mean block?"),
        ('[agents.anonymous]\nskills = ["inventory.serch"]\n', "did you mean inventory.search?"),
        ('[agents.anonymous.rates]\n"inventory.search" = "1/minute"\n', "did you mean inventory_search?"),
        ('[agents.anonymous.rates]\ninventory_search = "often"\n', "is not a rate limit"),
        ("[agents.anonymous]\nleads_a_day = 0\n", "the least is 1"),
        ("[agents.strangers]\n", "unknown key"),
    ],
)
@pytest.mark.outside_protocol("settings")
def test_a_wrong_value_is_named_with_advice(tmp_path: Path, section: str, advice: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load(tmp_path, section)
    assert advice in str(refused.value)


@pytest.mark.parametrize(("rates", "most"), [("", 1000), ('[rate_limits]\nlead_submit = ""\n', None)])
@pytest.mark.requirement("leads-a-day")
def test_the_leads_a_day_of_strangers_are_bounded_while_their_rate_is(
    tmp_path: Path, rates: str, most: int | None
) -> None:
    assert load(tmp_path, rates).anonymous_leads_a_day == most
