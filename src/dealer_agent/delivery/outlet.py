"""What every way out has in common: a parcel arrives, or fails in words that may be stored and logged."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from dealer_agent.dealers.routing import Kind
from dealer_agent.leads.lead_view import LeadView
from dealer_agent.storage.outbox import Address


@dataclass(frozen=True, slots=True)
class Parcel:
    """A lead as it stands now, under the id that it is sent with each time: receivers tell repeats by it.

    `event_id` and `kind` are the row's: of what goes to the customer, the appointment's id.
    """

    delivery_id: str
    view: LeadView
    event_id: str | None = None
    kind: Kind = "lead"


class Outlet(Protocol):
    """A way out of the house.

    What may be long it makes in a thread: of a lead that a buyer stuffed, that takes a good part of a second,
    in which nobody else would be answered.
    """

    async def send(self, parcel: Parcel) -> str | None:
        """Sends; what is to be said of it although it arrived. Raises NotDelivered and NotToBeSent."""


Outlets = Mapping[Address, Outlet]
"""By rooftop and channel."""


class NotDelivered(Exception):  # noqa: N818 - it says what happened
    """It did not arrive, or nobody can say. `problem` is in our own words: no personal data, nothing a server said.

    `channel_ails`: others would fare no better now, so the channel's breaker counts it; else the receiver lives, and
    refused this one. `permanent`: it says that no later attempt will change that, which is not always true.
    """

    def __init__(
        self,
        problem: str,
        *,
        channel_ails: bool = True,
        permanent: bool = False,
        retry_after: timedelta | None = None,
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.channel_ails = channel_ails
        self.permanent = permanent
        self.retry_after = retry_after


class NotToBeSent(Exception):  # noqa: N818 - it says what happened
    """It must not be sent any more: the person was erased, or withdrew the consent."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
