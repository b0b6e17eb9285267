"""`dealer-agent backup`: one file with all that a service needs."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from dealer_agent.cli.open_dealer import FolderOption
from dealer_agent.cli.terminal import JsonOption, counted, err, fail, out, print_json, progress

ASK_TWICE = "Passphrase for the keys in the backup"


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write, such as backup-2026-11-23.tar.")],
    folder: FolderOption = Path(),
    with_key: Annotated[
        bool,
        typer.Option(
            "--with-key",
            help="Include the keys to customer data, encrypted with a passphrase. It is asked for, or is in "
            "DEALER_AGENT_BACKUP_PASSPHRASE.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Write settings, database, stock and recorded heads into one file, while the service runs.

    The keys to customer data are in it only with --with-key. For a PostgreSQL database, the command needs a role that
    may read all rows: set DATABASE_ADMIN_URL. A backup that is killed leaves no FILE.
    """
    # Imported here: the name of the module is that of the command.
    from dealer_agent.operations.backup import make_backup, served_in
    from dealer_agent.operations.backup_key import check_passphrase

    served = served_in(folder, os.environ)
    passphrase = None
    if with_key:
        if served.cipher is None:
            fail("there are no keys to back up: leave out --with-key")
        passphrase = check_passphrase(read_passphrase(ASK_TWICE, twice=True))
    with progress() as bar:
        copying, writing = bar.add_task("Copying", total=None), bar.add_task("Writing", total=None)
        manifest = make_backup(
            served,
            file,
            now=datetime.now(UTC),
            env=os.environ,
            passphrase=passphrase,
            on_copy=lambda done, total: bar.update(copying, completed=done, total=total),
            on_write=lambda done, total: bar.update(writing, completed=done, total=total),
        )
    size = file.stat().st_size
    if as_json:
        found = {"files": len(manifest.files), "bytes": size, "schema": manifest.schema}
        print_json({"file": str(file), **found, "has_keys": with_key, "keys": list(manifest.keys)})
    out.print(f"{file}: {counted(len(manifest.files), 'file')}, {size:,} bytes, schema {manifest.schema}.")
    if with_key:
        err.print("The keys are in it, encrypted with the passphrase. Keep the passphrase in another place.")
    elif manifest.keys:
        err.print(
            f"The keys are not in it. To read the leads again, you need the key {manifest.keys[0]}: back up "
            "dealer-agent.keys in another place, or give --with-key."
        )


def read_passphrase(question: str, *, twice: bool) -> str:
    """The passphrase of the environment, else of the person at the terminal. Ends the command if there is none."""
    from dealer_agent.operations.backup_key import PASSPHRASE_VARIABLE

    given = os.environ.get(PASSPHRASE_VARIABLE)
    if given:
        return given
    if not os.isatty(0):
        fail(f"there is no passphrase: set {PASSPHRASE_VARIABLE}, or run the command in a terminal")
    answer: str = typer.prompt(question, hide_input=True, confirmation_prompt=twice, err=True)
    return answer
