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
DONE: Final = "done"
NO_SHOW: Final = "no_show"
"""It was confirmed, and the customer did not come."""

ClosedStatus = Literal["done", "no_show"]

ActiveStatus = Literal["requested", "proposed", "confirmed", "unavailable"]
ACTIVE: Final[tuple[ActiveStatus, ...]] = (REQUESTED, PROPOSED, CONFIRMED, UNAVAILABLE)
"""Of visits that were neither cancelled, replaced nor closed."""

StoredStatus = Literal[ActiveStatus, ClosedStatus, "replaced", "cancelled"]
VisitStatus = Literal[ActiveStatus, ClosedStatus, "rejected", "cancelled"]
"""The statuses that documents show."""
AT_A_TIME: Final[tuple[VisitStatus, ...]] = (CONFIRMED, CANCELLED, DONE, NO_SHOW)
"""Of visits whose times are those of the visit, and no proposals."""
ENDED: Final[tuple[VisitStatus, ...]] = (CANCELLED, DONE, NO_SHOW)
