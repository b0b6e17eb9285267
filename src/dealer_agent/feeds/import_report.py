"""The report about one file: how it was read, what the checks say, and what its import changes.

The command prints it, the console shows it, and a process that imports a file writes it as JSON.
"""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from dealer_agent.feeds.files.checks import FeedFinding, refusals
from dealer_agent.feeds.files.feed import ParsedFeed, Repeat, RowProblem
from dealer_agent.feeds.importing import ImportResult

MOST_ROW_PROBLEMS = 20
"""The most rows that a report names of each kind. The others are counted."""
MOST_COLUMNS = 50
_MOST_LINES = 10

AT_OTHER_ROOFTOPS = "At other rooftops"
_SHOWN_IF_ANY = (AT_OTHER_ROOFTOPS, "Held back")
_SEPARATORS = {",": "comma", "\t": "TAB", ";": "semicolon", "|": "bar"}


class RowsShown(Struct, frozen=True):
    """The first rows of one kind. `count` is the number of all of them."""

    title: str
    rows: tuple[RowProblem, ...]
    count: int

    @property
    def more(self) -> int:
        """How many rows are not in `rows`."""
        return self.count - len(self.rows)


class Placement(Struct, frozen=True):
    """`without_rooftop` units named no rooftop of the dealer and went to `default`. `unknown` are names they gave."""

    without_rooftop: int
    default: str
    unknown: tuple[str, ...]


class ImportReport(Struct, frozen=True, kw_only=True):
    """What happened to a file, or would happen in a dry run. `counts` are numbers of units by their title.

    `layout` is empty and `problem` says why if the file cannot be read. The checks that refuse it are among `findings`;
    then `counts` say what would happen if a person accepted them. `revision` is that of the import; None if nothing
    was changed.
    """

    layout: str = ""
    encoding: str = ""
    separator: str = ""
    columns_not_understood: tuple[str, ...] = ()
    columns_withheld: tuple[str, ...] = ()
    row_problems: tuple[RowsShown, ...] = ()
    outside: RowsShown | None = None
    findings: tuple[FeedFinding, ...] = ()
    counts: dict[str, int] = {}
    placement: Placement | None = None
    problem: str = ""
    revision: int | None = None

    @property
    def refused_by(self) -> list[FeedFinding]:
        """The findings that refuse the file."""
        return refusals(self.findings)

    @property
    def warnings(self) -> list[FeedFinding]:
        """The findings that do not refuse it."""
        return [finding for finding in self.findings if finding.action == "warn"]

    @property
    def shown_counts(self) -> dict[str, int]:
        """The numbers of units without those that are 0 and rare."""
        return {name: count for name, count in self.counts.items() if count or name not in _SHOWN_IF_ANY}


def report_of(feed: ParsedFeed, done: ImportResult | None, findings: Sequence[FeedFinding] = ()) -> ImportReport:
    """The report about a file that was read. `findings` are those of a file that was refused, else those of `done`."""
    counts = feed.counts
    kinds = (
        ("Refused rows", feed.refused, counts.refused),
        ("Repeated rows", tuple(map(_repeated_row, feed.repeated_vins[:MOST_ROW_PROBLEMS])), counts.repeated_vins),
        ("Worth a look", feed.warnings, counts.warnings),
    )
    report = ImportReport(
        layout=feed.layout,
        encoding=feed.encoding,
        separator=_SEPARATORS.get(feed.delimiter or "", feed.delimiter or ""),
        columns_not_understood=feed.columns_not_understood,
        columns_withheld=feed.columns_withheld,
        row_problems=tuple(RowsShown(title, rows[:MOST_ROW_PROBLEMS], count) for title, rows, count in kinds if rows),
        findings=tuple(findings) or (() if done is None else done.outcome.findings),
    )
    return report if done is None else _with_result(report, feed, done)


def _with_result(report: ImportReport, feed: ParsedFeed, done: ImportResult) -> ImportReport:
    """The report with what the import did, or would do: counts, rooftops and the revision."""
    outside = done.outside_row_problems[:MOST_ROW_PROBLEMS]
    return replace(
        report,
        outside=RowsShown("Not imported: at other rooftops", outside, done.outside) if outside else None,
        counts=_counts(feed, done),
        placement=Placement(done.without_rooftop, done.default_rooftop, done.unknown_rooftops),
        revision=done.outcome.revision,
    )


def _repeated_row(repeat: Repeat) -> RowProblem:
    *earlier, last = map(str, repeat.lines)
    return RowProblem(
        repeat.lines[-1], repeat.identifier, f"also on line {some(earlier, _MOST_LINES)}; line {last} counts"
    )


def some(texts: Sequence[str], most: int) -> str:
    """The first texts, and how many more there are."""
    more = f" and {len(texts) - most:,} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def _counts(feed: ParsedFeed, done: ImportResult) -> dict[str, int]:
    """What happens to how many units."""
    outcome = done.outcome
    return {
        "Rows in the file": feed.rows,
        "Added": len(outcome.added),
        "Changed": len(outcome.changed),
        "Unchanged": len(outcome.unchanged),
        "Sold": len(outcome.sold),
        "Back for sale": len(outcome.back),
        "Refused rows": feed.counts.refused,
        AT_OTHER_ROOFTOPS: done.outside,
        "Rows marked sold": feed.counts.sold,
        "Repeated rows": feed.repeats + outcome.repeated,
        "Held back": len(outcome.held),
        "For sale before": outcome.before,
        "For sale now": outcome.after,
    }
