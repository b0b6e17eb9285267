"""The statuses of leads and visits, and which changes a visit allows (docs/protocol.md#appointments). Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final, Literal

from dealer_agent.protocol.responses import LeadStatus

RECEIVED: Final[LeadStatus] = "received"
DUPLICATE: Final[LeadStatus] = "duplicate"
"""It was added to an earlier lead of the same sender."""

QuarantineState = Literal["waiting", "released", "refused"]
"""Of a lead whose sender is in quarantine: it waits for a person, who releases or refuses it."""
WAITING: Final = "waiting"
RELEASED: Final = "released"
REFUSED: Final = "refused"

Mark = Literal["reached", "wrong", "spam", "sold"]
"""What staff say of a lead: the customer was reached or bought; the data was wrong; it was spam."""

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
"""Of visits whose times are those of the visit, not proposals."""
ENDED: Final[tuple[VisitStatus, ...]] = (CANCELLED, DONE, NO_SHOW)

VisitState = Literal["open", "ahead", "begun", "over", "done", "no_show", "replaced", "cancelled"]
"""The state of a visit at a time. An `open` visit has no time yet. A confirmed one is ahead, has begun, or is over."""

VisitAction = Literal["confirm", "move", "cancel", "close"]

POSSIBLE: Final[Mapping[VisitAction, tuple[VisitState, ...]]] = {
    "confirm": ("open",),
    "move": ("ahead",),
    "cancel": ("open", "ahead", "begun"),
    # A closed visit can be closed again, to correct a mistake.
    "close": ("begun", "over", "done", "no_show"),
}
"""The states in which a visit can be changed. A visit that gets a time, or another one, is a new visit."""


def visit_state(
    status: StoredStatus, starts_at: datetime | None, ends_at: datetime | None, now: datetime
) -> VisitState:
    """The state of a stored visit."""
    match status:
        case "requested" | "proposed" | "unavailable":
            return "open"
        case "confirmed":
            if starts_at is not None and starts_at > now:
                return "ahead"
            return "begun" if ends_at is not None and ends_at > now else "over"
        case ended:
            return ended
