"""Sends one marked test lead to each channel of a dealer. Nothing of it is stored."""

import asyncio
import os
from collections.abc import Iterator
from datetime import datetime

from dealer_agent.dealers.profile import Profile
from dealer_agent.dealers.routing import CUSTOMER
from dealer_agent.delivery.dealer_outlets import OutletMaker
from dealer_agent.delivery.failures import NotDelivered
from dealer_agent.delivery.lease import lease_outside_queue
from dealer_agent.delivery.outlet import Outlet
from dealer_agent.leads.lead_view import LeadView, rooftop_view
from dealer_agent.open_installation import OpenInstallation
from dealer_agent.operations.checks import Finding
from dealer_agent.outgoing.connections import http_client
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.protocol.requests import Customer, SourceAgent
from dealer_agent.storage.outbox import DueDelivery, Receiver

SEND_SECONDS = 40.0
"""How long one channel may take."""

MESSAGE = "TEST LEAD. Nobody wants a vehicle: dealer-agent doctor tests whether leads arrive. Please delete this lead."


def marked_lead(dealer: Profile, rooftop: str, lead_id: str, now: datetime) -> LeadView:
    """A lead of an invented customer. Its name, its message and its id say that it is a test."""
    return LeadView(
        lead_id=lead_id,
        dealer_id=dealer.id,
        dealer_name=dealer.name,
        rooftop=rooftop_view(dealer, rooftop),
        received_at=now,
        agent=SourceAgent("dealer-agent doctor"),
        customer=Customer("TEST", "Please Ignore", email="test@example.com"),
        channels=("email",),
        messages=(MESSAGE,),
    )


def send_marked_leads(opened: OpenInstallation, dealer_id: str, now: datetime) -> Iterator[Finding]:
    """Sends the leads, and names the channels that accepted one. Customers get no mail.

    Raises SettingsError and StorageError.
    """
    return iter(asyncio.run(_send_all(opened, dealer_id, now)))


async def _send_all(opened: OpenInstallation, dealer_id: str, now: datetime) -> list[Finding]:
    async with http_client(opened.installation.address_rule) as client:
        dealer, outlets, _ = OutletMaker(opened, client).of(dealer_id)
        chosen = {receiver: outlet for receiver, outlet in outlets.items() if receiver[1] != CUSTOMER}
        sending = (_send(dealer, receiver, outlet, now) for receiver, outlet in chosen.items())
        return list(await asyncio.gather(*sending)) or [Finding("skipped", "there are no channels")]


async def _send(dealer: Profile, receiver: Receiver, outlet: Outlet, now: datetime) -> Finding:
    rooftop, channel = receiver
    where = f"{rooftop}, {channel}"
    lead_id = f"TEST-{new_ulid()}"
    delivery = DueDelivery(lead_id, lead_id, None, "lead", rooftop, channel, now, 1, "", None)
    document = await asyncio.to_thread(outlet.render, delivery, marked_lead(dealer, rooftop, lead_id, now))
    try:
        async with asyncio.timeout(SEND_SECONDS):
            note = await outlet.send(delivery, document, lease_outside_queue(delivery))
    except NotDelivered as problem:
        return Finding("problem", f"{where}: {problem}", "correct the channel, then try again")
    except TimeoutError:
        return Finding("problem", f"{where}: no answer within {SEND_SECONDS:g} s", "ask the receiver's support")
    except OSError as error:
        return Finding("problem", f"{where}: {os.strerror(error.errno or 0)}", "correct the channel, then try again")
    if note is not None:
        return Finding("warning", f"{where}: the test lead {lead_id} has arrived, but {note}", "correct the addresses")
    return Finding("ok", f"{where}: the test lead {lead_id} was accepted. Delete it there")
