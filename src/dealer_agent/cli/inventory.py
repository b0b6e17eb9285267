"""`dealer-agent inventory`: import the stock from a feed file."""

import shlex
from collections.abc import Callable, Sequence
from functools import partial
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, NoReturn

import msgspec
import typer
from msgspec import UNSET
from msgspec.structs import replace

from dealer_agent.cli.command import command, newest
from dealer_agent.cli.feeds import feed_named
from dealer_agent.cli.open_dealer import DEALER, FOLDER, DealerFolder, open_dealer
from dealer_agent.cli.stock import list_, show
from dealer_agent.cli.tables import Columns, Table
from dealer_agent.cli.terminal import cell_text, fail, limited, out, pasted, plain, progress
from dealer_agent.dealers.profile import Profile
from dealer_agent.feeds.files.checks import CHECK_BY_ID, EVERY_CHECK, LONGEST_REASON, FeedFinding, refusals
from dealer_agent.feeds.files.feed import MOST_FILE_MIB, ParsedFeed
from dealer_agent.feeds.files.layouts import LAYOUT_NAMES
from dealer_agent.open_installation import OpenDealer
from dealer_agent.protocol.did_you_mean import did_you_mean
from dealer_agent.storage.errors import FeedRefused
from dealer_agent.storage.stock.feeds import settle_file_problem
from dealer_agent.storage.stock.held_units import Decision, find_named, held_units
from dealer_agent.storage.stock.reading import import_history, outcome_of

if TYPE_CHECKING:
    from dealer_agent.feeds.import_report import ImportReport, RowsShown
    from dealer_agent.feeds.importing import FileImport

app = typer.Typer(no_args_is_help=True)

_COUNTED = ("Added", "Changed", "Unchanged", "Sold", "Back")
_SHRINKING = ("units_lost", "rooftop_lost")
UnitArgument = Annotated[
    str, typer.Argument(metavar="UNIT", help="Its stock number, VIN or vehicle id, from `inventory held`.")
]


def _content(file: Path) -> Callable[[], BinaryIO] | bytes:
    """A file that can be read several times, else its bytes, at most one more than a feed may have."""
    if file.is_file():
        return partial(FileIO, file)
    with file.open("rb") as opened:  # A pipe or a device, which may be endless.
        return opened.read((MOST_FILE_MIB << 20) + 1)


def _known_layout(name: str | None) -> str | None:
    if name is not None and name not in LAYOUT_NAMES:
        names = ", ".join(LAYOUT_NAMES)
        raise typer.BadParameter(f"{name!r} is not a layout; choose one of {names}{did_you_mean(name, LAYOUT_NAMES)}")
    return name


def _known_checks(names: list[str] | None) -> list[str] | None:
    for name in names or ():
        if name not in EVERY_CHECK:
            advice = did_you_mean(name, sorted(EVERY_CHECK))
            raise typer.BadParameter(f"{name!r} is not a check{advice}; the checks are {', '.join(CHECK_BY_ID)}")
    return names


