"""`dealer-agent keys`: the keys that customer data is encrypted with. `keys directory` is in `key_directory`."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from dealer_agent.cli.command import command
from dealer_agent.cli.key_directory import EXIT_CODES, directory
from dealer_agent.cli.open_dealer import FOLDER, DealerFolder, find_served, find_settings, open_installation, opened
from dealer_agent.cli.tables import Table
from dealer_agent.cli.terminal import bar_of, fail, out
from dealer_agent.config.installation import is_installation
from dealer_agent.config.keys import KEY_FILE_NAME, KEYS_VARIABLE, KeyFile, create_key_file, from_environment
from dealer_agent.encryption import InvalidKeys, Keyring, new_key, new_permanent_secret, render
from dealer_agent.open_installation import owner_of
from dealer_agent.operations.key_changes import (
    KeyChange,
    change_key,
    changing_keys,
    drop_lost_key,
    due_sentence,
    key_rows,
    require_cipher,
    rotation_of_installation,
    rotations_of,
    source_of,
)
from dealer_agent.privacy.key_rotation import KeyRotation
from dealer_agent.storage import alerts as copies

app = typer.Typer(no_args_is_help=True)
command(app, "directory", epilog=EXIT_CODES)(directory)


@command(app, "create", FOLDER)
def create(
    folder: DealerFolder,
    show: Annotated[
        bool,
        typer.Option(
            "--print", help=f"Show a new key for {KEYS_VARIABLE}, and a permanent secret if it has none. Write no file."
        ),
    ] = False,
) -> dict[str, str]:
    """Create the key file of a dealer or an installation that has none. `init` creates it too."""
    if show:
        permanent = None if _has_permanent_secret(os.environ) else new_permanent_secret()
        value = ",".join(render(Keyring((new_key(),), permanent)).split())
        out.print(value, soft_wrap=True)
        return {"variable": KEYS_VARIABLE, "value": value}
    owner = find_served(folder)
    if from_environment(os.environ):
        fail(
            f"{KEYS_VARIABLE} is set and takes precedence over a file: dealer-agent keys create --print shows a key for"
            " it"
        )
    if owner.cipher is not None:
        fail(f"{owner.folder / KEY_FILE_NAME} exists already: dealer-agent keys rotate replaces the key")
    drop_lost_key(owner.database_url, owner_of(owner))
    path = create_key_file(owner.folder)
    out.print(f"The key to customer data is in {path}. Back this file up, separately from the database.")
    return {"file": str(path)}


@command(app, "list", FOLDER)
def list_(folder: DealerFolder) -> Table:
    """List the keys: id, use, since when, and the number of values that are encrypted with each.

    In an installation, the keys of the installation encrypt the keys of its dealers. --dealer lists also those.
    """
    with rotations_in(folder) as rotations:
        rows = [row for rotation in rotations for row in key_rows(rotation)]
        due = [due_sentence(rotation, datetime.now(UTC)) for rotation in rotations]
        notes = [f"They come from {source_of(rotations)}.", *filter(None, due)]
    columns, hidden = ("Of", "Id", "Use", "Since", "Values"), 0 if is_installation(folder.path) else 1
    return Table("Keys to customer data", columns[hidden:], [row[hidden:] for row in rows], notes=notes)


@command(app, "rotate", FOLDER)
def rotate(
    folder: DealerFolder,
    forget_old: Annotated[
        bool, typer.Option("--forget-old", help="Destroy the old keys that nothing needs any more.")
    ] = False,
) -> dict[str, Any]:
    """Replace the key: make a new one, and encrypt all customer data with it. The service may keep running.

    In an installation, --dealer replaces the key of this dealer. Without --dealer, the command replaces the key of the
    installation, and encrypts the keys of all dealers with it. You may stop the command at any point: the next run
    continues. With keys in DEALER_AGENT_KEYS, put the new key in front, restart the service, run this command, then
    remove the old key from the variable.
    """
    with rotations_in(folder) as (rotation, *_):
        destroyed: list[str] = []
        if rotation.location is None:
            _show_values(rotation.reencrypt_all(), rotation.cipher.keyring.active)
            removal = f"remove it from {KEYS_VARIABLE}"
        else:
            with changing_keys(rotation):
                changed = change_key(rotation, destroy=forget_old)
            show_change(changed)
            destroyed, removal = changed.destroyed, "--forget-old destroys such keys"
        unused = rotation.unused()
    if destroyed:
        out.print(f"Destroyed: {', '.join(destroyed)}.")
    if unused:
        out.print(f"Nothing needs {', '.join(unused)} any more: {removal}.")
    if isinstance(rotation.location, KeyFile):
        out.print(
            f"Back up {rotation.location.path} again. Delete its older copies together with the last backup of the "
            "database that needs them."
        )
    elif rotation.location is not None:
        out.print(
            "The key is in the database, encrypted with the key of the installation. A person who has that key can "
            "read destroyed keys in the database's files and backups: dealer-agent keys rotate without --dealer "
            "replaces it."
        )
    return {"key": rotation.cipher.keyring.active, "destroyed": destroyed, "unused": unused}


@command(app, "confirm-copy", FOLDER)
def confirm_copy(folder: DealerFolder) -> dict[str, Any]:
    """Confirm that you have a copy of the keys as they are now. Without it, an alert asks for one after each rotation.

    In an installation, it is about the key of the installation, which also protects the keys of the dealers.
    """
    if is_installation(folder.path):
        folder = DealerFolder(folder.path)
    with rotations_in(folder) as (rotation, *_):
        keyring = rotation.cipher.keyring
        with rotation.store.write(rotation.dealer_id) as tx:
            for key_id in keyring.ids:
                copies.confirm_key_copy(tx, key_id)
        out.print(f"Confirmed: you have a copy of {', '.join(keyring.ids)}. The active key is {keyring.active}.")
    return {"confirmed": list(keyring.ids), "active": keyring.active}


@contextmanager
def rotations_in(folder: DealerFolder) -> Iterator[list[KeyRotation]]:
    """The rotations of the dealer in a folder. In an installation without `--dealer`: only that of the installation."""
    if is_installation(folder.path) and folder.dealer_id is None:
        with open_installation(folder.path) as of_installation, bar_of("Encrypting") as on_progress:
            yield [rotation_of_installation(of_installation.installation, of_installation.store, on_progress)]
        return
    settings = find_settings(folder)
    require_cipher(settings.cipher)
    with opened(settings, customers=True) as dealer, bar_of("Encrypting") as on_progress:
        yield rotations_of(settings, dealer.store, on_progress)


def show_change(changed: KeyChange) -> None:
    """Says that a key was replaced."""
    interrupted = "This completed an earlier change that was interrupted. " if changed.completed else ""
    out.print(f"{interrupted}The new key is {changed.active}.")


def _show_values(values: int, active: str) -> None:
    if values:
        out.print(f"{values:,} values are encrypted with the new key.")
    else:
        out.print(f"All customer data is encrypted with the key {active} already.")


def _has_permanent_secret(env: Mapping[str, str]) -> bool:
    try:
        return Keyring.parse(env.get(KEYS_VARIABLE, "")).permanent is not None
    except InvalidKeys:
        return False
