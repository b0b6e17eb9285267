"""Starts the processes that read staged files: one at a time in this process, so that requests have the other cores."""

import threading

import structlog

from dealer_agent.catalogue_loading.child_processes import ChildJob, refusal_of
from dealer_agent.feeds.file_jobs import JobDealer
from dealer_agent.feeds.import_report import ImportReport
from dealer_agent.feeds.importing import FileImport, record_unreadable
from dealer_agent.feeds.staging.import_process import StagedImport
from dealer_agent.feeds.staging.staged_files import Claim, StagedFile, StagingFailed
from dealer_agent.open_installation import OpenDealer
from dealer_agent.storage.errors import StorageError

log = structlog.get_logger()

MOST_STARTED = 8
"""The most imports of this process that run or wait."""
LONGEST_PROBLEM = 1000
_INTERRUPTED = "The import was interrupted. The history says whether the stock has changed. Try again"

_started = threading.BoundedSemaphore(MOST_STARTED)
_one_at_a_time = threading.Lock()


def start_import(
    dealer: OpenDealer,
    staged: StagedFile,
    how: FileImport,
    *,
    dry_run: bool,
    accept: tuple[str, ...] = (),
    accepted_by: str = "",
    accepted_why: str = "",
) -> threading.Thread | None:
    """Reads or imports a staged file in a process of its own. Its report is then beside the file.

    Returns the thread that waits for its end. None if a process works on the file already, or the report is there.
    Raises StagingFailed if too many imports wait, and OSError.
    """
    claim = staged.claim()
    if claim is None:
        return None
    if staged.report(dry_run=dry_run) is not None:
        claim.release()
        return None
    if not _started.acquire(blocking=False):
        claim.release()
        raise StagingFailed("Too many files are being imported now. Try again in a minute")
    job = StagedImport(
        dealer=JobDealer.of(dealer.settings),
        how=how,
        staged_in=str(staged.folder),
        file_id=staged.file_id,
        facts=staged.facts,
        dry_run=dry_run,
        accept=accept,
        accepted_by=accepted_by,
        accepted_why=accepted_why,
    )
    # A daemon: at the end of this process it does not wait for the other one, which then ends too.
    thread = threading.Thread(target=_run, args=(dealer, job, claim), daemon=True, name="staged import")
    thread.start()
    return thread


def _run(dealer: OpenDealer, job: StagedImport, claim: Claim) -> None:
    """Runs the import in a process of its own. If it leaves no report, it writes one with the problem."""
    try:
        with _one_at_a_time:
            code, said = ChildJob().run("dealer_agent.feeds.staging.import_process", job)
        problem = _problem(dealer, job, code, said)
        if problem and job.staged.report(dry_run=job.dry_run) is None:
            job.staged.write_report(ImportReport(problem=problem), dry_run=job.dry_run)
    except OSError as problem:
        # Without a report, the page says that the work was interrupted.
        log.error("staged import failed", dealer=dealer.profile.id, problem=problem.strerror)
    finally:
        _started.release()
        claim.release()


def _problem(dealer: OpenDealer, job: StagedImport, code: int, said: str) -> str:
    """Why there is no report; empty if there is one."""
    if code == 0:
        return ""
    refusal = refusal_of(code)
    if refusal is None:
        log.error("staged import failed", dealer=dealer.profile.id, code=code)
        return said[:1].upper() + said[1:LONGEST_PROBLEM] if code == 1 and said else _INTERRUPTED
    if not job.dry_run:
        try:
            record_unreadable(dealer.store, dealer.profile, refusal, job.how)
        except StorageError as problem:
            log.error("refused file not recorded", dealer=dealer.profile.id, problem=str(problem))
    return str(refusal)
