"""The section `[agents]`: the policy of each class of callers (docs/reference/settings.md#agents). Pure."""

from collections.abc import Iterator
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, field

from dealer_agent.callers import CallerClass, Policy
from dealer_agent.callers.policy import CLASSES, MOST_LEADS_A_DAY, PolicyState
from dealer_agent.config.rates import Rate, Skills
from dealer_agent.dealers.profile_checks import must_satisfy
from dealer_agent.protocol.did_you_mean import did_you_mean
from dealer_agent.protocol.problems import Problem
from dealer_agent.protocol.skill import ALL_SKILLS

_SKILL_IDS = {skill.rate_setting: skill.id for skill in ALL_SKILLS}


def automatic_quarantine_is_heard(file: Any) -> Iterator[Problem]:
    """The service puts agents into quarantine by itself only if somebody hears of it."""
    match file:
        case {"agents": {"quarantine_automatically": True}}:
            alerts = file.get("alerts")
            if not isinstance(alerts, dict) or not (alerts.get("mail") or alerts.get("webhook_url")):
                advice = "needs a receiver of alerts; set mail or webhook_url under [alerts]"
                yield Problem(("agents", "quarantine_automatically"), advice)


def rates_name_skills(rates: Any) -> Iterator[Problem]:
    """Each rate has the name of a skill, as under `[rate_limits]`."""
    known = list(_SKILL_IDS)
    for name in rates if isinstance(rates, dict) else ():
        if name not in _SKILL_IDS:
            yield Problem((name,), f"unknown key; write one of {', '.join(known)}" + did_you_mean(name, known))


class ClassPolicySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The policy of the callers of a class that have none of their own (docs/protocol.md#policies)."""

    state: PolicyState = "allow"
    skills: Skills | UnsetType = UNSET
    rates: Annotated[dict[str, Rate], must_satisfy(rates_name_skills)] = field(default_factory=dict)
    leads_a_day: Annotated[int, Meta(ge=1, le=MOST_LEADS_A_DAY)] | UnsetType = UNSET

    @property
    def policy(self) -> Policy:
        """The policy."""
        return Policy(
            self.state,
            None if self.skills is UNSET else frozenset(self.skills),
            tuple(sorted((_SKILL_IDS[name], rate) for name, rate in self.rates.items())),
            None if self.leads_a_day is UNSET else self.leads_a_day,
        )


class AgentsSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The policies of the classes of callers, and when an agent is proposed for quarantine.

    `propose_quarantine_percent` of its leads in 30 days are spam, wrong, or have a mail that was refused for good. With
    `quarantine_automatically`, the service does not propose it, but does it. `[alerts]` says who hears of it.
    """

    anonymous: ClassPolicySettings = ClassPolicySettings()
    token: ClassPolicySettings = ClassPolicySettings()
    signed: ClassPolicySettings = ClassPolicySettings()
    issued: ClassPolicySettings = ClassPolicySettings()
    propose_quarantine_percent: Annotated[int, Meta(ge=1, le=100)] = 30
    quarantine_automatically: bool = False

    @property
    def policies(self) -> dict[CallerClass, Policy]:
        """The policy of each class."""
        of_class: dict[CallerClass, ClassPolicySettings] = {
            "anonymous": self.anonymous,
            "token": self.token,
            "signed": self.signed,
            "issued": self.issued,
        }
        return {kind: of_class[kind].policy for kind in CLASSES}
