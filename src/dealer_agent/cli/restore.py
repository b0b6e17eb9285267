"""`dealer-agent restore`: a folder that serves again what a backup has."""

import os
from pathlib import Path
from typing import Annotated

import typer

from dealer_agent.cli.backup import read_passphrase
from dealer_agent.cli.terminal import counted, err, out, progress


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The backup.", exists=True, dir_okay=False)],
    target: Annotated[Path, typer.Option("--dir", metavar="FOLDER", help="The folder to create, or an empty one.")],
    hold_deliveries: Annotated[
        bool,
        typer.Option(
            "--hold-deliveries",
            help="Park the deliveries that were waiting: nothing is sent until `deliveries retry`.",
        ),
    ] = False,
) -> None:
    """Unpack a backup into a new folder, verify it, and put the keys in their place if they are in it.

    A PostgreSQL database is restored into the empty database that DATABASE_ADMIN_URL names. Without it, the folder gets
    the file database.dump for pg_restore. Nothing is left if the command fails.
    """
    from dealer_agent.operations.backup import DUMP_NAME
    from dealer_agent.operations.backup_file import read_manifest
    from dealer_agent.operations.restore import restore_backup

    has_keys = read_manifest(file).has_keys
    passphrase = read_passphrase("Passphrase of the keys in the backup", twice=False) if has_keys else None
    with progress() as bar:
        task = bar.add_task("Unpacking", total=None)
        done = restore_backup(
            file,
            target,
            env=os.environ,
            passphrase=passphrase,
            hold=hold_deliveries,
            on_progress=lambda part, total: bar.update(task, completed=part, total=total),
        )
    manifest = done.manifest
    out.print(f"{target} is the {manifest.kind} as it was on {manifest.made_at:%Y-%m-%d %H:%M} UTC. All hashes agree.")
    if done.held is not None:
        out.print(f"{counted(done.held, 'delivery') if done.held == 1 else f'{done.held:,} deliveries'} held.")
    else:
        err.print("When the service starts, it sends the deliveries that were waiting, also those sent since then.")
    if not has_keys and manifest.keys:
        err.print(
            f"The keys are not in the backup. Put dealer-agent.keys with the key {manifest.keys[0]} into {target}, or "
            "set DEALER_AGENT_KEYS."
        )
    if manifest.database == "postgresql":
        if not done.has_database:
            err.print(
                f"Restore the database: createdb NAME, then pg_restore --no-owner --no-privileges --exit-on-error "
                f"--single-transaction --dbname=NAME {target / DUMP_NAME}, then delete this file."
            )
        err.print("Then: dealer-agent database prepare --new-password, and set DATABASE_URL to the address it shows.")
    out.print(f"Next: dealer-agent serve --dir {target}")
