"""Made-up leads, as the outlets get them."""

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from dealer_agent.dealers.routing import Kind
from dealer_agent.delivery.attempt import lease_outside_queue
from dealer_agent.delivery.outlet import Outlet
from dealer_agent.leads.lead_view import LeadView, RooftopView, VisitTime, VisitView
from dealer_agent.leads.statuses import VisitStatus
from dealer_agent.protocol.requests import Appointment, Customer, SourceAgent
from dealer_agent.storage.deliveries.outbox import DueDelivery

MONDAY = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
NORTH = RooftopView(name="Example Motors North", zone="America/New_York")


def view(**more: Any) -> LeadView:
    values: dict[str, Any] = {
        "lead_id": "01JN0000000000000000000000",
        "dealer_id": "example",
        "dealer_name": "Example Motors",
        "rooftop": NORTH,
        "received_at": MONDAY,
        "agent": SourceAgent("Example Agent"),
        "customer": Customer(first_name="Sam", last_name="Sample", email="sam@example.com"),
        "channels": ("email",),
    }
    return LeadView(**(values | more))


class Parcel(NamedTuple):
    delivery: DueDelivery
    message: LeadView


def parcel(
    delivery_id: str = "01JN0000000000000000000001", event_id: str | None = None, kind: Kind = "lead", **more: Any
) -> Parcel:
    message = view(**more)
    delivery = DueDelivery(delivery_id, message.lead_id, event_id, kind, NORTH.name, "crm", MONDAY, 1, "a lease", None)
    return Parcel(delivery, message)


async def sent(outlet: Outlet, parcel: Parcel) -> str | None:
    """Makes and sends it, as the loop does."""
    return await outlet.send(parcel.delivery, outlet.render(*parcel), lease_outside_queue(parcel.delivery))


def visit(appointment_id: str = "A1", status: VisitStatus = "confirmed", begins_in_hours: int = 48) -> VisitView:
    # Half an hour ago, and so many hours: no visit begins or ends while a test runs.
    start = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(hours=begins_in_hours, minutes=-30)
    return VisitView(
        appointment_id=appointment_id,
        status=status,
        rooftop=NORTH,
        request=Appointment(appointment_type="test_drive"),
        changed_at=MONDAY,
        times=(VisitTime(start, start + timedelta(hours=1)),),
    )
