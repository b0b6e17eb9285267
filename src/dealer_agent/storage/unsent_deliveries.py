"""The deliveries that are waiting or parked, counted for the metrics."""

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import func, select

from dealer_agent.storage.outbox import Receiver, State
from dealer_agent.storage.schema import of_dealer, outbox
from dealer_agent.storage.transaction import Transaction


class UnsentDeliveries(NamedTuple):
    """The deliveries to one receiver that are waiting or parked: their number, and when the oldest was made."""

    rooftop: str
    channel: str
    state: State
    number: int
    oldest: datetime

    @property
    def receiver(self) -> Receiver:
        """The receiver: rooftop and channel."""
        return self.rooftop, self.channel


COUNT_UNSENT = (
    select(
        outbox.c.rooftop, outbox.c.channel, outbox.c.state, func.count().label("number"), func.min(outbox.c.created_at)
    )
    .where(of_dealer(outbox), outbox.c.state.in_(("waiting", "parked")))
    .group_by(outbox.c.rooftop, outbox.c.channel, outbox.c.state)
)


def unsent_deliveries(tx: Transaction) -> list[UnsentDeliveries]:
    """The deliveries that are waiting or parked, by receiver and state."""
    return [UnsentDeliveries(*row) for row in tx.execute(COUNT_UNSENT)]
