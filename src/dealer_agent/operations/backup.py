"""Makes a backup of a service while it runs: settings, database, recorded heads, and on request the keys."""

import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from dealer_agent import __version__
from dealer_agent.config import installation as installation_settings
from dealer_agent.config import load_settings
from dealer_agent.config.installation import load_installation
from dealer_agent.config.keys import sync_directory
from dealer_agent.config.loading import FILE_NAME
from dealer_agent.encryption import Cipher
from dealer_agent.operations.backup_file import FORMAT, Manifest, Progress, is_portable, write_backup
from dealer_agent.operations.backup_key import seal_keys
from dealer_agent.operations.database_copy import ADMIN_VARIABLE, copy_sqlite, dump_postgresql, is_sqlite
from dealer_agent.operations.errors import OperationError
from dealer_agent.storage.chain_heads import MOST_CHARACTERS, Head

SQLITE_NAME = "dealer-agent.db"
DUMP_NAME = "database.dump"
KEYS_NAME = "dealer-agent.keys.encrypted"
HEADS_NAME = "consent-heads.log"
HOST_KEY_NAME = "sftp-host-key"
"""The key that identifies the service's own SFTP server. A new one would make vendors' clients refuse it."""


@dataclass(frozen=True)
class Served:
    """What a folder serves: one dealer, or an installation.

    `heads` are the files with recorded heads, by their names in a backup.
    """

    directory: Path
    kind: Literal["dealer", "installation"]
    settings: Path
    database_url: str
    cipher: Cipher | None
    heads: Mapping[str, Path]


def served_in(directory: Path, env: Mapping[str, str]) -> Served:
    """What a folder serves. Raises SettingsError."""
    settings_file = directory / installation_settings.FILE_NAME
    if settings_file.exists():
        found = load_installation(directory, env)
        heads = dict(_heads_of_dealers(found.directory))
        return Served(found.directory, "installation", settings_file, found.database_url, found.cipher, heads)
    settings = load_settings(directory, env)
    file = settings.heads_file
    name = str(file.relative_to(settings.directory)) if file.is_relative_to(settings.directory) else HEADS_NAME
    heads = {name if is_portable(name) else HEADS_NAME: file} if file.exists() else {}
    return Served(settings.directory, "dealer", directory / FILE_NAME, settings.database_url, settings.cipher, heads)


def _heads_of_dealers(directory: Path) -> Iterator[tuple[str, Path]]:
    """The files with recorded heads in the folders of an installation's dealers."""
    for path in sorted((directory / "dealers").glob("*/*")):
        name = str(path.relative_to(directory))
        if path.is_file() and not path.is_symlink() and is_portable(name) and _has_heads(path):
            yield name, path


def _has_heads(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            Head.parse(file.readline(MOST_CHARACTERS).decode("ascii", "replace"))
        except ValueError:
            return False
    return True


def make_backup(
    served: Served,
    target: Path,
    *,
    now: datetime,
    env: Mapping[str, str],
    passphrase: str | None = None,
    on_copy: Progress = lambda *_: None,
    on_write: Progress = lambda *_: None,
) -> Manifest:
    """Writes a backup to `target`, a new file with mode 0600. With a passphrase, the keys are in it, encrypted.

    `target` appears when it is complete. A backup that is killed leaves a folder beside it, which the next backup to
    this target deletes. Raises OperationError, OSError, SettingsError and any StorageError.
    """
    if os.path.lexists(target):
        raise OperationError(f"{target} is there already: name a new file, for example with the date in its name")
    before = None if served.cipher is None else served.cipher.keyring
    if passphrase is not None and before is None:
        raise OperationError("there are no keys to back up: leave out --with-key")
    with _staging(target) as folder:
        # The heads first: the copy of the database has at least the rows that they count.
        files = {served.settings.name: served.settings}
        for name, path in served.heads.items():
            files[name] = folder / "heads" / name
            files[name].parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, files[name])
        host_key = served.directory / HOST_KEY_NAME
        if host_key.exists():
            files[HOST_KEY_NAME] = host_key
        if is_sqlite(served.database_url):
            files[SQLITE_NAME] = folder / SQLITE_NAME
            schema = copy_sqlite(served.database_url, files[SQLITE_NAME], on_copy)
        else:
            files[DUMP_NAME] = folder / DUMP_NAME
            schema = dump_postgresql(served.database_url, env.get(ADMIN_VARIABLE), files[DUMP_NAME])
        if served.cipher is not None:
            served.cipher.refresh()
            if served.cipher.keyring != before:
                raise OperationError("the keys were rotated while the backup was made: make it again")
        if passphrase is not None and before is not None:
            files[KEYS_NAME] = folder / KEYS_NAME
            files[KEYS_NAME].write_bytes(seal_keys(before, passphrase))
        empty = Manifest(
            format=FORMAT,
            kind=served.kind,
            made_at=now,
            version=__version__,
            database="sqlite" if SQLITE_NAME in files else "postgresql",
            schema=schema,
            keys=() if before is None else before.ids,
            has_keys=passphrase is not None,
        )
        written = folder / "backup.tar"
        manifest = write_backup(written, empty, files, on_write)
        written.rename(target)
        sync_directory(target.parent)
    return manifest


@contextmanager
def _staging(target: Path) -> Iterator[Path]:
    """A private folder beside `target`, deleted at the end. Raises OperationError while another backup uses it."""
    folder = target.with_name(f".{target.name}.partial")
    folder.mkdir(mode=0o700, exist_ok=True)
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for left in folder.iterdir():  # A killed backup left it.
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        yield folder
        shutil.rmtree(folder)
    except BlockingIOError:
        raise OperationError(f"another backup is writing {target}: wait for it, or name another file") from None
    except BaseException:
        shutil.rmtree(folder)
        raise
    finally:
        os.close(lock)
