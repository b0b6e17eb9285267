"""`dealer-agent consent show` and `consent revoke`: the consent of customers, and its withdrawal."""

from collections.abc import Collection
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

import msgspec
import typer

from dealer_agent.cli.access_recording import actor, look_at_lead, note_look
from dealer_agent.cli.person_lookup import EmailOption, LeadArgument, PhoneOption, is_known, leads_of, one_of
from dealer_agent.cli.terminal import (
    HERE,
    DirOption,
    add_row,
    customer_store,
    fail,
    failures_in_plain_words,
    moment,
    out,
    section,
    settings_in,
    table,
)
from dealer_agent.lead_intake.allowed_contact_points import channels_of
from dealer_agent.protocol.requests import Customer
from dealer_agent.storage.consents import ConsentEvent
from dealer_agent.storage.store import Store

app = typer.Typer(no_args_is_help=True)


class Channel(StrEnum):
    """A way to reach a customer, as `protocol.requests.Channel`; lists of options take an enumeration only."""

    EMAIL = "email"
    PHONE = "phone"
    SMS = "sms"


@app.command("show")
def show(
    lead_id: Annotated[str, typer.Argument(metavar="LEAD", help="The id, from `leads list`.")],
    directory: DirOption = HERE,
) -> None:
    """Show every consent event of a lead, and by which channels the customer may be contacted now."""
    with failures_in_plain_words():
        settings = settings_in(directory)
        with customer_store(settings) as store:
            found = look_at_lead(store, settings.dealer.id, lead_id, "consent show")
    for event in found.stored.consents:
        show_event(event)
    show_allowed(channels_of(found.stored, found.at))


@app.command("revoke")
def revoke(
    lead_id: LeadArgument = None,
    email: EmailOption = None,
    phone: PhoneOption = None,
    channels: Annotated[
        list[Channel] | None,
        typer.Option(
            "--channel", help="A channel to revoke. Repeat it for several channels. Without it, all are revoked."
        ),
    ] = None,
    reason: Annotated[
        str | None, typer.Option(help="Why, in your words. It is stored with the event, encrypted.")
    ] = None,
    directory: DirOption = HERE,
) -> None:
    """Record that a customer withdrew consent: the customer of a lead, or a person.

    It counts for every lead with one of the customer's contact points. From then on the service sends the customer
    nothing through that channel. The running service tells CRMs and people that have the leads. A consent that the
    customer gives later allows the channel again.
    """
    one_of(lead_id, email, phone)
    revoked = tuple(dict.fromkeys(channels or Channel))
    with failures_in_plain_words():
        settings = settings_in(directory)
        dealer_id = settings.dealer.id
        with customer_store(settings) as store:
            known = [stored for stored in leads_of(store, dealer_id, lead_id, email, phone) if is_known(stored)]
            found = [stored.lead.lead_id for stored in known]
            if not found:
                fail("The customer was erased: nobody can be contacted, and there is nothing to revoke")
            note_look(
                store, dealer_id, "consent revoke", leads=len(found), lead_id=found[0] if len(found) == 1 else None
            )
            at, by = datetime.now(UTC), actor()
            done: dict[str, None] = {}
            for each in found:
                if each not in done:
                    counts_for = store.record_revocation(
                        dealer_id, each, revoked, at, by=by, reason=reason, tell=settings.dealer
                    )
                    done.update(dict.fromkeys(counts_for))
            left = {each: _left(store, dealer_id, each, at) for each in done}
    made = table(f"Revoked: {', '.join(revoked)}", "Lead Id", "May still be contacted by")
    for each, allowed in left.items():
        add_row(made, each, _told(allowed))
    out.print(made)


def _left(store: Store, dealer_id: str, lead_id: str, at: datetime) -> Collection[str]:
    lead = store.get_lead(dealer_id, lead_id)
    return () if lead is None else channels_of(lead, at)


def show_allowed(channels: Collection[str]) -> None:
    """Says by which channels a customer may be contacted."""
    out.print(f"\nMay be contacted now by: {_told(channels)}")


def _told(channels: Collection[str]) -> str:
    return ", ".join(channel for channel in Channel if channel in channels) or "no channel"


def show_event(event: ConsentEvent) -> None:
    """One event as a section of its own."""
    told = {
        "lead": event.lead_id,
        "customer": _named(event.customer),
        "granted": f"{moment(event.granted_at)} UTC" if event.granted_at else None,
        "expires": f"{moment(event.expires_at)} UTC" if event.expires_at else None,
        "channels": ", ".join(event.channels),
        "scope": ", ".join(event.scope),
        "purpose": event.purpose,
        "through": event.agent,
        "token": event.token_id,
        "text": event.consent_text,
        "by": event.by,
        "reason": event.reason,
        "request hash": event.request_hash.hex() if event.request_hash else None,
    }
    title = f"Consent event {event.number}: {event.kind} {moment(event.at)} UTC"
    section(title, {name: value for name, value in told.items() if value})


def _named(customer: bytes | None) -> str | None:
    """Who agreed, as the law wants it kept with the consent."""
    if customer is None:
        return None
    told = msgspec.json.decode(customer, type=Customer)
    contact = [each for each in (told.email, told.phone) if each]
    return ", ".join([f"{told.first_name} {told.last_name}", *contact])
