"""What a run tells while it goes on. Reports are made from these events. Pure."""

from dataclasses import dataclass
from typing import Literal

from dealer_agent.checker.exchange import Exchange
from dealer_agent.checker.requirement import Requirement

Outcome = Literal["pass", "fail", "skipped", "could not check"]

OUTCOMES: tuple[Outcome, ...] = ("fail", "could not check", "skipped", "pass")
"""All outcomes, in the order in which reports show them."""


@dataclass(frozen=True)
class Variant:
    """Where a requirement was checked. `binding` and `vocabulary` are empty for a check of the card."""

    card: str
    revision: str
    binding: str = ""
    vocabulary: str = ""

    def __str__(self) -> str:
        return " ".join(each for each in (self.revision, self.binding, self.vocabulary) if each)


@dataclass(frozen=True)
class RunStarted:
    """The cards are found. `checks` verdicts will follow. `notes` say what was found and is not checked."""

    url: str
    variants: tuple[Variant, ...]
    checks: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class CheckStarted:
    """A check begins."""

    variant: Variant
    requirement: Requirement


@dataclass(frozen=True)
class Verdict:
    """What a check found. `sentence` is the failure or the reason, empty for a pass. `exchange` shows a failure."""

    variant: Variant
    requirement: Requirement
    outcome: Outcome
    sentence: str
    exchange: Exchange | None
    seconds: float


@dataclass(frozen=True)
class RunEnded:
    """The last event. `requests` is the number of requests that were sent."""

    seconds: float
    requests: int


Event = RunStarted | CheckStarted | Verdict | RunEnded
