"""Runs the deliveries of a process, for one dealer and for many."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import httpx

from dealer_agent.config import Settings
from dealer_agent.config.channels import channel_secrets
from dealer_agent.delivery.dealer_outlets import DealerOutlets, Sending
from dealer_agent.delivery.loop import PROCESS_CONCURRENCY, DeliveryLoop
from dealer_agent.delivery.outlets import outlets_of
from dealer_agent.leads.customer_links import CustomerLinks
from dealer_agent.outgoing import connections
from dealer_agent.outgoing.addresses import AddressRule
from dealer_agent.storage.lead_writer import LeadWriter
from dealer_agent.storage.store import Store

if TYPE_CHECKING:
    # Only with the extra `traces`.
    from dealer_agent.server.traces import Traces


@asynccontextmanager
async def http_client(rule: AddressRule) -> AsyncIterator[httpx.AsyncClient]:
    """The HTTP client of a process, for a `with` block. A delivery never waits for a connection of another one."""
    limits = httpx.Limits(max_connections=PROCESS_CONCURRENCY, max_keepalive_connections=20)
    async with connections.http_client(rule, limits=limits) as client:
        yield client


def dealer_outlets(settings: Settings, links: CustomerLinks, client: httpx.AsyncClient) -> DealerOutlets:
    """The outlets of a dealer. Raises SettingsError if a channel cannot work."""
    outlets = outlets_of(
        settings.dealer,
        settings.mail,
        directory=settings.directory,
        links=links,
        secrets=channel_secrets(settings, os.environ),
        client=client,
    )
    return DealerOutlets(settings.dealer, outlets, settings.delivery)


@asynccontextmanager
async def delivering(
    store: Store,
    writer: LeadWriter,
    find_due_dealers: Callable[[], Iterable[str]],
    find_outlets: Callable[[str], DealerOutlets],
    on_result: Callable[[Sending, str], None] = lambda *_: None,
    traces: "Traces | None" = None,
) -> AsyncIterator[DeliveryLoop]:
    """Delivers leads during a `with` block. At the end, deliveries in progress get a few seconds."""
    begin_span = (lambda *_: None) if traces is None else traces.begin_delivery
    loop = DeliveryLoop(store, writer, find_due_dealers, find_outlets, on_result, begin_span)
    running = asyncio.create_task(loop.run())
    try:
        yield loop
    finally:
        loop.stop()
        await running
