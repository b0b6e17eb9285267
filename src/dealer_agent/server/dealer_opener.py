"""Opens a dealer: makes its service from its settings, its keys and its stock."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakSet

from dealer_agent import __version__
from dealer_agent.apidocs.discovery import KEYS_PATH, OFFER_KEYS_PATH
from dealer_agent.callers import PolicyBook
from dealer_agent.callers.issuer import Issuer
from dealer_agent.callers.issuer_metadata import openid_url
from dealer_agent.callers.policy import Policies
from dealer_agent.catalogue_loading.change_pages import ChangeReader
from dealer_agent.catalogue_loading.listings import listing_policy
from dealer_agent.catalogue_loading.snapshot_folder import SnapshotFolder
from dealer_agent.catalogue_loading.snapshot_loader import FILE, SnapshotLoader
from dealer_agent.catalogue_loading.snapshots import LoadedSnapshot
from dealer_agent.config import Settings
from dealer_agent.config.readiness import is_open
from dealer_agent.delivery.loop import DeliveryLoop
from dealer_agent.encryption import Cipher
from dealer_agent.encryption.card_signer import CardSigner
from dealer_agent.lead_intake.intake import LeadIntake
from dealer_agent.leads.lead_secrets import LeadSecrets
from dealer_agent.mcp_tools.consent import consent_text
from dealer_agent.offering.desk import MOST_PUBLISHED_KEYS, OfferDesk
from dealer_agent.offering.lead_desk import LeadDesk
from dealer_agent.open_installation import OpenInstallation
from dealer_agent.protocol.card import CardFacts, CardIssuer, OfferTerms
from dealer_agent.protocol.skill import ALL_SKILLS
from dealer_agent.protocol.vocabulary import vocabularies_of
from dealer_agent.server.access_tokens import AccessTokens
from dealer_agent.server.limits import DealerLimits, RateLimits
from dealer_agent.server.metrics import WorkerMetrics
from dealer_agent.server.service import RPC, Process, Service
from dealer_agent.server.shared_limits import SharedLimits
from dealer_agent.server.token_challenges import audiences
from dealer_agent.server.tokens import TokenRegistry
from dealer_agent.skills import dealer_of
from dealer_agent.storage.agent_policies import read_policies
from dealer_agent.storage.clock import has_trusted_time, trust_clock
from dealer_agent.storage.errors import ClockUnreliable
from dealer_agent.storage.isolation import ALL_DEALERS
from dealer_agent.storage.leads.lead_writer import LeadWriter
from dealer_agent.storage.mcp_answers import McpAnswers
from dealer_agent.storage.stock.reading import ChangeCounters, read_revision
from dealer_agent.storage.store import Store
from dealer_agent.storage.tokens import list_active_tokens
from dealer_agent.storage.transaction import Transaction
from dealer_agent.visits.calendar import subscribed_calendar

if TYPE_CHECKING:
    # Only with the extra `traces`.
    from dealer_agent.server.traces import Traces


NOT_YET_OPEN = "Not yet open: this dealer is still setting up its service. "
"""The beginning of the card's description while something is missing (`config.readiness`)."""


