"""`dealer-agent record`: what agents were answered about a unit at a time, all of its changes, and whole replies."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dealer_agent.cli.command import command, newest
from dealer_agent.cli.open_dealer import DEALER
from dealer_agent.cli.tables import Table
from dealer_agent.cli.terminal import err, limited, out, plain, section
from dealer_agent.open_installation import OpenDealer

if TYPE_CHECKING:
    from dealer_agent.operations.stock_record import RecordedAnswer, RecordedChange

app = typer.Typer(no_args_is_help=True)

MOST_REPLIES = 10_000
"""The most replies that one call lists."""

UnitArgument = Annotated[str, typer.Argument(metavar="UNIT", help="Its VIN, stock number or vehicle id.")]


@command(app, "price", DEALER)
def price(
    dealer: OpenDealer,
    unit: UnitArgument,
    at: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="When, such as 2026-11-20T14:00. Without an offset from UTC, on the clock of the dealer.",
        ),
    ],
) -> dict[str, Any]:
    """Show what agents were answered about a unit at a time: price, fees, condition, and the import that made them.

    The dealer's settings are not in the record: rooftops, fees and the meaning of the price are those of now.
    """
    # Imported here: `--help` needs no catalogue.
    from dealer_agent.operations.stock_record import answer_at

    moment = _moment(dealer, at)
    with dealer.read() as tx:
        answer = answer_at(tx, dealer.profile, unit.strip(), moment)
    out.print(_sentence(dealer, answer, moment))
    document = {
        "vehicle_id": answer.vehicle_id,
        "at": dealer.local(moment),
        "answer": answer.answer.replace(" ", "_"),
        "listing": None if answer.change is None else answer.change.listing,
        "made_by": _shown(dealer, answer.change),
        "next_change": _shown(dealer, answer.following),
        "record_begins": dealer.local(answer.begins),
    }
    for title, name in (("Agents were answered", "listing"), ("Made by", "made_by"), ("Next change", "next_change")):
        if document[name] is not None:
            section(title, document[name])
    return document


@command(app, "history", DEALER)
def history(dealer: OpenDealer, unit: UnitArgument) -> Table:
    """List the changes of a unit: when it arrived, changed, left and came back, and what agents were answered."""
    from dealer_agent.operations.stock_record import PRICED, changes_of

    with dealer.read() as tx:
        vehicle_id, changes = changes_of(tx, dealer.profile, unit.strip())
    shown = [name for name in PRICED if name != "fees"]
    rows = [
        (
            dealer.local(each.made_by.at),
            each.action,
            *((each.listing or {}).get(name) for name in shown),
            *(each.made_by.feed, each.made_by.source, each.made_by.revision),
            (each.listing or {}).get("fees"),
        )
        for each in changes
    ]
    titles = ("At", "Change", *(name.replace("_", " ").capitalize() for name in shown), "Feed", "File", "Revision")
    return Table(f"Changes of {plain(vehicle_id)}", titles, rows, only_json=("Fees",))


@command(app, "replies", DEALER)
def replies(dealer: OpenDealer, limit: Annotated[int, newest(MOST_REPLIES)] = 50) -> Table:
    """List the newest recorded replies: when, to whom, and the id from which `record reply` makes it again."""
    from dealer_agent.operations import OperationError
    from dealer_agent.storage.stock.recorded_replies import newest_replies

    try:
        with dealer.read() as tx:
            recorded = newest_replies(tx, limit + 1)
    except ValueError as problem:
        raise OperationError(str(problem)) from None
    return Table.of(
        "Recorded replies",
        {
            "At": "at",
            "Skill": "row.skill",
            "Class": "row.caller_class",
            "Caller": lambda reply: reply.row.identity or None,
            "Binding": "row.binding",
            "Version": lambda reply: reply.row.version or None,
            "Revision": "revision",
            "Id": "row.reply_id",
        },
        limited(recorded, limit),
        dealer.local,
        empty="No replies are recorded. To record them, write replies = true under [record] in dealer.toml.",
    )


@command(app, "reply", DEALER)
def reply(
    dealer: OpenDealer,
    reply_id: Annotated[str, typer.Argument(metavar="ID", help="The messageId of the reply.")],
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A new file for the bytes; by default they are printed.")
    ] = None,
) -> None:
    """Make a recorded reply again, from the stock and the settings of its time, and print the same bytes.

    If they would be other bytes, it prints none, says so, and ends with exit code 1.
    """
    from dealer_agent.operations.replies import RecordedReplies

    repeated = RecordedReplies(dealer.store, dealer.profile.id).make(reply_id.strip())
    if output is None:
        sys.stdout.buffer.write(repeated.body)
        sys.stdout.buffer.flush()
    else:
        with output.open("xb") as file:
            file.write(repeated.body)
    row, at = repeated.recorded.row, dealer.local(repeated.recorded.at)
    who = plain(row.identity or f"{row.caller_class} caller")
    err.print(f"{row.skill} answered {who} on {at:%Y-%m-%d %H:%M:%S %Z}; SHA-256 {repeated.sha256}")


def _moment(dealer: OpenDealer, text: str) -> datetime:
    """A time of the past. Raises BadParameter."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a time; write one such as 2026-11-20T14:00", param_hint="--at"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=dealer.local(datetime.now(UTC)).tzinfo)
    if moment > datetime.now(UTC):
        raise typer.BadParameter(f"{text} is in the future; give a time of the past", param_hint="--at")
    return moment


def _sentence(dealer: OpenDealer, answer: "RecordedAnswer", at: datetime) -> str:
    """What the answer means, for a person."""
    name, when = plain(answer.vehicle_id), f"{dealer.local(at):%Y-%m-%d %H:%M:%S %Z}"
    match answer.answer:
        case "in stock":
            return f"{name} was in stock on {when}."
        case "sold":
            return f"{name} was sold, or had left the stock, on {when}."
        case "not in stock":
            return f"{name} was not in stock yet on {when}."
    begins = dealer.local(answer.begins)
    assert begins is not None, "something was imported before"
    return f"The record does not have this time: it begins on {begins:%Y-%m-%d %H:%M:%S %Z}, and {when} is earlier."


def _shown(dealer: OpenDealer, change: "RecordedChange | None") -> dict[str, Any] | None:
    """A change as a JSON object."""
    if change is None:
        return None
    origin = change.made_by
    return {
        "change": change.action,
        "at": dealer.local(origin.at),
        "feed": origin.feed,
        "file": origin.source,
        "kind": origin.kind,
        "revision": origin.revision,
        "listing": change.listing,
    }
