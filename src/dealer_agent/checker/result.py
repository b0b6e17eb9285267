"""The result of a run, from its events: what reports show. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Literal

from dealer_agent.checker.events import Event, Outcome, Place, RunEnded, RunStarted, Verdict
from dealer_agent.checker.expected import ExpectedFailure, stale_entries
from dealer_agent.checker.requirement import Requirement

Conclusion = Literal["passed", "failed", "incomplete"]


PREVAILING: tuple[Outcome, ...] = ("fail", "could not check", "pass", "skipped")
"""The outcome of a requirement in several places is the first of these that one of them has."""


@dataclass(frozen=True)
class Group:
    """The verdicts of one requirement in all places."""

    requirement: Requirement
    verdicts: tuple[Verdict, ...]

    @cached_property
    def outcome(self) -> Outcome:
        """The outcome in all places together."""
        return min((each.outcome for each in self.verdicts), key=PREVAILING.index)

    def having(self, outcome: Outcome) -> list[Verdict]:
        """The verdicts with this outcome."""
        return [each for each in self.verdicts if each.outcome == outcome]


@dataclass
class Result:
    """Collects the events of a run: it is a listener. `strict` makes a failed SHOULD count like a MUST.

    `problem` is why the run ended before its first check: no card was found.
    """

    url: str
    started_at: datetime
    strict: bool = False
    expected: Sequence[ExpectedFailure] = ()
    problem: str | None = None
    verdicts: list[Verdict] = field(default_factory=list)
    places: tuple[Place, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    requests: int = 0

    def __call__(self, event: Event) -> None:
        """Takes one event."""
        match event:
            case RunStarted():
                self.places, self.notes = event.places, event.notes
            case Verdict():
                self.verdicts.append(event)
            case RunEnded():
                self.seconds, self.requests = event.seconds, event.requests

    @property
    def groups(self) -> list[Group]:
        """The verdicts by requirement, in the order of the tables."""
        found: dict[str, list[Verdict]] = {}
        for verdict in self.verdicts:
            found.setdefault(verdict.requirement.id, []).append(verdict)
        return [Group(each[0].requirement, tuple(each)) for each in found.values()]

    @property
    def stale(self) -> list[str]:
        """What is wrong with the file of expected failures."""
        return stale_entries(self.expected, self.verdicts)

    def expectation(self, verdict: Verdict) -> str | None:
        """Why a failure is expected; None for every other verdict."""
        if verdict.outcome != "fail":
            return None
        return next((entry.reason for entry in self.expected if entry.matches(verdict)), None)

    def counts_as_failure(self, verdict: Verdict) -> bool:
        """Whether a verdict makes the run fail."""
        counted = ("MUST", "SHOULD") if self.strict else ("MUST",)
        return verdict.outcome == "fail" and verdict.requirement.level in counted and self.expectation(verdict) is None

    def numbers(self) -> Counter[Outcome]:
        """How many requirements have each outcome."""
        return Counter(group.outcome for group in self.groups)

    @property
    def conclusion(self) -> Conclusion:
        """`failed`: a failure counts, an entry is stale, or nothing was checked at all.

        `incomplete`: nothing failed, and something could not be checked.
        """
        if self.problem is not None:
            return "incomplete"
        if any(self.counts_as_failure(each) for each in self.verdicts) or self.stale:
            return "failed"
        if any(each.outcome == "could not check" for each in self.verdicts):
            return "incomplete"
        return "passed" if any(each.outcome in ("pass", "fail") for each in self.verdicts) else "failed"

    @property
    def sentence(self) -> str:
        """The conclusion for people."""
        if self.problem is not None:
            return self.problem
        if not any(each.outcome in ("pass", "fail") for each in self.verdicts):
            return "Nothing was checked."
        if any(self.counts_as_failure(each) for each in self.verdicts):
            return self._failed
        if self.stale:
            return "The file of expected failures has entries that are not needed."
        if self.conclusion == "incomplete":
            return "Nothing failed, but some requirements could not be checked."
        return "All requirements that were checked are fulfilled." if not self._tolerated else self._tolerated

    @property
    def _failed(self) -> str:
        unexpected = [each for each in self.verdicts if each.outcome == "fail" and self.expectation(each) is None]
        failed = {each.requirement.id: each.requirement.level for each in unexpected}
        musts = sum(level == "MUST" for level in failed.values())
        of_them = "" if musts == len(failed) else f", {musts} of them a MUST"
        return f"{len(failed)} of {len(self.groups)} requirements failed{of_them}."

    @property
    def _tolerated(self) -> str:
        failed = {each.requirement.id for each in self.verdicts if each.outcome == "fail"}
        return f"Every MUST is fulfilled or expected to fail. Others failed: {len(failed)}." if failed else ""
