"""Restores a backup into a new folder, and a PostgreSQL database into an empty one."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dealer_agent.config.keys import create_key_file, sync_directory
from dealer_agent.config.loading import FILE_NAME, read_dealer_file, read_text
from dealer_agent.operations.backup import DUMP_NAME, KEYS_NAME, SQLITE_NAME
from dealer_agent.operations.backup_file import Manifest, Progress, read_manifest, unpack
from dealer_agent.operations.backup_key import MOST_BYTES, open_keys
from dealer_agent.operations.database_copy import ADMIN_VARIABLE, has_pg_restore, restore_postgresql
from dealer_agent.operations.errors import BackupUnreadable, OperationError
from dealer_agent.storage.dealer_registry import all_dealers
from dealer_agent.storage.migrate import migrate
from dealer_agent.storage.outbox import hold_deliveries
from dealer_agent.storage.schema import FIRST_REVISION, SCHEMA_REVISION
from dealer_agent.storage.store import Store

UNFINISHED = ".restoring"
HELD = "held after a restore: `dealer-agent deliveries retry` sends it"


@dataclass(frozen=True)
class Restored:
    """A restored backup. `held` counts the deliveries that are parked now; None if they were left as they were.

    `has_database` is False if a PostgreSQL database is still to be restored from the file `DUMP_NAME`.
    """

    manifest: Manifest
    has_database: bool
    held: int | None


def restore_backup(
    path: Path,
    target: Path,
    *,
    env: Mapping[str, str],
    passphrase: str | None = None,
    hold: bool = False,
    on_progress: Progress = lambda *_: None,
) -> Restored:
    """Restores a backup into `target`, which does not exist or is an empty folder. It appears when it is complete.

    The passphrase opens the keys in the backup. With `hold`, deliveries that wait are parked. Raises BackupUnreadable,
    OperationError, OSError and any StorageError.
    """
    manifest, target = read_manifest(path), target.resolve()
    admin_url = env.get(ADMIN_VARIABLE)
    to_server = manifest.database == "postgresql" and admin_url is not None and has_pg_restore()
    _require_possible(manifest, target, hold=hold, has_database=manifest.database == "sqlite" or to_server)
    with _new_folder(target) as folder:
        unpack(path, folder, on_progress)
        if manifest.has_keys:
            _unpack_keys(folder, passphrase or "")
        url = f"sqlite:///{folder / SQLITE_NAME}"
        if to_server and admin_url is not None:
            url = admin_url
            restore_postgresql(admin_url, folder / DUMP_NAME)
            (folder / DUMP_NAME).unlink()
        held = _hold(url, folder) if hold else None
    return Restored(manifest, not (target / DUMP_NAME).exists(), held)


@contextmanager
def _new_folder(target: Path) -> Iterator[Path]:
    """A private folder for a `with` block, which becomes `target` at its end. If the block fails, nothing is left.

    An empty `target` may be a mounted disk, which cannot be replaced. Then the files move into it, the settings last.
    """
    is_there = target.exists()
    folder = target / UNFINISHED if is_there else target.with_name(f".{target.name}{UNFINISHED}")
    target.parent.mkdir(parents=True, exist_ok=True)
    if folder.exists():  # A killed restore left it.
        shutil.rmtree(folder)
    folder.mkdir(mode=0o700)
    try:
        yield folder
        sync_directory(folder)
        if is_there:
            target.chmod(0o700)
            for path in sorted(folder.iterdir(), key=lambda path: path.suffix == ".toml"):
                path.rename(target / path.name)
            folder.rmdir()
            sync_directory(target)
        else:
            folder.rename(target)
            sync_directory(target.parent)
    except BaseException:
        shutil.rmtree(folder)
        raise


def _require_possible(manifest: Manifest, target: Path, *, hold: bool, has_database: bool) -> None:
    if target.exists() and (not target.is_dir() or {path.name for path in target.iterdir()} - {UNFINISHED}):
        raise OperationError(f"{target} is not empty: name a new folder")
    if not FIRST_REVISION <= manifest.schema <= SCHEMA_REVISION:
        raise BackupUnreadable(
            f"the backup has a database with schema {manifest.schema}, and this version knows {FIRST_REVISION} to "
            f"{SCHEMA_REVISION}: restore it with version {manifest.version} of dealer-agent, which made it"
        )
    names = {each.name for each in manifest.files}
    needed = {SQLITE_NAME if manifest.database == "sqlite" else DUMP_NAME} | (
        {KEYS_NAME} if manifest.has_keys else set()
    )
    if not needed <= names:
        raise BackupUnreadable(f"the backup lacks {', '.join(sorted(needed - names))}: use another backup")
    if hold and not has_database:
        raise OperationError(
            f"deliveries can be held only in a database that this command restores: set {ADMIN_VARIABLE} to an empty "
            "database, and install pg_restore (on Debian and Ubuntu: apt-get install postgresql-client)"
        )
    size, free = sum(each.size for each in manifest.files), shutil.disk_usage(_existing(target)).free
    if size > free:
        raise OperationError(f"the disk of {target} has {free:,} free bytes, and the backup needs {size:,}: make room")


def _existing(path: Path) -> Path:
    """The path, or its nearest parent that exists."""
    return next(each for each in (path, *path.absolute().parents) if each.exists())


def _unpack_keys(folder: Path, passphrase: str) -> None:
    sealed = folder / KEYS_NAME
    if sealed.stat().st_size > MOST_BYTES:
        raise BackupUnreadable("the encrypted keys in the backup are too large: dealer-agent did not make it")
    create_key_file(folder, open_keys(sealed.read_bytes(), passphrase))
    sealed.unlink()


def _hold(url: str, folder: Path) -> int:
    migrate(url)
    settings = folder / FILE_NAME
    with Store.open(url) as store:
        if settings.exists():
            dealers = [read_dealer_file(read_text(settings)).id]
        else:
            with store.installation() as everything:
                dealers = [dealer.dealer_id for dealer in all_dealers(everything)]
        held = 0
        for dealer_id in dealers:
            with store.write(dealer_id) as tx:
                held += hold_deliveries(tx, HELD)
    return held
