"""`dealer-agent dealers`: the dealers of an installation, their settings and their host names."""

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from dealer_agent.cli.command import YesOption, command, wrong_use
from dealer_agent.cli.customer_data import actor
from dealer_agent.cli.open_dealer import CHANGES, INSTALLATION, require_keys
from dealer_agent.cli.tables import Table
from dealer_agent.cli.terminal import bar_of, counted, err, fail, local, moment, out, plain, progress
from dealer_agent.config.loading import FILE_NAME, read_text
from dealer_agent.config.settings_problems import SettingsError
from dealer_agent.open_installation import OpenInstallation
from dealer_agent.operations.dealer_moves import delete_files, export_dealer, import_dealer
from dealer_agent.operations.dealer_table import add_new_dealer, only_missing, read_dealer_table
from dealer_agent.operations.settings_changes import require_same_dealer
from dealer_agent.storage.console.people import remove_members
from dealer_agent.storage.errors import DealerUnknown, SettingsConflict
from dealer_agent.storage.installation.dealer_registry import (
    RegisteredDealer,
    add_host,
    all_dealers,
    all_hosts,
    change_settings,
    count_rows,
    find_dealer,
    list_hosts,
    list_settings,
    read_settings,
    remove_dealer,
    remove_host,
    set_state,
)
from dealer_agent.storage.installation.registration import was_removed
from dealer_agent.storage.stock.reading import count_for_sale
from dealer_agent.storage.transaction import Transaction

app = typer.Typer(no_args_is_help=True)
hosts = typer.Typer(no_args_is_help=True, help="Add, remove and list the host names of a dealer.")
app.add_typer(hosts, name="host")

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The dealer's id, from `dealers list`.")]
NoteOption = Annotated[str, typer.Option(help="Why, for the history of the settings.")]
ListedOption = Annotated[
    bool, typer.Option("--listed/--unlisted", help="Whether the public list of dealers shows this dealer.")
]
DisabledOption = Annotated[bool, typer.Option("--disabled", help="Do not serve the dealer before `dealers enable`.")]
FileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="The dealer's dealer.toml.", exists=True, dir_okay=False)
]


@command(app, "add", CHANGES)
def add(
    opened: OpenInstallation,
    file: FileArgument,
    listed: ListedOption = False,
    disabled: DisabledOption = False,
    note: NoteOption = "",
) -> dict[str, str]:
    """Add a dealer with the settings of a dealer.toml. All processes serve it within two seconds.

    A file with mistakes adds nothing. The command then lists all mistakes with their lines.
    """
    text = read_text(file)
    require_keys(opened.installation)
    dealer_id = opened.installation.dealer_settings(text).dealer.id
    add_new_dealer(opened.store, dealer_id, text, actor=actor(), note=note, enabled=not disabled, listed=listed)
    address = _address(opened, dealer_id)
    when = " after `dealers enable`" if disabled else ""
    out.print(f"The dealer {dealer_id} is added. It answers{when} at {address}/")
    folder = opened.installation.folder
    out.print(f"Next: dealer-agent inventory import YOUR-EXPORT.csv --dealer {dealer_id} --dir {folder}")
    return {"id": dealer_id, "address": f"{address}/"}


@command(app, "add-table", CHANGES)
def add_table(
    opened: OpenInstallation,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A dealer.toml with what they share.", exists=True, dir_okay=False)
    ],
    table: Annotated[
        Path, typer.Argument(metavar="TABLE", help="A CSV file with a row for each.", exists=True, dir_okay=False)
    ],
    listed: ListedOption = False,
    disabled: DisabledOption = False,
    note: NoteOption = "",
) -> dict[str, Any]:
    """Add a dealer for each row of a table. The header has paths of settings, and hosts for their host names.

    A header may be: id,name,rooftops.0.name,rooftops.0.address.city,hosts. An empty cell leaves the setting of FILE.
    The command checks all rows before it adds the first dealer. If it was stopped, repeat it: it adds what is missing.
    """
    require_keys(opened.installation)
    with progress() as bar:
        checking = bar.add_task("Checking", total=None)
        dealers = read_dealer_table(table, file, opened.installation, lambda: bar.update(checking, advance=1))
        missing = only_missing(table, dealers, opened.store)
        for new in bar.track(missing, description="Adding"):
            _, dealer_id, text, names = new
            add_new_dealer(
                opened.store, dealer_id, text, names, actor=actor(), note=note, enabled=not disabled, listed=listed
            )
    there = len(dealers) - len(missing)
    out.print(f"{counted(len(missing), 'dealer')} added, {there:,} were there already.")
    return {"added": [new.dealer_id for new in missing], "were_there": there}


