"""A lead as ADF 1.0, the XML that dealers' CRMs read. The table in docs/reference/delivery.md maps the members. Pure.

Elements are in the DTD's order. The result is ASCII: other characters are character references.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from lxml import etree
from lxml.etree import _Element as Element
from msgspec import UNSET, UnsetType

from dealer_agent.leads import wording
from dealer_agent.leads.consent import EMAIL, PHONE, SMS
from dealer_agent.leads.lead_view import CancelledVisit, DeliveredMessage, ErasedLead, LeadView, RooftopView
from dealer_agent.leads.plain_text import lines, one_line, wrapped
from dealer_agent.leads.received_lead import names_a_vehicle
from dealer_agent.leads.statuses import CONFIRMED
from dealer_agent.leads.us_formats import money
from dealer_agent.protocol.formats import in_zone
from dealer_agent.protocol.requests import Address, TradeIn, VehicleOfInterest
from dealer_agent.protocol.responses import PostalAddress
from dealer_agent.protocol.vehicle import Vehicle, VehicleMembers

NOT_SPECIFIED = "Not specified"
"""The text of an element that the DTD requires, if its value is unknown."""

ID_SOURCE = "dealer-agent"
"""The source of a lead's ids. It never changes: CRMs identify a lead by source and id."""

PROLOG = b'<?xml version="1.0" encoding="UTF-8"?>\n<?adf version="1.0"?>\n'
"""The bytes before the root element. CRMs search for exactly these."""

COMMENT_WIDTH = 95
"""Characters. Even as character references, such a line has fewer than 998 octets, the limit of a mail. So ADF needs no
quoted-printable encoding, which some CRMs do not decode."""


def render_adf(message: DeliveredMessage) -> bytes:
    """The ADF document of a delivery: ASCII, and valid against the DTD for any content."""
    match message:
        case LeadView():
            return _lead(message)
        case ErasedLead():
            return _notice(message.lead_id, message.rooftop, message.erased_at, wording.erasure_words(message))
        case CancelledVisit():
            return _notice(
                message.lead_id, message.rooftop, message.cancelled_at, wording.cancelled_visit_lines(message)
            )


def _lead(view: LeadView) -> bytes:
    prospect = _prospect(view.lead_id, view.rooftop, view.submitted_at or view.received_at, resend=view.resend)
    _wanted_vehicle(prospect, view)
    if view.trade_in is not UNSET:
        _trade_in(prospect, view, view.trade_in)
    _customer(prospect, view)
    _vendor(prospect, view.rooftop)
    provider = etree.SubElement(prospect, "provider")
    _add(provider, "name", one_line(view.agent.name) or NOT_SPECIFIED)
    _add_known(provider, "url", view.agent.url)
    return _encoded(prospect)


def _notice(lead_id: str, rooftop: RooftopView, at: datetime, comments: Sequence[str]) -> bytes:
    prospect = _prospect(lead_id, rooftop, at, resend=True)
    _members(etree.SubElement(prospect, "vehicle"), VehicleOfInterest())
    customer = etree.SubElement(prospect, "customer")
    contact = etree.SubElement(customer, "contact")
    _add(contact, "name", NOT_SPECIFIED, part="full", type="individual")
    _add(contact, "phone", NOT_SPECIFIED)
    _comments(customer, comments)
    _vendor(prospect, rooftop)
    return _encoded(prospect)


def _prospect(lead_id: str, rooftop: RooftopView, at: datetime, *, resend: bool) -> Element:
    prospect = etree.SubElement(etree.Element("adf"), "prospect", status="resend" if resend else "new")
    _id(prospect, lead_id)
    _add(prospect, "requestdate", _timestamp(at, rooftop.zone))
    return prospect


def _encoded(prospect: Element) -> bytes:
    adf = prospect.getroottree()
    etree.indent(adf)
    return PROLOG + etree.tostring(adf, encoding="us-ascii", xml_declaration=False) + b"\n"


def _wanted_vehicle(prospect: Element, view: LeadView) -> None:
    """Adds the vehicle of interest, before a trade-in. CRMs require one, even if the customer named none."""
    test_drive = any(visit.kind == "test_drive" for visit in view.visits)
    element = etree.SubElement(prospect, "vehicle", interest="test-drive" if test_drive else "buy")
    if view.vehicle is not None:
        _listing(element, view.vehicle, view)
    elif view.interest is not UNSET:
        _vehicle_of_interest(element, view.interest, view)
    else:
        _members(element, VehicleOfInterest())
        _comments(element, ["The customer named no vehicle."])


