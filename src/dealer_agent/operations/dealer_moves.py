"""Moves a dealer between an installation and a folder of its own: settings, keys, heads and all rows, verified."""

import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from dealer_agent.config import load_settings
from dealer_agent.config.installation import DEALERS
from dealer_agent.config.keys import KEYS_VARIABLE, create_key_file
from dealer_agent.config.loading import DATABASE_FILE, FILE_NAME, read_text
from dealer_agent.open_installation import OpenInstallation, delete_files_of_removed
from dealer_agent.operations import OperationError
from dealer_agent.operations.restore import new_folder
from dealer_agent.storage.errors import DealerExists
from dealer_agent.storage.installation.dealer_registry import (
    COPIED,
    add_dealer,
    copy_dealer,
    count_rows,
    damage,
    find_dealer,
    read_settings,
    remove_dealer,
    require_removed,
    set_state,
)
from dealer_agent.storage.migrate import migrate
from dealer_agent.storage.privacy.dealer_keys import change_keyring
from dealer_agent.storage.store import Store

OF_DEALER = {"DATABASE_URL": "DEALER_DATABASE_URL", KEYS_VARIABLE: "DEALER_KEYS"}
"""The variables of a dealer's own service, and those that an import reads for them: it has its own environment."""
SECONDS_TO_NOTICE = 3
"""After this time, no process serves a dealer that was disabled."""

OnRows = Callable[[int, int], object]
"""Gets the number of rows of each part, and the number of all rows."""


def export_dealer(opened: OpenInstallation, dealer_id: str, target: Path, on_rows: OnRows, *, move: bool) -> int:
    """Copies a dealer into a new folder, and returns how many rows it has. Raises OperationError and StorageError.

    With `move`, the dealer is disabled first, and its files are copied too. `remove_moved` deletes it afterwards.
    """
    settings, store = opened.settings_of(dealer_id), opened.store
    if move:
        with store.write(dealer_id) as tx:
            set_state(tx, enabled=False)
        time.sleep(SECONDS_TO_NOTICE)
    if target.exists():
        raise OperationError(f"{target} exists already: name a new folder")
    with new_folder(target) as folder:
        rows = _export(store, dealer_id, settings.heads_file, folder, on_rows)
        if move and settings.folder.is_dir():
            shutil.copytree(settings.folder, folder, dirs_exist_ok=True)
    return rows


def _export(store: Store, dealer_id: str, heads_file: Path, target: Path, on_rows: OnRows) -> int:
    """Copies a dealer of an installation into a folder of its own: settings, keys, rows and recorded heads."""
    _require_whole(store, dealer_id, "in the installation")
    with store.read(dealer_id) as tx:
        document = read_settings(tx, find_dealer(tx).settings_number)
    (target / FILE_NAME).write_bytes(document)
    create_key_file(target, store.check_keys(dealer_id).keyring)
    single = load_settings(target, {})
    migrate(single.database_url)
    with Store.open(single.database_url, single.cipher) as copy:
        rows = _copy_rows(store, copy, dealer_id, on_rows)
        _require_whole(copy, dealer_id, "in the copy")
    _copy_heads(heads_file, single.heads_file)
    return rows


def import_dealer(
    opened: OpenInstallation,
    source: Path,
    env: Mapping[str, str],
    on_rows: OnRows,
    *,
    actor: str,
    listed: bool,
) -> tuple[str, str, int]:
    """Copies the dealer of a folder into the installation. Returns its id, its address and how many rows it has.

    A failure leaves nothing of the dealer. Raises OperationError, SettingsError and StorageError.
    """
    single = load_settings(source, {name: env.get(own, "") for name, own in OF_DEALER.items()})
    dealer_id = single.dealer.id
    text = read_text(source / FILE_NAME)
    if single.cipher is None:
        raise OperationError(
            f"{source} has no keys: put dealer-agent.keys back from your backup, or set {OF_DEALER[KEYS_VARIABLE]}"
        )
    settings, store = opened.installation.dealer_settings(text), opened.store
    with store.read(dealer_id) as tx:
        require_removed(tx)
        if any(count_rows(tx).values()):
            raise DealerExists(f"the database has data of a dealer {dealer_id} already: nothing was changed")
    if not env.get(OF_DEALER["DATABASE_URL"]) and not (source / DATABASE_FILE).exists():
        raise OperationError(
            f"{source} has no {DATABASE_FILE}: set DEALER_DATABASE_URL to the dealer's database; a dealer without"
            f" data is added with: dealer-agent dealers add {source / FILE_NAME}"
        )
    migrate(single.database_url)
    with Store.open(single.database_url, single.cipher) as own:
        _require_whole(own, dealer_id, f"in {source}")
        with store.registration(dealer_id) as tx:
            change_keyring(tx, (), single.cipher.keyring)
            add_dealer(tx, text.encode(), actor=actor, note=f"from {source}", enabled=False, listed=listed)
        try:
            rows = _copy_rows(own, store, dealer_id, on_rows)
            _require_whole(store, dealer_id, "in the installation")
        except BaseException:
            remove_dealer(store, dealer_id)
            raise
    _copy_heads(single.heads_file, settings.heads_file)
    with store.write(dealer_id) as tx:
        set_state(tx, enabled=True)
    return dealer_id, settings.base_url(""), rows


def delete_files(opened: OpenInstallation) -> str | None:
    """Deletes the files of removed dealers on this machine. The services of the installation repeat it.

    Returns a sentence if some files are left.
    """
    try:
        delete_files_of_removed(opened.store, opened.installation.folder)
    except OSError as problem:
        where = opened.installation.folder / DEALERS
        return f"Some files of the dealer are still in {where}: {os.strerror(problem.errno or 0)}. Delete them."
    return None


def _copy_rows(source: Store, target: Store, dealer_id: str, on_rows: OnRows) -> int:
    """Copies the rows, and compares the counts. Returns how many rows."""
    with source.read(dealer_id) as tx:
        expected = count_rows(tx)
    total = sum(expected[table.name] for table in COPIED)
    copy_dealer(source, target, dealer_id, lambda rows: on_rows(rows, total))
    with target.read(dealer_id) as tx:
        found = count_rows(tx)
    different = [table.name for table in COPIED if found[table.name] != expected[table.name]]
    if different:
        changed = ", ".join(different)
        raise OperationError(f"The dealer's data has changed meanwhile ({changed}): stop its service, and try again")
    return sum(found[table.name] for table in COPIED)


def _require_whole(store: Store, dealer_id: str, where: str) -> None:
    with store.read(dealer_id) as tx:
        problem = damage(tx)
    if problem is not None:
        raise OperationError(f"The dealer cannot be copied, because {where} {problem}")


def _copy_heads(source: Path, target: Path) -> None:
    """Copies the file with the recorded heads of the dealer's chains."""
    if source.exists():
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copy2(source, target)