@dataclass
class DealerOpener:
    """Opens the dealers of a process.

    With `snapshots`, the snapshots of all dealers are files in that folder.
    """

    opened: OpenInstallation
    writer: LeadWriter
    process: Process
    deliveries: DeliveryLoop
    snapshots: SnapshotFolder | None
    metrics: WorkerMetrics | None = None
    traces: "Traces | None" = None
    _loaders: WeakSet[SnapshotLoader] = field(default_factory=WeakSet)

    def close(self) -> None:
        """Ends the loading of snapshots."""
        for loader in self._loaders:
            loader.close()

    async def open(self, dealer_id: str) -> Service:
        """The service of a dealer, with its current stock and tokens.

        Raises DealerUnknown, SettingsError, StorageError and SnapshotError.
        """
        store, process = self.opened.store, self.process
        revision, settings, cipher = await asyncio.to_thread(self._prepare, dealer_id)
        profile, installation = settings.dealer, self.opened.installation
        file = settings.folder / FILE if self.snapshots is None else self.snapshots.file_of(dealer_id)
        snapshots = SnapshotLoader(store, settings.database_url, profile, file, self.snapshots)
        self._loaders.add(snapshots)
        intake = LeadIntake(
            profile,
            self.writer,
            confirms_by_mail=settings.mail.confirms_visits,
            on_stored=partial(self.deliveries.wake, profile.id),
            on_result=(lambda _: None) if self.metrics is None else partial(self.metrics.count_lead, profile.id),
        )
        admitted, snapshot = await asyncio.to_thread(_read, store, profile.id, snapshots)
        rules = settings.rate_limits.by_rule
        is_only = installation.only is not None
        card = _card_facts(settings, installation.listens_at)
        if process.shared_policies is None:
            process.shared_policies = {} if is_only else await asyncio.to_thread(shared_policies, store)
            process.keep_keys_of(admitted.policies if is_only else process.shared_policies)
        limits = process.limits if is_only else process.limits.of_dealer(profile.id, rules)
        desk = offer_desk(settings, card.http_json_url, cipher, store, intake) if settings.offers.enabled else None
        changes = ChangeReader(store, listing_policy(profile), _cursor_key(profile.id, cipher)) if desk else None
        return Service(
            process=process,
            snapshots=snapshots,
            loaded=revision._replace(stock=snapshot.revision),
            dealer=dealer_of(
                profile,
                intake,
                settings.search,
                snapshot.catalogue,
                snapshot.at,
                desk,
                changes,
                snapshot.revision,
            ),
            tokens=admitted.tokens,
            access_tokens=_access_tokens(settings, card.http_json_url, process),
            policies=PolicyBook(
                admitted.policies,
                process.shared_policies,
                settings.agents.policies,
                settings.anonymous_leads_a_day,
            ),
            vocabularies=vocabularies_of(settings.service.vocabulary, settings.service.proto),
            limits=limits,
            shared_limits=self._shared_limits(limits, profile.id, rules, cipher),
            settings=settings,
            card=card,
            mcp_key=cipher.permanent_key("mcp request state"),
            mcp_answers=McpAnswers(store, profile.id),
            signer=card_signer(settings, card.http_json_url, cipher),
            calendar=lambda secret_hash: subscribed_calendar(store, profile, secret_hash, datetime.now(UTC)),
            customers=intake.for_customers(store),
            links=self.opened.customer_links(settings, cipher),
            stock_bytes=snapshot.size,
            counts=process.counts.of_dealer(profile.id, profile.timezone, settings.reports.agents),
            replies=process.replies.of_dealer(settings) if settings.record.replies else None,
            traces=self.traces,
            response_counts=None if self.metrics is None else self.metrics.of_dealer(profile.id),
            tenant=None if is_only else profile.id,
        )

    def _prepare(self, dealer_id: str) -> tuple[ChangeCounters, Settings, Cipher]:
        """The counters of changes, the settings and the cipher of a dealer.

        It gets keys, a trusted time and a folder if it has none.
        """
        # The counters first: the refresher then loads a later change.
        with self.opened.store.read(dealer_id) as tx:
            revision = read_revision(tx)
        settings = self.opened.settings_of(dealer_id)
        cipher = self.opened.store.check_keys(dealer_id)
        # Before the first lead. Otherwise a lead that is stored while the clock is wrong would make that time trusted.
        note_first_time(self.opened.store, dealer_id, datetime.now(UTC))
        settings.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return revision, settings, cipher

    def _shared_limits(
        self, machine: RateLimits | DealerLimits, dealer_id: str, rules: Mapping[str, str], cipher: Cipher
    ) -> SharedLimits | None:
        """The limits of a dealer in the store that machines share. None without a store."""
        store = self.process.limit_store
        if store is None:
            return None
        return SharedLimits(
            store, machine, dealer_id, rules, cipher.permanent_key("rate limits"), self._limits_of_all_dealers
        )

    @cached_property
    def _limits_of_all_dealers(self) -> SharedLimits | None:
        """The limits of an installation in the store that machines share. The only dealer of a folder has none."""
        installation, process = self.opened.installation, self.process
        if installation.only is not None or installation.cipher is None or process.limit_store is None:
            return None
        key, rules = installation.cipher.permanent_key("rate limits"), installation.file.rate_limits.by_rule
        return SharedLimits(process.limit_store, process.limits, ALL_DEALERS, rules, key)


class CallerData(NamedTuple):
    """What the database says about the callers of a dealer: its valid tokens, and its policies."""

    tokens: TokenRegistry
    policies: Policies


def _read(store: Store, dealer_id: str, snapshots: SnapshotLoader) -> tuple[CallerData, LoadedSnapshot]:
    """What a service needs from the database: the callers and the stock."""
    with store.read(dealer_id) as tx:
        admitted = admitted_callers(tx)
    return admitted, snapshots.load(datetime.now(UTC))