def _listing(element: Element, vehicle: Vehicle, view: LeadView) -> None:
    """A vehicle in stock. The comments have the facts of the buyer's description that a listing cannot have."""
    comments = _condition(element, vehicle.condition)
    _id(element, vehicle.vehicle_id)
    _members(element, vehicle, price=vehicle.price)
    comments.append(f"Stock status: {wording.STATUSES[vehicle.status]}, {one_line(vehicle.rooftop)}")
    comments += wording.listing_facts(vehicle)
    if view.interest is not UNSET:
        notes = one_line(view.interest.notes or "")
        facts = [f"Notes: {notes}"] if notes else []
        facts += wording.extra_facts(view.interest, view.interest_extras)
        comments += [f"Buyer's agent: {fact}" for fact in facts]
    _comments(element, comments)


def _vehicle_of_interest(element: Element, interest: VehicleOfInterest, view: LeadView) -> None:
    comments = _condition(element, interest.condition)
    # An id that is not in stock may be the id of anything, so it is only a comment.
    _members(element, interest, price=interest.price, price_type="quote")
    if names_a_vehicle(interest):
        comments.append(wording.NOT_IN_STOCK)
    if interest.vehicle_id and one_line(interest.vehicle_id):
        comments.append(f"Vehicle id: {one_line(interest.vehicle_id)}")
    _comments(element, comments + wording.described_facts(interest, view.interest_extras))


def _trade_in(prospect: Element, view: LeadView, trade_in: TradeIn) -> None:
    element = etree.SubElement(prospect, "vehicle", interest="trade-in", status="used")
    _members(element, trade_in, grade=trade_in.condition)
    _comments(element, wording.described_facts(trade_in, view.trade_in_extras))


def _condition(element: Element, condition: str | UnsetType) -> list[str]:
    """Sets the condition. ADF has only new and used, so the third one is a comment."""
    if condition is not UNSET:
        element.set("status", "new" if condition == "new" else "used")
    return ["Certified pre-owned"] if condition == "cpo" else []


def _members(
    element: Element,
    vehicle: VehicleMembers,
    *,
    grade: str | UnsetType = UNSET,
    price: int | UnsetType = UNSET,
    price_type: str = "asking",
) -> None:
    _add(element, "year", NOT_SPECIFIED if vehicle.year is UNSET else str(vehicle.year))
    _add(element, "make", one_line(vehicle.make or "") or NOT_SPECIFIED)
    _add(element, "model", one_line(vehicle.model or "") or NOT_SPECIFIED)
    _add_known(element, "vin", vehicle.vin)
    _add_known(element, "stock", vehicle.stock)
    _add_known(element, "trim", vehicle.trim)
    _add_known(element, "bodystyle", vehicle.body)
    _add_known(element, "transmission", vehicle.transmission)
    if vehicle.mileage is not UNSET:
        _add(element, "odometer", str(vehicle.mileage), units="mi")
    _add_known(element, "condition", grade)
    _colors(element, vehicle)
    _add_known(element, "imagetag", next(filter(None, map(one_line, vehicle.photos or ())), ""))
    _price(element, vehicle, price, price_type)
    for feature in filter(None, map(one_line, vehicle.features or ())):
        _add(etree.SubElement(element, "option"), "optionname", feature)


def _colors(element: Element, vehicle: VehicleMembers) -> None:
    interior, exterior = one_line(vehicle.interior_color or ""), one_line(vehicle.exterior_color or "")
    if interior or exterior:
        colors = etree.SubElement(element, "colorcombination")
        _add_known(colors, "interiorcolor", interior)
        _add_known(colors, "exteriorcolor", exterior)
        _add(colors, "preference", "1")


def _price(element: Element, vehicle: VehicleMembers, price: int | UnsetType, price_type: str) -> None:
    """The first known one of price, list price and MSRP. ADF has one price, so the others are comments on it."""
    named = (("Price", price), ("List price", vehicle.list_price), ("MSRP", vehicle.msrp))
    known = [(name, amount) for name, amount in named if amount is not UNSET]
    comments = [f"{name} {money(amount)}" for name, amount in known[1:]]
    if known:
        name, amount = known[0]
        _add(element, "price", str(amount), type="msrp" if name == "MSRP" else price_type, currency="USD")
        if name == "List price":
            comments.insert(0, "The price is the list price")
    if vehicle.fees:
        fees = (f"{one_line(fee.name) or 'fee'} {money(fee.amount)}" for fee in vehicle.fees)
        included = "Included" if price is not UNSET else "Mandatory"
        comments.append(f"{included} charges: {', '.join(fees)}")
    _add_known(element, "pricecomments", ". ".join(comments))


