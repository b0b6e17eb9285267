"""`dealer-agent keys`: the keys that customer data is encrypted with."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from dealer_agent.cli.open_dealer import HERE, DirOption, OpenDealer, find_settings, open_dealer, opened
from dealer_agent.cli.terminal import JsonOption, fail, out, print_table, progress
from dealer_agent.config import Settings
from dealer_agent.config.keys import KEY_FILE_NAME, KEYS_VARIABLE, KeyFile, changing, create_key_file, from_environment
from dealer_agent.encryption import Cipher, InvalidKeys, Keyring, new_key, new_lasting_secret, render
from dealer_agent.server.key_rotation import KeyRotation, changeable_key_file
from dealer_agent.storage.errors import DatabaseUnreachable, SchemaOutdated
from dealer_agent.storage.keys import KeyUse, key_uses
from dealer_agent.storage.reencryption import delete_unused_keys, keys_in_use
from dealer_agent.storage.store import Store

app = typer.Typer(no_args_is_help=True)


@app.command("create")
def create(
    directory: DirOption = HERE,
    show: Annotated[
        bool,
        typer.Option(
            "--print", help=f"Show a new key for {KEYS_VARIABLE}, and a lasting secret if it has none. Write no file."
        ),
    ] = False,
) -> None:
    """Create the key file of a dealer that has none. `init` creates it too."""
    if show:
        lasting = None if _has_lasting_secret(os.environ) else new_lasting_secret()
        out.print(",".join(render(Keyring((new_key(),), lasting)).split()), soft_wrap=True)
        return
    settings = find_settings(directory)
    if from_environment(os.environ):
        fail(f"{KEYS_VARIABLE} is set and takes precedence over a file: keys create --print shows a key for it")
    if settings.cipher is not None:
        fail(f"{settings.directory / KEY_FILE_NAME} exists already: dealer-agent keys rotate replaces the key")
    _drop_lost_key(settings)
    path = create_key_file(settings.directory)
    out.print(f"The key to customer data is in {path}. Back this file up, separately from the database.")


@app.command("list")
def list_(directory: DirOption = HERE, as_json: JsonOption = False) -> None:
    """List the keys: id, use, since when, and the number of values that are encrypted with each."""
    settings = find_settings(directory)
    cipher = _cipher_of(settings)
    with opened(settings, customers=True) as dealer, dealer.read() as tx:
        used, uses = keys_in_use(tx), key_uses(tx)
    rows = []
    for key_id in cipher.keyring.ids:
        use, active = uses.get(key_id), key_id == cipher.keyring.active
        rows.append((key_id, _use_text(use, active=active), use.since if use else None, used.get(key_id, 0)))
    print_table("Keys to customer data", ("Id", "Use", "Since (UTC)", "Values"), rows, as_json=as_json)
    if as_json:
        return
    source = KEYS_VARIABLE if from_environment(os.environ) else settings.directory / KEY_FILE_NAME
    out.print(f"They come from {source}.")
    _show_due_date(settings, uses.get(cipher.keyring.active))


@app.command("rotate")
def rotate(
    directory: DirOption = HERE,
    forget_old: Annotated[
        bool, typer.Option("--forget-old", help="Destroy the old keys in the file that nothing needs any more.")
    ] = False,
) -> None:
    """Replace the key: make a new one, and encrypt all customer data with it. The service may keep running.

    You may stop the command at any point: the next run continues. With keys in DEALER_AGENT_KEYS, put the new key in
    front, restart the service, run this command, then remove the old key from the variable.
    """
    with open_dealer(directory, customers=True) as dealer, rotation_of(dealer) as rotation:
        if from_environment(os.environ):
            if values := rotation.reencrypt_all():
                out.print(f"{values:,} values are encrypted with the new key.")
            else:
                out.print(f"All customer data is encrypted with the key {rotation.cipher.keyring.active} already.")
            if unused := rotation.unused():
                out.print(f"Nothing needs {', '.join(unused)} any more: remove it from {KEYS_VARIABLE}.")
            return
        path = dealer.settings.directory / KEY_FILE_NAME
        with changing_keys(path):
            destroyed = change_key(rotation, destroy=forget_old)
            unused = rotation.unused()
    if destroyed:
        out.print(f"Destroyed: {', '.join(destroyed)}.")
    if unused:
        out.print(f"Nothing needs {', '.join(unused)} any more: --forget-old destroys such keys.")
    out.print(
        f"Back up {path} again. Delete its older copies together with the last backup of the database that needs them."
    )


@contextmanager
def rotation_of(dealer: OpenDealer) -> Iterator[KeyRotation]:
    """The rotation of a dealer's keys. A progress bar shows while values are encrypted."""
    settings = dealer.settings
    with progress() as bar:
        task = bar.add_task("Encrypting", total=None)
        yield KeyRotation(
            store=dealer.store,
            cipher=_cipher_of(settings),
            dealer_id=dealer.profile.id,
            place=None if from_environment(os.environ) else KeyFile(settings.directory / KEY_FILE_NAME),
            days=dealer.profile.privacy.rotate_keys_days,
            on_progress=lambda count: bar.update(task, advance=count),
        )


