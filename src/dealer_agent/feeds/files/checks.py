"""The checks of a feed before it replaces the stock: their settings, and what each of them says. Pure.

`CHECKS` has one row for each check. `feeds.files.counts` counts what they compare. The explanation is in
docs/reference/feeds.md#checks-of-a-feed.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import sqrt
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from msgspec import Meta, Struct, defstruct

from dealer_agent.feeds.files.plausibility import Bounds
from dealer_agent.protocol.did_you_mean import did_you_mean
from dealer_agent.protocol.problems import Problem

Action = Literal["off", "warn", "refuse"]
StatusWord = Literal["available", "intransit", "pending", "sold"]


class FeedCheck(NamedTuple):
    """One check. It finds something if more than the share `threshold` of the units, rows or columns is affected.

    `threshold` is the default, None for a check without one. Fewer than `least` are never a finding. `sentence` is the
    report, with the number that is affected as `count` and the number of all as `total`. `spread` times the square root
    of `total` are allowed besides: of few units, a larger share is sold on one day.
    """

    id: str
    threshold: float | None
    action: Action
    sentence: str
    least: int = 2
    spread: float = 0.0


_LOST = "{count} of {total} units that are for sale are not in the file."
_GAINED = "{count} units are new, and {total} units are for sale."

CHECKS = (
    FeedCheck("units_lost", 0.15, "refuse", _LOST, spread=0.7),
    FeedCheck("units_lost_warning", 0.08, "warn", _LOST, 3, 0.6),
    FeedCheck("units_gained", 0.5, "refuse", _GAINED, 20, 1.0),
    FeedCheck("units_gained_warning", 0.2, "warn", _GAINED, 10, 1.0),
    FeedCheck(
        "dealers_foreign", 0.5, "refuse", "{count} of {total} units are of another dealer. The file says: {named}."
    ),
    FeedCheck(
        "rows_foreign",
        None,
        "warn",
        "{count} units are of another dealer and were left out. The file says: {named}. If they are yours, write this"
        " into feed_ids of a rooftop in dealer.toml.",
        1,
    ),
    FeedCheck(
        "dealers_mixed",
        None,
        "warn",
        "The file has units of several dealers: {named}. Write the names that are yours into feed_ids of a rooftop in"
        " dealer.toml.",
        1,
    ),
    FeedCheck("units_implausible", 0.1, "refuse", "{count} of {total} units are implausible: {named}.", 10),
    FeedCheck("units_held", None, "warn", "{count} of {total} units are held back: {named}.", 1),
    FeedCheck(
        "repairs",
        None,
        "warn",
        "The file agrees with the stock before the last import, and not with the stock after it. It undoes that "
        "import.",
        1,
    ),
    FeedCheck("rooftop_lost", 0.5, "refuse", "{rooftop}: {count} of {total} units would be lost."),
    FeedCheck("vins_lost", 0.05, "refuse", "{count} of {total} units would lose their VIN."),
    FeedCheck("stock_numbers_lost", 0.2, "refuse", "{count} of {total} units would lose their stock number."),
    FeedCheck("prices_lost", 0.1, "refuse", "{count} of {total} units would lose their price."),
    FeedCheck("photos_lost", 0.2, "refuse", "{count} of {total} units would lose photos: more than half of theirs."),
    FeedCheck("values_lost", 0.2, "refuse", "{member}: {count} of {total} units would lose it."),
    FeedCheck("details_lost", 0.2, "warn", "{member}: {count} of {total} units would lose it."),
    FeedCheck("price_jumps", 0.05, "refuse", "{count} of {total} prices would be three times as high or low: {named}."),
    FeedCheck(
        "prices_moved",
        0.5,
        "refuse",
        "{count} of {total} changed prices are the old price of another row, as if the column had moved.",
        10,
    ),
    FeedCheck(
        "texts_moved",
        0.5,
        "refuse",
        "{member}: {count} of {total} changed values are the old value of another unit, as if the column had moved.",
        10,
    ),
    FeedCheck("prices_changed", 0.3, "warn", "{count} of {total} prices would change by more than 5 %."),
    FeedCheck(
        "mileage_jumps", None, "warn", "{count} of {total} mileages would change by more than 5,000: {named}.", 1
    ),
    FeedCheck(
        "identities_changed", 0.05, "refuse", "{member}: {count} of {total} units of the stock would get another value."
    ),
    FeedCheck("values_changed", 0.3, "warn", "{member}: {count} of {total} units would get another value."),
    FeedCheck(
        "columns_missing",
        None,
        "refuse",
        "{member}: the last import had it in {columns}. The file has no such column.{new}",
        1,
    ),
    FeedCheck(
        "details_missing",
        None,
        "warn",
        "{member}: the last import had it in {columns}. The file has no such column.{new}",
        1,
    ),
    FeedCheck(
        "not_understood",
        0.3,
        "refuse",
        "{member}: {count} of {total} values are not understood, such as {example} on line {line}.",
    ),
    FeedCheck(
        "details_not_understood",
        0.3,
        "warn",
        "{member}: {count} of {total} values are not understood, such as {example} on line {line}.",
    ),
    FeedCheck("truncated", None, "refuse", "{reason}", 1),
    FeedCheck(
        "line_end_missing",
        None,
        "warn",
        "The file does not end with a line end, so its last row may be cut. Compare the row with "
        "your inventory system.",
        1,
    ),
    FeedCheck(
        "mixed_encodings",
        None,
        "warn",
        "{count} bytes are not UTF-8, the first on line {line}. They are read as Windows-1252. If the text is "
        "wrong, export the file as UTF-8.",
        1,
    ),
    FeedCheck(
        "garbled_texts",
        0.05,
        "warn",
        "{count} texts in {total} rows have characters that were lost or decoded wrongly, such as Ã© for é. "
        "Export the file as UTF-8, and correct the texts that are wrong in the inventory system too.",
        1,
    ),
    FeedCheck(
        "unfinished_texts",
        0.05,
        "warn",
        "{count} of {total} units have texts with placeholders of a template, which nobody filled in.",
        2,
    ),
    FeedCheck(
        "values_shared",
        0.3,
        "warn",
        "{member}: {count} of {total} units have the same value as a unit of another model. Correct them in your "
        "inventory system.",
        8,
    ),
    FeedCheck(
        "values_filled_down",
        0.1,
        "warn",
        "{member}: {count} of {total} are the number of the row before, plus 1, as when a spreadsheet fills a column. "
        "Export the file again, and do not save it with a spreadsheet program.",
        5,
    ),
    FeedCheck(
        "rows_refused", 0.1, "warn", "{count} of {total} rows are left out, because no unit can be read from them."
    ),
    FeedCheck("rows_repeated", 0.2, "warn", "{count} of {total} rows repeat another row."),
    FeedCheck("rooftops_unknown", 0.2, "warn", "{count} of {total} units name no rooftop of dealer.toml."),
    FeedCheck("rooftop_empty", None, "warn", "{rooftop}: the file has no units of this rooftop.", 1),
    FeedCheck("values_absent", 0.5, "warn", "{member}: {count} of {total} units have none."),
    FeedCheck("implausible_values", 0.5, "warn", "{what}: {count} of {total}."),
)
"""All checks, in the order of reports."""

CHECK_BY_ID: Mapping[str, FeedCheck] = {check.id: check for check in CHECKS}

EVERY_CHECK = frozenset(CHECK_BY_ID)


def check_names_are_known(settings: Any) -> Iterator[Problem]:
    """Problems of keys of `actions` that are not ids of checks."""
    match settings:
        case {"actions": dict() as actions}:
            for name in actions:
                if name not in CHECK_BY_ID:
                    advice = did_you_mean(name, list(CHECK_BY_ID))
                    yield Problem(("actions", name), f"is not a check; the reference of settings lists them{advice}")


class _Actions(Bounds, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`actions` replace the default actions of checks. `status_words` are the dealer's own words of the status.

    The members of subclasses are thresholds: shares from 0 to 1.
    """

    actions: dict[str, Action] = {}  # noqa: RUF012 - msgspec copies it.
    status_words: dict[str, StatusWord] = {}  # noqa: RUF012 - msgspec copies it.

    def threshold(self, check: FeedCheck) -> float:
        """The share of a check; 0 for one without a threshold."""
        return 0.0 if check.threshold is None else float(getattr(self, check.id))

    def action(self, check: FeedCheck) -> Action:
        """What a check does when it finds something."""
        return self.actions.get(check.id, check.action)


