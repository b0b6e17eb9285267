"""Holds what the server works with: the process with its queue and limits, and the service of each dealer."""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import structlog
from starlette.types import Scope

from dealer_agent.callers import ANONYMOUS, Policy, PolicyBook
from dealer_agent.callers.caller import class_of
from dealer_agent.callers.policy import Policies
from dealer_agent.catalogue_loading.snapshot_loader import SnapshotLoader
from dealer_agent.config import Settings
from dealer_agent.config.settings import ServiceSettings
from dealer_agent.encryption.card_signer import CardSigner
from dealer_agent.known_keys.known import KnownKeys
from dealer_agent.leads.customer_links import CustomerLinks
from dealer_agent.protocol.card import CardFacts
from dealer_agent.protocol.errors import RateLimited
from dealer_agent.protocol.vocabulary import Vocabularies
from dealer_agent.server.access_tokens import AccessTokens, VerifiedTokens
from dealer_agent.server.admission import Admission
from dealer_agent.server.client_address import scope_address, share_address, undeclared_proxy
from dealer_agent.server.counting import DealerCounts, RequestCounts
from dealer_agent.server.limits import DealerLimits, PolicyLimits, RateLimits
from dealer_agent.server.metrics import ResponseCounts
from dealer_agent.server.nonces import FileNonces, StoredNonces
from dealer_agent.server.open_connections import OpenConnections
from dealer_agent.server.reply_record import DealerReplies, ReplyRecord
from dealer_agent.server.request_memory import HeldBytes, memory_of
from dealer_agent.server.shared_limits import LimitStore, SharedLimits
from dealer_agent.server.tokens import TokenRegistry
from dealer_agent.skills import Dealer
from dealer_agent.storage.mcp_answers import McpAnswers
from dealer_agent.storage.stock.reading import ChangeCounters
from dealer_agent.visits.customer_actions import CustomerActions

if TYPE_CHECKING:
    # Only with the extra `traces`.
    from dealer_agent.server.traces import Traces

log = structlog.get_logger()

BAD_TOKENS_RULE = "bad_tokens"
MALFORMED_LEADS_RULE = "malformed_leads"
UNKNOWN_LEADS_RULE = "unknown_leads"
HEALTH_RULE = "health"
MCP_RULE = "mcp"
NEW_AGENTS_RULE = "new_agents"

LEADS_TAKEN = "available"

MESSAGE_SEND = "/message:send"
RPC = "/rpc"


