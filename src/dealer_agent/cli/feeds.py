"""`dealer-agent feeds`: the feeds that are imported without a person."""

import asyncio
from datetime import datetime
from typing import Annotated

import typer
from msgspec import UNSET, to_builtins

from dealer_agent.cli.feed_accounts import host_key, password
from dealer_agent.cli.open_dealer import HERE, DirOption, OpenDealer, open_dealer
from dealer_agent.cli.terminal import JsonOption, fail, limited, out, plain, print_table, section
from dealer_agent.config.feeds import FeedSettings
from dealer_agent.storage.feeds import FEED, FeedState, feed_states, list_files, put_feeds
from dealer_agent.storage.jobs import Job, JobKey

app = typer.Typer(no_args_is_help=True)
app.command("password")(password)
app.command("host-key")(host_key)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of a feed, from `feeds list`.")]
LimitOption = Annotated[int, typer.Option(min=1, max=1000, help="How many, newest first.")]
REFUSED = (
    "A refused file changes nothing. Correct the export, or write a renamed column under [feeds.columns]. If the file"
    " is right, dealer-agent inventory import KEPT-FILE --feed NAME shows the options that accept it."
)
NO_FEEDS = "dealer.toml has no feed: write a section [[feeds]], with its source below it, such as [feeds.folder]."


@app.command("list")
def list_(directory: DirOption = HERE, as_json: JsonOption = False) -> None:
    """List the feeds: state, last file, last import, next fetch, and the last problem."""
    with open_dealer(directory) as dealer:
        states = _states(dealer)
        names = [feed.name for feed in dealer.settings.feeds]
    columns = ("Feed", "Source", "State", "Newest file", "Imported", "Next", "Waiting", "Problem")
    rows = [
        (
            *(each.name, each.source, _word(each)),
            *map(dealer.local, (each.new_at, each.imported_at, _next_fetch(each))),
            *(each.waiting, each.problem),
        )
        for each in (states[name] for name in names)
    ]
    print_table("Feeds", columns, rows, empty=NO_FEEDS, as_json=as_json)


@app.command("show")
def show(name: NameArgument, directory: DirOption = HERE, as_json: JsonOption = False) -> None:
    """Show the settings and the state of a feed."""
    with open_dealer(directory) as dealer:
        feed = feed_named(dealer, name)
        state = _states(dealer)[name]
    columns = (
        *("Feed", "Source", "State", "In settings since", "Checked", "Answered"),
        *("Newest file", "Imported", "Next", "Waiting", "Problem"),
    )
    values = (
        *(state.name, state.source, _word(state)),
        *map(dealer.local, (state.since, state.checked_at, state.succeeded_at)),
        *map(dealer.local, (state.new_at, state.imported_at, _next_fetch(state))),
        *(state.waiting, state.problem),
    )
    if as_json:
        print_table("", columns, [values], as_json=True)
        return
    section(f"Feed {name}", dict(zip(columns, values, strict=True)))
    settings = to_builtins(feed)
    if feed.upload is not UNSET:
        settings["upload"].pop("password_hash", None)
    section("Settings", {key: value for key, value in settings.items() if value not in ([], {})})


@app.command("files")
def files(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Only the files of this feed.")] = None,
    directory: DirOption = HERE,
    limit: LimitOption = 20,
    as_json: JsonOption = False,
) -> None:
    """List the files of the feeds: when each arrived, its result, and why it was refused."""
    with open_dealer(directory) as dealer:
        if name is not None:
            feed_named(dealer, name)
        with dealer.read() as tx:
            found = limited(list_files(tx, name, limit + 1), limit)
        folder = dealer.settings.directory / "feeds"
    columns = ("Feed", "Received", "Name", "Bytes", "State", "Finished", "Revision", "Problem", "Id")
    rows = [
        (
            *(each.feed, dealer.local(each.received_at), each.name, each.size, each.state),
            *(dealer.local(each.finished_at), each.revision, each.problem, each.file_id),
        )
        for each in found
    ]
    print_table("Files", columns, rows, empty="No file has arrived yet.", as_json=as_json)
    if rows and not as_json:
        out.print(f"Files are in {plain(str(folder))}/NAME/kept and NAME/refused. Their names begin with the id.")
    if not as_json and any(each.state == "refused" for each in found):
        out.print(plain(REFUSED))


@app.command("run")
def run(
    name: NameArgument,
    directory: DirOption = HERE,
    again: Annotated[
        bool, typer.Option("--again", help="Fetch and import the file also if it has not changed.")
    ] = False,
) -> None:
    """Fetch a feed now and import its files, whatever its schedule says."""
    # Imported here: the HTTP client takes a moment.
    from dealer_agent.feed_collection.collection import Collected, FeedCollection, feed_rows, import_in_process
    from dealer_agent.feed_collection.collector import feed_kind
    from dealer_agent.jobs.loop import Next, run_job

    with open_dealer(directory) as dealer:
        feed_named(dealer, name)
        with dealer.write() as tx:
            put_feeds(tx, feed_rows(dealer.settings))
        collected: list[Collected] = []

        async def collect(job: Job) -> Next:
            collection = FeedCollection(dealer.store, import_in_process)
            collected.append(await collection.collect(dealer.settings, job, fetches=True, again=again))
            return collected[0].next

        key = JobKey(dealer.profile.id, FEED, name)
        if not asyncio.run(run_job(dealer.store, feed_kind(collect), key)):
            fail(f"Another process works on the feed {name} now; its result will be in dealer-agent feeds files")
        (done,) = collected
        for file in done.files:
            out.print(f"{plain(file.name)}: {file.state}{f'. {plain(file.problem)}' if file.problem else ''}")
        if done.problem is not None:
            fail(f"The feed {name}: {done.problem}")
        if not done.files:
            out.print("Nothing new.")
        if any(file.state in ("refused", "failed") for file in done.files):
            raise typer.Exit(1)


def feed_named(dealer: OpenDealer, name: str, option: str = "NAME") -> FeedSettings:
    """A feed of the settings. Raises BadParameter, about the option, for another name."""
    known = {feed.name: feed for feed in dealer.settings.feeds}
    if name not in known:
        named = f"The feeds are: {', '.join(known)}." if known else NO_FEEDS
        raise typer.BadParameter(f"{name!r} is no feed. {named}", param_hint=option)
    return known[name]


def _states(dealer: OpenDealer) -> dict[str, FeedState]:
    """The states of the feeds by name. A feed that no process has seen yet has an empty state."""
    with dealer.read() as tx:
        found = {state.name: state for state in feed_states(tx)}
        return {
            feed.name: found.get(feed.name)
            or FeedState(feed.name, feed.source, tx.now, tx.now, None, None, None, None, None, is_late=False, waiting=0)
            for feed in dealer.settings.feeds
        }


def _next_fetch(state: FeedState) -> datetime | None:
    """When files are fetched next; None for a feed whose files are uploaded."""
    return None if state.source == "upload" else state.next_at


def _word(state: FeedState) -> str:
    if state.problem is not None:
        return "problem"
    if state.is_late:
        return "late"
    return "ok" if state.checked_at or state.new_at else "new"
