"""`dealer-agent record`: what agents were answered about a unit at a time, and all of its changes."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dealer_agent.cli.command import command
from dealer_agent.cli.open_dealer import DEALER
from dealer_agent.cli.tables import Table
from dealer_agent.cli.terminal import out, plain, section
from dealer_agent.open_installation import OpenDealer

if TYPE_CHECKING:
    from dealer_agent.operations.stock_record import RecordedAnswer, RecordedChange

app = typer.Typer(no_args_is_help=True)

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
        found = answer_at(tx, dealer.profile, unit.strip(), moment)
    out.print(_sentence(dealer, found, moment))
    document = {
        "vehicle_id": found.vehicle_id,
        "at": dealer.local(moment),
        "answer": found.answer.replace(" ", "_"),
        "listing": None if found.change is None else found.change.listing,
        "made_by": _shown(dealer, found.change),
        "next_change": _shown(dealer, found.following),
        "record_begins": dealer.local(found.begins),
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
        raise typer.BadParameter(f"{text} is in the future", param_hint="--at")
    return moment


def _sentence(dealer: OpenDealer, found: "RecordedAnswer", at: datetime) -> str:
    """What the answer means, for a person."""
    name, when = plain(found.vehicle_id), f"{dealer.local(at):%Y-%m-%d %H:%M:%S %Z}"
    match found.answer:
        case "in stock":
            return f"{name} was in stock on {when}."
        case "sold":
            return f"{name} was sold, or had left the stock, on {when}."
        case "not in stock":
            return f"{name} was not in stock yet on {when}."
    begins = dealer.local(found.begins)
    assert begins is not None, "something was imported before"
    return f"The record does not say: it begins on {begins:%Y-%m-%d %H:%M:%S %Z}, and {when} is earlier."


def _shown(dealer: OpenDealer, change: "RecordedChange | None") -> dict[str, Any] | None:
    """A change as a JSON object."""
    if change is None:
        return None
    made = change.made_by
    return {
        "change": change.action,
        "at": dealer.local(made.at),
        "feed": made.feed,
        "file": made.source,
        "kind": made.kind,
        "revision": made.revision,
        "listing": change.listing,
    }