@command(app, "list", INSTALLATION)
def list_(opened: OpenInstallation) -> Table:
    """List all dealers: id, name, state, host names."""
    with opened.store.installation() as tx:
        dealers, owners = all_dealers(tx), all_hosts(tx)
    names: dict[str, list[str]] = {}
    for host, dealer_id in owners.items():
        names.setdefault(dealer_id, []).append(host)
    rows = [
        (each.dealer_id, each.name, *_state(each), each.settings_number, ", ".join(names.get(each.dealer_id, ())))
        for each in dealers
    ]
    columns = ("Id", "Name", "State", "List", "Settings", "Hosts")
    empty = f"No dealers yet. To add one, type: dealer-agent dealers add FILE --dir {opened.installation.folder}"
    return Table("Dealers", columns, rows, empty=empty)


@command(app, "show", INSTALLATION)
def show(opened: OpenInstallation, dealer_id: IdArgument) -> dict[str, Any]:
    """Show a dealer: name, address, state, stock, settings and host names."""
    with opened.store.read(dealer_id) as tx:
        dealer, (newest, *_) = find_dealer(tx), list_settings(tx)
        document, names, vehicles = read_settings(tx, newest.number), list_hosts(tx), count_for_sale(tx)
    address = _address(opened, dealer_id)
    state, listing = _state(dealer)
    facts: dict[str, Any] = {
        "id": dealer_id,
        "name": dealer.name,
        "address": address,
        "state": state,
        "list": listing,
        "vehicles": vehicles,
        "hosts": names,
        "settings": {"number": newest.number, "at": newest.at, "actor": newest.actor, "note": newest.note},
    }
    changed = f"number {newest.number}, of {local(newest.at)}, by {newest.actor}"
    for name, value in (facts | {"hosts": ", ".join(names) or "-", "settings": changed}).items():
        out.print(plain(f"{name.capitalize():<10}{value}"))
    out.print(f"\nIts dealer.toml: dealer-agent dealers history {dealer_id} --number {newest.number}")
    return facts | {"document": document.decode()}


@command(app, "edit", CHANGES)
def edit(
    opened: OpenInstallation,
    dealer_id: IdArgument,
    file: Annotated[
        Path | None,
        typer.Option("--file", help="Store this dealer.toml, and open no editor.", exists=True, dir_okay=False),
    ] = None,
    expected: Annotated[
        int | None,
        typer.Option(
            "--number",
            min=1,
            help="The number of the settings that you have edited, from `dealers history`. If newer ones were stored"
            " meanwhile, nothing is changed. Default: the number when the command begins.",
        ),
    ] = None,
    listed: Annotated[
        bool | None, typer.Option("--listed/--unlisted", help="Whether the public list of dealers shows this dealer.")
    ] = None,
    note: NoteOption = "",
) -> dict[str, Any]:
    """Change the settings of a dealer in your editor ($EDITOR), or replace them with a file.

    Invalid settings change nothing: the command lists all mistakes with their lines. With an editor, you can then
    correct them. All processes use new settings within two seconds.
    """
    with opened.store.read(dealer_id) as tx:
        current = find_dealer(tx).settings_number
        before = read_settings(tx, current).decode()
    if file is None and listed is None:
        text = _edit_text(opened, dealer_id, before)
    else:
        text = before if file is None else _checked(opened, dealer_id, read_text(file))
    number = None
    with opened.store.write(dealer_id) as tx:
        if listed is not None:
            set_state(tx, listed=listed)
        if text != before:
            number = _store_settings(tx, text, expected or current, note)
    if number is not None:
        out.print(f"Stored as number {number}.")
    elif listed is None:
        out.print("Nothing has changed.")
    if listed is not None:
        out.print(f"The public list {'shows' if listed else 'does not show'} {dealer_id}.")
    return {"id": dealer_id, "settings": number or current, "changed": number is not None}


@command(app, "history", INSTALLATION)
def history(
    opened: OpenInstallation,
    dealer_id: IdArgument,
    number: Annotated[int | None, typer.Option(min=1, help="Print the dealer.toml with this number.")] = None,
) -> Table | dict[str, Any]:
    """List the settings that a dealer has had, newest first: number, time, who, why."""
    with opened.store.read(dealer_id) as tx:
        find_dealer(tx)
        if number is not None:
            document = read_settings(tx, number).decode()
            if not out.quiet:
                typer.echo(document, nl=False)
            return {"number": number, "document": document}
        records = list_settings(tx)
    columns = {"Number": "number", "At": "at", "Who": "actor", "Note": "note"}
    return Table.of(f"Settings of {dealer_id}", columns, records, time=moment)


