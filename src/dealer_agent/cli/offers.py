"""`dealer-agent offers`: the holds of agents, and the proof that a quote is the dealer's."""

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dealer_agent.cli.command import command, newest
from dealer_agent.cli.open_dealer import DEALER
from dealer_agent.cli.tables import Columns, Table
from dealer_agent.cli.terminal import fail, limited, minute, out, plain
from dealer_agent.holds import end_hold
from dealer_agent.open_installation import OpenDealer
from dealer_agent.operations.offers import LONGEST_REASON, MOST_HOURS, extend_by_staff, find_offer
from dealer_agent.storage.offers import StoredHold, list_holds

if TYPE_CHECKING:
    from collections.abc import Callable

    from dealer_agent.storage.transaction import Transaction

app = typer.Typer(no_args_is_help=True)

MOST_HOLDS = 1000
HoldArgument = Annotated[str, typer.Argument(metavar="ID", help="The id of the hold, from `offers list`.")]


@command(app, "list", DEALER)
def list_(
    dealer: OpenDealer,
    everything: Annotated[bool, typer.Option("--all", help="Show also holds that have ended.")] = False,
    limit: Annotated[int, newest(MOST_HOLDS)] = 50,
) -> Table:
    """List the vehicles that agents hold, and until when."""
    with dealer.read() as tx:
        holds = limited(list_holds(tx, limit + 1, which="all" if everything else "open"), limit)
        now = tx.now
    columns: Columns = {
        "Id": "hold_id",
        "Vehicle": "vehicle_id",
        "Agent": "caller",
        "Since": "created_at",
        "Until": "expires_at",
        "Status": lambda hold: hold.status_at(now).replace("_", " "),
        "Why": "ended_why",
    }
    return Table.of("Holds", columns, holds, dealer.local, empty="No agent holds a vehicle.")


@command(app, "show", DEALER)
def show(
    dealer: OpenDealer,
    offer_id: Annotated[str, typer.Argument(metavar="ID", help="The id of a quote or of a hold.")],
) -> dict[str, Any]:
    """Show a quote as the agent got it, or the hold and its quote."""
    # Imported here: the client is not needed for a list.
    import msgspec

    from dealer_agent.cli.quote_table import quote_table
    from dealer_agent.client.results import Quote

    with dealer.read() as tx:
        offer = find_offer(tx, offer_id)
    if offer is None:
        fail(f"there is no quote and no hold {offer_id}; see dealer-agent offers list --all")
    quote, hold = offer
    if hold is not None:
        out.print(_sentence(dealer, hold))
    note = f"Quote {quote.quote_id} for {plain(quote.caller or 'an anonymous agent')}."
    quote_table(msgspec.json.decode(quote.document, type=Quote), minute(dealer.local(quote.valid_until)), note).show()
    return {"quote": msgspec.json.decode(quote.document), "hold": None if hold is None else _facts(dealer, hold)}


@command(app, "extend", DEALER)
def extend(
    dealer: OpenDealer,
    hold_id: HoldArgument,
    hours: Annotated[
        int, typer.Option("--hours", min=1, max=MOST_HOURS, help="How many hours the hold lasts, from now on.")
    ],
) -> dict[str, Any]:
    """Change when a hold ends."""
    return _change(dealer, lambda tx: extend_by_staff(tx, hold_id, hours))


@command(app, "end", DEALER)
def end(
    dealer: OpenDealer,
    hold_id: HoldArgument,
    reason: Annotated[
        str, typer.Option("--reason", help="The reason, for your own record: at most 200 characters.")
    ] = "",
) -> dict[str, Any]:
    """End a hold, also one that you refuse. The agent learns it when it asks for the status."""
    if len(reason) > LONGEST_REASON:
        raise typer.BadParameter(f"the reason has {len(reason)} characters; write at most {LONGEST_REASON}")
    return _change(dealer, lambda tx: end_hold(tx, hold_id, reason))


@command(app, "verify")
def verify(
    file: Annotated[Path, typer.Argument(help="The quote as JSON, or the whole response with it.", dir_okay=False)],
    keys: Annotated[
        Path | None,
        typer.Option(
            "--keys", help="The dealer's keys, from its address /.well-known/offer-keys.json.", dir_okay=False
        ),
    ] = None,
    url: Annotated[
        str | None, typer.Option("--from", metavar="URL", help="The address of the dealer, to fetch its keys.")
    ] = None,
) -> dict[str, Any]:
    """Check that a quote was signed by the dealer: with keys that you have stored, or with those at its address."""
    from dealer_agent.client.quotes import read_quote

    if (keys is None) == (url is None):
        raise typer.BadParameter("Give either --keys or --from.")
    try:
        quote = read_quote(file.read_bytes())
        kid = _kid_by_file(quote, keys) if keys is not None else _kid_by_dealer(quote, str(url))
    except OSError as error:
        fail(f"cannot read {error.filename}: {error.strerror}")
    ends = datetime.fromisoformat(str(quote["valid_until"]))
    is_valid = datetime.now(UTC) < ends
    out.print(f"The quote {plain(str(quote['quote_id']))} was signed with the key {plain(kid)}.")
    out.print(f"It {'is' if is_valid else 'was'} valid until {minute(ends)} UTC.")
    return {"quote_id": quote["quote_id"], "kid": kid, "valid_until": quote["valid_until"], "is_valid": is_valid}


def _kid_by_file(quote: dict[str, Any], keys: Path) -> str:
    """The id of the key in a file that has signed a quote. Raises QuoteNotVerified and OSError."""
    import msgspec

    from dealer_agent.client.quotes import verify_quote

    try:
        key_set = msgspec.json.decode(keys.read_bytes(), type=dict[str, Any])
    except ValueError as error:
        fail(f"{keys} is not a JSON Web Key Set: {error}. Fetch it again, or give --from instead")
    return verify_quote(quote, key_set)


def _kid_by_dealer(quote: dict[str, Any], url: str) -> str:
    """The id of the dealer's key that has signed a quote. Raises QuoteNotVerified, NotADealerAgent and Unreachable."""
    from dealer_agent.client import SyncDealerAgent

    with SyncDealerAgent.discover(url, user_agent="offers-verify") as agent:
        return agent.verify_quote(quote)


def _change(dealer: OpenDealer, change: "Callable[[Transaction], StoredHold]") -> dict[str, Any]:
    """Changes a hold under the dealer's lock, as the service does, and says what it is now."""
    with closing(dealer.store.lead_writer()) as writer:
        hold = writer.submit(dealer.profile.id, change, datetime.now(UTC)).result()
    out.print(_sentence(dealer, hold))
    return _facts(dealer, hold)


def _sentence(dealer: OpenDealer, hold: StoredHold) -> str:
    status = hold.status_at(datetime.now(UTC)).replace("_", " ")
    until = dealer.local(hold.ended_at or hold.expires_at)
    assert until is not None
    return f"Hold {hold.hold_id} of {plain(hold.vehicle_id)} by {plain(hold.caller)}: {status}, until {minute(until)}"


def _facts(dealer: OpenDealer, hold: StoredHold) -> dict[str, Any]:
    """What the command shows of a hold, for its table and for `--json`."""
    return {
        "id": hold.hold_id,
        "quote_id": hold.quote_id,
        "vehicle_id": hold.vehicle_id,
        "agent": hold.caller,
        "since": dealer.local(hold.created_at),
        "until": dealer.local(hold.expires_at),
        "ended": dealer.local(hold.ended_at),
        "why": hold.ended_why,
        "status": hold.status_at(datetime.now(UTC)),
    }
