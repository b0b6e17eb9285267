"""Made-up leads, as the outlets get them."""

from datetime import UTC, datetime, timedelta
from typing import Any

from dealer_agent.dealers.routing import Kind
from dealer_agent.delivery.outlet import DeliveryContent, OutgoingDocument, Outlet
from dealer_agent.leads.lead_view import LeadView, RooftopView, VisitTime, VisitView
from dealer_agent.leads.statuses import VisitStatus
from dealer_agent.protocol.requests import Appointment, Customer, SourceAgent

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


def parcel(
    delivery_id: str = "01JN0000000000000000000001", event_id: str | None = None, kind: Kind = "lead", **more: Any
) -> DeliveryContent:
    return DeliveryContent(delivery_id, view(**more), event_id, kind)


async def sent(outlet: Outlet, parcel: DeliveryContent) -> str | None:
    """Makes and sends it, as the loop does."""
    return await outlet.send(OutgoingDocument(parcel.delivery_id, parcel.message.lead_id, outlet.render(parcel)))


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
