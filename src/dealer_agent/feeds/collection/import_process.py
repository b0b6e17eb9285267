"""The process that imports one file of a feed.

The result is in the database: the transaction that makes the new stock current also finishes the file. So a file is
imported once, also after a kill. Without a result, the file is still waiting and the job is done again. But if the
process dies at one of its limits, the process that started it refuses the file.
"""

from functools import partial
from io import FileIO

from msgspec import Struct

from dealer_agent.feeds.file_jobs import JobDealer, run_file_job
from dealer_agent.feeds.files.feed import FeedError
from dealer_agent.feeds.importing import FileImport, import_file, record_unreadable
from dealer_agent.storage.errors import FeedRefused
from dealer_agent.storage.stock.feeds import ClaimedFeed, FeedFile, FileState, finish_file
from dealer_agent.storage.store import Store

LONGEST_PROBLEM = 1000


class ImportJob(Struct, frozen=True):
    """The file of a feed, how it is imported, and the lease of the process that starts the job."""

    dealer: JobDealer
    how: FileImport
    feed: ClaimedFeed
    file: FeedFile
    path: str


def do(job: ImportJob) -> None:
    """Imports the file, or stores why not. Raises one of TEMPORARY, and MemoryError."""
    with job.dealer.open_store() as store:
        try:
            import_file(
                store,
                job.dealer.profile,
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
    record_unreadable(store, job.dealer.profile, problem, job.how)
    _finish(store, job, "failed", problem)


def _finish(store: Store, job: ImportJob, state: FileState, problem: Exception) -> None:
    with store.write(job.dealer.profile.id) as tx:
        finish_file(tx, job.feed, job.file, state, problem=str(problem)[:LONGEST_PROBLEM])


if __name__ == "__main__":
    run_file_job(ImportJob, do)
