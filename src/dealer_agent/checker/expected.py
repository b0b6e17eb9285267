"""A file of expected failures: what is known, and not yet mended. Pure, but for reading the file.

[[expected]]
id = "sort.price-asc"
revision = "1.0.0"        # optional, as are binding, vocabulary and card (its URL)
reason = "Our index sorts prices as text until version 5."
"""

import tomllib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from dealer_agent.checker.events import Verdict
from dealer_agent.checker.requirement import requirements
from dealer_agent.protocol.did_you_mean import did_you_mean

SIZE_LIMIT = 1_000_000
"""Bytes of the largest file."""


class ExpectedFailure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry. It matches the failures of its requirement, everywhere or in the places that it names."""

    id: str
    reason: str
    card: str | None = None
    revision: str | None = None
    binding: str | None = None
    vocabulary: str | None = None

    def matches(self, verdict: Verdict) -> bool:
        """Whether a verdict is about this entry's requirement and place."""
        place = verdict.place
        return verdict.requirement.id == self.id and all(
            wanted in (None, found)
            for wanted, found in (
                (self.card, place.card),
                (self.revision, place.revision),
                (self.binding, place.binding),
                (self.vocabulary, place.vocabulary),
            )
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
        found = {verdict.outcome for verdict in verdicts if entry.matches(verdict)}
        if entry.id not in requirements():
            advice = did_you_mean(entry.id, [*requirements()]) or "."
            sentences.append(
                f"{entry.id} is expected to fail, but there is no such requirement{advice} Remove the entry."
            )
        elif "pass" in found and "fail" not in found:
            sentences.append(f"{entry.id} is expected to fail, but it passes. Remove the entry.")
    return sentences