@command(app, "disable", CHANGES)
def disable(opened: OpenInstallation, dealer_id: IdArgument) -> None:
    """Stop serving a dealer within two seconds. Its data stays."""
    with opened.store.write(dealer_id) as tx:
        set_state(tx, enabled=False)
    out.print(f"The dealer {dealer_id} is disabled. Its addresses answer like those of an unknown dealer.")


@command(app, "enable", CHANGES)
def enable(opened: OpenInstallation, dealer_id: IdArgument) -> None:
    """Serve a disabled dealer again."""
    with opened.store.write(dealer_id) as tx:
        set_state(tx, enabled=True)
    out.print(f"The dealer {dealer_id} is enabled. It answers at {_address(opened, dealer_id)}/")


@command(app, "remove", CHANGES)
def remove(opened: OpenInstallation, dealer_id: IdArgument, yes: YesOption = False) -> None:
    """Delete a dealer with all its data and files. This cannot be undone. `dealers export` keeps a copy.

    You may stop the command and repeat it. It deletes in small parts, so that leads of other dealers never wait long.
    Each machine that serves the installation deletes its own files of the dealer within two minutes.
    """
    with opened.store.read(dealer_id) as tx:
        what = _all_of(tx)
    err.print(f"This deletes {plain(what)}.")
    if not yes and not typer.confirm("Delete this dealer? This cannot be undone.", err=True):
        fail("Nothing was deleted.")
    with bar_of("Deleting") as on_rows:
        removed = remove_dealer(opened.store, dealer_id, on_rows)
    with opened.store.write(opened.owner) as tx:
        remove_members(tx, dealer_id)
    _delete_files(opened)
    out.print(f"The dealer {dealer_id} is removed: {sum(removed.values()):,} rows are deleted.")


@command(app, "export", CHANGES)
def export(
    opened: OpenInstallation,
    dealer_id: IdArgument,
    target: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder to create for the dealer.")],
    move: Annotated[
        bool, typer.Option("--move", help="Disable the dealer first, and delete it from the installation at the end.")
    ] = False,
) -> None:
    """Copy a dealer into a folder of its own: dealer.toml, keys, and a SQLite database with all data.

    `dealer-agent serve --dir FOLDER` then serves it. The command verifies the copy. Do not serve a dealer in two
    places: both would deliver the leads that wait. With --move, the dealer's files on this machine are copied too.
    """
    require_keys(opened.installation)
    with bar_of("Copying") as on_rows:
        rows = export_dealer(opened, dealer_id, target, on_rows, move=move)
    out.print(f"The dealer {dealer_id} is in {target}: {counted(rows, 'row')}, all verified.")
    if move:
        remove_dealer(opened.store, dealer_id)
        _delete_files(opened)
        out.print("It is deleted from the installation.")
    inherited = ", ".join(f"[{name}]" for name in opened.installation.inherited)
    if inherited:
        out.print(f"It has inherited settings from installation.toml: check {inherited} in {target / FILE_NAME}.")
    out.print(f"Next: set public_url under [service], then dealer-agent serve --dir {target}")


@command(app, "import", CHANGES)
def import_(
    opened: OpenInstallation,
    source: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The folder of the dealer.", exists=True, file_okay=False)
    ],
    listed: Annotated[bool, typer.Option("--listed", help="Show the dealer in the public list of dealers.")] = False,
) -> None:
    """Copy a dealer with a folder of its own into the installation: settings, keys, and all data of its database.

    Stop the dealer's service first. The command verifies the copy before it enables the dealer. Afterwards, do not
    serve the folder any more: both would deliver the leads that wait.

    If the dealer's service has DATABASE_URL or DEALER_AGENT_KEYS in its environment, give these values to this command
    as DEALER_DATABASE_URL and DEALER_KEYS.
    """
    require_keys(opened.installation)
    with bar_of("Copying") as on_rows:
        dealer_id, address, rows = import_dealer(opened, source, os.environ, on_rows, actor=actor(), listed=listed)
    out.print(f"The dealer {dealer_id} is in the installation: {counted(rows, 'row')}, all verified.")
    out.print(f"It answers at {address}/. Do not serve {source} any more.")


def _delete_files(opened: OpenInstallation) -> None:
    if problem := delete_files(opened):
        err.print(problem)


