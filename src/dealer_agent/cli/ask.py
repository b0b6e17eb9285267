"""`dealer-agent ask`: asks any dealer agent, as a buyer's agent does."""

import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from dealer_agent.cli.ask_session import (
    EXIT_CODES,
    HOLD,
    LEAD,
    QUOTE,
    SEARCH,
    SESSION,
    VEHICLE,
    AskSession,
    Exit,
    show_words,
)
from dealer_agent.cli.command import CommandTarget, command, wrong_use
from dealer_agent.cli.quote_table import amount, quote_table, vehicle_name
from dealer_agent.cli.tables import Columns, Table
from dealer_agent.cli.terminal import counted, err, fail, out, plain
from dealer_agent.client import DealerAgent
from dealer_agent.client.discovery import web_address
from dealer_agent.client.errors import NotADealerAgent
from dealer_agent.client.result import SkippedListing
from dealer_agent.client.results import (
    DealerInformation,
    Facets,
    Hold,
    SearchPage,
    Vehicle,
    VehicleDetail,
)
from dealer_agent.mcp_tools.words import facet_text, readable_time
from dealer_agent.protocol.requests import SORT_FIELDS, Appointment, Customer, VehicleOfInterest
from dealer_agent.protocol.skill import (
    DEALER_INFORMATION,
    INVENTORY_FACETS,
    INVENTORY_SEARCH,
    INVENTORY_VEHICLE,
    LEAD_SUBMIT,
)

app = typer.Typer(no_args_is_help=True, epilog=EXIT_CODES)


def _url(text: str) -> str:
    with wrong_use(error=NotADealerAgent):
        web_address(text)
    return text


@app.callback()
def _ask(
    context: typer.Context,
    url: Annotated[
        str,
        typer.Argument(metavar="URL", callback=_url, help="The address of the dealer agent, or of one of its cards."),
    ],
) -> None:
    """Ask any dealer agent: who it is, what is in stock, what a vehicle costs, to hold one, or to take a lead."""
    context.obj = url


def _skill(name: str, opening: CommandTarget = SESSION) -> Callable[..., Any]:
    return command(app, name, opening, epilog=EXIT_CODES)


@_skill("information")
def information(session: AskSession) -> Any:
    """Show who the dealer is: rooftops, addresses, hours, phone numbers and fees."""
    return session.ask(DEALER_INFORMATION, {}, DealerInformation)


@_skill("facets", SEARCH)
def facets(session: AskSession) -> Any:
    """Show which makes, models, prices and other values are in stock, with the number of vehicles."""
    return session.ask(INVENTORY_FACETS, session.with_filters(), Facets, _print_facets)


def _print_facets(facets: Facets) -> None:
    rows = [(name.replace("_", " "), facet_text(value)) for name, value in facets.to_dict().items()]
    Table("What is in stock", ("Facet", "Values"), rows, empty="No vehicle matches.").show()


def _sort(text: str | None) -> str | None:
    if text is not None and text.removeprefix("-") not in SORT_FIELDS:
        raise typer.BadParameter(f"vehicles can be sorted by {', '.join(SORT_FIELDS)}")
    return text


@_skill("search", SEARCH)
def search(
    session: AskSession,
    sort: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD", callback=_sort, help=f"{', '.join(SORT_FIELDS)}. --sort=-price is the highest price first."
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, max=1000, help="The largest number of vehicles to show. By default the dealer decides."),
    ] = None,
    skip: Annotated[int, typer.Option(min=0, help="The number of vehicles to leave out at the beginning.")] = 0,
    everything: Annotated[bool, typer.Option("--all", help="All vehicles, in as many requests as needed.")] = False,
) -> Any:
    """Search the stock. Without filters, all vehicles match.

    To give a filter several values, repeat the option. A vehicle with one of them matches.
    """
    if everything:
        if limit or skip:
            raise typer.BadParameter("--all gives all vehicles: leave out --limit and --skip.")
        vehicles, skipped = session.run(lambda agent: _search_all(agent, sort, session.given))
        _print_vehicles(vehicles, len(vehicles), 0)
        _print_skipped(skipped)
        return {"total": len(vehicles), "vehicles": [vehicle.to_dict() for vehicle in vehicles]}
    members: dict[str, Any] = {}
    if sort:
        members["sort"] = {"field": sort.removeprefix("-"), "order": "desc" if sort[0] == "-" else "asc"}
    if limit or skip:
        members["pagination"] = {"skip": skip} | ({"limit": limit} if limit else {})
    return session.ask(INVENTORY_SEARCH, session.with_filters(**members), SearchPage, _print_page)