@contextmanager
def changing_keys(path: Path) -> Iterator[None]:
    """Locks the key file for a `with` block. Ends the command if another process has the lock."""
    try:
        with changing(path):
            yield
    except BlockingIOError:
        fail("Another process is rotating the keys: try again later")
    except PermissionError:
        fail(f"{path} belongs to another user, or its folder is not writable: run this command as the file's owner")


def change_key(rotation: KeyRotation, *, destroy: bool) -> list[str]:
    """Creates a new key and encrypts everything with it. Returns the ids of the keys that were destroyed."""
    if not rotation.rotate(datetime.now(UTC)):
        out.print("This completed an earlier change that was interrupted. ", end="")
    out.print(f"The new key is {rotation.cipher.keyring.active}.")
    return rotation.destroy_unused() if destroy else []


def _use_text(use: KeyUse | None, *, active: bool) -> str:
    if active:
        return "active: encrypts and reads"
    if use is not None and use.state == "next":
        return "next: reads" if use.missing_on is None else f"next: reads; {use.missing_on} lacks it"
    return "not needed" if use is not None and use.state == "unused" else "reads"


def _show_due_date(settings: Settings, use: KeyUse | None) -> None:
    days = settings.dealer.privacy.rotate_keys_days
    if not days or use is None:
        return
    due = use.since + timedelta(days=days)
    if changeable_key_file(settings.directory, os.environ) is not None:
        out.print(f"The running service replaces the key on {due:%Y-%m-%d}. Back up the file before then.")
    elif due <= datetime.now(UTC):
        out.print(f"The key is due for replacement since {due:%Y-%m-%d}: see dealer-agent keys rotate --help.")
    else:
        out.print(f"Replace the key by {due:%Y-%m-%d}: see dealer-agent keys rotate --help.")


def _has_lasting_secret(env: Mapping[str, str]) -> bool:
    try:
        return Keyring.parse(env.get(KEYS_VARIABLE, "")).lasting is not None
    except InvalidKeys:
        return False


def _cipher_of(settings: Settings) -> Cipher:
    if settings.cipher is None:
        fail(
            f"There is no key: put {KEY_FILE_NAME} back from your backup or set {KEYS_VARIABLE}; "
            "for a dealer that has no leads yet, dealer-agent keys create makes a key"
        )
    return settings.cipher


def _drop_lost_key(settings: Settings) -> None:
    """Ends the command if the database has data that needs a lost key: a new key cannot decrypt it."""
    # Without a database, or with a database that has no keys yet, nothing is encrypted.
    with suppress(DatabaseUnreachable, SchemaOutdated), Store.open(settings.database_url) as store:
        with store.read(settings.dealer.id) as tx:
            used = keys_in_use(tx)
        if used:
            fail(
                f"The database holds customer data under the key {', '.join(sorted(used))}: put the file "
                f"{KEY_FILE_NAME} back from your backup. Without a backup this data cannot be read again: rename the "
                "database (with PostgreSQL, set DATABASE_URL to a new one), create a key, and import the inventory"
            )
        with store.lock(settings.dealer.id) as tx:
            delete_unused_keys(tx)
