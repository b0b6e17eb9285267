"""Imports damaged feeds, and writes the results into docs/explanation/feed-checks.md and docs/reference/feeds.md.

`.venv/bin/python -m tests.feeds.mutation_results` writes the tables again.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import NamedTuple

from tests.feeds.feed_files import DELIMITED, JSON, ROOFTOPS, feed_file, json_file, json_records
from tests.feeds.feed_mutations import DELIMITED_MUTATIONS, FIRST_MUTATIONS, JSON_MUTATIONS, Expected
from tests.feeds.implausible_feeds import EXPECTED, FIRST_UNITS, GOOD_FORMS, JSON_UNITS, STATUSES, UNITS, with_status
from tests.storage.current import make_current
from tests.storage.samples import CIPHER

from dealer_agent.dealers.profile import DealerRooftop, Profile
from dealer_agent.feeds.files.archives import unpack
from dealer_agent.feeds.files.checks import CHECKS, FeedFinding
from dealer_agent.feeds.files.feed import FeedError
from dealer_agent.feeds.files.plausibility import REASONS
from dealer_agent.feeds.files.reader import read_feed
from dealer_agent.feeds.importing import UNREADABLE, import_feed
from dealer_agent.storage.errors import FeedRefused
from dealer_agent.storage.store import Store

_DOCS = Path(__file__).parents[2] / "docs"
PAGES = (_DOCS / "reference" / "feeds.md", _DOCS / "explanation" / "feed-checks.md")
AT = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
DEALER = Profile(
    id="ridgeline",
    name="Ridgeline Motors",
    feed_price="advertised",
    rooftops=tuple(DealerRooftop(name=name, timezone="America/Chicago") for name in ROOFTOPS),
)


class Result(NamedTuple):
    """What an import did with a damaged feed. A harmless one changes nothing, because the stock is the same."""

    outcome: Expected
    findings: tuple[FeedFinding, ...]
    changes: int = 0

    @property
    def checks(self) -> tuple[str, ...]:
        """The checks that found something: those that refuse, or else those that warn."""
        action = "refuse" if self.outcome == "refused" else "warn"
        return tuple(dict.fromkeys(finding.check for finding in self.findings if finding.action == action))


@contextmanager
def stock_of(data: bytes | None, dealer: Profile = DEALER) -> Iterator[Store]:
    """A store with the units of a feed, or an empty one."""
    with TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/dealer.db"
        make_current(url)
        with Store.open(url, CIPHER) as store:
            if data is not None:
                done = import_feed(store, dealer, read_feed(data), source="feed", at=AT)
                assert done.outcome.findings == (), done.outcome.findings
            yield store


def result_of(store: Store, data: bytes, dealer: Profile = DEALER) -> Result:
    """Rehearses the import of a feed."""
    try:
        with TemporaryFile() as unpacked:
            feed = read_feed(unpack(data, unpacked))
        done = import_feed(store, dealer, feed, source="feed", at=AT, dry_run=True)
    except FeedError as error:
        return Result("refused", (FeedFinding(UNREADABLE, "refuse", str(error)),))
    except FeedRefused as refusal:
        return Result("refused", refusal.findings)
    outcome = done.outcome
    changes = len((*outcome.added, *outcome.changed, *outcome.sold, *outcome.back))
    if outcome.held:
        return Result("held", outcome.findings, changes)
    if len(outcome.sold) == changes == 1:
        return Result("removed", outcome.findings, changes)
    return Result("warned" if outcome.findings else "harmless", outcome.findings, changes)


class Row(NamedTuple):
    """A mutation, what is expected, and the result in each layout."""

    name: str
    expected: Expected
    results: dict[str, Result]

    @property
    def outcomes(self) -> list[str]:
        """What the imports did, each once."""
        return list(dict.fromkeys(result.outcome for result in self.results.values()))

    @property
    def checks(self) -> list[str]:
        """The checks that found something, as the table has them."""
        return list(dict.fromkeys(f"`{name}`" for result in self.results.values() for name in result.checks))


_LAYOUTS_OF_EACH = 2


def all_results(*, every_layout: bool = True) -> Iterator[Row]:
    """The results of all mutations in all layouts. Else a delimited feed is damaged in some layouts, taken in turn."""
    found: dict[str, dict[str, Result]] = {}

    def is_tried(number: int, place: int) -> bool:
        return every_layout or (place - number) % len(DELIMITED) < _LAYOUTS_OF_EACH

    for place, layout in enumerate(DELIMITED):
        file = feed_file(layout)
        first = (*FIRST_MUTATIONS, *FIRST_UNITS)
        for mutations, data in (((*DELIMITED_MUTATIONS, *UNITS, *GOOD_FORMS), file.data()), (first, None)):
            with stock_of(data) as store:
                for number, each in enumerate(mutations):
                    if is_tried(number, place) and (file.has_header or not each.named_columns):
                        found.setdefault(each.name, {})[layout] = result_of(store, each.damage(file))
        if (with_words := with_status(file, lambda _: "available")) is not None:
            with stock_of(with_words.data()) as store:
                for number, each in enumerate(STATUSES):
                    if is_tried(number, place):
                        found.setdefault(each.name, {})[layout] = result_of(store, each.damage(file))
    for layout in JSON:
        with stock_of(json_file(layout)) as store:
            for json_mutation in (*JSON_MUTATIONS, *JSON_UNITS):
                data = json_mutation.damage(json_records(layout))
                found.setdefault(json_mutation.name, {})[layout] = result_of(store, data)
    expected = [(each.name, each.expected) for each in DELIMITED_MUTATIONS]
    expected += [(each.name, each.expected) for each in JSON_MUTATIONS]
    expected += [(each.name, each.expected) for each in FIRST_MUTATIONS]
    expected += EXPECTED.items()
    for name, outcome in expected:
        yield Row(name, outcome, found[name])


def mutations_table(rows: list[Row]) -> str:
    """The table of mutations in Markdown."""
    lines = ["| Damage | Layouts | Expected | Result | Checks |", "|---|---:|---|---|---|"]
    for row in rows:
        outcomes, checks = " or ".join(row.outcomes), ", ".join(row.checks)
        lines.append(f"| {row.name} | {len(row.results)} | {row.expected} | {outcomes} | {checks} |")
    return "\n".join(lines)


def checks_table() -> str:
    """The table of checks in Markdown."""
    lines = ["| Check | Threshold | Action | Sentence |", "|---|---:|---|---|"]
    for check in CHECKS:
        threshold = "-" if check.threshold is None else f"{check.threshold:g}"
        sentence = re.sub(r"\{(\w+)\}", lambda found: _WORDS.get(found[1], f"*{found[1]}*"), check.sentence)
        lines.append(f"| `{check.id}` | {threshold} | {check.action} | {sentence} |")
    return "\n".join(lines)


def reasons_table() -> str:
    """The table of the reasons to hold a unit back, in Markdown."""
    lines = ["| Reason | Sentence | What to do |", "|---|---|---|"]
    lines += [
        f"| `{reason.id}` | {reason.sentence.format(value='*value*', other='*other*')} | {reason.advice} |"
        for reason in REASONS
    ]
    return "\n".join(lines)


_WORDS = {"count": "*n*", "total": "*all*", "new": " Columns that are not understood: *names*."}


def page(text: str, rows: list[Row] | None) -> str:
    """A page with its tables written again. Without `rows`, that of mutations stays as it is."""
    # Imported here: the module imports this one.
    from tests.feeds.invented_damage import invented_table

    tables = {"checks": checks_table(), "reasons": reasons_table(), "invented": invented_table()}
    for name, table in (tables | ({} if rows is None else {"mutations": mutations_table(rows)})).items():
        if f"<!-- {name} -->" not in text:
            continue
        before, begin, rest = text.partition(f"<!-- {name} -->\n")
        text = before + begin + table + "\n" + rest[rest.index(f"<!-- end of {name} -->") :]
    return text


if __name__ == "__main__":
    results = list(all_results())
    for path in PAGES:
        path.write_text(page(path.read_text("utf-8"), results), "utf-8")
