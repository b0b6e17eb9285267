"""Makes the service of one dealer from its settings, for a dealer with a folder and for a dealer of an installation."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from dealer_agent import __version__
from dealer_agent.apidocs.discovery import KEYS_PATH
from dealer_agent.catalogue_loading.snapshot_loader import SnapshotLoader
from dealer_agent.catalogue_loading.snapshots import LoadedSnapshot
from dealer_agent.config import Settings
from dealer_agent.encryption import Cipher
from dealer_agent.encryption.card_signer import CardSigner
from dealer_agent.lead_intake.intake import LeadIntake
from dealer_agent.lead_intake.visit_calendar import subscribed_calendar
from dealer_agent.leads.customer_links import CustomerLinks
from dealer_agent.mcp_tools.consent import consent_text
from dealer_agent.protocol.card import CardFacts
from dealer_agent.protocol.skill import SKILLS
from dealer_agent.protocol.vocabulary import vocabularies_of
from dealer_agent.server.limits import DealerLimits, RateLimits
from dealer_agent.server.metrics import WorkerMetrics
from dealer_agent.server.refresh import token_registry
from dealer_agent.server.service import RPC, Process, Service
from dealer_agent.server.shared_limits import LimitStore, SharedLimits
from dealer_agent.server.tokens import TokenRegistry
from dealer_agent.skills import dealer_of
from dealer_agent.storage.lead_writer import LeadWriter
from dealer_agent.storage.stock import Revision, read_revision
from dealer_agent.storage.store import Store

if TYPE_CHECKING:
    # Only with the extra `traces`.
    from dealer_agent.server.traces import Traces


@dataclass(frozen=True)
class Shared:
    """What the dealers of a process share. `on_stored` gets the id of a dealer that may have new deliveries.

    A dealer without a `public_url` has the URL `listens_at`. `all_dealers_limits` are the limits of an installation
    that machines share.
    """

    store: Store
    writer: LeadWriter
    process: Process
    listens_at: str
    on_stored: Callable[[str], None]
    has_many_dealers: bool = False
    metrics: WorkerMetrics | None = None
    traces: "Traces | None" = None
    all_dealers_limits: SharedLimits | None = None


@asynccontextmanager
async def limit_store(url: str) -> AsyncIterator[LimitStore | None]:
    """The store of the rate limits that machines share, for a `with` block. None without a URL."""
    if not url:
        yield None
        return
    store = LimitStore(url)
    try:
        yield store
    finally:
        await store.close()


async def open_service(
    shared: Shared, settings: Settings, snapshots: SnapshotLoader, links: CustomerLinks, cipher: Cipher
) -> Service:
    """The service of a dealer, with its current stock and tokens. Raises StorageError and SnapshotError."""
    store, profile = shared.store, settings.dealer
    intake = LeadIntake(
        profile,
        shared.writer,
        confirms_by_mail=settings.mail.confirms_visits,
        on_stored=partial(shared.on_stored, profile.id),
        on_result=(lambda _: None) if shared.metrics is None else partial(shared.metrics.count_lead, profile.id),
    )

    def read() -> tuple[Revision, TokenRegistry, LoadedSnapshot]:
        # The revision first: a later change is then loaded by the refresher.
        with store.read(profile.id) as tx:
            revision = read_revision(tx)
            tokens = token_registry(tx)
        return revision, tokens, snapshots.load(datetime.now(UTC))

    revision, tokens, snapshot = await asyncio.to_thread(read)
    rules = settings.rate_limits.by_rule
    limits = shared.process.limits.of_dealer(profile.id, rules) if shared.has_many_dealers else shared.process.limits
    return Service(
        process=shared.process,
        snapshots=snapshots,
        loaded=revision._replace(stock=snapshot.revision),
        dealer=dealer_of(profile, intake, settings.search, snapshot.catalogue, snapshot.at),
        tokens=tokens,
        vocabularies=vocabularies_of(settings.service.vocabulary, settings.service.proto),
        limits=limits,
        shared_limits=shared_limits(
            shared.process.limit_store, limits, profile.id, rules, cipher, shared.all_dealers_limits
        ),
        settings=settings,
        card=_card_facts(settings, shared.listens_at),
        mcp_key=cipher.lasting_key("mcp request state"),
        signer=card_signer(settings, shared.listens_at, cipher),
        calendar=lambda secret_hash: subscribed_calendar(store, profile, secret_hash, datetime.now(UTC)),
        customers=intake.for_customers(store),
        links=links,
        stock_bytes=snapshot.size,
        counts=shared.process.counts.of_dealer(profile.id, profile.timezone, settings.reports.agents),
        traces=shared.traces,
        replies=None if shared.metrics is None else shared.metrics.of_dealer(profile.id),
        tenant=profile.id if shared.has_many_dealers else None,
    )


def customer_links(settings: Settings, listens_at: str, cipher: Cipher) -> CustomerLinks:
    """The links in the mails to a dealer's customers."""
    return CustomerLinks(
        dealer_id=settings.dealer.id,
        base_url=settings.base_url(listens_at),
        key=cipher.lasting_key("customer links"),
        valid=timedelta(days=settings.mail.links_valid_days),
    )


def card_signer(settings: Settings, listens_at: str, cipher: Cipher) -> CardSigner:
    """What signs a dealer's cards. A higher `card_key_number` is another key."""
    purpose = f"card signatures of {settings.dealer.id}, key {settings.service.card_key_number}"
    return CardSigner(cipher.lasting_key(purpose), settings.base_url(listens_at) + KEYS_PATH)


def shared_limits(
    store: LimitStore | None,
    machine: RateLimits | DealerLimits,
    dealer_id: str,
    rules: Mapping[str, str],
    cipher: Cipher,
    all_dealers: SharedLimits | None = None,
) -> SharedLimits | None:
    """The limits of a dealer in the store that machines share. None without a store."""
    if store is None:
        return None
    return SharedLimits(store, machine, dealer_id, rules, cipher.lasting_key("rate limits"), all_dealers)


def _card_facts(settings: Settings, listens_at: str) -> CardFacts:
    """The dealer's part of the agent cards. URLs start with `public_url` (docs/protocol.md#public-url)."""
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
        consent_text=consent_text(settings.leads.consent_text, profile.name),
    )
