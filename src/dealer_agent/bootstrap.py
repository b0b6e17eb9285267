"""Composes the service from its parts. No other module does."""

import asyncio
import gc
import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import httpx
import msgspec

from dealer_agent import __version__
from dealer_agent.catalogue_loading.snapshot_loader import SnapshotLoader
from dealer_agent.config import Settings, load_settings
from dealer_agent.config.channels import channel_secrets
from dealer_agent.delivery.delivery_content import DeliveryContents
from dealer_agent.delivery.loop import DeliveryLoop
from dealer_agent.delivery.outlets import outlets_of
from dealer_agent.encryption.core_dumps import forbid_core_dumps
from dealer_agent.lead_intake.intake import LeadIntake
from dealer_agent.lead_intake.visit_calendar import subscribed_calendar
from dealer_agent.leads.customer_links import CustomerLinks
from dealer_agent.protocol.card import CardFacts
from dealer_agent.protocol.skill import SKILLS
from dealer_agent.protocol.vocabulary import vocabularies_of
from dealer_agent.server.app import DealerApp
from dealer_agent.server.key_rotation import KeyRotation, changeable_key_file, wait_unless
from dealer_agent.server.limits import RateLimits
from dealer_agent.server.log import configure_logs, end_interval
from dealer_agent.server.refresh import Refresher, flush_logs, load_tokens, note_first_time, revision_of
from dealer_agent.server.service import RPC, Service
from dealer_agent.skills import dealer_of
from dealer_agent.storage.lead_writer import LeadWriter
from dealer_agent.storage.store import Store

DIRECTORY_VARIABLE = "DEALER_AGENT_DIR"
ADDRESS_VARIABLE = "DEALER_AGENT_LISTENS_AT"
RATE_LIMITS_FILE = "rate-limits.bin"


def app() -> DealerApp:
    """The application of a worker process. The command line passes the folder and the address in the environment."""
    forbid_core_dumps()
    _stop_without_parent()
    prepare_message_types(msgspec.Struct)
    # Imported objects live as long as the process. A garbage collection that scans them would delay a request.
    gc.freeze()
    directory = Path(os.environ[DIRECTORY_VARIABLE])
    return application(load_settings(directory, os.environ), os.environ[ADDRESS_VARIABLE])


def prepare_message_types(base: type[msgspec.Struct]) -> None:
    """Builds msgspec's decoders of all types that derive from `base`.

    Otherwise msgspec builds a decoder at its first use, and the process crashes if two threads do so at once.
    """
    for each in base.__subclasses__():
        # Types that are never decoded raise TypeError.
        with suppress(TypeError):
            msgspec.json.Decoder(each)
        prepare_message_types(each)


