"""The process that imports one file of a feed.

A large file takes a minute of processor time and much memory, which the process that answers requests must not spend.
The result is in the database: the transaction that makes the new stock current also finishes the file. So a file is
imported once, also after a kill. Without a result, the file is still waiting and the job is done again. But if the
process dies at one of its limits, the process that started it refuses the file.
"""

import os
from functools import partial
from io import FileIO
from pathlib import Path

from msgspec import Struct

from dealer_agent.catalogue_loading.child_processes import limit_process, memory_limit_ends_process, run_job
from dealer_agent.config import SettingsError
from dealer_agent.config.keys import load_cipher
from dealer_agent.dealers.profile import Profile
from dealer_agent.encryption import EncryptionError
from dealer_agent.feeds.files.feed import FeedError
from dealer_agent.feeds.importing import FileImport, import_file, record_unreadable
from dealer_agent.storage.errors import FeedRefused, StorageError
from dealer_agent.storage.stock.feeds import ClaimedFeed, FeedFile, FileState, finish_file
from dealer_agent.storage.store import Store

LONGEST_PROBLEM = 1000


class ImportJob(Struct, frozen=True):
    """The file of a feed, how it is imported, and the lease of the process that starts the job.

    `folder` has the keys: it is the folder of the dealer's installation if `is_installation`, else that of the dealer.
    """

    database_url: str
    folder: str
    is_installation: bool
    profile: Profile
    how: FileImport
    feed: ClaimedFeed
    file: FeedFile
    path: str


def do_within_limits(job: ImportJob) -> None:
    """As `do`, in a process that has limits from now on."""
    with memory_limit_ends_process():
        limit_process()
        do(job)


TEMPORARY = (StorageError, SettingsError, EncryptionError, OSError)
"""The errors of `do` whose reason is not in the file."""


def words_of(problem: Exception) -> str:
    """What to tell the dealer about one of the errors TEMPORARY."""
    if isinstance(problem, OSError):
        return f"the file cannot be read, or there is no space for temporary files: {problem.strerror}"
    return str(problem)


def do(job: ImportJob) -> None:
    """Imports the file, or stores why not. Raises one of TEMPORARY, and MemoryError."""
    cipher = load_cipher(Path(job.folder), os.environ)
    with Store.open(job.database_url, cipher, many_dealers=job.is_installation) as store:
        try:
            import_file(
                store,
                job.profile,
                partial(FileIO, job.path),
                job.how,
                on_commit=lambda tx, revision: finish_file(tx, job.feed, job.file, "imported", revision=revision),
            )
        except FeedError as problem:
            _finish(store, job, "failed", problem)
        except FeedRefused as problem:
            _finish(store, job, "refused", problem)


def refuse(store: Store, job: ImportJob, problem: FeedError) -> None:
    """Stores in the history of imports that the file cannot be read, and as the result of the file.

    Raises StorageError, also if the file has a result already.
    """
    record_unreadable(store, job.profile, problem, job.how)
    _finish(store, job, "failed", problem)


def _finish(store: Store, job: ImportJob, state: FileState, problem: Exception) -> None:
    with store.write(job.profile.id) as tx:
        finish_file(tx, job.feed, job.file, state, problem=str(problem)[:LONGEST_PROBLEM])


if __name__ == "__main__":
    run_job(ImportJob, do_within_limits, TEMPORARY, words_of)
