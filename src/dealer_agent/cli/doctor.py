"""`dealer-agent doctor`: checks what a service needs, and says what to do."""

import os
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from dealer_agent.cli.command import FolderOption, JsonOption, wrong_use
from dealer_agent.cli.open_dealer import DealerFolder, find_settings
from dealer_agent.cli.terminal import counted, out, pasted, plain, print_json, terminal_width
from dealer_agent.config import SettingsError
from dealer_agent.config.installation import installation_of, is_installation, load_installation
from dealer_agent.open_installation import OpenInstallation
from dealer_agent.storage.errors import DealerUnknown, StorageError
from dealer_agent.storage.store import Store

if TYPE_CHECKING:
    from dealer_agent.operations.checks import CheckResult, Examined

STYLES = {"ok": "green", "warning": "yellow", "problem": "bold red", "skipped": "dim"}


def doctor(
    folder: FolderOption = Path(),
    dealer: Annotated[
        str | None,
        typer.Option(
            "--dealer", metavar="ID", help="A dealer of an installation. Without it, all dealers are summarised."
        ),
    ] = None,
    send: Annotated[
        bool, typer.Option("--send", help="Deliver one marked test lead to each channel of the dealer.")
    ] = False,
    public: Annotated[
        bool,
        typer.Option("--public", help="Show what is missing before the service can go live, instead of the checks."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check settings, database, keys, clock, feeds, mail, channels and the public address. Changes nothing.

    Ends with code 1 if there is a problem.
    """
    from dealer_agent.operations.checks import CHECK_SECONDS, run_checks, settings_check
    from dealer_agent.operations.doctor import examine

    if send and dealer is None and is_installation(folder):
        raise typer.BadParameter("choose the dealer of the test leads with --dealer", param_hint="--send")
    try:
        examined = _examined(folder, dealer, send=send)
    except (SettingsError, StorageError) as error:
        results = run_checks([settings_check(error)], CHECK_SECONDS)
    else:
        results = examine(examined, public=public)
    results = [result._replace(advice=pasted(result.advice)) for result in results]
    if as_json:
        print_json([result._asdict() for result in results])
    else:
        _show(results)
    if any(result.status == "problem" for result in results):
        raise typer.Exit(1)


def _examined(folder: Path, dealer_id: str | None, *, send: bool) -> "Examined":
    """The installation, and the dealer if one is chosen. Does not migrate the database."""
    from dealer_agent.operations.checks import Examined

    env, now = os.environ, datetime.now(UTC)
    if not is_installation(folder):
        settings = find_settings(DealerFolder(folder, dealer_id))
        return Examined(env, now, installation_of(settings, env), settings, send)
    installation = load_installation(folder, env)
    if dealer_id is None:
        return Examined(env, now, installation, None, send)
    opened = Store.open(installation.database_url, installation.cipher, many_dealers=True)
    with opened as store, wrong_use("--dealer", DealerUnknown):
        settings = OpenInstallation(installation, store).settings_of(dealer_id)
    return Examined(env, now, installation, settings, send)


def _show(results: Sequence["CheckResult"]) -> None:
    """Prints a line for each finding, the advice below it, and how many there are of each status."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for result in results:
        table.add_row(Text(result.status, style=STYLES[result.status]), result.check, Text(plain(result.says)))
        if result.advice:
            table.add_row("", "", Text(f"Do: {plain(result.advice)}", style="bold"))
    out.print(table, width=terminal_width(), soft_wrap=False)
    numbers = Counter(result.status for result in results)
    out.print(
        f"\n{numbers['ok']} ok, {counted(numbers['warning'], 'warning')}, {counted(numbers['problem'], 'problem')}, "
        f"{numbers['skipped']} skipped"
    )
