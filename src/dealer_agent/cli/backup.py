"""`dealer-agent backup` and `restore`: one file with all that a service needs, and a folder that serves it again."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dealer_agent.cli.command import FolderOption
from dealer_agent.cli.terminal import counted, err, fail, out, progress

if TYPE_CHECKING:
    from dealer_agent.operations.restore import Backup

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
) -> dict[str, Any]:
    """Write settings, database, stock and recorded heads into one file, while the service runs.

    The keys to customer data are in it only with --with-key. For a PostgreSQL database, the command needs a role that
    may read all rows: set DATABASE_ADMIN_URL. A backup that is killed leaves no FILE.
    """
    # Imported here: the name of the module is that of the command.
    from dealer_agent.config.installation import load_served
    from dealer_agent.operations.backup import make_backup

    served = load_served(folder, os.environ)
    passphrase = _passphrase(ASK_TWICE, twice=True) if with_key else None
    with _bars("Copying", "Writing") as (on_copy, on_write):
        manifest = make_backup(
            served,
            file,
            now=datetime.now(UTC),
            env=os.environ,
            passphrase=passphrase,
            on_copy=on_copy,
            on_write=on_write,
        )
    size = file.stat().st_size
    out.print(f"{file}: {counted(len(manifest.files), 'file')}, {size:,} bytes, schema {manifest.schema}.")
    if with_key:
        err.print("The keys are in it, encrypted with the passphrase. Keep the passphrase in another place.")
    elif manifest.keys:
        err.print(
            f"The keys are not in it. To read the leads again, you need the key {manifest.keys[0]}: back up "
            "dealer-agent.keys in another place, or give --with-key."
        )
    sizes = {"files": len(manifest.files), "bytes": size, "schema": manifest.schema}
    return {"file": str(file), **sizes, "has_keys": with_key, "keys": list(manifest.keys)}


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The backup.", exists=True, dir_okay=False)],
    target: Annotated[Path, typer.Option("--dir", metavar="FOLDER", help="The folder to create, or an empty one.")],
    hold_deliveries: Annotated[
        bool,
        typer.Option(
            "--hold-deliveries",
            help="Do not send the deliveries that were waiting, until `deliveries retry`.",
        ),
    ] = False,
    keys: Annotated[
        Path | None,
        typer.Option(
            "--keys",
            metavar="FILE",
            help="The key file of the day of the backup, if the backup has no keys. It is copied into the folder.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    unverified: Annotated[
        bool,
        typer.Option("--unverified", help="Restore even if no key is here that can verify the backup."),
    ] = False,
) -> None:
    """Verify a backup with the key of the service, and make a new folder and a new database from it.

    Nothing of the file is executed: the tables are made by this program, and the file has only rows for them. A
    PostgreSQL database is restored into the empty database that DATABASE_ADMIN_URL names. Nothing is left if the
    command fails.
    """
    from dealer_agent.operations.restore import open_backup, restore_backup

    passphrase = partial(_passphrase, "Passphrase of the keys in the backup", twice=False)
    backup = open_backup(file, os.environ, passphrase, keys, unverified=unverified)
    _show_origin(backup, keys)
    with _bars("Unpacking", "Restoring rows") as (on_unpack, on_insert):
        held_deliveries = restore_backup(
            backup, target, os.environ, hold=hold_deliveries, on_unpack=on_unpack, on_insert=on_insert
        )
    manifest = backup.manifest
    out.print(f"{target} is the {manifest.kind} as it was on {manifest.made_at:%Y-%m-%d %H:%M} UTC. All hashes agree.")
    if held_deliveries is not None:
        out.print(f"{held_deliveries:,} {'delivery' if held_deliveries == 1 else 'deliveries'} held.")
        if held_deliveries:
            dealer = " --dealer DEALER" if manifest.kind == "installation" else ""
            out.print(f"To send them: dealer-agent deliveries retry --all{dealer} --dir {target}")
    else:
        err.print("When the service starts, it sends the deliveries that were waiting, also those sent since then.")
    if backup.keyring is None and manifest.keys:
        err.print(
            f"The keys are not in the backup. Put dealer-agent.keys with the key {manifest.keys[0]} into "
            f"{target}, or set DEALER_AGENT_KEYS."
        )
    if manifest.database == "postgresql":
        err.print("Then: dealer-agent database prepare --new-password, and set DATABASE_URL to the address it shows.")
    out.print(f"Next: dealer-agent serve --dir {target}")


def _show_origin(backup: "Backup", key_file: Path | None) -> None:
    """Says whether somebody has verified the backup."""
    if backup.keyring is None:
        err.print(
            "Nobody has verified this backup. Its settings and rows are taken as they are: read the settings before "
            "you start the service."
        )
        return
    where = "the passphrase opens" if backup.manifest.sealed_keys else f"is in {key_file or 'DEALER_AGENT_KEYS'}"
    err.print(f"The backup is authentic: it is signed with a key that {where}.")


@contextmanager
def _bars(*titles: str) -> Iterator[tuple[Callable[[int, int], object], ...]]:
    """A bar for each part of the work, for a `with` block. Each function gets how much is done, and of how much."""
    with progress() as bar:
        tasks = [bar.add_task(title, total=None) for title in titles]
        yield tuple(
            lambda done, total, task=task: bar.update(task, completed=done, total=total)  # type: ignore[misc]
            for task in tasks
        )


def _passphrase(question: str, *, twice: bool) -> str:
    """The passphrase of the environment, else of the person at the terminal. Ends the command if there is none."""
    from dealer_agent.operations.backup_file import PASSPHRASE_VARIABLE

    passphrase = os.environ.get(PASSPHRASE_VARIABLE)
    if passphrase:
        return passphrase
    if not os.isatty(0):
        fail(f"there is no passphrase: set {PASSPHRASE_VARIABLE}, or run the command in a terminal")
    answer: str = typer.prompt(question, hide_input=True, confirmation_prompt=twice, err=True)
    return answer