def _customer(prospect: Element, view: LeadView) -> None:
    element = etree.SubElement(prospect, "customer")
    customer = view.customer
    contact = etree.SubElement(element, "contact")
    for part, name in (("first", customer.first_name), ("last", customer.last_name)):
        _add(contact, "name", one_line(name) or NOT_SPECIFIED, part=part, type="individual")
    prefers = customer.preferred_contact
    _add_known(contact, "email", customer.email, **_preferred(prefers == EMAIL))
    # The DTD requires an e-mail address or a phone number.
    phone = customer.phone or ("" if customer.email else NOT_SPECIFIED)
    phone_type = "cellphone" if SMS in view.channels else "voice"
    _add_known(contact, "phone", phone, type=phone_type, **_preferred(prefers in (PHONE, SMS)))
    if customer.address is not UNSET:
        _address(contact, customer.address)
    _comments(element, _customer_comments(view))


def _preferred(preferred: bool) -> dict[str, str]:
    return {"preferredcontact": "1"} if preferred else {}


def _address(contact: Element, known: Address | PostalAddress) -> None:
    """Adds an address that is not empty. The DTD requires a street."""
    streets = [one_line(text or "") for text in (known.address_line_1, known.address_line_2)]
    places = [one_line(text or "") for text in (known.city, known.state, known.zip, known.country)]
    if not any(streets + places):
        return
    address = etree.SubElement(contact, "address")
    for number, street in enumerate(filter(None, streets) if any(streets) else [NOT_SPECIFIED], 1):
        _add(address, "street", street, line=str(number))
    for tag, text in zip(("city", "regioncode", "postalcode", "country"), places, strict=True):
        _add_known(address, tag, text)


def _customer_comments(view: LeadView) -> Iterable[str]:
    """The facts that ADF has no element for. The service's text comes first, so the customer's cannot imitate it."""
    for visit in view.visits:
        yield from wording.visit_lines(visit)
        if visit.kind == "test_drive" and view.trade_in is not UNSET and visit.status == CONFIRMED:
            yield "The trade-in is to be appraised at the same visit."
    yield from wording.same_person_words(view)
    yield from wording.contact_words(view)
    yield f"Sent on the customer's behalf by an AI shopping agent: {one_line(view.agent.name) or NOT_SPECIFIED}"
    for visit in view.visits:
        if visit.request.notes and (notes := lines(visit.request.notes)):
            yield from ("Notes for the visit:", *notes)
    for number, message in enumerate(view.messages):
        if words := lines(message):
            yield from (f"{'Later message' if number else 'Message'} from the customer:", *words)


def _vendor(prospect: Element, rooftop: RooftopView) -> None:
    vendor = etree.SubElement(prospect, "vendor")
    name = one_line(rooftop.name) or NOT_SPECIFIED
    _add(vendor, "vendorname", name)
    _add_known(vendor, "url", rooftop.url)
    contact = etree.SubElement(vendor, "contact")
    _add(contact, "name", name, part="full", type="business")
    email, phone = one_line(rooftop.email or ""), one_line(rooftop.phone or "")
    _add_known(contact, "email", email)
    # The DTD requires an e-mail address or a phone number.
    _add_known(contact, "phone", phone or ("" if email else NOT_SPECIFIED), type="voice")
    if rooftop.address is not None:
        _address(contact, rooftop.address)


def _timestamp(moment: datetime, zone: str) -> str:
    """ISO 8601 on the rooftop's clock, or in UTC if the offset of that time is not in whole minutes."""
    local = in_zone(moment, ZoneInfo(zone)).replace(microsecond=0)
    offset = local.utcoffset()
    if offset is not None and offset.seconds % 60:
        local = in_zone(local, UTC)
    return local.isoformat()


def _id(parent: Element, text: str) -> None:
    _add(parent, "id", one_line(text), sequence="1", source=ID_SOURCE)


def _comments(parent: Element, comments: Iterable[str]) -> None:
    if fitting := [piece for line in comments for piece in _fitting(line)]:
        _add(parent, "comments", "\n".join(fitting))


def _fitting(line: str) -> list[str]:
    # Indented, so that no part of a long line looks like a separate line.
    return [line] if len(line) <= COMMENT_WIDTH else wrapped(line, COMMENT_WIDTH, hanging="  ")


def _add_known(parent: Element, tag: str, text: str | UnsetType | None, **attributes: str) -> None:
    if text and (line := one_line(text)):
        _add(parent, tag, line, **attributes)


def _add(parent: Element, tag: str, text: str, **attributes: str) -> None:
    etree.SubElement(parent, tag, attrib=attributes).text = text
