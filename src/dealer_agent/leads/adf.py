"""A lead as ADF 1.0, the XML that dealers' CRMs read. Pure.

Elements stand in the DTD's order, every text is made fit for XML, and the result is ASCII: what lies beyond it goes as
character references. Which member goes where is the table of docs/reference/delivery.md.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from lxml import etree
from lxml.etree import _Element as Element
from msgspec import UNSET, UnsetType

from dealer_agent.leads.lead_view import EndedVisit, ErasedLead, LeadView, Message, RooftopView
from dealer_agent.leads.plain_text import lines, one_line, wrapped
from dealer_agent.leads.received_lead import names_a_vehicle
from dealer_agent.leads.wording import (
    NOT_SPECIFIED,
    STATUSES,
    added_facts,
    claimed_facts,
    contact_words,
    ended_visit_lines,
    erasure_words,
    listing_facts,
    money,
    same_person_words,
    visit_lines,
)
from dealer_agent.protocol.formats import in_zone
from dealer_agent.protocol.requests import Customer, TradeIn, VehicleOfInterest
from dealer_agent.protocol.responses import PostalAddress
from dealer_agent.protocol.vehicle import Fee, Vehicle, VehicleMembers

ID_SOURCE = "dealer-agent"
"""Who gives the ids in a lead; CRMs tell leads apart by source and id, so it never changes."""

PROLOG = b'<?xml version="1.0" encoding="UTF-8"?>\n<?adf version="1.0"?>\n'
"""What stands before the root element, byte for byte: CRMs look for it."""

COMMENT_WIDTH = 95
"""Characters. As references they stay below the 998 octets of a line of mail, so that ADF goes by mail as it is: there
are CRMs that do not undo quoted-printable."""


def render_adf(view: LeadView) -> bytes:
    """The lead as one ADF document: ASCII, valid against the DTD whatever the lead says."""
    adf = etree.Element("adf")
    prospect = etree.SubElement(adf, "prospect", status="resend" if view.resend else "new")
    _id(prospect, view.lead_id)
    _add(prospect, "requestdate", _timestamp(view.submitted_at or view.received_at, view.rooftop.zone))
    _wanted_vehicle(prospect, view)
    if view.trade_in is not UNSET:
        _trade_in(prospect, view, view.trade_in)
    _customer(prospect, view)
    _vendor(prospect, view.rooftop)
    provider = etree.SubElement(prospect, "provider")
    _add(provider, "name", one_line(view.agent.name) or NOT_SPECIFIED)
    _add_known(provider, "url", view.agent.url or "")
    return _written(adf)


def adf_of(message: Message) -> bytes:
    """A message as one ADF document."""
    match message:
        case LeadView():
            return render_adf(message)
        case ErasedLead():
            return _notice(message.lead_id, message.rooftop, message.erased_at, erasure_words(message))
        case EndedVisit():
            return _notice(message.lead_id, message.rooftop, message.ended_at, ended_visit_lines(message))


def _notice(lead_id: str, rooftop: RooftopView, at: datetime, told: Sequence[str]) -> bytes:
    """A document about a lead that was sent before, without anything of the lead. The DTD asks for all its elements."""
    adf = etree.Element("adf")
    prospect = etree.SubElement(adf, "prospect", status="resend")
    _id(prospect, lead_id)
    _add(prospect, "requestdate", _timestamp(at, rooftop.zone))
    _members(etree.SubElement(prospect, "vehicle"), VehicleOfInterest())
    customer = etree.SubElement(prospect, "customer")
    contact = etree.SubElement(customer, "contact")
    _add(contact, "name", NOT_SPECIFIED, part="full", type="individual")
    _add(contact, "phone", NOT_SPECIFIED)
    _comments(customer, told)
    _vendor(prospect, rooftop)
    return _written(adf)


def _written(adf: Element) -> bytes:
    etree.indent(adf)
    return PROLOG + etree.tostring(adf, encoding="us-ascii", xml_declaration=False) + b"\n"


def _wanted_vehicle(prospect: Element, view: LeadView) -> None:
    """The first vehicle: CRMs want one even from a customer who named none, and before a trade-in."""
    test_drive = any(visit.kind == "test_drive" for visit in view.visits)
    element = etree.SubElement(prospect, "vehicle", interest="test-drive" if test_drive else "buy")
    if view.vehicle is not None:
        _listing(element, view.vehicle, view)
    elif view.wish is not UNSET:
        _wish(element, view.wish, view)
    else:
        _members(element, VehicleOfInterest())
        _comments(element, ["The customer named no vehicle."])


def _listing(element: Element, vehicle: Vehicle, view: LeadView) -> None:
    """A vehicle known to the stock, as the stock knows it. Of the buyer's claims only what a listing cannot say."""
    _sale_condition(element, vehicle.condition)
    _id(element, vehicle.vehicle_id)
    _members(element, vehicle, price=vehicle.price, price_type="asking")
    told = [*_certified(vehicle.condition), f"Stock status: {STATUSES[vehicle.status]}, {one_line(vehicle.rooftop)}"]
    told += listing_facts(vehicle)
    if view.wish is not UNSET:
        own = [f"Notes: {one_line(view.wish.notes)}"] if view.wish.notes and one_line(view.wish.notes) else []
        told += [f"Buyer's agent: {fact}" for fact in own + added_facts(view.wish, view.wish_extras)]
    _comments(element, told)


