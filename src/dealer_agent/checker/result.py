"""The result of a run, from its events, and the failures that are expected: what reports show.

Pure, but for reading the file of expected failures: what is known, and not yet mended.

    [[expected]]
    id = "sort.price-asc"
    revision = "1.0.0"        # optional, as are binding, vocabulary and card (its URL)
    reason = "Our index sorts prices as text until version 5."
"""

import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from datetime import datetime
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Literal

import msgspec

from dealer_agent.checker.events import Event, Outcome, RunEnded, RunStarted, Variant, Verdict
from dealer_agent.checker.requirement import Requirement, requirements
from dealer_agent.protocol.did_you_mean import did_you_mean

Conclusion = Literal["passed", "failed", "incomplete"]


PREVAILING: tuple[Outcome, ...] = ("fail", "could not check", "pass", "skipped")
"""The outcome of a requirement in several variants is the first of these that one of them has."""


@dataclass(frozen=True)
class Group:
    """The verdicts of one requirement in all variants."""

    requirement: Requirement
    verdicts: tuple[Verdict, ...]

    @cached_property
    def outcome(self) -> Outcome:
        """The outcome in all variants together."""
        return min((each.outcome for each in self.verdicts), key=PREVAILING.index)

    @cached_property
    def refused(self) -> set[bool]:
        """Whether the requests of the failures got errors: the failures of a requirement may differ.

        A failure without a request is about listings that were read before.
        """
        return {each.exchange is not None and each.exchange.is_refusal for each in self.having("fail")}

    def having(self, outcome: Outcome) -> list[Verdict]:
        """The verdicts with this outcome."""
        return [each for each in self.verdicts if each.outcome == outcome]


def _cause(group: Group, failed: Sequence[Group]) -> Group:
    """The failure from which this one follows, by the relation `implied_by` of the tables, or else itself.

    What is wrong with an error never follows from what is wrong with a successful response. A failed MUST never follows
    from a failed SHOULD.
    """
    known = [each for each in failed if each is not group and each.requirement.rank <= group.requirement.rank]
    for name in group.requirement.implied_by:
        for each in known:
            if each.requirement.is_among([name]) and each.refused & group.refused:
                return _cause(each, failed)
    return group


SIZE_LIMIT = 1_000_000
"""Bytes of the largest file."""


class ExpectedFailure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry. It matches the failures of its requirement, everywhere or in the variants that it names."""

    id: str
    reason: str
    card: str | None = None
    revision: str | None = None
    binding: str | None = None
    vocabulary: str | None = None

    def matches(self, verdict: Verdict) -> bool:
        """Whether a verdict is about this entry's requirement and variant."""
        wanted = (self.card, self.revision, self.binding, self.vocabulary)
        return verdict.requirement.id == self.id and all(
            each in (None, value) for each, value in zip(wanted, astuple(verdict.variant), strict=True)
        )


def read_expected(path: Path) -> list[ExpectedFailure]:
    """The entries of a file. Raises ValueError, which says what is wrong, and OSError."""
    if path.stat().st_size > SIZE_LIMIT:
        raise ValueError(f"{path} is larger than {SIZE_LIMIT:,} bytes")
    try:
        document = tomllib.loads(path.read_text("utf-8"))
        entries = msgspec.convert(document.get("expected", []), list[ExpectedFailure])
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as problem:
        raise ValueError(f"{path}: {problem}") from None
    unknown = sorted(document.keys() - {"expected"})
    if unknown:
        raise ValueError(f"{path}: {unknown[0]} is unknown; each entry is a table [[expected]]")
    return entries


def stale_entries(entries: Sequence[ExpectedFailure], verdicts: Sequence[Verdict]) -> list[str]:
    """What is wrong with entries that no failure needs, as sentences. An entry that was not checked is not stale."""
    sentences = []
    for entry in entries:
        outcomes = {verdict.outcome for verdict in verdicts if entry.matches(verdict)}
        if entry.id not in requirements():
            advice = did_you_mean(entry.id, [*requirements()]) or "."
            sentences.append(
                f"{entry.id} is expected to fail, but there is no such requirement{advice} Remove the entry."
            )
        elif "pass" in outcomes and "fail" not in outcomes:
            sentences.append(f"{entry.id} is expected to fail, but it passes. Remove the entry.")
    return sentences


@dataclass
class RunResult:
    """Collects the events of a run: it is a listener. `strict` makes a failed SHOULD count like a MUST.

    `problem` is why the run ended before its first check: no card was found.
    """

    url: str
    started_at: datetime
    strict: bool = False
    expected: Sequence[ExpectedFailure] = ()
    problem: str | None = None
    verdicts: list[Verdict] = field(default_factory=list)
    variants: tuple[Variant, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    requests: int = 0

    def __call__(self, event: Event) -> None:
        """Takes one event."""
        match event:
            case RunStarted():
                self.variants, self.notes = event.variants, event.notes
            case Verdict():
                self.verdicts.append(event)
            case RunEnded():
                self.seconds, self.requests = event.seconds, event.requests

    @property
    def groups(self) -> list[Group]:
        """The verdicts by requirement, in the order of the tables."""
        verdicts_of: dict[str, list[Verdict]] = {}
        for verdict in self.verdicts:
            verdicts_of.setdefault(verdict.requirement.id, []).append(verdict)
        return [Group(each[0].requirement, tuple(each)) for each in verdicts_of.values()]

    @property
    def failures(self) -> list[tuple[Group, list[Group]]]:
        """The requirements that failed, each with those that follow from it.

        The highest level is first, and in it that from which most follow.
        """
        failed = [each for each in self.groups if each.outcome == "fail"]
        failed.sort(key=attrgetter("requirement.rank"))
        following: dict[str, list[Group]] = {}
        for each in failed:
            following.setdefault(_cause(each, failed).requirement.id, []).append(each)
        by_id = {each.requirement.id: each for each in failed}
        ordered = sorted(following.items(), key=lambda each: (each[1][0].requirement.rank, -len(each[1])))
        return [(by_id[name], [each for each in groups if each is not by_id[name]]) for name, groups in ordered]

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
        return self._end[0]

    @property
    def sentence(self) -> str:
        """The conclusion for people."""
        return self._end[1]

    @property
    def _end(self) -> tuple[Conclusion, str]:
        """The conclusion of the run, and the sentence that says why."""
        numbers = self.numbers()
        unexpected = [each for each in self.verdicts if each.outcome == "fail" and self.expectation(each) is None]
        failed = {each.requirement.id for each in unexpected}
        musts = {each.requirement.id for each in unexpected if each.requirement.level == "MUST"}
        if self.problem is not None:
            return "incomplete", self.problem
        if any(self.counts_as_failure(each) for each in self.verdicts):
            of_them = "" if musts == failed else f", {len(musts)} of them a MUST"
            return "failed", f"{len(failed)} of {len(self.groups)} requirements failed{of_them}."
        undone = any(each.outcome == "could not check" for each in self.verdicts)
        if not numbers["pass"] and not numbers["fail"]:
            return "incomplete" if undone and not self.stale else "failed", "Nothing was checked."
        if self.stale:
            return "failed", "The file of expected failures has entries that are not needed."
        if numbers["fail"]:
            others = f" Others failed: {len(failed)}." if failed else ""
            sentence = f"Every MUST that was checked is fulfilled or expected to fail.{others}"
            return ("incomplete", f"{sentence} Some could not be checked.") if undone else ("passed", sentence)
        if undone:
            return "incomplete", "Nothing failed, but some requirements could not be checked: their verdicts say why."
        return "passed", "All requirements that were checked are fulfilled."