if TYPE_CHECKING:
    FeedChecks = _Actions
else:
    _Share = Annotated[float, Meta(ge=0, le=1)]
    FeedChecks = defstruct(
        "FeedChecks",
        [(check.id, _Share, check.threshold) for check in CHECKS if check.threshold is not None],
        bases=(_Actions,),
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )
    """The thresholds and actions of the checks: `[checks]` of dealer.toml."""


LONGEST_REASON = 500
"""Characters of the reason for which a person accepts a refusal."""


class FeedFinding(Struct, frozen=True, omit_defaults=True):
    """What a check found. `action` is `warn`, or `refuse` if nobody accepted it. `sentence` is for people.

    `rows` are sentences about the first units of the finding, if it names units. If a person accepted a refusal,
    `accepted_by` and `accepted_why` say who and why, as far as they are known.
    """

    check: str
    action: Action
    sentence: str
    rows: tuple[str, ...] = ()
    accepted_by: str = ""
    accepted_why: str = ""

    @property
    def acceptance(self) -> str:
        """Who accepted the refusal, and why: `Accepted by kim: the lot was sold.` Empty if nobody did."""
        why = f": {self.accepted_why}" if self.accepted_why else ""
        return f"Accepted by {self.accepted_by}{why}" if self.accepted_by else ""


