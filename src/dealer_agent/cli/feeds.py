"""`dealer-agent feeds`: the feeds that are imported without a person."""

import asyncio
import os
import sys
from functools import partial
from getpass import getpass
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec import UNSET, to_builtins

from dealer_agent.cli.command import FolderOption, command, newest
from dealer_agent.cli.open_dealer import DEALER
from dealer_agent.cli.tables import Columns, Table
from dealer_agent.cli.terminal import counted, fail, limited, out, plain, section
from dealer_agent.config.feeds import FeedSettings
from dealer_agent.config.installation import load_served
from dealer_agent.encryption.passwords import check_new_password, hash_password
from dealer_agent.open_installation import OpenDealer
from dealer_agent.operations.feed_states import state_word, states_of_feeds, warned_feeds
from dealer_agent.storage.jobs import Job, JobKey
from dealer_agent.storage.stock.feeds import FEED, list_files, put_feeds

app = typer.Typer(no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of a feed, from `feeds list`.")]
REFUSED = (
    "A refused file changes nothing. Correct the export, or write a renamed column under [feeds.columns]. If the file"
    " is right, type: dealer-agent inventory import {folder}/NAME/refused/FILE --feed NAME. It is refused again, and"
    " the message names the --accept options that import it. It is deleted after `refused_days` of [feed_files]."
)
NO_FEEDS = "dealer.toml has no feed: write a section [[feeds]], with its source below it, such as [feeds.folder]."


@command(app, "list", DEALER)
def list_(dealer: OpenDealer) -> Table:
    """List the feeds: state, last file, last import, next fetch, and the last problem."""
    columns: Columns = {
        "Feed": "name",
        "Source": "source",
        "State": partial(state_word, warned_feeds(dealer)),
        **_NEWEST,
    }
    return Table.of("Feeds", columns, states_of_feeds(dealer).values(), dealer.local, empty=NO_FEEDS)


@command(app, "show", DEALER)
def show(dealer: OpenDealer, name: NameArgument) -> list[dict[str, Any]]:
    """Show the settings and the state of a feed."""
    feed = feed_named(dealer, name)
    state = states_of_feeds(dealer)[name]
    since = {"In settings since": "since", "Checked": "checked_at", "Answered": "succeeded_at"}
    word = partial(state_word, warned_feeds(dealer))
    columns: Columns = {"Feed": "name", "Source": "source", "State": word, **since, **_NEWEST}
    shown = Table.of("", columns, [state], dealer.local)
    section(f"Feed {name}", shown.facts)
    settings = to_builtins(feed)
    if feed.upload is not UNSET:
        settings["upload"].pop("password_hash", None)
    section("Settings", {key: value for key, value in settings.items() if value not in ([], {})})
    return shown.document


@command(app, "files", DEALER)
def files(
    dealer: OpenDealer,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Only the files of this feed.")] = None,
    limit: Annotated[int, newest(1000)] = 20,
) -> Table:
    """List the files of the feeds: when each arrived, its result, and why it was refused."""
    if name is not None:
        feed_named(dealer, name)
    with dealer.read() as tx:
        records = limited(list_files(tx, name, limit + 1), limit)
    folder = dealer.settings.folder / "feeds"
    columns = {"Feed": "feed", "Received": "received_at", "Name": "name", "Bytes": "size", "State": "state"}
    columns |= {"Finished": "finished_at", "Revision": "revision", "Problem": "problem", "Id": "file_id"}
    notes = [f"Files are in {folder}/NAME/kept and NAME/refused. Their names begin with the id."] if records else []
    notes += [REFUSED.format(folder=folder)] if any(each.state == "refused" for each in records) else []
    return Table.of("Files", columns, records, dealer.local, empty="No file has arrived yet.", notes=notes)


@command(app, "run", DEALER)
def run(
    dealer: OpenDealer,
    name: NameArgument,
    again: Annotated[
        bool, typer.Option("--again", help="Fetch and import the file also if it has not changed.")
    ] = False,
) -> None:
    """Fetch a feed now and import its files, whatever its schedule says."""
    # Imported here: the HTTP client takes a moment.
    from dealer_agent.feeds.collection.collection import CollectionResult, FeedCollection, feed_rows, import_in_process
    from dealer_agent.feeds.collection.collector import feed_kind
    from dealer_agent.jobs.loop import JobResult, run_job

    feed_named(dealer, name)
    with dealer.write() as tx:
        put_feeds(tx, feed_rows(dealer.settings))

    collected: list[CollectionResult] = []

    async def collect(job: Job) -> JobResult:
        collection = FeedCollection(dealer.store, import_in_process)
        collected.append(await collection.collect(dealer.settings, job, fetches=True, again=again))
        return collected[0].next

    key = JobKey(dealer.profile.id, FEED, name)
    if not asyncio.run(run_job(dealer.store, feed_kind(collect), key)):
        fail(f"Another process works on the feed {name} now. To see its result, type: dealer-agent feeds files")
    (done,) = collected
    for file in done.files:
        warnings = done.warnings.get(file.file_id, ())
        state = f"{file.state} with {counted(len(warnings), 'warning')}" if warnings else file.state
        out.print(f"{plain(file.name)}: {state}{f'. {plain(file.problem)}' if file.problem else ''}")
        for finding in warnings:
            out.print(f"  {finding.check}: {plain(finding.sentence)}")
    if done.problem is not None:
        fail(f"The feed {name}: {done.problem}")
    if not done.files:
        out.print("Nothing new.")
    if any(file.state in ("refused", "failed") for file in done.files):
        raise typer.Exit(1)


@command(app, "password")
def password() -> None:
    """Ask for a password, and print its hash for the upload section of a feed.

    Without a terminal, the first line of the input is the password. Nothing is stored.
    """
    chosen = _asked_password() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
    try:
        check_new_password(chosen)
    except ValueError as problem:
        fail(str(problem))
    out.print(f'password_hash = "{hash_password(chosen)}"', soft_wrap=True)


@command(app, "host-key")
def host_key(folder: FolderOption = Path()) -> list[dict[str, Any]]:
    """Show the host key of the SFTP server, and its fingerprint for vendors. A missing key is made."""
    # Imported here: asyncssh takes a moment.
    from dealer_agent.feeds.collection.host_key import fingerprint
    from dealer_agent.feeds.collection.host_key import host_key as read_host_key

    installation = load_served(folder, os.environ)
    path = installation.folder / installation.file.sftp.host_key_file
    key = read_host_key(path)
    public_key = " ".join(key.export_public_key().decode().split()[:2])
    shown = Table("", ("Fingerprint", "Public key", "File"), [(fingerprint(key), public_key, str(path))])
    section("Host key", shown.facts)
    return shown.document


def feed_named(dealer: OpenDealer, name: str, option: str = "NAME") -> FeedSettings:
    """A feed of the settings. Raises BadParameter, about the option, for another name."""
    feeds = {feed.name: feed for feed in dealer.settings.feeds}
    if name not in feeds:
        named = f"The feeds are: {', '.join(feeds)}." if feeds else NO_FEEDS
        raise typer.BadParameter(f"{name!r} is not a feed. {named}", param_hint=option)
    return feeds[name]


_NEWEST: Columns = {
    "Newest file": "new_at",
    "Imported": "imported_at",
    "Next": lambda state: None if state.source == "upload" else state.next_at,
    "Waiting": "waiting",
    "Problem": "problem",
}
"""The columns about the newest file of a feed."""


def _asked_password() -> str:
    chosen = getpass("Password: ")
    if getpass("Again: ") != chosen:
        fail("The two passwords differ: try again")
    return chosen
