"""`dealer-agent restore`: a folder that serves again what a backup has."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dealer_agent.cli.backup import read_passphrase
from dealer_agent.cli.terminal import counted, err, out, progress

if TYPE_CHECKING:
    from dealer_agent.operations.backup_file import Manifest


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
    keys: Annotated[
        Path | None,
        typer.Option(
            "--keys",
            metavar="FILE",
            help="The key file of the day of the backup, if the keys are not in the backup. The folder gets it.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    unverified: Annotated[
        bool,
        typer.Option("--unverified", help="Restore also if no key is here that tells whether the backup is yours."),
    ] = False,
) -> None:
    """Verify a backup with the key of the service, and make a new folder and a new database from it.

    Nothing of the file is executed: the tables are made by this program, and the file has only rows for them. A
    PostgreSQL database is restored into the empty database that DATABASE_ADMIN_URL names. Nothing is left if the
    command fails.
    """
    from dealer_agent.operations.backup_file import read_manifest
    from dealer_agent.operations.restore import keyring_for, require_authentic, restore_backup

    manifest = read_manifest(file)
    has_keys = manifest.sealed_keys is not None
    passphrase = read_passphrase("Passphrase of the keys in the backup", twice=False) if has_keys else None
    keyring = keyring_for(manifest, os.environ, passphrase=passphrase, key_file=keys)
    require_authentic(manifest, keyring, unverified=unverified)
    if keyring is None:
        err.print(
            "Nobody has verified this backup. Its settings and rows are taken as they are: read the settings before "
            "you start the service."
        )
    else:
        err.print(f"The backup is authentic: it is signed with a key that {_source(manifest, keys)}.")
    with progress() as bar:
        unpacking, inserting = bar.add_task("Unpacking", total=None), bar.add_task("Restoring rows", total=None)
        done = restore_backup(
            file,
            manifest,
            target,
            env=os.environ,
            keyring=keyring,
            unverified=unverified,
            write_keys=has_keys or keys is not None,
            hold=hold_deliveries,
            on_unpack=lambda part, total: bar.update(unpacking, completed=part, total=total),
            on_insert=lambda part, total: bar.update(inserting, completed=part, total=total),
        )
    out.print(f"{target} is the {manifest.kind} as it was on {manifest.made_at:%Y-%m-%d %H:%M} UTC. All hashes agree.")
    if done.held is not None:
        out.print(f"{counted(done.held, 'delivery') if done.held == 1 else f'{done.held:,} deliveries'} held.")
    else:
        err.print("When the service starts, it sends the deliveries that were waiting, also those sent since then.")
    if keyring is None and manifest.keys:
        err.print(
            f"The keys are not in the backup. Put dealer-agent.keys with the key {manifest.keys[0]} into "
            f"{target}, or set DEALER_AGENT_KEYS."
        )
    if manifest.database == "postgresql":
        err.print("Then: dealer-agent database prepare --new-password, and set DATABASE_URL to the address it shows.")
    out.print(f"Next: dealer-agent serve --dir {target}")


def _source(manifest: "Manifest", keys: Path | None) -> str:
    if manifest.sealed_keys is not None:
        return "the passphrase opens"
    return f"is in {keys}" if keys is not None else "is in DEALER_AGENT_KEYS"