@dataclass
class Process:
    """What the dealers of a process share. The settings are about connections and requests without a dealer.

    `limits` count on this machine. Requests without a dealer always count there. `limit_store` is for the limits that
    machines share. `counts` are those of requests, by dealer. `replies` are those to record. `ready`: stock and tokens
    are up to date. `leads` says whether leads can be stored now. `failed_leads` counts the leads of each dealer that
    were answered with an error of the service, until `alerts` stores their number. `connections` are those of
    clients, from the first one on.
    `verified_tokens` are access tokens of issuers. `forwarded_by` is the address of a proxy that the settings do not
    name, once its requests were seen, which sets `proxy_noticed`. `refused` counts the requests that each rate limit
    has refused. `memory` counts the bytes of requests that connections hold. `shared_policies` are those of the
    installation, once they are read. `known_keys` are those of agents that sign their requests, and `nonces` are those
    that they have used; without them, signatures are ignored. `is_host_of` says whether a host is one of a dealer.
    """

    settings: ServiceSettings
    vocabularies: Vocabularies
    limits: RateLimits
    logs_access: bool
    limit_store: LimitStore | None = None
    load: Admission = field(default_factory=Admission)
    counts: RequestCounts = field(default_factory=RequestCounts)
    replies: ReplyRecord = field(default_factory=ReplyRecord)
    ready: bool = False
    leads: str = LEADS_TAKEN
    verified_tokens: VerifiedTokens = field(default_factory=VerifiedTokens)
    failed_leads: Counter[str] = field(default_factory=Counter)
    connections: OpenConnections | None = None
    forwarded_by: str | None = None
    proxy_noticed: asyncio.Event = field(default_factory=asyncio.Event)
    refused: Counter[str] = field(default_factory=Counter)
    shared_policies: Policies | None = None
    known_keys: KnownKeys | None = None
    nonces: FileNonces | StoredNonces | None = None
    is_host_of: Callable[[str, str], bool] = lambda _dealer_id, _name: False
    memory: HeldBytes = field(init=False)

    def __post_init__(self) -> None:
        self.memory = memory_of(self.settings)

    def keep_keys_of(self, policies: Policies) -> None:
        """Keeps the keys of the agents that have a policy, whatever strangers sign. A blocked one stays known."""
        if self.known_keys is not None:
            self.known_keys.pin(
                agent for agent in policies if agent.startswith("https://") and class_of(agent) == "signed"
            )

    def readiness(self, away: str) -> tuple[int, dict[str, Any]]:
        """The status of /readyz, and what its body says. `away` is the status in words when the database is away."""
        takes_leads = self.leads == LEADS_TAKEN
        status = away if not self.ready else "ready" if takes_leads else "leads cannot be stored"
        return 200 if self.ready and takes_leads else 503, {"status": status, "leads": self.leads}

    def too_many(self, rule: str, wait: int) -> RateLimited:
        """Counts a request that a rule refuses, and returns the error to raise."""
        self.refused[rule] += 1
        return RateLimited(wait)

    def note_forwarding(self, scope: Scope) -> None:
        """Notes, and logs once, that requests come through a proxy while `trusted_proxies` is not set.

        It is called for cards and pages, which each buyer fetches first, and not for skills, where it would cost.
        """
        if self.settings.trusted_proxies or self.forwarded_by is not None:
            return
        self.forwarded_by = undeclared_proxy(scope)
        if self.forwarded_by is not None:
            advice = (
                "all buyers behind it share one rate limit; if it is your proxy, set trusted_proxies = "
                f'["{self.forwarded_by}"]'
            )
            log.warning("proxy not declared", proxy=self.forwarded_by, advice=advice)
            self.proxy_noticed.set()

    def room_for_unknown_type(
        self, peer: str | None, headers: list[tuple[bytes, bytes]]
    ) -> AbstractContextManager[None]:
        """The room of a client for a large body whose `type` has not arrived (`HeldBytes.of_unknown_type`)."""
        return self.memory.of_unknown_type(share_address(peer, headers, self.settings.trusted_networks))

    async def count_request(self, rule: str, scope: Scope, cost: int = 1) -> None:
        """Counts an ASGI request against a rule, for the IP address of its client. Raises RateLimited."""
        wait = self.limits.acquire(rule, scope_address(scope, self.settings.trusted_networks), cost)
        if wait is not None:
            raise self.too_many(rule, wait)


