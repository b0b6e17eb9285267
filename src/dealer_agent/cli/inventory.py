"""`dealer-agent inventory`: import the stock from a feed file."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from io import FileIO
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer
from msgspec import UNSET

from dealer_agent.cli.open_dealer import HERE, DirOption, open_dealer
from dealer_agent.cli.terminal import (
    JsonOption,
    fail,
    limited,
    out,
    plain,
    print_json,
    print_table,
    progress,
    suggestion,
)
from dealer_agent.dealers.profile import Profile
from dealer_agent.inventory.feeds.feed import MOST_FILE_MIB, Feed, Remark, Repeat
from dealer_agent.inventory.feeds.layouts import LAYOUT_NAMES
from dealer_agent.storage.errors import StockShrinks
from dealer_agent.storage.stock import list_imports

if TYPE_CHECKING:
    from dealer_agent.catalogue_loading.feed_import import ImportResult

app = typer.Typer(no_args_is_help=True)

REMARKS_SHOWN = 20
COLUMNS_SHOWN = 50
LINES_SHOWN = 10
AT_OTHER_ROOFTOPS = "At other rooftops"


def _content(file: Path) -> Callable[[], BinaryIO] | bytes:
    """A file that can be read several times, else its bytes, at most one more than a feed may have."""
    if file.is_file():
        return partial(FileIO, file)
    with file.open("rb") as opened:  # A pipe or a device, which may be endless.
        return opened.read((MOST_FILE_MIB << 20) + 1)


def _known_layout(name: str | None) -> str | None:
    if name is not None and name not in LAYOUT_NAMES:
        known = ", ".join(LAYOUT_NAMES)
        raise typer.BadParameter(f"{name!r} is no layout; choose one of {known}.{suggestion(name, LAYOUT_NAMES)}")
    return name


@app.command("import")
def import_(
    file: Annotated[
        Path, typer.Argument(help="The export of your inventory system.", exists=True, dir_okay=False, readable=True)
    ],
    directory: DirOption = HERE,
    layout: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="NAME",
            callback=_known_layout,
            help=f"The file's layout, if it is not recognised: {', '.join(LAYOUT_NAMES)}.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would happen. Change nothing.")] = False,
    allow_shrink: Annotated[
        bool, typer.Option("--allow-shrink", help="Import the file even if it removes much of the stock.")
    ] = False,
    rooftop: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="The file has the whole stock of this rooftop only. Repeat it for several. Other rooftops stay as"
            " they are.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Replace the stock by a full export: add new units, update changed units, mark missing units as sold.

    Buyers see the old stock or the new stock, never a mixture. A running service shows the new stock within two
    seconds.
    """
    # Imported here: the other command needs neither the catalogue nor the reader.
    from dealer_agent.catalogue_loading.feed_import import import_feed
    from dealer_agent.inventory.feeds.reader import read_feed

    with TemporaryFile() as spool, open_dealer(directory) as dealer, progress() as bar:
        rooftops = _known_rooftops(dealer.profile, rooftop or [])
        reading = bar.add_task("Reading", total=None)
        feed = read_feed(
            _content(file),
            layout=layout,
            on_progress=lambda n, total: bar.update(reading, completed=n, total=total),
            spool=spool,
        )
        bar.update(reading, completed=feed.rows, total=feed.rows)
        storing = bar.add_task("Storing", total=len(feed.units))
        try:
            done = import_feed(
                dealer.store,
                dealer.profile,
                feed,
                source=file.name,
                at=datetime.now(UTC),
                rooftops=rooftops,
                allow_shrink=allow_shrink,
                dry_run=dry_run,
                on_progress=lambda n, _: bar.update(storing, completed=n),
            )
        except StockShrinks as problem:
            bar.stop()
            _show_feed(feed)
            words = str(problem)
            advice = "If the file is right, import it again with --allow-shrink."
            fail(f"{words[:1].upper()}{words[1:]}. Nothing was changed. {advice}")
        bar.update(storing, completed=len(feed.units))
    _show_feed(feed)
    _show_outcome(feed, done, dealer.profile, dry_run=dry_run)
    if as_json:
        counts = {name.lower().replace(" ", "_"): count for name, count in _counts(feed, done).items()}
        print_json({"layout": feed.layout, "dry_run": dry_run, **counts})


def _known_rooftops(dealer: Profile, wanted: list[str]) -> list[str]:
    names = {rooftop.name.casefold(): rooftop.name for rooftop in dealer.rooftops}
    for name in wanted:
        if name.strip().casefold() not in names:
            known = ", ".join(names.values())
            fail(f"{name!r} is no rooftop of dealer.toml. The rooftops are: {known}.{suggestion(name, names.values())}")
    return [names[name.strip().casefold()] for name in wanted]