def _print_vehicles(vehicles: Sequence[Vehicle], total: int, skip: int) -> None:
    """A table of search results. `total` counts all matching vehicles."""
    last = skip + len(vehicles)
    title = counted(total, "vehicle") if len(vehicles) == total else f"{skip + 1:,} to {last:,} of {total:,} vehicles"
    Table.of(title, _COLUMNS, vehicles, empty="No vehicle matches.").show()


_COLUMNS: Columns = {
    "Vehicle": vehicle_name,
    "Condition": lambda each: each.condition or None,
    "Price": lambda each: f"${each.price:,}" if isinstance(each.price, int) else None,
    "Miles": lambda each: f"{each.mileage:,}" if isinstance(each.mileage, int) else None,
    "Stock": lambda each: each.stock or None,
    "VIN": lambda each: each.vin or None,
    "Rooftop": "rooftop",
}


def _print_page(page: SearchPage) -> None:
    """Prints the vehicles of a page, and how to get more."""
    skip = page.skip or 0
    _print_vehicles(page.vehicles, page.total, skip)
    _print_skipped(page.skipped)
    if skip + len(page.vehicles) < page.total:
        err.print("For more, give --all, or a higher --limit or --skip.")


def _print_skipped(skipped: Sequence[SkippedListing]) -> None:
    if skipped:
        err.print(f"{counted(len(skipped), 'more listing')} cannot be read. The first one: {plain(skipped[0].reason)}")


async def _search_all(
    agent: DealerAgent, sort: Any, filters: dict[str, Any]
) -> tuple[list[Vehicle], Sequence[SkippedListing]]:
    vehicles = agent.search_all(sort=sort, **filters)
    return [vehicle async for vehicle in vehicles], vehicles.skipped


_CHANNEL_WORDS: dict[str, str] = {"email": "e-mail", "phone": "phone", "sms": "text message"}
# Typer has no list of literals.
_Channel = StrEnum("_Channel", {channel: channel for channel in _CHANNEL_WORDS})  # type: ignore[misc]


@_skill("vehicle", VEHICLE)
def vehicle(session: AskSession) -> Any:
    """Show one vehicle, by VIN, stock number or id."""
    if not session.part(VehicleOfInterest):
        raise typer.BadParameter("Give --vin, --stock or --vehicle-id.")
    return session.ask(INVENTORY_VEHICLE, session.given, VehicleDetail)


@_skill("quote", QUOTE)
def quote(
    session: AskSession,
    vin: Annotated[str, typer.Argument(metavar="VIN", help="The VIN of the vehicle.")],
    file: Annotated[
        Path | None,
        typer.Option(
            "--out", dir_okay=False, help="Write the signed quote to this file, for dealer-agent offers verify."
        ),
    ] = None,
) -> Any:
    """Ask what one vehicle costs in all. The dealer keeps the price for a while."""
    signed = session.run(lambda agent: agent.quote(vin=vin, zip=session.given.get("zip")))
    if file is not None:
        try:
            file.write_bytes(msgspec.json.format(msgspec.json.encode(signed.document), indent=2) + b"\n")
        except OSError as error:
            fail(f"cannot write {file}: {error.strerror}")
    note = f"Quote {plain(signed.quote_id)}. To hold the vehicle: dealer-agent ask URL hold QUOTE_ID"
    quote_table(signed, _time(signed.valid_until), note).show()
    return signed.document


def _time(text: str) -> str:
    return plain(readable_time(text, UTC))


@_skill("hold", HOLD)
def hold(
    session: AskSession, quote_id: Annotated[str, typer.Argument(metavar="QUOTE_ID", help="The id of a valid quote.")]
) -> Any:
    """Hold the vehicle of a quote. The dealer must know who asks: give --token, or --sign and --as."""
    key = session.given.get("idempotency_key")
    held = session.run(lambda agent: agent.hold(quote_id, idempotency_key=key))
    _print_hold(held)
    return held.to_dict()


