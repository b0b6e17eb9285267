"""How wide the clients' types of responses are, so that the responses of other dealer agents fit. Pure.

The clients accept any word where the service has a list of words, any number where it has bounds, and unknown members.
They do not demand what only this service always sends.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from dealer_agent.protocol.responses import (
    DealerContact,
    FloatRange,
    IntRange,
    Named,
    PostalAddress,
    Schedule,
    TextCount,
    TimeSlot,
    YearCount,
)
from dealer_agent.protocol.skill import SearchPage
from dealer_agent.protocol.vehicle import Vehicle

NOT_DEMANDED: Final[Mapping[type[Struct], frozenset[str]]] = {
    Vehicle: frozenset({"vehicle_id", "rooftop", "updated_at"}),
    SearchPage: frozenset({"skip", "limit"}),
    Named: frozenset({"name"}),
    Schedule: frozenset({"name"}),
    PostalAddress: frozenset({"address_line_1", "city", "state", "zip"}),
    TimeSlot: frozenset({"end"}),
    DealerContact: frozenset({"name"}),
}
"""Members that this service always sends, and that published versions of the protocol do not demand."""

WIDER: Final[Mapping[type[Struct], Mapping[str, Any]]] = {
    TextCount: {"value": str | int | float | bool},
    YearCount: {"value": str | int},
    IntRange: {"min": int | float, "max": int | float},
    FloatRange: {"min": int | float, "max": int | float},
}
"""Members that have more types in published versions."""
