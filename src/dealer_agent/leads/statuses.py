"""The statuses of leads and appointments (docs/protocol.md#appointments). Pure."""

from typing import Final, Literal

from dealer_agent.protocol.responses import LeadStatus

RECEIVED: Final[LeadStatus] = "received"
DUPLICATE: Final[LeadStatus] = "duplicate"
"""It was added to an earlier lead of the same sender."""

REQUESTED: Final = "requested"
PROPOSED: Final = "proposed"
CONFIRMED: Final = "confirmed"
UNAVAILABLE: Final = "unavailable"
"""No time was free. A person must find one."""
REJECTED: Final = "rejected"
REPLACED: Final = "replaced"
"""The customer asked for another visit instead."""
CANCELLED: Final = "cancelled"
"""The dealer or the customer cancelled it."""

ActiveStatus = Literal["requested", "proposed", "confirmed", "unavailable"]
ACTIVE: Final[tuple[ActiveStatus, ...]] = (REQUESTED, PROPOSED, CONFIRMED, UNAVAILABLE)
"""Of visits that were neither cancelled nor replaced."""

StoredStatus = Literal[ActiveStatus, "replaced", "cancelled"]
VisitStatus = Literal[ActiveStatus, "rejected", "cancelled"]
"""The statuses that documents show."""
