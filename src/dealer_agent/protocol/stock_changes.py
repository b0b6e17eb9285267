"""Defines the payloads of `inventory.changes` (docs/protocol.md#inventory-changes). Pure types."""

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from dealer_agent.protocol.requests import RequestPayload
from dealer_agent.protocol.vehicle import Vehicle

MOST_CHANGES: Final = 500
"""The most changes of a page."""
USUAL_CHANGES: Final = 100
LONGEST_CURSOR: Final = 2048
"""Characters. The id of a vehicle, which is the longest part of a cursor, has at most 100."""

ChangeKind = Literal["added", "changed", "removed"]


class InventoryChangesRequest(RequestPayload, tag="inventory.changes.request", frozen=True):
    """Asks for the changes of the stock since a response, whose `cursor` it sends. Without one, for the whole stock."""

    cursor: Annotated[str, Meta(min_length=1, max_length=LONGEST_CURSOR)] | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=MOST_CHANGES)] | UnsetType = UNSET


class StockChange(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A listing that was added, changed or removed. `vehicle` is the listing as it is now; absent if it was removed."""

    vehicle_id: str
    change: ChangeKind
    vehicle: Vehicle | UnsetType = UNSET


class StockChanges(Struct, frozen=True, kw_only=True):
    """A page of changes, in the order in which to apply them. With `more`, ask at once with this `cursor`.

    Without `more`, all changes together give what a search over everything answers. Ask again later.
    """

    changes: tuple[StockChange, ...]
    cursor: str
    more: bool