def _all_of(tx: Transaction) -> str:
    """What the removal of a dealer deletes. Raises DealerUnknown if there is nothing."""
    try:
        name = find_dealer(tx).name
    except DealerUnknown:
        left = sum(count_rows(tx).values())
        if not left or not was_removed(tx):
            raise
        return f"what is left of {tx.dealer_id}, whose removal did not end: {counted(left, 'row')}"
    return (
        f"{name} ({tx.dealer_id}): {count_for_sale(tx):,} vehicles for sale, all leads, visits, deliveries, consent "
        "records, tokens, settings, keys and files"
    )


@command(hosts, "add", CHANGES)
def host_add(
    opened: OpenInstallation,
    dealer_id: IdArgument,
    host: Annotated[str, typer.Argument(metavar="HOST", help="A host name, such as cars.example.com.")],
) -> dict[str, str]:
    """Let a dealer answer at a host name of its own. Its cards and mails then name the first of its hosts by alphabet.

    DNS and your proxy must lead the host name to this service, and the proxy must keep the Host header.
    """
    with wrong_use("HOST"), opened.store.write(dealer_id) as tx:
        name = add_host(tx, host)
    address = _address(opened, dealer_id)
    out.print(f"The dealer {dealer_id} answers at https://{name}/. Its cards name {address}/")
    return {"id": dealer_id, "host": name, "address": f"{address}/"}


@command(hosts, "remove", CHANGES)
def host_remove(
    opened: OpenInstallation,
    dealer_id: IdArgument,
    host: Annotated[str, typer.Argument(metavar="HOST", help="The host name, from `dealers host list`.")],
) -> None:
    """Take a host name from a dealer. It still answers at its other addresses."""
    with wrong_use("HOST"), opened.store.write(dealer_id) as tx:
        find_dealer(tx)
        removed = remove_host(tx, host)
    if not removed:
        fail(f"The dealer {dealer_id} has no host {plain(host)}: see dealer-agent dealers host list")
    out.print(f"The host is removed. The agent cards of {dealer_id} now give {_address(opened, dealer_id)}/")


@command(hosts, "list", INSTALLATION)
def host_list(opened: OpenInstallation) -> Table:
    """List the host names of all dealers."""
    with opened.store.installation() as tx:
        owners = all_hosts(tx)
    empty = "No dealer has a host name of its own."
    return Table("Hosts", ("Host", "Dealer"), list(owners.items()), empty=empty)


def _address(opened: OpenInstallation, dealer_id: str) -> str:
    with opened.store.read(dealer_id) as tx:
        names = tuple(list_hosts(tx))
    return opened.installation.address_of(dealer_id, names)


def _state(dealer: RegisteredDealer) -> tuple[str, str]:
    return "enabled" if dealer.enabled else "disabled", "listed" if dealer.listed else "unlisted"


def _checked(opened: OpenInstallation, dealer_id: str, text: str) -> str:
    """The text of a `dealer.toml` if it is valid for this dealer. Raises SettingsError."""
    require_same_dealer(opened.installation.dealer_settings(text), dealer_id)
    return text


def _edit_text(opened: OpenInstallation, dealer_id: str, text: str) -> str:
    """The text after the user has edited it. After a mistake the user may edit it again."""
    while True:
        changed = _from_editor(text)
        if changed == text:
            fail("Nothing was changed.")
        try:
            return _checked(opened, dealer_id, changed)
        except SettingsError as problem:
            err.print(plain(str(problem)))
            if not sys.stdin.isatty() or not typer.confirm("Edit it again?", default=True, err=True):
                fail("Nothing was changed.")
            text = changed


def _from_editor(text: str) -> str:
    """The text after the user's editor has ended."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.NamedTemporaryFile("w", suffix=".toml", encoding="utf-8", newline="") as opened:
        opened.write(text)
        opened.flush()
        try:
            done = subprocess.run([*shlex.split(editor), opened.name], check=False)  # noqa: S603 - the user's editor
        except OSError as problem:
            fail(f"{editor} cannot be started: {problem.strerror}. Set EDITOR, or give the new file with --file")
        if done.returncode != 0:
            fail(f"{editor} ended with code {done.returncode}: nothing was changed")
        # Some editors replace the file.
        return read_text(Path(opened.name))


def _store_settings(tx: Transaction, text: str, expected: int, note: str) -> int:
    """Stores new settings. Ends the command if somebody has changed them since `expected`."""
    try:
        return change_settings(tx, text.encode(), expected=expected, actor=actor(), note=note)
    except SettingsConflict as problem:
        fail(
            f"{problem}. Nothing was changed. Make your change again, in the current settings. To see who changed "
            f"them, type: dealer-agent dealers history {tx.dealer_id}"
        )
