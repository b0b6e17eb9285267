"""Restores a backup into a new folder, and a PostgreSQL database into an empty one.

A backup may come from a stranger. What is believed of it is documented in docs/how-to/backup.md: with a key of the
service, only what that service has signed; without one, only values for the columns of known tables, and three kinds of
files.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Connection, select

from dealer_agent.config.installation import FILE_NAME as INSTALLATION_FILE
from dealer_agent.config.keys import (
    KEY_FILE_NAME,
    KEYS_VARIABLE,
    KeyFile,
    create_key_file,
    from_environment,
    load_cipher,
)
from dealer_agent.config.loading import DATABASE_FILE, FILE_NAME
from dealer_agent.config.settings_problems import SettingsError
from dealer_agent.encryption import Cipher, InvalidKeys, Keyring
from dealer_agent.encryption.private_files import sync_folder
from dealer_agent.operations import BackupUnreadable, OperationError
from dealer_agent.operations.backup import has_heads
from dealer_agent.operations.backup_file import (
    TABLES_FOLDER,
    Manifest,
    Progress,
    open_keys,
    read_manifest,
    unpack,
    verify,
)
from dealer_agent.operations.database_copy import restore_database
from dealer_agent.storage.database_roles import ADMIN_VARIABLE
from dealer_agent.storage.deliveries.outbox import suspend_deliveries
from dealer_agent.storage.migrate import known_revisions, migrate_connection
from dealer_agent.storage.schema import FIRST_SCHEMA_VERSION, SCHEMA_VERSION, outbox
from dealer_agent.storage.transaction import OneCipher, Transaction

UNFINISHED = ".unfinished"
HELD = "held after a restore: `dealer-agent deliveries retry` with its id, or with --all, sends it"
HOST_KEY_BEGIN = b"-----BEGIN OPENSSH PRIVATE KEY-----"
MAX_GROWTH = {"sqlite": 3, "postgresql": 1}
"""The free disk space that a restore needs, as a multiple of the backup: its files, the database, and its log."""

LIST_DEALERS = select(outbox.c.dealer_id).distinct().order_by(outbox.c.dealer_id)


@dataclass(frozen=True)
class Backup:
    """A backup that may be restored. `keyring` has verified it; None if nobody has, and the caller wants it so.

    With `brings_keys`, the keys are in the backup or in a file of that day, and the new folder gets them.
    """

    path: Path
    manifest: Manifest
    keyring: Keyring | None
    brings_keys: bool


def open_backup(
    path: Path,
    env: Mapping[str, str],
    ask_passphrase: Callable[[], str],
    key_file: Path | None = None,
    *,
    unverified: bool = False,
) -> Backup:
    """Reads the manifest of a backup, and verifies it with the keys.

    They are in the backup, encrypted with a passphrase; else in `key_file`; else in the environment. Without keys,
    nothing more is read unless the caller wants it `unverified`. Raises BackupUnreadable, SettingsError and OSError.
    """
    manifest = read_manifest(path)
    if manifest.sealed_keys is not None:
        keyring: Keyring | None = open_keys(manifest.sealed_keys, ask_passphrase())
    elif key_file is not None:
        try:
            keyring = KeyFile(key_file).read()
        except InvalidKeys as problem:
            raise SettingsError(f"{key_file}: {problem}") from None
    else:
        cipher = load_cipher(Path(), env) if from_environment(env) else None
        keyring = None if cipher is None else cipher.keyring
    if keyring is not None:
        verify(manifest, Cipher(keyring))
    elif not unverified:
        named = f"the key {manifest.keys[0]}" if manifest.keys else "a key"
        raise BackupUnreadable(
            f"nobody can tell here who made this backup, because that needs {named}: give the key file of that day "
            f"with --keys FILE, or set {KEYS_VARIABLE}; if you know where the backup comes from, give --unverified"
        )
    return Backup(path, manifest, keyring, manifest.sealed_keys is not None or key_file is not None)


def restore_backup(
    backup: Backup,
    target: Path,
    env: Mapping[str, str],
    *,
    hold: bool,
    on_unpack: Progress,
    on_insert: Progress,
) -> int | None:
    """Restores a backup into `target`, which does not exist or is an empty folder. It appears when it is complete.

    With `hold`, deliveries that wait become undeliverable, and their number is returned. Raises BackupUnreadable,
    OperationError, OSError and any StorageError.
    """
    manifest, target = backup.manifest, target.resolve()
    admin_url = env.get(ADMIN_VARIABLE)
    _require_possible(manifest, target, admin_url)
    with new_folder(target) as folder:
        unpack(backup.path, folder, manifest, on_unpack)
        _require_known_content(manifest, folder)
        if backup.brings_keys:
            create_key_file(folder, backup.keyring)
        url = f"sqlite:///{folder / DATABASE_FILE}" if manifest.database == "sqlite" else str(admin_url)
        held = restore_database(url, manifest, folder, on_insert, _suspend_deliveries if hold else lambda _: None)
        shutil.rmtree(folder / TABLES_FOLDER)
    return held


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """A private folder for a `with` block, which becomes `target` at its end. If the block fails, nothing is left.

    An empty `target` may be a mounted disk, which cannot be replaced. Then the files move into it, the settings last.
    """
    is_there = target.exists()
    folder = target / UNFINISHED if is_there else target.with_name(f".{target.name}{UNFINISHED}")
    target.parent.mkdir(parents=True, exist_ok=True)
    if folder.exists():  # A killed command left it.
        shutil.rmtree(folder)
    folder.mkdir(mode=0o700)
    try:
        yield folder
        sync_folder(folder)
        if is_there:
            target.chmod(0o700)
            for path in sorted(folder.iterdir(), key=lambda path: path.suffix == ".toml"):
                path.rename(target / path.name)
            folder.rmdir()
            sync_folder(target)
        else:
            folder.rename(target)
            sync_folder(target.parent)
    except BaseException:
        shutil.rmtree(folder)
        raise


def _require_possible(manifest: Manifest, target: Path, admin_url: str | None) -> None:
    """Raises OperationError or BackupUnreadable before anything is written, if the backup cannot be restored."""
    if target.exists() and (not target.is_dir() or {path.name for path in target.iterdir()} - {UNFINISHED}):
        raise OperationError(f"{target} is not empty: name a new folder")
    if manifest.schema not in known_revisions():
        raise BackupUnreadable(
            f"the backup has a database with schema {manifest.schema}, and this version knows {FIRST_SCHEMA_VERSION} "
            f"to {SCHEMA_VERSION}: restore it with version {manifest.version} of dealer-agent, which made it"
        )
    names = {each.name for each in manifest.files}
    needed = {settings_name(manifest), *(table.file for table in manifest.tables)}
    if not needed <= names or not manifest.tables:
        missing = ", ".join(sorted(needed - names)[:10]) or "the tables of its database"
        raise BackupUnreadable(f"the backup lacks {missing}: use another backup")
    if manifest.database == "postgresql" and admin_url is None:
        raise OperationError(
            f"the backup is of a PostgreSQL database: create an empty one (createdb NAME), and set {ADMIN_VARIABLE} to "
            "its URL, with a user who may create roles and tables, such as postgresql://postgres@HOST/NAME"
        )
    size = MAX_GROWTH[manifest.database] * sum(each.size for each in manifest.files)
    free = shutil.disk_usage(_existing(target)).free
    if size > free:
        raise OperationError(f"the disk of {target} has {free:,} free bytes, and the backup needs {size:,}: make room")


def settings_name(manifest: Manifest) -> str:
    """The name of the file with the settings."""
    return FILE_NAME if manifest.kind == "dealer" else INSTALLATION_FILE


def _require_known_content(manifest: Manifest, folder: Path) -> None:
    """Raises BackupUnreadable for a file that is neither the settings, a table, recorded heads nor a host key."""
    reserved = (KEY_FILE_NAME, FILE_NAME, INSTALLATION_FILE, DATABASE_FILE, TABLES_FOLDER)
    for name in {each.name for each in manifest.files} - {table.file for table in manifest.tables}:
        if name == settings_name(manifest):
            continue
        path = folder / name
        with path.open("rb") as file:
            is_host_key = file.read(len(HOST_KEY_BEGIN)) == HOST_KEY_BEGIN
        if name.startswith(reserved) or not (is_host_key or has_heads(path)):
            raise BackupUnreadable(
                f"the backup has a file that no backup of dealer-agent has ({name}): use another backup"
            )


def _existing(path: Path) -> Path:
    """The path, or its nearest parent that exists."""
    return next(each for each in (path, *path.absolute().parents) if each.exists())


def _suspend_deliveries(connection: Connection) -> int:
    """Migrates a restored database, and holds its waiting deliveries back. Returns their number."""
    migrate_connection(connection)
    held = 0
    for dealer_id in connection.execute(LIST_DEALERS).scalars().all():
        held += suspend_deliveries(Transaction(connection, dealer_id, datetime.now(UTC), OneCipher(None)), HELD)
    return held
