"""A lead as ADF 1.0, the XML that dealers' CRMs read. The table in docs/reference/delivery.md maps the members. Pure.

`templates/adf.xml` has the elements. The result is ASCII: other characters are character references.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import cache
from itertools import chain
from typing import NamedTuple
from zoneinfo import ZoneInfo

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from lxml import etree
from markupsafe import Markup, escape
from msgspec import UNSET

from dealer_agent.leads import wording
from dealer_agent.leads.lead_view import CancelledVisit, DeliveredMessage, ErasedLead, LeadView
from dealer_agent.leads.plain_text import lines, one_line, wrapped
from dealer_agent.leads.texts import render_lines
from dealer_agent.leads.us_formats import money
from dealer_agent.protocol.requests import TradeIn, VehicleOfInterest
from dealer_agent.protocol.timestamps import in_zone
from dealer_agent.protocol.vehicle import Vehicle

NOT_SPECIFIED = "Not specified"
"""The text of an element that the DTD requires, if its value is unknown."""

ID_SOURCE = "dealer-agent"
"""The source of a lead's ids. It never changes: CRMs identify a lead by source and id."""

PROLOG = b'<?xml version="1.0" encoding="UTF-8"?>\n<?adf version="1.0"?>\n'
"""The bytes before the root element. CRMs search for exactly these."""

COMMENT_WIDTH = 95
"""Characters. Even as character references, such a line has fewer than 998 octets, the limit of a mail. So ADF needs no
quoted-printable encoding, which some CRMs do not decode."""


class _Vehicle(NamedTuple):
    """A `vehicle` element."""

    interest: str
    vehicle: Vehicle | VehicleOfInterest | TradeIn
    comments: list[str]

    @property
    def status(self) -> str | None:
        """ADF has only new and used, so the third condition is a comment."""
        condition = "used" if isinstance(self.vehicle, TradeIn) else self.vehicle.condition
        return None if condition is UNSET else "new" if condition == "new" else "used"

    @property
    def prices(self) -> list[tuple[str, str, int]]:
        """The type, the name and the amount of each known price. ADF has one, so the others are comments on it."""
        vehicle = self.vehicle
        own = UNSET if isinstance(vehicle, TradeIn) else vehicle.price
        kind = "asking" if isinstance(vehicle, Vehicle | TradeIn) else "quote"
        named = ((kind, "Price", own), (kind, "List price", vehicle.list_price), ("msrp", "MSRP", vehicle.msrp))
        return [(kind, name, amount) for kind, name, amount in named if amount is not UNSET]

    @property
    def price_comments(self) -> str:
        """The other prices and the charges, as the text beside the price."""
        first = self.prices[0][1] if self.prices else ""
        comments = ["The price is the list price"] if first == "List price" else []
        comments += [f"{name} {money(amount)}" for _, name, amount in self.prices[1:]]
        if self.vehicle.fees:
            charges = (f"{one_line(fee.name) or 'fee'} {money(fee.amount)}" for fee in self.vehicle.fees)
            comments.append(f"{'Included' if first == 'Price' else 'Mandatory'} charges: {', '.join(charges)}")
        return ". ".join(comments)


def render_adf(message: DeliveredMessage) -> bytes:
    """The ADF document of a delivery: ASCII, and valid against the DTD for any content."""
    vehicles: Iterable[_Vehicle] = ()
    comments: Iterable[str]
    match message:
        case LeadView():
            at, vehicles, comments = message.submitted_at or message.received_at, _vehicles(message), _comments(message)
        case ErasedLead():
            at, comments = message.erased_at, render_lines("erasure.txt", erased=message)
        case CancelledVisit():
            at, comments = message.cancelled_at, render_lines("visit_cancelled.txt", visit=message)
    lead = message if isinstance(message, LeadView) else None
    text = _template().render(
        lead=lead,
        lead_id=message.lead_id,
        resend=lead is None or lead.resend,
        requested_at=_timestamp(at, message.rooftop.zone),
        rooftop=message.rooftop,
        vehicles=vehicles,
        comments=comments,
    )
    adf = etree.fromstring(text)
    for element in reversed(list(adf.iter())):
        parent = element.getparent()
        if parent is not None and not len(element) and not (element.text or "").strip():
            parent.remove(element)
    etree.indent(adf)
    return PROLOG + etree.tostring(adf, encoding="us-ascii", xml_declaration=False) + b"\n"


@cache
def _template() -> Template:
    """The template of the document, with its filters."""
    loader = PackageLoader("dealer_agent.leads")
    environment = Environment(
        loader=loader, autoescape=True, auto_reload=False, undefined=StrictUndefined, finalize=_line
    )
    environment.filters["required"] = lambda value: _line(value) or NOT_SPECIFIED
    environment.filters["visible"] = lambda values: list(filter(None, map(_line, values)))
    environment.filters["lines"] = lambda comments: escape("\n".join(chain.from_iterable(map(_fitting, comments))))
    environment.globals |= {"id_source": ID_SOURCE, "not_specified": NOT_SPECIFIED, "no_vehicle": VehicleOfInterest()}
    return environment.get_template("adf.xml")


def _line(value: object) -> str:
    """A value on one line. Empty for an absent value. `Markup` is a part of the document, and stays as it is."""
    if isinstance(value, Markup):
        return value
    return "" if value is None or value is UNSET else one_line(str(value))


def _vehicles(view: LeadView) -> Iterator[_Vehicle]:
    """The vehicle of interest, then a trade-in. CRMs require the first, even if the customer named none."""
    interest = "test-drive" if any(visit.kind == "test_drive" for visit in view.visits) else "buy"
    wanted = view.vehicle or view.interest or VehicleOfInterest()
    yield _Vehicle(interest, wanted, render_lines("vehicle_comments.txt", view=view))
    if view.trade_in is not UNSET:
        yield _Vehicle("trade-in", view.trade_in, wording.described_facts(view.trade_in, view.trade_in_extras))


def _comments(view: LeadView) -> Iterator[str]:
    """The facts that ADF has no element for. The service's text comes first, so the customer's cannot imitate it."""
    yield from render_lines("comments.txt", view=view)
    for visit in view.visits:
        if visit.request.notes and (notes := lines(visit.request.notes)):
            yield from ("Notes for the visit:", *notes)
    for number, message in enumerate(view.messages):
        if words := lines(message):
            yield from (f"{'Later message' if number else 'Message'} from the customer:", *words)


def _timestamp(moment: datetime, zone: str) -> str:
    """ISO 8601 on the rooftop's clock, or in UTC if the offset of that time is not in whole minutes."""
    local = in_zone(moment, ZoneInfo(zone)).replace(microsecond=0)
    offset = local.utcoffset()
    if offset is not None and offset.seconds % 60:
        local = in_zone(local, UTC)
    return local.isoformat()


def _fitting(line: str) -> list[str]:
    # Indented, so that no part of a long line looks like a separate line.
    return [line] if len(line) <= COMMENT_WIDTH else wrapped(line, COMMENT_WIDTH, hanging="  ")
