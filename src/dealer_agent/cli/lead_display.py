"""How commands show parts of a lead: consent events, the channels that consent allows, deliveries."""

from collections.abc import Collection, Sequence
from typing import get_args

import msgspec

from dealer_agent.cli.terminal import moment, out, section
from dealer_agent.protocol.requests import Channel, Customer
from dealer_agent.storage.consents import ConsentEvent
from dealer_agent.storage.outbox import DeliveryRecord, list_deliveries
from dealer_agent.storage.store import Store

ERASED = "(erased)"
"""Shown in place of the name of an erased customer."""

_MOST_DELIVERIES = 1000
"""No lead has more."""


def show_allowed(channels: Collection[str]) -> None:
    """Shows by which channels a customer may be contacted."""
    out.print(f"\nMay be contacted now by: {allowed_text(channels)}")


def allowed_text(channels: Collection[str]) -> str:
    """The channels in one line, in the order of the protocol."""
    return ", ".join(channel for channel in get_args(Channel) if channel in channels) or "no channel"


def show_event(event: ConsentEvent) -> None:
    """Shows one event as a section."""
    facts = {
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
    section(title, {name: value for name, value in facts.items() if value})


def _named(customer: bytes | None) -> str | None:
    """The customer who gave consent. The law requires this record."""
    if customer is None:
        return None
    found = msgspec.json.decode(customer, type=Customer)
    contacts = [each for each in (found.email, found.phone) if each]
    return ", ".join([f"{found.first_name} {found.last_name}", *contacts])


def deliveries_of(store: Store, dealer_id: str, lead_id: str) -> Sequence[DeliveryRecord]:
    """All deliveries of a lead."""
    with store.read(dealer_id) as tx:
        return list_deliveries(tx, _MOST_DELIVERIES, lead_id=lead_id)
