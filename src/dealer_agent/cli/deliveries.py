"""`dealer-agent deliveries`: whether leads arrived at their receivers, and how to send them again."""

from datetime import datetime
from typing import Annotated, Any

import typer

from dealer_agent.cli.command import command, newest
from dealer_agent.cli.open_dealer import CUSTOMERS, DEALER
from dealer_agent.cli.tables import Columns, Table
from dealer_agent.cli.terminal import err, limited, out, plain, section
from dealer_agent.dealers.routing import CUSTOMER, NOTIFY, TO_CUSTOMER
from dealer_agent.open_installation import OpenDealer
from dealer_agent.operations.resending import find_delivery
from dealer_agent.operations.resending import retry as retry_delivery
from dealer_agent.operations.resending import send_again as resend
from dealer_agent.protocol.did_you_mean import did_you_mean
from dealer_agent.storage.deliveries.outbox import (
    DeliveryRecord,
    State,
    get_delivery,
    list_deliveries,
    retry_deliveries,
)

app = typer.Typer(no_args_is_help=True)


ChannelOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Only those to this channel: its name in dealer.toml, 'notify' (staff) or 'customer'."
    ),
]


@command(app, "list", DEALER)
def list_(
    dealer: OpenDealer,
    state: Annotated[State | None, typer.Option(help="Only those in this state.")] = None,
    channel: ChannelOption = None,
    lead: Annotated[str | None, typer.Option(metavar="LEAD", help="Only those of this lead.")] = None,
    limit: Annotated[int, newest(100_000)] = 50,
) -> Table:
    """List deliveries: the lead, the channel, the state and the last problem."""
    with dealer.read() as tx:
        records = limited(list(list_deliveries(tx, limit + 1, state=state, channel=channel, lead_id=lead)), limit)
    columns: Columns = {
        "Id": "delivery_id",
        "Lead Id": "lead_id",
        "Kind": "kind",
        "Rooftop": "rooftop",
        "Channel": "channel",
        "State": lambda each: _state(each, tx.now),
        "Tries": "attempts",
        "At": lambda each: dealer.local(each.settled_at or each.due_at, each.rooftop),
        "Problem": "problem",
    }
    if channel is not None and not records:
        _check_channel(dealer, channel)
    empty = "No such deliveries." if state or channel or lead else "No deliveries yet."
    return Table.of("Deliveries", columns, records, empty=empty)


@command(app, "show", DEALER)
def show(
    dealer: OpenDealer,
    delivery_id: Annotated[str, typer.Argument(metavar="ID", help="The id, from `deliveries list`.")],
) -> dict[str, Any]:
    """Show everything about one delivery."""
    with dealer.read() as tx:
        record = find_delivery(tx, delivery_id)
    facts = {
        "id": record.delivery_id,
        "state": _state(record, tx.now),
        "lead": record.lead_id,
        "kind": record.kind,
        "rooftop": record.rooftop,
        "channel": record.channel,
        "tried_since": dealer.local(record.created_at, record.rooftop),
        "tries": record.attempts,
        "next_try": dealer.local(record.due_at, record.rooftop) if record.state == "waiting" else None,
        "settled": dealer.local(record.settled_at, record.rooftop),
        # For a mail to the customer, `event_id` is the id of the appointment (`mail_to_customer`).
        "appointment" if record.kind in TO_CUSTOMER else "because_of": record.event_id,
        "problem": record.problem,
    }
    present = {name: value for name, value in facts.items() if value is not None}
    out.print(f"[bold]Delivery {facts.pop('id')}[/], {facts.pop('state')}", markup=True)
    section("What became of it", facts)
    return present


@command(app, "retry", DEALER)
def retry(
    dealer: OpenDealer,
    delivery_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="The id, from `deliveries list`.", show_default=False)
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All deliveries that wait or are undeliverable.")] = False,
    channel: ChannelOption = None,
) -> dict[str, int]:
    """Try waiting and undeliverable deliveries again at once. The service sends them with the same id and bytes."""
    if (delivery_id is None) != everything:
        raise typer.BadParameter("name one delivery, or give --all (with --channel NAME for those of one channel)")
    if delivery_id is not None and channel is not None:
        raise typer.BadParameter("give --channel only with --all")
    with dealer.lock() as tx:
        count = retry_deliveries(tx, channel=channel) if delivery_id is None else retry_delivery(tx, delivery_id)
        if channel is not None and not count:
            _check_channel(dealer, channel)
    out.print(f"{count} {'delivery is' if count == 1 else 'deliveries are'} tried again as soon as the service runs.")
    return {"retried": count}


@command(app, "send-again", CUSTOMERS)
def send_again(
    dealer: OpenDealer,
    sent_id: Annotated[str, typer.Argument(metavar="ID", help="The id of a delivery that was sent, or of a lead.")],
    channel: ChannelOption = None,
) -> dict[str, Any]:
    """Send one delivery again, or a lead to every channel that has it, as a resend with a new delivery id.

    The document is made from the lead as it is now. Mails to customers are not sent again.
    """
    with dealer.lock() as tx:
        if channel is not None and get_delivery(tx, sent_id) is not None:
            raise typer.BadParameter("give --channel only with a lead")
        new_ids = resend(tx, sent_id, channel=channel)
    for delivery_id in new_ids:
        out.print(f"Delivery {delivery_id} is sent as soon as the service runs.")
    return {"deliveries": new_ids}


def _check_channel(dealer: OpenDealer, name: str) -> None:
    """A message if no rooftop has a channel of this name. Old deliveries may have channels that are gone."""
    channels = {NOTIFY, CUSTOMER}.union(*(rooftop.deliver.channels for rooftop in dealer.profile.rooftops))
    if name not in channels:
        err.print(f"dealer.toml has no channel {plain(name)}{did_you_mean(name, sorted(channels))}")


def _state(record: DeliveryRecord, now: datetime) -> str:
    """The state, or `being sent` while a process has the lease."""
    if record.state == "waiting" and record.leased_until is not None and record.leased_until > now:
        return "being sent"
    return record.state
