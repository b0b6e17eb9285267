"""What every outlet does: it makes a document from a message and sends it, or fails in the service's own words."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple, Protocol

from dealer_agent.dealers.routing import Kind
from dealer_agent.leads.lead_view import DeliveredMessage
from dealer_agent.storage.outbox import Address


@dataclass(frozen=True, slots=True)
class DeliveryDocument:
    """A message, made of what is stored now. `event_id` and `kind` are those of the delivery."""

    delivery_id: str
    message: DeliveredMessage
    event_id: str | None = None
    kind: Kind = "lead"


class OutgoingMessage(NamedTuple):
    """A document under the id that it is sent with each time: receivers recognise repeats by it."""

    delivery_id: str
    lead_id: str
    content: bytes


class Outlet(Protocol):
    """A receiver of leads."""

    def make(self, parcel: DeliveryDocument) -> bytes:
        """The document. Blocks: a lead at its bounds takes a good part of a second. Raises DeliveryDropped."""

    async def send(self, letter: OutgoingMessage) -> str | None:
        """Sends a document; returns a note about one that arrived. Raises NotDelivered."""


Outlets = Mapping[Address, Outlet]
"""By rooftop and channel."""


class NotDelivered(Exception):  # noqa: N818 - it says what happened
    """It did not arrive, or nobody knows. `problem` is in our own words: no personal data, no words of a server.

    `channel_ails`: others would fare no better now, so the channel's breaker counts it; else the receiver works, and
    refused this one. `permanent`: it says that no later attempt will change that, which is not always true.
    `may_have_arrived`: the receiver got some of it and did not refuse it.
    """

    def __init__(
        self,
        problem: str,
        *,
        channel_ails: bool = True,
        permanent: bool = False,
        retry_after: timedelta | None = None,
        may_have_arrived: bool = False,
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.channel_ails = channel_ails
        self.permanent = permanent
        self.retry_after = retry_after
        self.may_have_arrived = may_have_arrived


class DeliveryDropped(Exception):  # noqa: N818 - it says what happened
    """The delivery must not be sent: the person was erased, or the message is out of date."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class NeedsNewId(Exception):  # noqa: N818 - it says what happened
    """The document of the first attempt may not be sent again, so the delivery continues with another id."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