@command(app, "import", FOLDER)
def import_(
    folder: DealerFolder,
    file: Annotated[
        Path, typer.Argument(help="The export of your inventory system.", exists=True, dir_okay=False, readable=True)
    ],
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
    accept: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CHECK",
            callback=_known_checks,
            help="Import the file although this check refuses it. Repeat it for several. The refusal names them.",
        ),
    ] = None,
    reason: Annotated[
        str, typer.Option(help="Why you accept what the checks find, for the history. Write no data of customers.")
    ] = "",
    allow_shrink: Annotated[
        bool,
        typer.Option(
            "--allow-shrink",
            help="Import the file even if it removes much of the stock: short for --accept units_lost and"
            " --accept rooftop_lost.",
        ),
    ] = False,
    feed_name: Annotated[
        str | None,
        typer.Option(
            "--feed",
            metavar="NAME",
            help="Read the file with the layout, columns, rooftops and checks of this feed of dealer.toml.",
        ),
    ] = None,
    rooftop: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="The file has the whole stock of this rooftop only. Repeat it for several. Other rooftops stay as"
            " they are.",
        ),
    ] = None,
) -> dict[str, Any]:
    """Replace the stock by a full export: add new units, update changed units, mark missing units as sold.

    Buyers see the old stock or the new stock, never a mixture. A running service shows the new stock within two
    seconds.
    """
    # Imported here: the other command needs neither the catalogue nor the reader.
    from dealer_agent.catalogue_loading.child_processes import fork_with_limits, memory_limit_ends_process

    accepted = [*(accept or ()), *(_SHRINKING if allow_shrink else ())]
    code = fork_with_limits()
    if code is not None:
        _end_as_child(
            code, folder, lambda dealer: None if dry_run else _import_options(dealer, file, feed_name, rooftop)
        )

    # Imported after the fork, which must have one thread.
    from dealer_agent.cli.customer_data import actor
    from dealer_agent.feeds.import_report import report_of
    from dealer_agent.feeds.importing import import_file

    steps: dict[str, Any] = {}
    read: list[ParsedFeed] = []
    with memory_limit_ends_process(), open_dealer(folder) as dealer, progress() as bar:
        how = _import_options(dealer, file, feed_name, rooftop)
        how = replace(how, layout=layout or how.layout)

        def show_progress(step: str, done: int, total: int | None) -> None:
            if step not in steps:
                steps[step] = bar.add_task(step, total=None)
            bar.update(steps[step], completed=done, total=total)

        show_progress("Reading", 0, None)
        try:
            done = import_file(
                dealer.store,
                dealer.profile,
                _content(file),
                how,
                accept=accepted,
                accepted_by=actor(),
                accepted_why=reason[:LONGEST_REASON],
                dry_run=dry_run,
                on_progress=show_progress,
                on_read=read.append,
                on_commit=lambda tx, _: None if how.feed is None else settle_file_problem(tx, how.feed),
            )
        except FeedRefused as refusal:
            bar.stop()
            report = report_of(read[0], None, refusal.findings)
            _show_feed(report)
            _show_warnings(report)
            fail(_refusal_text(refusal.findings, _command(folder, file, how), accepted))
    (feed,) = read
    report = report_of(feed, done)
    _show_feed(report)
    _show_outcome(report, dealer.profile, dry_run=dry_run)
    counts = {name.lower().replace(" ", "_"): count for name, count in report.counts.items()}
    findings = msgspec.to_builtins(report.findings)
    return {"layout": report.layout, "dry_run": dry_run, **counts, "findings": findings}


def _end_as_child(code: int, folder: DealerFolder, how_of: "Callable[[OpenDealer], FileImport | None]") -> NoReturn:
    """Ends the command as the process that imported the file has ended: `code` is its exit code.

    At a limit, the file is refused. `how_of` says how the history names it; None records nothing.
    """
    from dealer_agent.catalogue_loading.child_processes import refusal_of

    if (refused := refusal_of(code)) is not None:
        from dealer_agent.feeds.importing import record_unreadable

        with open_dealer(folder) as dealer:
            if (how := how_of(dealer)) is not None:
                record_unreadable(dealer.store, dealer.profile, refused, how)
            raise refused
    if code < 0:
        advice = "If nobody stopped it, the machine may have too little memory: free some, and run the command again."
        fail(f"The import was ended by signal {-code}. {advice}", 128 - code)
    raise typer.Exit(code)


def _command(folder: DealerFolder, file: Path, how: "FileImport") -> list[str]:
    """The command that imports the file in the same way again."""
    command = ["dealer-agent", "inventory", "import", str(file), "--dir", str(folder)]
    command += [] if folder.dealer_id is None else ["--dealer", folder.dealer_id]
    command += [] if how.layout is None else ["--format", how.layout]
    command += [] if how.feed is None else ["--feed", how.feed]
    return [*command, *(part for name in how.rooftops for part in ("--rooftop", name))]


def _import_options(dealer: OpenDealer, file: Path, feed_name: str | None, rooftops: list[str] | None) -> "FileImport":
    """How the file is read and imported: as the feed that is named, if any."""
    from dealer_agent.operations.stock import how_to_import

    feed = None if feed_name is None else feed_named(dealer, feed_name, "--feed")
    return how_to_import(dealer, file.name, feed, rooftops or ())


