"""Reads what a list shows of many leads beside the leads themselves, in two statements. Nothing is decrypted."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import func, select

from dealer_agent.leads.statuses import StoredStatus
from dealer_agent.storage.deliveries.outbox import State
from dealer_agent.storage.schema import appointments, outbox
from dealer_agent.storage.statements import of_leads
from dealer_agent.storage.transaction import Transaction


@dataclass(slots=True)
class LeadSummary:
    """The status of the newest visit of a lead, and the number of its deliveries in each state."""

    visit: StoredStatus | None = None
    deliveries: Counter[State] = field(default_factory=Counter)

    @property
    def sent(self) -> str:
        """The states of the deliveries in words: `2 sent, 1 waiting`."""
        return ", ".join(f"{count} {state}" for state, count in sorted(self.deliveries.items()))


# Without ORDER BY: with it, SQLite would read the visits of all leads.
READ_STATUSES = select(
    appointments.c.lead_id, appointments.c.created_at, appointments.c.appointment_id, appointments.c.status
).where(of_leads(appointments))

COUNT_DELIVERIES = (
    select(outbox.c.lead_id, outbox.c.state, func.count())
    .where(of_leads(outbox))
    .group_by(outbox.c.lead_id, outbox.c.state)
)


def summaries_of(tx: Transaction, lead_ids: Sequence[str]) -> Mapping[str, LeadSummary]:
    """The summary of each of these leads."""
    summaries = {lead_id: LeadSummary() for lead_id in lead_ids}
    chosen = {"lead_ids": list(lead_ids)}
    if not lead_ids:
        return summaries
    for lead_id, _, _, status in sorted(tx.execute(READ_STATUSES, chosen)):
        summaries[lead_id].visit = status
    for lead_id, state, count in tx.execute(COUNT_DELIVERIES, chosen):
        summaries[lead_id].deliveries[state] = count
    return summaries
