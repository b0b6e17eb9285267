"""The deliveries that are waiting or undeliverable, counted for the metrics and for alerts."""

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import bindparam, func, or_, select

from dealer_agent.storage.columns import UtcTime
from dealer_agent.storage.deliveries.outbox import Receiver, State
from dealer_agent.storage.schema import of_dealer, outbox
from dealer_agent.storage.transaction import Transaction


class UnsentDeliveries(NamedTuple):
    """The deliveries to one receiver that are waiting or undeliverable: their number, and since when the oldest is.

    `problem` is why one of them failed, if any was tried.
    """

    rooftop: str
    channel: str
    state: State
    number: int
    oldest: datetime
    problem: str | None = None

    @property
    def receiver(self) -> Receiver:
        """The receiver: rooftop and channel."""
        return self.rooftop, self.channel


_GROUP = (outbox.c.rooftop, outbox.c.channel, outbox.c.state)

COUNT_UNSENT = (
    select(
        *_GROUP,
        func.count(),
        func.min(func.coalesce(outbox.c.settled_at, outbox.c.created_at), type_=UtcTime),
        func.max(outbox.c.problem),
    )
    .where(of_dealer(outbox), outbox.c.state.in_(("waiting", "undeliverable")))
    .group_by(*_GROUP)
    .order_by(*_GROUP)
)

COUNT_LONG_UNSENT = COUNT_UNSENT.where(
    or_(outbox.c.state == "undeliverable", outbox.c.created_at <= bindparam("before"))
)


def unsent_deliveries(tx: Transaction, before: datetime | None = None) -> list[UnsentDeliveries]:
    """The deliveries that are waiting or undeliverable, by receiver and state.

    With `before`, only those of the waiting ones that wait since then or longer.
    """
    rows = tx.execute(COUNT_UNSENT) if before is None else tx.execute(COUNT_LONG_UNSENT, {"before": before})
    return [UnsentDeliveries(*row) for row in rows]