def admitted_callers(tx: Transaction) -> CallerData:
    """The tokens and the policies of a dealer. One counter counts the changes of both."""
    active = list_active_tokens(tx)
    expiries = {token.token_id: token.expires_at.timestamp() for token in active if token.expires_at is not None}
    scopes = {token.token_id: frozenset(token.scopes.split()) for token in active if token.scopes is not None}
    tokens = TokenRegistry(((token.token_id, token.token_hash) for token in active), expiries, scopes)
    return CallerData(tokens, read_policies(tx))


def shared_policies(store: Store) -> Policies:
    """The policies of an installation, which hold for all its dealers."""
    with store.read(ALL_DEALERS) as tx:
        return read_policies(tx)


def _access_tokens(settings: Settings, url: str, process: Process) -> AccessTokens:
    """The access tokens of a dealer at this URL. The keys of its issuers are fetched from now on."""
    if process.known_keys is not None:
        process.known_keys.pin(each.key_source for each in settings.auth.issuers)
    issuers = (
        (
            Issuer(
                url=each.issuer,
                audiences=frozenset({each.audience}) if each.audience else audiences(url),
                algorithms=frozenset(each.algorithms),
                clients=frozenset(each.clients),
                client_claim=each.client_claim,
            ),
            each.key_source,
        )
        for each in settings.auth.issuers
    )
    return AccessTokens(settings.dealer.id, issuers, process.known_keys, process.verified_tokens)


def note_first_time(store: Store, dealer_id: str, now: datetime) -> None:
    """Stores the trusted time at the first start of a dealer's service; `dispose` updates it. Raises StorageError."""
    with store.read(dealer_id, now) as tx:
        known = has_trusted_time(tx)
    if not known:
        with suppress(ClockUnreliable), store.write(dealer_id, now) as tx:
            trust_clock(tx)


def card_signer(settings: Settings, base_url: str, cipher: Cipher, number: int | None = None) -> CardSigner:
    """What signs a dealer's cards at a URL. A higher `card_key_number` is another key. `number` is an earlier one."""
    number = number or settings.service.card_key_number
    return CardSigner(
        cipher.permanent_key(f"card signatures of {settings.dealer.id}, key {number}"), base_url + KEYS_PATH
    )


def _cursor_key(dealer_id: str, cipher: Cipher) -> bytes:
    return cipher.permanent_key(f"stock cursors of {dealer_id}")


def offer_desk(settings: Settings, base_url: str, cipher: Cipher, store: Store, intake: LeadIntake) -> OfferDesk:
    """What answers the skills of the offers extension. Keys that have signed quotes stay published."""
    newest = settings.service.card_key_number
    oldest = max(1, newest - MOST_PUBLISHED_KEYS + 1)
    return OfferDesk(
        settings.dealer,
        settings.offers,
        settings.pricing,
        store,
        intake,
        [card_signer(settings, base_url, cipher, number) for number in range(newest, oldest - 1, -1)],
        base_url + OFFER_KEYS_PATH,
        cipher.permanent_key("offer idempotency"),
        LeadDesk(settings.dealer, store, intake, LeadSecrets(settings.dealer.id, cipher.permanent_key("lead secrets"))),
    )


def _card_facts(settings: Settings, listens_at: str) -> CardFacts:
    """The dealer's part of the agent cards. URLs start with `public_url` (docs/protocol.md#public-url)."""
    profile = settings.dealer
    base = settings.base_url(listens_at)
    websites = [rooftop.website for rooftop in profile.rooftops if rooftop.website]
    return CardFacts(
        name=profile.name,
        description=("" if is_open(settings) else NOT_YET_OPEN)
        + f"Inventory and leads of {profile.name}: {len(profile.rooftops)} "
        f"sales location{'s' if len(profile.rooftops) > 1 else ''}, searched and contacted by AI shopping agents.",
        version=__version__,
        organization=profile.name,
        website=websites[0] if websites else base,
        http_json_url=base,
        json_rpc_url=base + RPC,
        schemas_url=f"{base}/schemas",
        documentation_url=f"{base}/docs",
        skills=tuple(skill for skill in ALL_SKILLS if skill.id in settings.skills),
        bearer_skills=settings.token_skills,
        issuers=tuple(
            CardIssuer(f"issuer-{number}", openid_url(each.issuer), each.token_url)
            for number, each in enumerate(settings.auth.issuers, 1)
        ),
        consent_text=consent_text(settings.leads.consent_text, profile.name),
        offers=_offer_terms(settings),
    )


def _offer_terms(settings: Settings) -> OfferTerms | None:
    if not settings.offers.enabled:
        return None
    return OfferTerms(settings.offers.quote_minutes * 60, settings.offers.hold_minutes * 60, estimates_taxes=False)