class CheckRun:
    """Collects the findings of checks. Refusals of checks in `accepted` become warnings, which say by whom and why."""

    def __init__(self, settings: FeedChecks, accepted: Collection[str] = (), *, by: str = "", why: str = "") -> None:
        self._settings = settings
        self._accepted = accepted
        self._by_whom = by, why
        self._findings: list[FeedFinding] = []

    def is_accepted(self, check_id: str) -> bool:
        """Whether a person accepts what a check finds, or the check is off."""
        return check_id in self._accepted or self._settings.action(CHECK_BY_ID[check_id]) == "off"

    @property
    def bounds(self) -> Bounds:
        """What is plausible for the dealer."""
        return self._settings

    def share(self, check_id: str, count: int, total: int, rows: Sequence[str] = (), **words: object) -> None:
        """Adds a finding if `count` of `total` is more than the check allows."""
        check = CHECK_BY_ID[check_id]
        allowed = self._settings.threshold(check) * total + check.spread * sqrt(total)
        if count >= check.least and count > allowed:
            self.add(check_id, rows, count=f"{count:,}", total=f"{total:,}", **words)

    def add(self, check_id: str, rows: Sequence[str] = (), **words: object) -> None:
        """Adds a finding, unless the check is off."""
        check = CHECK_BY_ID[check_id]
        action = self._settings.action(check)
        by_whom = ("", "")
        if action == "refuse" and check_id in self._accepted:
            action, by_whom = "warn", self._by_whom
        if action != "off":
            sentence = check.sentence.format(**words)
            self._findings.append(FeedFinding(check_id, action, sentence, tuple(rows), *by_whom))

    @property
    def findings(self) -> tuple[FeedFinding, ...]:
        """The findings in the order of `CHECKS`. A warning that a refusal repeats is left out."""
        order = list(CHECK_BY_ID)
        refused = {finding.sentence for finding in self._findings if finding.action == "refuse"}
        kept = [finding for finding in self._findings if finding.action == "refuse" or finding.sentence not in refused]
        unique = {finding.sentence: finding for finding in reversed(kept)}
        return tuple(sorted(unique.values(), key=lambda finding: order.index(finding.check)))


_EACH_DAY = frozenset(
    {
        *("rows_foreign", "dealers_mixed", "details_not_understood", "line_end_missing", "mixed_encodings"),
        *("garbled_texts", "rows_refused", "rows_repeated", "rooftops_unknown", "values_absent", "implausible_values"),
    }
)
"""Checks that warn about each file of a system, not about a change. Their counts differ from day to day."""


def new_findings(findings: Iterable[FeedFinding], earlier: Iterable[FeedFinding]) -> tuple[FeedFinding, ...]:
    """The findings without the warnings about each file that the `earlier` file of the feed had, but for numbers."""
    usual = {_without_numbers(finding) for finding in earlier}
    return tuple(each for each in findings if each.check not in _EACH_DAY or _without_numbers(each) not in usual)


def _without_numbers(finding: FeedFinding) -> tuple[str, str]:
    return finding.check, re.sub(r"[\d,.]+", "", finding.sentence)


def refusals(findings: Collection[FeedFinding]) -> list[FeedFinding]:
    """The findings that refuse the feed."""
    return [finding for finding in findings if finding.action == "refuse"]