def _stop_without_parent() -> None:
    """Stops a worker when its parent process is gone. Otherwise it would keep the port for ever."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()


def application(settings: Settings, listens_at: str) -> DealerApp:
    """The application of one dealer. Without a `public_url`, the card has the address `listens_at`."""
    return DealerApp(partial(service, settings, listens_at), settings.service.base_path)


@asynccontextmanager
async def service(settings: Settings, listens_at: str) -> AsyncIterator[Service]:
    """A running service: the stock is loaded, leads are stored and delivered, and background work runs.

    Raises StorageError, and SettingsError if a channel cannot work.
    """
    lines = configure_logs(settings.logs.level)
    profile = settings.dealer
    async with AsyncExitStack() as closing:
        closing.callback(lines.flush)
        closing.callback(end_interval)
        store = await asyncio.to_thread(Store.open, settings.database_url, settings.cipher)
        closing.callback(store.close)
        cipher = await asyncio.to_thread(store.check_keys, profile.id)
        # Before the first lead. Otherwise a lead that is stored while the clock is wrong would make that time trusted.
        await asyncio.to_thread(note_first_time, store, profile.id, datetime.now(UTC))
        writer = store.lead_writer()
        closing.push_async_callback(asyncio.to_thread, writer.close)
        links = CustomerLinks(
            dealer_id=profile.id,
            base_url=settings.base_url(listens_at),
            key=cipher.lasting_key("customer links"),
            valid=timedelta(days=settings.mail.links_valid_days),
        )
        deliveries = await closing.enter_async_context(_deliveries(settings, store, writer, links))
        limits = RateLimits(settings.directory / RATE_LIMITS_FILE, settings.rate_limits.by_rule)
        closing.callback(limits.close)
        snapshots = SnapshotLoader(store, settings.database_url, profile, settings.directory)
        closing.callback(snapshots.close)
        seen = await asyncio.to_thread(revision_of, store, profile.id)
        snapshot = await asyncio.to_thread(snapshots.load, datetime.now(UTC))
        dealer = dealer_of(
            profile,
            LeadIntake(profile, writer, confirms_by_mail=settings.mail.confirms_visits, on_stored=deliveries.wake),
            settings.search,
        )
        running = Service(
            dealer=dealer.with_stock(snapshot.catalogue, snapshot.at),
            tokens=await asyncio.to_thread(load_tokens, store, profile.id),
            vocabularies=vocabularies_of(settings.service.vocabulary, settings.service.proto),
            limits=limits,
            settings=settings,
            card=_card_facts(settings, listens_at),
            calendar=lambda secret_hash: subscribed_calendar(store, profile, secret_hash, datetime.now(UTC)),
            customers=dealer.lead_intake.for_customers(store),
            links=links,
            ready=True,
        )
        seen = seen._replace(stock=snapshot.revision)
        stopped = threading.Event()
        closing.callback(stopped.set)
        rotation = KeyRotation(
            store=store,
            cipher=cipher,
            dealer_id=profile.id,
            path=changeable_key_file(settings.directory, os.environ),
            days=profile.privacy.rotate_keys_days,
            machine=f"{socket.gethostname()}:{settings.directory}",
            wait=wait_unless(stopped),
        )
        refresher = Refresher(
            store, writer, running, snapshots, seen, settings.cipher, settings.heads_file, rotation.run_due_steps
        )
        for work in (refresher.run(), flush_logs(lines)):
            closing.push_async_callback(_end, asyncio.create_task(work))
        yield running


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


@asynccontextmanager
async def _deliveries(
    settings: Settings, store: Store, writer: LeadWriter, links: CustomerLinks
) -> AsyncIterator[DeliveryLoop]:
    """Delivers leads during a `with` block. At the end, deliveries in progress get a few seconds."""
    secrets = channel_secrets(settings, os.environ)
    async with httpx.AsyncClient(headers={"User-Agent": f"dealer-agent/{__version__}"}) as client:
        outlets = outlets_of(
            settings.dealer, settings.mail, directory=settings.directory, links=links, secrets=secrets, client=client
        )
        contents = DeliveryContents(store, settings.dealer)
        loop = DeliveryLoop(settings.dealer.id, store, writer, outlets, contents.prepare, settings.delivery)
        running = asyncio.create_task(loop.run())
        try:
            yield loop
        finally:
            loop.stop()
            await running


def _card_facts(settings: Settings, listens_at: str) -> CardFacts:
    """The dealer's part of the agent cards. Addresses use `public_url` (docs/protocol.md#public-url)."""
    profile = settings.dealer
    base = settings.base_url(listens_at)
    websites = [rooftop.website for rooftop in profile.rooftops if rooftop.website]
    return CardFacts(
        name=profile.name,
        description=f"Inventory and leads of {profile.name}: {len(profile.rooftops)} "
        f"sales location{'s' if len(profile.rooftops) > 1 else ''}, searched and contacted by AI shopping agents.",
        version=__version__,
        organization=profile.name,
        website=websites[0] if websites else base,
        http_json_url=base,
        json_rpc_url=base + RPC,
        schemas_url=f"{base}/schemas",
        documentation_url=f"{base}/docs",
        skills=tuple(skill for skill in SKILLS if skill.id in settings.service.skills),
        bearer_skills=settings.token_skills,
    )