@app.command("history")
def history(
    directory: DirOption = HERE,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many, newest first.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """List the imports: when, from which file, and what each changed."""
    with open_dealer(directory) as dealer, dealer.read() as tx:
        records = limited(list_imports(tx, limit + 1), limit)
    columns = ["At", "File", "Layout", "Added", "Changed", "Unchanged", "Sold", "Back", "Rooftops"]
    rows = [
        (
            *(
                dealer.local(each.at),
                each.source,
                each.layout,
                each.added,
                each.changed,
                each.unchanged,
                each.sold,
                each.back,
            ),
            ", ".join(each.rooftops or ("all",)),
        )
        for each in records
    ]
    print_table("Imports", columns, rows, empty="Nothing was imported yet.", as_json=as_json)


def _show_feed(feed: Feed) -> None:
    separator = {",": "comma", "\t": "TAB", ";": "semicolon", "|": "bar"}.get(feed.delimiter or "", feed.delimiter)
    out.print(
        f"Layout [bold]{feed.layout}[/], {feed.encoding}{f', {separator}-separated' if separator else ''}", markup=True
    )
    if feed.columns_not_understood:
        out.print(f"Columns not understood: {_some(feed.columns_not_understood, COLUMNS_SHOWN)}")
    if feed.columns_withheld:
        out.print(f"Columns never read (cost and the like): {_some(feed.columns_withheld, COLUMNS_SHOWN)}")
    _show_remarks("Refused rows", feed.refused, feed.counts.refused)
    _show_remarks("Repeated rows", tuple(map(_remark, feed.repeated_vins)), feed.counts.repeated_vins)
    _show_remarks("Worth a look", feed.warnings, feed.counts.warnings)


def _some(texts: tuple[str, ...] | list[str], most: int) -> str:
    more = f" and {len(texts) - most:,} more" if len(texts) > most else ""
    return plain(", ".join(texts[:most])) + more


def _show_remarks(title: str, remarks: tuple[Remark, ...], count: int) -> None:
    if not remarks:
        return
    rows = [(str(remark.line), remark.identifier, remark.text) for remark in remarks[:REMARKS_SHOWN]]
    print_table(f"\n{title}", ("Line", "VIN or stock", "What"), rows)
    if count > REMARKS_SHOWN:
        out.print(f"... and {count - REMARKS_SHOWN:,} more")


def _remark(repeat: Repeat) -> Remark:
    *earlier, last = map(str, repeat.lines)
    text = f"also on line {_some(earlier, LINES_SHOWN)}; line {last} counts"
    return Remark(repeat.lines[-1], repeat.identifier, text)


def _show_outcome(feed: Feed, done: "ImportResult", dealer: Profile, *, dry_run: bool) -> None:
    counts = _counts(feed, done)
    _show_remarks("Not imported: at other rooftops", done.outside_remarks, done.outside)
    title = "\nWhat would happen" if dry_run else "\nImported"
    rows = [(name, count) for name, count in counts.items() if count or name != AT_OTHER_ROOFTOPS]
    print_table(title, ("Units", "Count"), rows)
    if done.without_rooftop:
        units = "unit names" if done.without_rooftop == 1 else "units name"
        named = f" The file says: {', '.join(map(plain, done.unknown_rooftops))}." if done.unknown_rooftops else ""
        out.print(
            f"\n{done.without_rooftop} {units} no rooftop of dealer.toml and went to {done.default_rooftop}."
            f"{named} Put such names into a rooftop's feed_ids."
        )
    meaning = {
        "advertised": "the price that buyers see, with every mandatory charge in it",
        "before_fees": "the price before the rooftop's mandatory fees, which are added",
    }
    out.print(f'\nThe feed\'s price is taken as {meaning[dealer.feed_price]} (feed_price = "{dealer.feed_price}").')
    unpriced = [rooftop.name for rooftop in dealer.rooftops if rooftop.fees is UNSET]
    if dealer.feed_price == "before_fees" and unpriced:
        out.print(
            f"\nNo vehicle of {plain(', '.join(unpriced))} shows a price: dealer.toml has no fees for it. "
            "If there are none, write fees = []."
        )
    if dry_run:
        out.print("\nNothing was changed (--dry-run).")


def _counts(feed: Feed, done: "ImportResult") -> dict[str, int]:
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
        "Repeated rows": feed.rows - len(feed.units) - feed.counts.refused - feed.counts.sold + outcome.repeated,
        "For sale before": outcome.before,
        "For sale now": outcome.after,
    }
