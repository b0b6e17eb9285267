"""What the server works with: the dealer, the settings, the wire vocabularies, tokens and limits."""

from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.types import Scope

from dealer_agent.config import Settings
from dealer_agent.lead_intake.customer_actions import CustomerActions
from dealer_agent.leads.customer_links import CustomerLinks
from dealer_agent.protocol.card import CardFacts
from dealer_agent.protocol.vocabulary import Vocabularies
from dealer_agent.server.admission import Admission
from dealer_agent.server.client_address import client_address
from dealer_agent.server.limits import RateLimits
from dealer_agent.server.tokens import TokenRegistry
from dealer_agent.skills import Dealer

ADDRESS_RULE = "address"
BAD_TOKENS_RULE = "bad_tokens"
MALFORMED_LEADS_RULE = "malformed_leads"
HEALTH_RULE = "health"

LEADS_TAKEN = "available"

MESSAGE_SEND = "/message:send"
RPC = "/rpc"


@dataclass
class Service:
    """One dealer's service in one process. `dealer` and `tokens` are replaced whole when the store has newer ones.

    `ready`: stock and tokens are up to date. `leads` says whether leads can be stored now.

    `calendar` makes the file of the dealer's visits for the hash of a calendar's secret; None for any other. It reads
    the store, so it runs in a thread. `customers` and `links` answer the links in the mails to customers.
    """

    dealer: Dealer
    tokens: TokenRegistry
    vocabularies: Vocabularies
    limits: RateLimits
    settings: Settings
    card: CardFacts
    calendar: Callable[[bytes], bytes | None]
    customers: CustomerActions
    links: CustomerLinks
    ready: bool = False
    load: Admission = field(default_factory=Admission)
    leads: str = LEADS_TAKEN

    def count_request(self, rule: str, scope: Scope) -> None:
        """Counts an ASGI request against a rule, for the address of its client. Raises RateLimited."""
        peer = scope["client"][0] if scope.get("client") else None
        self.limits.enforce(rule, client_address(peer, scope["headers"], self.settings.service.trusted_networks))