@command(app, "history", DEALER)
def history(dealer: OpenDealer, limit: Annotated[int, newest(1000)] = 20) -> Table:
    """List the imports: when, from which file, what each changed, and why one was refused."""
    with dealer.read() as tx:
        imports = limited(import_history(tx, limit + 1), limit)
    columns = ("At", "File", "Layout", "Outcome", *_COUNTED, "Rooftops", "Feed")
    rows = [
        (
            *(dealer.local(each.at), each.source, each.layout),
            outcome_of(each),
            *(getattr(each, name.lower(), None) for name in _COUNTED),
            ", ".join(each.rooftops or ("all",)),
            getattr(each, "feed", None),
            msgspec.to_builtins(each.findings),
        )
        for each in imports
    ]
    notes = []
    for each in imports:
        if each.findings:
            notes.append(f"\n{cell_text(dealer.local(each.at))} {each.source}")
            notes += [
                f"  {finding.check}: {finding.sentence} {finding.acceptance}".rstrip() for finding in each.findings
            ]
    return Table("Imports", columns, rows, empty="Nothing was imported yet.", notes=notes, only_json=("Findings",))


@command(app, "held", DEALER)
def held(dealer: OpenDealer) -> Table:
    """List the units that are held back because the feed says something implausible, and those that you hid."""
    with dealer.read() as tx:
        units = held_units(tx)
    what = {"Unit": "name", "VIN": "vin", "Rooftop": "rooftop", "Reason": "reason", "Why": "sentence"}
    columns: Columns = {**what, "Since": "since", "Leaves": "leaves_at", "Decision": "decision", "By": "decided_by"}
    notes = [
        "Buyers do not see these units, or see their last good facts until they leave the stock. Correct the feed, or "
        "decide:",
        "  dealer-agent inventory release UNIT   publishes what the feed says",
        "  dealer-agent inventory hide UNIT      publishes nothing, whatever the feed says",
    ]
    advice = dict.fromkeys(f"{each.reason}: {each.advice}" for each in units)
    notes = [*advice, "", *map(pasted, notes)] if units else []
    return Table.of("Held units", columns, units, dealer.local, empty="No unit is held back.", notes=notes)


@command(app, "release", DEALER)
def release(dealer: OpenDealer, unit: UnitArgument) -> dict[str, Any]:
    """Publish a held or hidden unit as the feed gives it.

    The decision also holds for later files. It covers what is implausible now: another implausible price needs a new
    decision.
    """
    return _decide(dealer, unit, "released")


@command(app, "hide", DEALER)
def hide(dealer: OpenDealer, unit: UnitArgument) -> dict[str, Any]:
    """Remove a unit from what buyers see, whatever the feed says, until you release it."""
    return _decide(dealer, unit, "hidden")


def _decide(dealer: OpenDealer, name: str, decision: Decision) -> dict[str, Any]:
    """Releases or hides the one unit that a person names. Ends the command if none or several have the name."""
    # Imported here: the other commands need no catalogue, no writer of the stock, and no leads.
    from dealer_agent.cli.customer_data import actor
    from dealer_agent.operations.stock import decide_unit

    with dealer.read() as tx:
        ids, held_back = find_named(tx, name.strip()), held_units(tx)
    if decision == "released":
        by_id = {each.vehicle_id for each in held_back}
        ids = [vehicle_id for vehicle_id in ids if vehicle_id in by_id]
    if len(ids) != 1:
        what = f"{len(ids)} units are named {name!r}. Use the VIN." if ids else f"No such unit: {name!r}."
        advice = did_you_mean(name, [each.name for each in held_back])
        fail(f"{what}{advice} To see the held units, type: dealer-agent inventory held")
    done = decide_unit(dealer, ids[0], decision, by=actor())
    effect = "Buyers see it as the feed gives it." if decision == "released" else "Buyers do not see it any more."
    out.print(f"{plain(done.name)} is {decision}. {effect} The decision also holds for later files.")
    return {"vehicle_id": done.vehicle_id, "decision": decision, "unit": done.name}


