"""`dealer-agent keys`: the keys that customer data is encrypted with."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from dealer_agent.cli.open_dealer import (
    HERE,
    DealerFolder,
    DirOption,
    OpenDealer,
    find_settings,
    open_installation,
    opened,
)
from dealer_agent.cli.terminal import Cell, JsonOption, fail, out, print_json, print_table, progress
from dealer_agent.config.installation import Installation, installation_of, is_installation, load_installation
from dealer_agent.config.keys import KEY_FILE_NAME, KEYS_VARIABLE, KeyFile, create_key_file, from_environment
from dealer_agent.encryption import Cipher, InvalidKeys, Keyring, new_key, new_lasting_secret, render
from dealer_agent.server.key_rotation import KeyPlace, KeyRotation, KeyTable, changeable_key_file
from dealer_agent.storage import alerts as copies
from dealer_agent.storage.errors import DatabaseUnreachable, SchemaOutdated
from dealer_agent.storage.isolation import ALL_DEALERS
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
    as_json: JsonOption = False,
) -> None:
    """Create the key file of a dealer or an installation that has none. `init` creates it too."""
    if show:
        lasting = None if _has_lasting_secret(os.environ) else new_lasting_secret()
        value = ",".join(render(Keyring((new_key(),), lasting)).split())
        out.print(value, soft_wrap=True)
        if as_json:
            print_json({"variable": KEYS_VARIABLE, "value": value})
        return
    if is_installation(directory.path):
        owner = load_installation(directory.path, os.environ)
    else:
        owner = installation_of(find_settings(directory), os.environ)
    if from_environment(os.environ):
        fail(f"{KEYS_VARIABLE} is set and takes precedence over a file: keys create --print shows a key for it")
    if owner.cipher is not None:
        fail(f"{owner.directory / KEY_FILE_NAME} exists already: dealer-agent keys rotate replaces the key")
    _drop_lost_key(owner.database_url, ALL_DEALERS if owner.only is None else owner.only.dealer.id)
    path = create_key_file(owner.directory)
    out.print(f"The key to customer data is in {path}. Back this file up, separately from the database.")
    if as_json:
        print_json({"file": str(path)})


@app.command("list")
def list_(directory: DirOption = HERE, as_json: JsonOption = False) -> None:
    """List the keys: id, use, since when, and the number of values that are encrypted with each.

    In an installation, the keys of the installation encrypt the keys of its dealers. --dealer lists also those.
    """
    with rotations_in(directory) as rotations:
        rows = [row for rotation in rotations for row in _rows_of(rotation)]
        columns: tuple[str, ...] = ("Of", "Id", "Use", "Since", "Values")
        if not is_installation(directory.path):
            rows, columns = [row[1:] for row in rows], columns[1:]
        print_table("Keys to customer data", columns, rows, as_json=as_json)
        if not as_json:
            out.print(f"They come from {_source_of(rotations)}.")
            for rotation in rotations:
                _show_due_date(rotation)


@app.command("rotate")
def rotate(
    directory: DirOption = HERE,
    forget_old: Annotated[
        bool, typer.Option("--forget-old", help="Destroy the old keys that nothing needs any more.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Replace the key: make a new one, and encrypt all customer data with it. The service may keep running.

    In an installation, --dealer replaces the key of this dealer. Without --dealer, the command replaces the key of the
    installation, and encrypts the keys of all dealers with it. You may stop the command at any point: the next run
    continues. With keys in DEALER_AGENT_KEYS, put the new key in front, restart the service, run this command, then
    remove the old key from the variable.
    """
    with rotations_in(directory) as (rotation, *_):
        if rotation.place is None:
            values, unused = rotation.reencrypt_all(), rotation.unused()
            if as_json:
                print_json({"key": rotation.cipher.keyring.active, "destroyed": [], "unused": list(unused)})
            if values:
                out.print(f"{values:,} values are encrypted with the new key.")
            else:
                out.print(f"All customer data is encrypted with the key {rotation.cipher.keyring.active} already.")
            if unused:
                out.print(f"Nothing needs {', '.join(unused)} any more: remove it from {KEYS_VARIABLE}.")
            return
        with changing_keys(rotation.place):
            destroyed = change_key(rotation, destroy=forget_old)
            unused = rotation.unused()
    if as_json:
        print_json({"key": rotation.cipher.keyring.active, "destroyed": destroyed, "unused": list(unused)})
    if destroyed:
        out.print(f"Destroyed: {', '.join(destroyed)}.")
    if unused:
        out.print(f"Nothing needs {', '.join(unused)} any more: --forget-old destroys such keys.")
    if isinstance(rotation.place, KeyFile):
        out.print(
            f"Back up {rotation.place.path} again. Delete its older copies together with the last backup of the "
            "database that needs them."
        )
    else:
        out.print(
            "The key is in the database, encrypted with the key of the installation. A person who has that key can "
            "read destroyed keys in the database's files and backups: dealer-agent keys rotate without --dealer "
            "replaces it."
        )


@app.command("confirm-copy")
def confirm_copy(directory: DirOption = HERE) -> None:
    """Confirm that you have a copy of the keys as they are now. Without it, an alert asks for one after each rotation.

    In an installation, it is about the key of the installation, which also protects the keys of the dealers.
    """
    if is_installation(directory.path):
        directory = DealerFolder(directory.path)
    with rotations_in(directory) as (rotation, *_):
        keyring = rotation.cipher.keyring
        with rotation.store.write(rotation.dealer_id) as tx:
            for key_id in keyring.ids:
                copies.confirm_copy(tx, key_id)
        out.print(f"Confirmed: you have a copy of {', '.join(keyring.ids)}. The active key is {keyring.active}.")