@_skill("release", SESSION)
def release(
    session: AskSession, hold_id: Annotated[str, typer.Argument(metavar="HOLD_ID", help="The id of the hold.")]
) -> Any:
    """End a hold of yours, so that others can have the vehicle."""
    released = session.run(lambda agent: agent.release(hold_id))
    _print_hold(released)
    return released.to_dict()


def _print_hold(hold: Hold) -> None:
    until = f", until {_time(hold.expires_at)}" if hold.status in ("active", "became_lead") else ""
    out.print(
        f"Hold {plain(hold.hold_id)} of {plain(hold.vehicle_id)} for {amount(hold.price)} {plain(hold.currency)}: "
        f"{plain(hold.status.replace('_', ' '))}{until}."
    )


@_skill("lead", LEAD)
def lead(
    session: AskSession,
    allow: Annotated[
        list[_Channel], typer.Option(help="How the dealer may contact the customer. Repeat it for several ways.")
    ],
    consent_text: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="What the customer agrees to. Without it, a sentence with the dealer's name."
        ),
    ] = None,
    granted_at: Annotated[
        str | None, typer.Option(metavar="TIME", help="When the customer agreed. By default now.")
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="The customer has already agreed to the consent text: do not ask.")
    ] = False,
    source_agent: Annotated[
        str, typer.Option(metavar="TEXT", help="The name of the agent that sends the lead.")
    ] = "dealer-agent ask",
) -> Any:
    """Send a lead for a customer who agrees to it. It reaches the dealer's sales staff.

    Before anything is sent, the command shows the text of the consent and asks for agreement.
    """
    customer, visit, given = session.part(Customer) or {}, session.part(Appointment), session.given
    if not {"email", "phone"} & customer.keys():
        raise typer.BadParameter("Give --email or --phone.")
    if visit and "appointment_type" not in visit:
        raise typer.BadParameter("--appointment-at needs --appointment-type.")
    if not yes and not sys.stdin.isatty():
        raise typer.BadParameter("Without a terminal, nobody can agree to the consent: give --yes.")
    dealer = session.run(_name)
    at = granted_at or datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    ways = " and ".join(_CHANNEL_WORDS[way] for way in allow)
    wanted: dict[str, Any] = {
        "customer": customer,
        "consent": {
            "granted_at": at,
            "allowed_channels": [str(channel) for channel in allow],
            "consent_text": consent_text
            or f"I ask {dealer} to contact me about my request by {ways}. I agree that my name, my contact details and "
            "my request are sent to them.",
            "scope": ["lead_submission"],
        },
        "source_agent": source_agent,
        "vehicle_of_interest": session.part(VehicleOfInterest),
        "appointment": visit,
        "message": given.get("message"),
        "idempotency_key": given.get("idempotency_key"),
    }
    if not yes:
        _require_agreement(dealer, wanted)
    submitted = session.run(lambda agent: agent.submit_lead(**wanted), again=f"--granted-at {at}")
    show_words(LEAD_SUBMIT, submitted, submitted.message)
    return submitted.to_dict()


def _require_agreement(dealer: str, wanted: Mapping[str, Any]) -> None:
    """Shows what would be sent. Ends the command unless the customer agrees."""
    first_name, last_name, *contact = wanted["customer"].values()
    shown = {
        "To": dealer,
        "For": ", ".join([f"{first_name} {last_name}", *contact]),
        "Vehicle": next(iter((wanted["vehicle_of_interest"] or {}).values()), None),
        "Visit": " ".join((wanted["appointment"] or {}).values()),
        "Message": wanted["message"],
        "Consent": wanted["consent"]["consent_text"],
    }
    err.print("\n".join(f"{name}: {plain(value)}" for name, value in shown.items() if value))
    err.print("Does the customer agree, and shall the lead be sent? [y/N]", end=" ")
    if sys.stdin.readline().strip().casefold() not in ("y", "yes"):
        fail("Nothing was sent.", Exit.FAILED)


async def _name(agent: DealerAgent) -> str:
    return agent.card.name