@command(app, "undo", DEALER)
def undo(
    dealer: OpenDealer,
    revision: Annotated[
        int | None, typer.Option(min=1, help="Only if the last import is this revision of `inventory history`.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would happen. Change nothing.")] = False,
) -> dict[str, Any]:
    """Undo the last import: units that it added leave the stock, and those that it changed or sold are as before.

    It goes one step back. Units that something changed after the import stay as they are.
    """
    # Imported here: the other commands need no catalogue, and no writer of the stock.
    from dealer_agent.operations.stock import counts_of_undo, undo_last_import

    done = undo_last_import(dealer, revision=revision, dry_run=dry_run)
    when = cell_text(dealer.local(done.undone.at))
    counts = counts_of_undo(done)
    title = "What would happen" if dry_run else "Undone"
    Table(f"{title}: {plain(done.undone.source)} of {when}", ("Units", "Count"), list(counts.items())).show()
    out.print(
        f"\nThis is revision {done.undone.revision}, the last import that ended. A file that was refused, or whose"
        " import was stopped, changed nothing."
    )
    names = {name.lower().replace(" ", "_").replace(",", ""): count for name, count in counts.items()}
    return {"file": done.undone.source, "undone_revision": done.undone.revision, "dry_run": dry_run, **names}


def _refusal_text(findings: Sequence[FeedFinding], command: Sequence[str], accepted: Sequence[str]) -> str:
    """Why a file is refused, and which command imports it nevertheless."""
    refused = refusals(findings)
    checks = (*accepted, *(finding.check for finding in refused))
    options = dict.fromkeys("--allow-shrink" if check in _SHRINKING else f"--accept {check}" for check in checks)
    sentences = "\n".join(f"  {finding.check}: {finding.sentence}" for finding in refused)
    renamed = any(finding.check in ("columns_missing", "details_missing") for finding in refused)
    mapping = "If a column was renamed, write its new name under [feeds.columns]. " if renamed else ""
    return (
        f"The file is refused:\n{sentences}\nNothing was changed. Export the inventory again. {mapping}"
        "If the import before it was wrong, take that one back with `dealer-agent inventory undo`. "
        f"If the file is right, import it with\n  {' '.join((shlex.join(command), *options))}"
    )


def _show_warnings(report: "ImportReport") -> None:
    if report.warnings:
        out.print("\nWarnings", style="bold")
    for finding in report.warnings:
        out.print(f"  {finding.check}: {plain(finding.sentence)}")


def _show_feed(report: "ImportReport") -> None:
    """Says how the file was read, and lists rows that were refused, repeated or doubtful."""
    separated = f", {report.separator}-separated" if report.separator else ""
    out.print(f"Layout [bold]{report.layout}[/], {report.encoding}{separated}", markup=True)
    if report.columns_not_understood:
        out.print(f"Columns not understood: {_first_columns(report.columns_not_understood)}")
    if report.columns_withheld:
        out.print(f"Columns never read (cost and the like): {_first_columns(report.columns_withheld)}")
    for rows in report.row_problems:
        _show_rows(rows)


def _first_columns(columns: Sequence[str]) -> str:
    from dealer_agent.feeds.import_report import MOST_COLUMNS, some

    return plain(some(columns, MOST_COLUMNS))


def _show_rows(shown: "RowsShown") -> None:
    """A table with the first rows of a kind."""
    rows = [(str(row.line), row.identifier, row.text) for row in shown.rows]
    Table(f"\n{shown.title}", ("Line", "VIN or stock", "What"), rows).show()
    if shown.more:
        out.print(f"... and {shown.more:,} more")


def _show_outcome(report: "ImportReport", dealer: Profile, *, dry_run: bool) -> None:
    """Says what the import changed, and what the settings make of the file's rooftops and prices."""
    if report.outside is not None:
        _show_rows(report.outside)
    _show_warnings(report)
    title = "\nWhat would happen" if dry_run else "\nImported"
    Table(title, ("Units", "Count"), list(report.shown_counts.items())).show()
    placement = report.placement
    if placement is not None and placement.without_rooftop and (placement.unknown or len(dealer.rooftops) > 1):
        units = "unit names" if placement.without_rooftop == 1 else "units name"
        names = ", ".join(map(plain, placement.unknown))
        named = f" The file says: {names}. Put such names into feed_ids of a rooftop in dealer.toml." if names else ""
        where = f"no rooftop of dealer.toml and went to {placement.default}"
        out.print(f"\n{placement.without_rooftop} {units} {where}.{named}")
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
    if report.counts["Held back"] and not dry_run:
        out.print(pasted("\nTo see the units that are held back, type: dealer-agent inventory held"))
    if dry_run:
        out.print("\nNothing was changed (--dry-run).")


command(app, "list", DEALER)(list_)
command(app, "show", DEALER)(show)
