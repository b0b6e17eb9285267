"""Deletes the files of dealers that were removed from an installation. Every machine does it for its own files.

A process that was stopped may write a file after the removal. So it is repeated, and not only done at the removal.
"""

import os
import re
import shutil
from collections.abc import Container
from contextlib import suppress
from pathlib import Path

from dealer_agent.config.installation import DEALERS, SNAPSHOTS
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.storage.registration import removed_dealers, was_removed
from dealer_agent.storage.store import Store

_BEING_DELETED = ".removed."
"""The beginning of the name of a folder that is being deleted. No id of a dealer begins with a dot."""

_ID = re.compile(r"[a-z0-9][a-z0-9-]*")


def delete_files_of_removed(store: Store, directory: Path, served: Container[str] = frozenset()) -> None:
    """Deletes the folder and the snapshot of each removed dealer of the installation in `directory`.

    The database must have a record of the removal. So nothing is deleted if it cannot be reached, is empty, or has
    never had the dealer. The dealers in `served` are there. Raises StorageError and OSError.
    """
    folders = directory / DEALERS
    if not folders.is_dir():
        return
    found = {entry.name for entry in os.scandir(folders) if entry.name not in served and _ID.fullmatch(entry.name)}
    if found:
        with store.installation() as everything:
            found &= removed_dealers(everything)
    for dealer_id in sorted(found):
        # Nobody can add the dealer again meanwhile.
        with store.registration(dealer_id) as tx, suppress(FileNotFoundError):
            if was_removed(tx):
                (folders / dealer_id).rename(folders / f"{_BEING_DELETED}{dealer_id}.{new_ulid()}")
        for snapshot in (directory / SNAPSHOTS).glob(f"{dealer_id}.*"):
            snapshot.unlink(missing_ok=True)
    for folder in folders.glob(f"{_BEING_DELETED}*"):
        # Another process of this machine may delete it too.
        with suppress(FileNotFoundError):
            shutil.rmtree(folder)