@contextmanager
def rotations_in(folder: DealerFolder) -> Iterator[list[KeyRotation]]:
    """The rotations of the dealer in a folder. In an installation without `--dealer`: only that of the installation."""
    if is_installation(folder.path) and folder.dealer_id is None:
        with open_installation(folder.path) as opened, _with_progress() as on_progress:
            yield [_of_installation(opened.store, opened.installation, on_progress)]
    else:
        with opened_with_keys(folder) as dealer, rotations_of(dealer) as rotations:
            yield rotations


@contextmanager
def rotations_of(dealer: OpenDealer) -> Iterator[list[KeyRotation]]:
    """The rotation of a dealer's keys, then of those of its installation. A progress bar shows the encryption."""
    settings, store, dealer_id = dealer.settings, dealer.store, dealer.profile.id
    days, folder = dealer.profile.privacy.rotate_keys_days, settings.directory
    with _with_progress() as on_progress:
        if settings.installation is None:
            place, cipher = _key_file(folder), _existing(settings.cipher)
            yield [KeyRotation(store, cipher, dealer_id, place, days, on_progress=on_progress)]
            return
        table, cipher = KeyTable(store, dealer_id, folder), store.check_keys(dealer_id)
        installation = load_installation(settings.installation, os.environ)
        yield [
            KeyRotation(store, cipher, dealer_id, table, days, on_progress=on_progress),
            _of_installation(store, installation, on_progress),
        ]


def opened_with_keys(folder: DealerFolder) -> AbstractContextManager[OpenDealer]:
    """The dealer in a folder. Ends the command without keys."""
    settings = find_settings(folder)
    _existing(settings.cipher)
    return opened(settings, customers=True)


@contextmanager
def changing_keys(place: KeyPlace) -> Iterator[None]:
    """Locks the keys for a `with` block. Ends the command if another process has the lock."""
    try:
        with place.changing():
            yield
    except BlockingIOError:
        fail("Another process is rotating the keys: try again later")
    except PermissionError:
        where = place.path if isinstance(place, KeyFile) else place.folder
        fail(f"{where} belongs to another user, or its folder is not writable: run this command as the file's owner")


def _of_installation(store: Store, installation: Installation, on_progress: Callable[[int], None]) -> KeyRotation:
    days, place = installation.file.installation.rotate_keys_days, _key_file(installation.directory)
    return KeyRotation(store, store.check_keys(ALL_DEALERS), ALL_DEALERS, place, days, on_progress=on_progress)


@contextmanager
def _with_progress() -> Iterator[Callable[[int], None]]:
    with progress() as bar:
        task = bar.add_task("Encrypting", total=None)
        yield lambda count: bar.update(task, advance=count)


def _key_file(folder: Path) -> KeyFile | None:
    return None if from_environment(os.environ) else KeyFile(folder / KEY_FILE_NAME)


def _rows_of(rotation: KeyRotation) -> Iterator[tuple[Cell, ...]]:
    with rotation.store.read(rotation.dealer_id) as tx:
        used, uses = keys_in_use(tx), key_uses(tx)
    keyring = rotation.cipher.keyring
    owner = "the installation" if rotation.dealer_id == ALL_DEALERS else rotation.dealer_id
    for key_id in keyring.ids:
        use = uses.get(key_id)
        words = _use_text(use, active=key_id == keyring.active)
        yield owner, key_id, words, use.since if use else None, used.get(key_id, 0)


def _source_of(rotations: Sequence[KeyRotation]) -> str:
    """Where the keys come from: the last rotation is that of the keys outside the database."""
    place = rotations[-1].place
    source = place.path if isinstance(place, KeyFile) else KEYS_VARIABLE
    return str(source) if len(rotations) == 1 else f"the database and {source}"


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


def _show_due_date(rotation: KeyRotation) -> None:
    with rotation.store.read(rotation.dealer_id) as tx:
        use = key_uses(tx).get(rotation.cipher.keyring.active)
    if not rotation.days or use is None:
        return
    due, place = use.since + timedelta(days=rotation.days), rotation.place
    if isinstance(place, KeyTable):
        out.print(f"The running service replaces the dealer's key on {due:%Y-%m-%d}.")
    elif place is not None and changeable_key_file(place.path.parent, os.environ) is not None:
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


def _existing(cipher: Cipher | None) -> Cipher:
    if cipher is None:
        fail(
            f"There is no key: put {KEY_FILE_NAME} back from your backup or set {KEYS_VARIABLE}; "
            "for a dealer that has no leads yet, dealer-agent keys create makes a key"
        )
    return cipher


def _drop_lost_key(database_url: str, dealer_id: str) -> None:
    """Ends the command if the database has data that needs a lost key: a new key cannot decrypt it."""
    # Without a database, or with a database that has no keys yet, nothing is encrypted.
    with suppress(DatabaseUnreachable, SchemaOutdated), Store.open(database_url) as store:
        with store.read(dealer_id) as tx:
            used = keys_in_use(tx)
        if used:
            fail(
                f"The database holds customer data under the key {', '.join(sorted(used))}: put the file "
                f"{KEY_FILE_NAME} back from your backup. Without a backup this data cannot be read again: rename the "
                "database (with PostgreSQL, set DATABASE_URL to a new one), create a key, and import the inventory"
            )
        with store.lock(dealer_id) as tx:
            delete_unused_keys(tx)