@dataclass
class Service:
    """One dealer's service in one process. `dealer`, `tokens` and `policies` are replaced when there are newer ones.

    `loaded` are the revisions of them. `access_tokens` are those of issuers. `anonymous_policy` is the policy of
    anonymous callers. They may not use the `closed_skills`. They may use the `open_skills` under the rates of the
    dealer, so such a request needs no policy. `signer` signs the cards; without one they are not signed. `mcp_key`
    protects the state of MCP calls that wait for a person, and `mcp_answers` are what people have answered. `calendar`
    makes the file of the dealer's visits for the hash of a calendar's secret; None for any other. It reads the store,
    so it runs in a thread. `customers` and `links` answer the links in the mails to customers. `shared_limits` replaces
    `limits` if machines share their rate limits. `tenant` is the only tenant that a request may name; None accepts any.
    `documents` has the cards, pages and error responses that were needed, by the function that makes them.
    `document_bytes` is the size of the cards and pages. `replies` records replies, if the dealer wants it.
    `response_counts` counts the responses, if metrics are on, and `traces` makes spans, if traces are. `stock_bytes` is
    the size of the snapshot. `used_at` is the time of the last request, by `perf_counter`. `opened_at` is when the
    process read the settings.
    """

    process: Process
    snapshots: SnapshotLoader
    loaded: ChangeCounters
    dealer: Dealer
    tokens: TokenRegistry
    access_tokens: AccessTokens
    policies: PolicyBook
    vocabularies: Vocabularies
    limits: RateLimits | DealerLimits
    settings: Settings
    card: CardFacts
    mcp_key: bytes = field(repr=False)
    mcp_answers: McpAnswers
    signer: CardSigner | None
    calendar: Callable[[bytes], bytes | None]
    customers: CustomerActions
    links: CustomerLinks
    stock_bytes: int
    counts: DealerCounts
    used_at: float = 0.0
    opened_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    shared_limits: SharedLimits | None = None
    response_counts: ResponseCounts | None = None
    replies: DealerReplies | None = None
    traces: "Traces | None" = None
    tenant: str | None = None
    documents: dict[Any, Any] = field(default_factory=dict)
    document_bytes: int = 0
    anonymous_policy: Policy = field(init=False)
    closed_skills: frozenset[str] = field(init=False)
    open_skills: frozenset[str] = field(init=False)
    # The rate limits of each policy, made when they are first needed.
    _policy_limits: dict[Policy, PolicyLimits] = field(default_factory=dict, init=False)
    _shared_policy_limits: dict[Policy, SharedLimits] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.use_policies(self.policies)

    def use_policies(self, policies: PolicyBook) -> None:
        """Replaces the policies. Cards say which skills need proof of the caller, so they may be made again."""
        self.policies = policies
        anonymous = self.anonymous_policy = policies.of(ANONYMOUS)
        offered, needs_token = self.settings.skills, self.settings.token_skills
        self.closed_skills = frozenset(
            skill_id for skill_id in offered if skill_id in needs_token or not anonymous.allows(skill_id)
        )
        self.open_skills = offered - self.closed_skills - dict(anonymous.rates).keys()
        self._policy_limits.clear()
        self._shared_policy_limits.clear()
        if self.card.bearer_skills != self.closed_skills:
            self.card = replace(self.card, bearer_skills=self.closed_skills)
            self.documents.clear()
            self.document_bytes = 0

    @property
    def is_closed(self) -> bool:
        """Whether at least one skill is switched on, and anonymous callers may use none."""
        return bool(self.closed_skills) and self.closed_skills == self.settings.skills

    def limits_for(self, policy: Policy, rule: str) -> RateLimits | DealerLimits | PolicyLimits:
        """The limits of this machine that have the rule, for a caller with this policy."""
        if not policy.rates and policy.leads_a_day is None:
            return self.limits
        own = self._limits_of(policy)
        return own if rule in own else self.limits

    def shared_limits_for(self, policy: Policy, rule: str) -> SharedLimits:
        """The limits that machines share and that have the rule, for a caller with this policy."""
        assert self.shared_limits is not None, "the request notes counts only for the shared store"
        if (not policy.rates and policy.leads_a_day is None) or rule not in (own := self._limits_of(policy)):
            return self.shared_limits
        if policy not in self._shared_policy_limits:
            self._shared_policy_limits[policy] = self.shared_limits.of_policy(own, policy.rules)
        return self._shared_policy_limits[policy]

    def _limits_of(self, policy: Policy) -> PolicyLimits:
        limits = self._policy_limits.get(policy)
        if limits is None:
            limits = self._policy_limits[policy] = self.limits.of_policy(policy.rules)
        return limits

    @property
    def dealer_id(self) -> str:
        """The id of the dealer."""
        return self.settings.dealer.id

    @property
    def load(self) -> Admission:
        """The queue of requests of the process."""
        return self.process.load

    async def count_request(self, rule: str, scope: Scope, cost: int = 1) -> None:
        """Counts an ASGI request against a rule, for the IP address of its client. Raises RateLimited."""
        address = scope_address(scope, self.settings.service.trusted_networks)
        if self.shared_limits is None:
            wait = self.limits.acquire(rule, address, cost)
        else:
            wait = await self.shared_limits.acquire(rule, address, cost)
        if wait is not None:
            raise self.process.too_many(rule, wait)