def _wish(element: Element, wish: VehicleOfInterest, view: LeadView) -> None:
    """A vehicle as the buyer described it."""
    _sale_condition(element, wish.condition)
    # An id that the stock does not know may be the id of anything: it goes among the comments.
    _members(element, wish, price=wish.price, price_type="quote")
    told = _certified(wish.condition)
    if names_a_vehicle(wish):
        told.append("Not found in stock when the lead came.")
    if wish.vehicle_id and one_line(wish.vehicle_id):
        told.append(f"Vehicle id: {one_line(wish.vehicle_id)}")
    _comments(element, told + claimed_facts(wish, view.wish_extras))


def _trade_in(prospect: Element, view: LeadView, trade_in: TradeIn) -> None:
    element = etree.SubElement(prospect, "vehicle", interest="trade-in", status="used")
    _members(element, trade_in, grade=trade_in.condition)
    _comments(element, claimed_facts(trade_in, view.trade_in_extras))


def _sale_condition(element: Element, condition: str | UnsetType) -> None:
    """ADF knows new and used only; unknown stays unsaid."""
    if condition is not UNSET:
        element.set("status", "new" if condition == "new" else "used")


def _certified(condition: str | UnsetType) -> list[str]:
    return ["Certified pre-owned"] if condition == "cpo" else []


def _members(
    element: Element,
    vehicle: VehicleMembers,
    *,
    grade: str | UnsetType = UNSET,
    price: int | UnsetType = UNSET,
    price_type: str = "asking",
) -> None:
    """The elements of a vehicle between its ids and its comments."""
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
    photo = next(filter(None, map(one_line, vehicle.photos or ())), "")
    _add_known(element, "imagetag", photo)
    _price(element, vehicle, price, price_type)
    for feature in filter(None, map(one_line, vehicle.features or ())):
        _add(etree.SubElement(element, "option"), "optionname", feature)


def _colors(element: Element, vehicle: VehicleMembers) -> None:
    inside, outside = one_line(vehicle.interior_color or ""), one_line(vehicle.exterior_color or "")
    if inside or outside:
        colors = etree.SubElement(element, "colorcombination")
        _add_known(colors, "interiorcolor", inside)
        _add_known(colors, "exteriorcolor", outside)
        _add(colors, "preference", "1")


def _price(element: Element, vehicle: VehicleMembers, price: int | UnsetType, price_type: str) -> None:
    """The price, else the list price, else the MSRP; ADF has room for one, the others go to the comments on it."""
    known = [
        (amount, kind, name)
        for amount, kind, name in (
            (price, price_type, "Price"),
            (vehicle.list_price, price_type, "List price"),
            (vehicle.msrp, "msrp", "MSRP"),
        )
        if amount is not UNSET
    ]
    fees = [_fee(fee) for fee in vehicle.fees or ()]
    told = [f"{name} {money(amount)}" for amount, _, name in known[1:]]
    if known:
        amount, kind, name = known[0]
        _add(element, "price", str(amount), type=kind, currency="USD")
        if name == "List price":
            told.insert(0, "The price is the list price")
    if fees:
        told.append(f"{'Included' if price is not UNSET else 'Mandatory'} charges: {', '.join(fees)}")
    _add_known(element, "pricecomments", ". ".join(told))


def _fee(fee: Fee) -> str:
    return f"{one_line(fee.name) or 'fee'} {money(fee.amount)}"


