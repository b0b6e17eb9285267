"""`dealer-agent consent`: the consent of customers. `show` and `revoke` are here."""

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Annotated, get_args

import typer

from dealer_agent.cli.access_recording import actor, read_lead, record_access
from dealer_agent.cli.consent_check import head, verify
from dealer_agent.cli.consent_proof import export, prove
from dealer_agent.cli.lead_display import allowed_text, show_allowed, show_event
from dealer_agent.cli.person_lookup import EmailOption, LeadArgument, Person, PhoneOption, is_known
from dealer_agent.cli.terminal import HERE, DirOption, fail, open_customer_store, print_table
from dealer_agent.leads.consent import channels_of
from dealer_agent.protocol.requests import Channel
from dealer_agent.storage.leads import get_lead
from dealer_agent.storage.notices import withdraw
from dealer_agent.storage.store import Store

app = typer.Typer(no_args_is_help=True)


CHANNELS: tuple[Channel, ...] = get_args(Channel)


# Typer supports lists of plain types only.
def _known_channels(names: list[str] | None) -> list[str] | None:
    for name in names or ():
        if name not in CHANNELS:
            raise typer.BadParameter(f"{name!r} is not one of {', '.join(CHANNELS)}")
    return names


@app.command("show")
def show(
    lead_id: Annotated[str, typer.Argument(metavar="LEAD", help="The id, from `leads list`.")],
    directory: DirOption = HERE,
) -> None:
    """Show every consent event of a lead, and by which channels the customer may be contacted now."""
    with open_customer_store(directory) as (settings, store):
        found = read_lead(store, settings.dealer.id, lead_id, "consent show")
    for event in found.stored.consents:
        show_event(event)
    show_allowed(channels_of(found.stored, found.at))


@app.command("revoke")
def revoke(
    lead_id: LeadArgument = None,
    email: EmailOption = None,
    phone: PhoneOption = None,
    channels: Annotated[
        list[str] | None,
        typer.Option(
            "--channel",
            metavar="|".join(CHANNELS),
            callback=_known_channels,
            help="A channel to revoke. Repeat it for several channels. Without it, all are revoked.",
        ),
    ] = None,
    reason: Annotated[
        str | None, typer.Option(help="Why, in your words. It is stored with the event, encrypted.")
    ] = None,
    directory: DirOption = HERE,
) -> None:
    """Record that a customer withdrew consent: the customer of a lead, or a person.

    It counts for every lead with one of the customer's contact points. From then on the service sends the customer
    nothing through that channel. The running service notifies CRMs and people that have the leads. A consent that the
    customer gives later allows the channel again.
    """
    person = Person(lead_id, email, phone)
    revoked = tuple(dict.fromkeys(channels or CHANNELS))
    with open_customer_store(directory) as (settings, store):
        dealer_id = settings.dealer.id
        known = [stored for stored in person.leads_in(store, dealer_id) if is_known(stored)]
        found = [stored.lead.lead_id for stored in known]
        if not found:
            fail("The customer was erased: nobody can be contacted, and there is nothing to revoke")
        record_access(
            store, dealer_id, "consent revoke", leads=len(found), lead_id=found[0] if len(found) == 1 else None
        )
        at, by = datetime.now(UTC), actor()
        done: dict[str, None] = {}
        for each in found:
            if each not in done:
                with store.lock(dealer_id, at) as tx:
                    applies_to = withdraw(tx, each, revoked, by=by, reason=reason, profile=settings.dealer)
                done.update(dict.fromkeys(applies_to))
        rows = [(each, allowed_text(_channels_left(store, dealer_id, each, at))) for each in done]
    print_table(f"Revoked: {', '.join(revoked)}", ("Lead Id", "May still be contacted by"), rows)


def _channels_left(store: Store, dealer_id: str, lead_id: str, at: datetime) -> Collection[str]:
    with store.read(dealer_id) as tx:
        lead = get_lead(tx, lead_id)
    return () if lead is None else channels_of(lead, at)


app.command("prove")(prove)
app.command("export")(export)
app.command("verify")(verify)
app.command("head")(head)
