"""What the server works with: the dealer, the wire vocabularies, tokens, limits and options."""

from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network

from dealer_agent.lead_intake import CustomerActions
from dealer_agent.leads.customer_links import CustomerLinks
from dealer_agent.protocol.card import CardFacts
from dealer_agent.protocol.skill import SKILL_BY_PAYLOAD, LeadSubmitRequest
from dealer_agent.protocol.vocabulary import Wire
from dealer_agent.server.admission import Admission
from dealer_agent.server.limits import RateLimits
from dealer_agent.server.tokens import TokenRegistry
from dealer_agent.skills import Dealer

ADDRESS_RULE = "address"
BAD_TOKENS_RULE = "bad_tokens"
MALFORMED_LEADS_RULE = "malformed_leads"
MAX_CONNECTIONS = 10_000
MAX_CONNECTIONS_PER_ADDRESS = 128
HEALTH_RULE = "health"

LEADS_TAKEN = "available"

MESSAGE_SEND = "/message:send"
RPC = "/rpc"


@dataclass(frozen=True)
class Options:
    """The settings that the server reads. `bearer_skills` ask for a token; `skills` are those switched on."""

    skills: frozenset[str]
    bearer_skills: frozenset[str]
    revision: str = "1.0.0"
    lenient_configuration: bool = False
    body_limit_bytes: int = 32 * 1024
    lead_body_limit_bytes: int = 256 * 1024
    request_timeout_seconds: float = 30
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    access_log: bool = True
    max_connections: int = MAX_CONNECTIONS
    max_connections_per_address: int = MAX_CONNECTIONS_PER_ADDRESS

    @property
    def largest_body_bytes(self) -> int:
        """The limit of a body whose skill is not known yet."""
        takes_leads = SKILL_BY_PAYLOAD[LeadSubmitRequest].id in self.skills
        return max(self.body_limit_bytes, self.lead_body_limit_bytes) if takes_leads else self.body_limit_bytes

    @property
    def all_bearer(self) -> bool:
        """Whether every skill asks for a token."""
        return bool(self.skills) and self.skills <= self.bearer_skills


@dataclass
class Service:
    """One dealer's service in one process. `dealer` and `tokens` are replaced whole when the store has newer ones.

    `ready`: stock and tokens are up to date. `leads` says whether leads can be stored now.

    `calendar` makes the file of the dealer's visits for the hash of a calendar's secret; None for any other. It reads
    the store, so it runs in a thread. `customers` and `links` answer the links in the mails to customers.
    """

    dealer: Dealer
    tokens: TokenRegistry
    wire: Wire
    limits: RateLimits
    options: Options
    card: CardFacts
    calendar: Callable[[bytes], bytes | None]
    customers: CustomerActions
    links: CustomerLinks
    ready: bool = False
    load: Admission = field(default_factory=Admission)
    leads: str = LEADS_TAKEN
