"""The process that reads one staged file: in a dry run, or to import it.

It has the limits of an import (`catalogue_loading.child_processes`). Its result is a report beside the file.
"""

from functools import partial
from io import FileIO
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from dealer_agent.feeds.file_jobs import JobDealer, run_file_job
from dealer_agent.feeds.files.checks import FeedFinding, refusals
from dealer_agent.feeds.files.feed import FeedError, ParsedFeed
from dealer_agent.feeds.import_report import ImportReport, report_of
from dealer_agent.feeds.importing import FileImport, ImportResult, import_file
from dealer_agent.feeds.staging.staged_files import StagedFacts, StagedFile
from dealer_agent.storage.errors import FeedRefused
from dealer_agent.storage.stock.feeds import settle_file_problem
from dealer_agent.storage.store import Store

MOST_ROUNDS = 3
"""How often a dry run accepts what refuses the file: without one refusal, other checks may find something."""


class StagedImport(Struct, frozen=True):
    """A staged file, and how it is imported. `accept` are the checks that `accepted_by` accepts, and why.

    `staged_in` is the folder of staged files.
    """

    dealer: JobDealer
    how: FileImport
    staged_in: str
    file_id: str
    facts: StagedFacts
    dry_run: bool
    accept: tuple[str, ...] = ()
    accepted_by: str = ""
    accepted_why: str = ""

    @property
    def staged(self) -> StagedFile:
        """The file."""
        return StagedFile(Path(self.staged_in), self.file_id, self.facts)


def do(job: StagedImport) -> None:
    """Reads or imports the file, and writes the report. Raises one of TEMPORARY, and MemoryError."""
    with job.dealer.open_store() as store:
        try:
            report = _dry_run_report(store, job) if job.dry_run else _import_report(store, job)
        except FeedError as problem:
            report = ImportReport(problem=str(problem))
    job.staged.write_report(report, dry_run=job.dry_run)


def _import_report(store: Store, job: StagedImport) -> ImportReport:
    read: list[ParsedFeed] = []
    try:
        done = _import(store, job, job.accept, read)
    except FeedRefused as refusal:
        return report_of(read[0], None, refusal.findings)
    return report_of(read[0], done)


def _dry_run_report(store: Store, job: StagedImport) -> ImportReport:
    """The report of a dry run. If checks refuse the file, it says what would happen if a person accepted that."""
    refused: dict[str, FeedFinding] = {}
    for _ in range(MOST_ROUNDS):
        read: list[ParsedFeed] = []
        try:
            done = _import(store, job, tuple(refused), read)
        except FeedRefused as refusal:
            if not refused.keys().isdisjoint(finding.check for finding in refusals(refusal.findings)):
                return report_of(read[0], None, refusal.findings)
            refused |= {finding.check: finding for finding in refusals(refusal.findings)}
            findings = refusal.findings
        else:
            report = report_of(read[0], done)
            as_refused = (replace(each, action="refuse") if each.check in refused else each for each in report.findings)
            return replace(report, findings=tuple(as_refused))
    return report_of(read[0], None, findings)


def _import(store: Store, job: StagedImport, accept: tuple[str, ...], read: list[ParsedFeed]) -> ImportResult:
    """Imports the staged file, with the findings that a person accepted. `read` gets the parsed feed for the report."""
    feed = job.how.feed
    return import_file(
        store,
        job.dealer.profile,
        partial(FileIO, job.staged.content),
        job.how,
        accept=accept,
        accepted_by=job.accepted_by,
        accepted_why=job.accepted_why,
        dry_run=job.dry_run,
        on_read=read.append,
        on_commit=lambda tx, _: None if feed is None else settle_file_problem(tx, feed),
    )


if __name__ == "__main__":
    run_file_job(StagedImport, do)
