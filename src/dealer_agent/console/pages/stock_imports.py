"""The imports of a dealer: their history, the feeds, a file that a person drops into the page, and an undo."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from starlette.responses import Response

from dealer_agent.config.feeds import FeedSettings
from dealer_agent.console.requests import ConsoleRequest, not_found, refuse
from dealer_agent.console.words import FILE_IS_BEING_READ, FILE_IS_ELSEWHERE, FILE_IS_GONE
from dealer_agent.feeds.collection.feed_folder import find_refused
from dealer_agent.feeds.files.checks import CHECK_BY_ID, LONGEST_REASON, FeedFinding
from dealer_agent.feeds.files.layouts import LAYOUT_NAMES
from dealer_agent.feeds.importing import FileImport
from dealer_agent.feeds.staging.imports import start_import
from dealer_agent.feeds.staging.staged_files import StagedFacts, StagedFile, find_staged, stage
from dealer_agent.operations.feed_states import state_word, states_of_feeds, warned_feeds
from dealer_agent.operations.stock import counts_of_undo, how_to_import, undo_last_import
from dealer_agent.storage.errors import NothingToUndo
from dealer_agent.storage.stock.feeds import list_files
from dealer_agent.storage.stock.reading import find_import, find_refused_import, import_history, outcome_of

PAGE = 50
MOST_FILES = 50
WAIT_SECONDS = 2.0
"""How long a response waits for a small file to be read. For a larger one, the page looks again."""
_SENTENCES = 3
"""The findings of each import in the list. The page of the import has all."""
_MOST_TEXT = 50_000
"""Characters of the findings on one page."""


class ShownFindings(NamedTuple):
    """Findings within the bounds of a page. `more` are not shown."""

    shown: list[FeedFinding]
    more: int


def history(request: ConsoleRequest) -> Response:
    """Imports, refused files, undos and decisions, the newest first, with what the checks said."""
    with request.dealer.read() as tx:
        records = import_history(tx, PAGE + 1, _before(request.query.get("before", "")))
    entries = [(each, outcome_of(each), _first_findings(each.findings)) for each in records[:PAGE]]
    older = records[PAGE - 1].at.isoformat() if len(records) > PAGE else ""
    return request.page("imports.html", entries=entries, older=older)


def entry(request: ConsoleRequest) -> Response:
    """One entry of the history, with the sentence of every check."""
    name = request.params["entry"]
    with request.dealer.read() as tx:
        is_number = name.isascii() and name.isdigit() and len(name) < 12
        record = find_import(tx, int(name)) if is_number else find_refused_import(tx, name)
    if record is None:
        not_found("The history has no such entry.")
    return request.page(
        "import_entry.html", entry=record, outcome=outcome_of(record), findings=_findings_of_page(record.findings)
    )


def feeds(request: ConsoleRequest) -> Response:
    """The feeds of the settings with their states, and their newest files."""
    warned = warned_feeds(request.dealer)
    states = [(state, state_word(warned, state)) for state in states_of_feeds(request.dealer).values()]
    with request.dealer.read() as tx:
        files = list_files(tx, None, MOST_FILES)
    return request.page("feeds.html", states=states, files=files)


def take_refused(request: ConsoleRequest) -> Response:
    """Stages a file of a feed that was refused, so that a person can look at it and accept it."""
    feed = _feed_of(request, request.text("feed", 100))
    if feed is None:
        not_found("The settings do not have this feed any more. Choose another one.")
    refused = find_refused(request.dealer.settings.folder, feed.name, request.text("file", 100))
    if refused is None:
        refuse(FILE_IS_ELSEWHERE, title="The file is not here")
    with refused.path.open("rb") as content:
        facts = StagedFacts(name=refused.name, by=request.actor, at=request.now, feed=feed.name)
        return _start_dry_run(request, stage(request.dealer.settings.folder, content, facts))


def show_upload(request: ConsoleRequest) -> Response:
    """The form for a feed file."""
    return request.page("import_file.html", feeds=request.dealer.settings.feeds, layouts=LAYOUT_NAMES)


def upload(request: ConsoleRequest) -> Response:
    """Keeps a file that a person dropped into the page, and reads it in a dry run."""
    if request.upload is None:
        refuse("Choose a file first.")
    layout, feed = request.text("layout", 40) or None, _feed_of(request, request.text("feed", 100))
    if layout is not None and layout not in LAYOUT_NAMES:
        refuse("Choose a layout from the list.")
    facts = StagedFacts(
        name=request.upload.name,
        by=request.actor,
        at=request.now,
        feed=None if feed is None else feed.name,
        layout=layout,
        rooftops=tuple(request.form.get("rooftop", ())),
    )
    # Raises for a rooftop that the dealer does not have, before anything is kept.
    how_to_import(request.dealer, facts.name, feed, facts.rooftops, layout)
    return _start_dry_run(request, stage(request.dealer.settings.folder, request.upload.file, facts))


def show_staged(request: ConsoleRequest) -> Response:
    """What the import of a staged file would change, or has changed."""
    staged = _staged(request)
    done, tried = staged.report(dry_run=False), staged.report(dry_run=True)
    report = done or tried
    return request.page(
        "staged_file.html",
        file=staged,
        is_done=done is not None,
        is_busy=staged.is_busy,
        report=report,
        refused=_findings_of_page(report.refused_by if report else ()),
        checks=list(dict.fromkeys(finding.check for finding in report.refused_by)) if report else [],
        warnings=_findings_of_page(report.warnings if report else ()),
        longest_reason=LONGEST_REASON,
    )


def try_again(request: ConsoleRequest) -> Response:
    """Reads a staged file again, after its dry run was interrupted."""
    return _start_dry_run(request, _staged(request))


def import_staged(request: ConsoleRequest) -> Response:
    """Imports a staged file. The checks that refuse it must be accepted by name, with a reason."""
    staged = _staged(request)
    tried = staged.report(dry_run=True)
    if tried is None:
        refuse(FILE_IS_BEING_READ)
    if tried.problem:
        refuse(f"The file cannot be read: {tried.problem}")
    refused = {finding.check for finding in tried.refused_by}
    accepted = refused & {*request.form.get("accept", ())} & CHECK_BY_ID.keys()
    reason = request.text("reason", LONGEST_REASON)
    if accepted != refused:
        refuse("Tick each check whose refusal you accept. Nothing was changed.")
    if refused and not reason:
        refuse("Write down why you accept what the checks found. Nothing was changed.")
    thread = start_import(
        request.dealer,
        staged,
        _import_options(request, staged),
        dry_run=False,
        accept=tuple(sorted(accepted)),
        accepted_by=request.actor,
        accepted_why=reason,
    )
    if thread is not None:
        thread.join(WAIT_SECONDS)
    return request.go("stock", "import", staged.file_id)


def discard(request: ConsoleRequest) -> Response:
    """Deletes a staged file."""
    staged = _staged(request)
    if staged.is_busy:
        refuse(FILE_IS_BEING_READ)
    staged.delete()
    return request.go("stock", "import", said="file-discarded")


def show_undo(request: ConsoleRequest) -> Response:
    """What an undo of the last import would change."""
    try:
        done = undo_last_import(request.dealer, dry_run=True)
    except NothingToUndo as problem:
        return request.page("undo_import.html", undone=None, counts_of={}, problem=str(problem))
    return request.page("undo_import.html", undone=done.undone, counts_of=counts_of_undo(done), problem="")


def undo(request: ConsoleRequest) -> Response:
    """Takes the last import back, if it is still the one that the page showed."""
    revision = request.text("revision", 12)
    if not (revision.isascii() and revision.isdigit()):
        refuse("Open the page again: it says which import would be undone.")
    undo_last_import(request.dealer, revision=int(revision), dry_run=False)
    return request.go("stock", "history", said="import-undone")


def _start_dry_run(request: ConsoleRequest, staged: StagedFile) -> Response:
    """Starts the dry run, and leads to its page."""
    thread = start_import(request.dealer, staged, _import_options(request, staged), dry_run=True)
    if thread is not None:
        thread.join(WAIT_SECONDS)
    return request.go("stock", "import", staged.file_id)


def _import_options(request: ConsoleRequest, staged: StagedFile) -> FileImport:
    facts = staged.facts
    feed = _feed_of(request, facts.feed or "")
    return how_to_import(request.dealer, facts.name, feed, facts.rooftops, facts.layout)


def _feed_of(request: ConsoleRequest, name: str) -> FeedSettings | None:
    return next((feed for feed in request.dealer.settings.feeds if feed.name == name), None)


def _staged(request: ConsoleRequest) -> StagedFile:
    """The staged file of the path."""
    staged = find_staged(request.dealer.settings.folder, request.params["file"], request.now)
    if staged is None:
        not_found(FILE_IS_GONE)
    return staged


def _before(text: str) -> datetime | None:
    """The time before which a list begins. None if the query has no valid time."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _first_findings(findings: Iterable[FeedFinding]) -> ShownFindings:
    """The first findings of an import, for a list of imports."""
    listed = list(findings)
    return ShownFindings(listed[:_SENTENCES], max(0, len(listed) - _SENTENCES))


def _findings_of_page(findings: Iterable[FeedFinding]) -> ShownFindings:
    """The findings that fit into a page, with their rows."""
    listed, used = list(findings), 0
    for number, finding in enumerate(listed):
        used += len(finding.sentence) + sum(map(len, finding.rows)) + len(finding.accepted_why)
        if used > _MOST_TEXT:
            return ShownFindings(listed[:number], len(listed) - number)
    return ShownFindings(listed, 0)
