"""Makes a backup of a service while it runs: settings, database, recorded heads, and on request the keys."""

import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from dealer_agent import __version__
from dealer_agent.config.installation import FILE_NAME as INSTALLATION_FILE
from dealer_agent.config.installation import Installation
from dealer_agent.config.loading import FILE_NAME
from dealer_agent.encryption.private_files import sync_folder
from dealer_agent.operations import OperationError
from dealer_agent.operations.backup_file import (
    FORMAT,
    TABLES_FOLDER,
    Manifest,
    Progress,
    is_portable,
    seal_keys,
    write_backup,
)
from dealer_agent.operations.database_copy import copy_database
from dealer_agent.storage.database_roles import ADMIN_VARIABLE
from dealer_agent.storage.database_url import is_sqlite
from dealer_agent.storage.privacy.event_chain import MOST_CHARACTERS, Head

UNFINISHED = ".dealer-agent-backup"
"""The end of the name of a folder with the files of an unfinished backup."""
HEADS_NAME = "consent-heads.log"
HOST_KEY_NAME = "sftp-host-key"


def _small_files(served: Installation) -> dict[str, Path]:
    """The settings, the recorded heads and the host key, by their names in a backup.

    The host key identifies the service's own SFTP server: vendors' clients would refuse a new one.
    """
    folder, only = served.folder, served.only
    if only is None:
        files = {INSTALLATION_FILE: folder / INSTALLATION_FILE, **dict(_heads_of_dealers(folder))}
    else:
        files = {FILE_NAME: folder / FILE_NAME}
        # The service makes the file before it has written a head.
        if only.heads_file.exists() and has_heads(only.heads_file):
            files[_name_of(only.heads_file, folder, HEADS_NAME)] = only.heads_file
    if (host_key := folder / served.file.sftp.host_key_file).exists():
        files[_name_of(host_key, folder, HOST_KEY_NAME)] = host_key
    return files


def _name_of(path: Path, folder: Path, name: str) -> str:
    """The name of a file in a backup: its path in the folder. A file outside of the folder has the name `name`."""
    relative = str(path.relative_to(folder)) if path.is_relative_to(folder) else ""
    return relative if is_portable(relative) else name


def _heads_of_dealers(folder: Path) -> Iterator[tuple[str, Path]]:
    """The files with recorded heads in the folders of an installation's dealers."""
    for path in sorted((folder / "dealers").glob("*/*")):
        name = str(path.relative_to(folder))
        if path.is_file() and not path.is_symlink() and is_portable(name) and has_heads(path):
            yield name, path


def has_heads(path: Path) -> bool:
    """Whether a file begins with a recorded head."""
    with path.open("rb") as file:
        try:
            Head.parse(file.readline(MOST_CHARACTERS).decode("ascii", "replace"))
        except ValueError:
            return False
    return True


def make_backup(
    served: Installation,
    target: Path,
    *,
    now: datetime,
    env: Mapping[str, str],
    passphrase: str | None,
    on_copy: Progress,
    on_write: Progress,
) -> Manifest:
    """Writes a backup to `target`, a new file with mode 0600. With a passphrase, the keys are in it, encrypted.

    `target` appears when it is complete. A backup that is killed leaves a folder beside it, which the next backup into
    the same folder deletes. Raises OperationError, OSError, SettingsError and any StorageError.
    """
    if os.path.lexists(target):
        raise OperationError(f"{target} exists already: name a new file, for example with the date in its name")
    before = None if served.cipher is None else served.cipher.keyring
    if passphrase is not None and before is None:
        raise OperationError("there are no keys to back up: leave out --with-key")
    sealed = None if before is None or passphrase is None else seal_keys(before, passphrase)
    with _staging(target) as folder:
        # The heads first: the copy of the database has at least the rows that they count.
        files = {}
        for name, path in _small_files(served).items():
            files[name] = folder / "copies" / name
            files[name].parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, files[name])
        (folder / TABLES_FOLDER).mkdir()
        schema, tables = copy_database(served.database_url, env.get(ADMIN_VARIABLE), folder, on_copy)
        files |= {table.file: folder / table.file for table in tables}
        if served.cipher is not None:
            served.cipher.refresh()
            if served.cipher.keyring != before:
                raise OperationError("the keys were rotated while the backup was made: make it again")
        empty = Manifest(
            format=FORMAT,
            kind="installation" if served.only is None else "dealer",
            made_at=now,
            version=__version__,
            database="sqlite" if is_sqlite(served.database_url) else "postgresql",
            schema=schema,
            keys=() if before is None else before.ids,
            sealed_keys=sealed,
            tables=tables,
        )
        written = folder / "backup.tar"
        manifest = write_backup(written, empty, files, served.cipher, on_write)
        written.rename(target)
        sync_folder(target.parent)
    return manifest


@contextmanager
def _staging(target: Path) -> Iterator[Path]:
    """A private folder beside `target`, deleted at the end. Raises OperationError while another backup uses it.

    It also deletes the folders that killed backups have left there, whatever their targets were.
    """
    for left in target.parent.glob(f".*{UNFINISHED}"):
        with _locked(left) as is_free:
            if is_free:
                shutil.rmtree(left)
    folder = target.with_name(f".{target.name}{UNFINISHED}")
    folder.mkdir(mode=0o700, exist_ok=True)
    with _locked(folder) as is_free:
        if not is_free:
            raise OperationError(f"another backup is writing {target}: wait for it, or name another file")
        try:
            yield folder
        finally:
            shutil.rmtree(folder)


@contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Whether this process got the lock on a folder, which it has until the end of the block."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
    else:
        yield True
    finally:
        os.close(descriptor)
