"""A dealer who books visits, a Monday at nine, and requests for them."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import UNSET, UnsetType
from tests.skills.sample_dealers import a_lead

from dealer_agent.dealers.opening import WeekHours
from dealer_agent.dealers.profile import DealerRooftop, Deliver, FolderChannel, Profile, VisitRules
from dealer_agent.inventory.catalogue import Catalogue, Listing
from dealer_agent.protocol.requests import VisitKind
from dealer_agent.protocol.vehicle import Vehicle

NOW = datetime(2026, 3, 2, 15, 0, tzinfo=UTC)
"""Monday, nine in the morning in Chicago."""

DAILY = WeekHours(*["09:00-18:00"] * 7)


def rooftop(name: str, visits: Mapping[VisitKind, VisitRules], channel: str) -> DealerRooftop:
    return DealerRooftop(
        name=name,
        timezone="America/Chicago",
        hours={"sales": DAILY},
        visits=dict(visits),
        deliver=Deliver(directory=(FolderChannel(name=channel, path="leads"),)),
    )


DRIVES = VisitRules(durations_allowed=(30,), horizon_days=7)
PROFILE = Profile(
    id="ridgeline",
    name="Ridgeline Motors",
    feed_price="advertised",
    rooftops=(
        rooftop("Ridgeline North", {"test_drive": DRIVES}, "north"),
        rooftop(
            "Ridgeline South",
            {"test_drive": DRIVES, "trade_in": VisitRules(duration_minutes=30), "sales": VisitRules()},
            "south",
        ),
        rooftop("Ridgeline West", {"trade_in": VisitRules(duration_minutes=30)}, "west"),
        rooftop("Ridgeline East", {}, "east"),
    ),
)


def listing(stock: str, place: str, *, vehicle_id: str | None = None, vin: str | UnsetType = UNSET) -> Listing:
    return Listing.of(
        Vehicle(
            vehicle_id=vehicle_id or f"stock-{stock}",
            vin=vin,
            stock=stock,
            rooftop=place,
            status="available",
            updated_at=NOW,
            year=2024,
            make="Honda",
            model="Civic",
        )
    )


LOT = Catalogue.build(
    [
        listing("N1", "Ridgeline North"),
        listing("N2", "Ridgeline North"),
        listing("S1", "Ridgeline South"),
        listing("S2", "Ridgeline South"),
        listing("W1", "Ridgeline West"),
        listing("E1", "Ridgeline East"),
    ]
)


def at(clock: str, day: int = 3) -> str:
    """A time of March 2026 on the clock of Chicago, before the clocks change: `at("10:00")` is Tuesday's."""
    return f"2026-03-{day:02}T{clock}:00-06:00"


def visit(time: str | None = None, kind: str = "test_drive", **members: Any) -> dict[str, Any]:
    """An appointment by one time, or without any."""
    return {"appointment_type": kind} | ({} if time is None else {"appointment_at": time}) | members


def windows(*stretches: tuple[str, str], kind: str = "test_drive", **members: Any) -> dict[str, Any]:
    """An appointment by windows."""
    asked = [{"start": start, "end": end} for start, end in stretches]
    return {"appointment_type": kind, "requested_windows": asked} | members


def lead_with_visit(appointment: dict[str, Any], stock: str | None = "N1", **members: Any) -> dict[str, Any]:
    """A lead of a new customer who asks for a visit to see a vehicle, or none."""
    wish = {} if stock is None else {"vehicle_of_interest": {"stock": stock}}
    return a_lead(appointment=appointment, **wish, **members)