def _customer(prospect: Element, view: LeadView) -> None:
    element = etree.SubElement(prospect, "customer")
    customer = view.customer
    contact = etree.SubElement(element, "contact")
    for part, name in (("first", customer.first_name), ("last", customer.last_name)):
        _add(contact, "name", one_line(name) or NOT_SPECIFIED, part=part, type="individual")
    prefers = customer.preferred_contact
    _add_known(contact, "email", customer.email, **({"preferredcontact": "1"} if prefers == "email" else {}))
    # The DTD asks for one of them.
    _add_known(
        contact,
        "phone",
        customer.phone or ("" if customer.email else NOT_SPECIFIED),
        type="cellphone" if "sms" in view.channels else "voice",
        **({"preferredcontact": "1"} if prefers in ("phone", "sms") else {}),
    )
    _customer_address(contact, customer)
    _comments(element, _told_of_customer(view))


def _customer_address(contact: Element, customer: Customer) -> None:
    address = customer.address
    if address is UNSET:
        return
    streets = [one_line(line) for line in (address.address_line_1 or "", address.address_line_2 or "")]
    rest = [one_line(text or "") for text in (address.city, address.state, address.zip, address.country)]
    if any(streets) or any(rest):
        _address(contact, streets, rest)


def _address(contact: Element, streets: Sequence[str], rest: Sequence[str]) -> None:
    """`rest` is city, region, postal code and country. The DTD asks for a street."""
    address = etree.SubElement(contact, "address")
    for number, street in enumerate(filter(None, streets) if any(streets) else [NOT_SPECIFIED], 1):
        _add(address, "street", street, line=str(number))
    for tag, text in zip(("city", "regioncode", "postalcode", "country"), rest, strict=True):
        _add_known(address, tag, text)


def _told_of_customer(view: LeadView) -> list[str]:
    """What ADF has no element for: our own words first, then the customer's, so that neither is taken for the other."""
    told = []
    for visit in view.visits:
        told += visit_lines(visit)
        if visit.kind == "test_drive" and view.trade_in is not UNSET and visit.status == "confirmed":
            told.append("The trade-in is to be appraised at the same visit.")
    told += [*same_person_words(view), *contact_words(view)]
    agent = one_line(view.agent.name) or NOT_SPECIFIED
    told.append(f"Sent on the customer's behalf by an AI shopping agent: {agent}")
    for visit in view.visits:
        if visit.request.notes and (notes := lines(visit.request.notes)):
            told += ["Notes for the visit:", *notes]
    for number, message in enumerate(view.messages):
        if words := lines(message):
            told += ["Message from the customer:" if number == 0 else "Later message from the customer:", *words]
    return told


def _vendor(prospect: Element, rooftop: RooftopView) -> None:
    vendor = etree.SubElement(prospect, "vendor")
    name = one_line(rooftop.name) or NOT_SPECIFIED
    _add(vendor, "vendorname", name)
    _add_known(vendor, "url", rooftop.url)
    contact = etree.SubElement(vendor, "contact")
    _add(contact, "name", name, part="full", type="business")
    email, phone = one_line(rooftop.email or ""), one_line(rooftop.phone or "")
    _add_known(contact, "email", email)
    # The DTD asks for one of them.
    _add_known(contact, "phone", phone or ("" if email else NOT_SPECIFIED), type="voice")
    if rooftop.address is not None:
        _rooftop_address(contact, rooftop.address)


def _rooftop_address(contact: Element, address: PostalAddress) -> None:
    streets = [one_line(line) for line in (address.address_line_1, address.address_line_2 or "")]
    _address(contact, streets, [one_line(text) for text in (address.city, address.state, address.zip, address.country)])


def _timestamp(moment: datetime, zone: str) -> str:
    """ISO 8601 on the rooftop's clock; in UTC for times before zones were counted in whole minutes."""
    local = in_zone(moment, ZoneInfo(zone)).replace(microsecond=0)
    offset = local.utcoffset()
    if offset is not None and offset.seconds % 60:
        local = in_zone(local, UTC)
    return local.isoformat()


def _id(parent: Element, text: str) -> None:
    _add(parent, "id", one_line(text), sequence="1", source=ID_SOURCE)


def _comments(parent: Element, told: Sequence[str]) -> None:
    if told:
        _add(parent, "comments", "\n".join(piece for line in told for piece in _fitting(line)))


def _fitting(line: str) -> list[str]:
    # Indented, so that no part of a long line looks like a separate line.
    return [line] if len(line) <= COMMENT_WIDTH else wrapped(line, COMMENT_WIDTH, hanging="  ")


def _add_known(parent: Element, tag: str, text: str | UnsetType | None, **attributes: str) -> None:
    """A line of text from outside; nothing where it says nothing."""
    if text and (line := one_line(text)):
        _add(parent, tag, line, **attributes)


def _add(parent: Element, tag: str, text: str, **attributes: str) -> None:
    etree.SubElement(parent, tag, attrib=attributes).text = text
