"""Mails about a lead to the dealer's staff, and the subject of the mail to a CRM. Pure.

Text from the sender is shortened. A sender's line never starts at the margin, so it cannot imitate a line of the
service.
"""

from msgspec import UNSET

from dealer_agent.leads.channels import EMAIL, PHONE, SMS
from dealer_agent.leads.lead_view import CancelledVisit, DeliveredMessage, ErasedLead, LeadView, VisitView
from dealer_agent.leads.lead_words import erasure_words, refusal_words, same_person_words, withdrawal_words
from dealer_agent.leads.mail_text import Mail, joined, section
from dealer_agent.leads.plain_text import quoted, short, wrapped
from dealer_agent.leads.received_lead import names_a_vehicle
from dealer_agent.leads.statuses import CONFIRMED, PROPOSED, REQUESTED
from dealer_agent.leads.us_formats import money, phone_number, time_words
from dealer_agent.leads.vehicle_words import (
    CONDITIONS,
    NOT_IN_STOCK,
    STATUSES,
    described_facts,
    listing_facts,
    vehicle_words,
    wanted_words,
)
from dealer_agent.leads.visit_words import VISITS, cancelled_visit_lines, visit_lines, visit_title, visit_with_time
from dealer_agent.protocol.requests import TradeIn, VehicleOfInterest
from dealer_agent.protocol.vehicle import Vehicle, VehicleMembers

MOST_FACTS = 20
"""The most facts from a described vehicle in a mail. ADF and JSON have all of them."""


def adf_mail_subject(message: DeliveredMessage) -> str:
    """The subject of the mail with the ADF document. It starts with the rooftop and does not name the customer."""
    match message:
        case LeadView():
            about = [_reason_words(message) if message.resend else "new lead", short(wanted_words(message), 80)]
        case ErasedLead():
            about = [f"lead {message.lead_id} erased"]
        case CancelledVisit():
            when = time_words(message.time.start, message.rooftop.zone)
            about = [f"{VISITS[message.kind]} on {when} cancelled"]
    return f"{short(message.rooftop.name, 80)}: {', '.join(filter(None, about))}"


def staff_mail(message: DeliveredMessage) -> Mail:
    """A message in plain English for the staff of the rooftop."""
    match message:
        case LeadView():
            return _lead_mail(message)
        case ErasedLead():
            lines = wrapped(" ".join([*erasure_words(message), "Also delete the earlier mails about it."]))
        case CancelledVisit():
            lines = [piece for line in cancelled_visit_lines(message) for piece in wrapped(line, hanging="  ")]
    return Mail(adf_mail_subject(message), joined([lines]))


def _lead_mail(view: LeadView) -> Mail:
    names = (short(view.customer.first_name, 60), short(view.customer.last_name, 60))
    name = " ".join(filter(None, names)) or "A customer"
    vehicle = short(wanted_words(view), 100)
    summary = f"{name} is interested in the {vehicle}." if vehicle else f"{name} would like to hear from you."
    if view.resend:
        summary = f"{summary} You have this lead already: {_reason_clause(view)}. This mail has the whole lead."
    sections = [wrapped(summary, hanging="  "), *(wrapped(words) for words in same_person_words(view))]
    for visit in view.visits:
        lines = visit_lines(visit)
        sections.append(section(lines[0], [*lines[1:], *_appraisal(view, visit)]))
        if visit.request.notes:
            sections.append(["Their notes for the visit:", *quoted(visit.request.notes)])
    sections.append(section("How to reach them", _contact_lines(view)))
    if view.vehicle is not None:
        sections.append(section("The vehicle", _listing(view.vehicle)))
    elif view.wish is not UNSET:
        sections.append(section("The vehicle, as they describe it", _wish(view, view.wish)))
    if view.trade_in is not UNSET:
        sections.append(section("Their trade-in, as they describe it", _trade_in(view, view.trade_in)))
    sections += [["They write:", *words] for message in view.messages if (words := quoted(message))]
    agent = short(view.agent.name, 80) or "unnamed"
    received = time_words(view.received_at, view.rooftop.zone)
    origin = f"Sent on their behalf by an AI shopping agent ({agent}) on {received}. Lead {view.lead_id}."
    sections.append(wrapped(origin, hanging="  "))
    open_visits = [visit for visit in view.visits if visit.status in (CONFIRMED, PROPOSED, REQUESTED)]
    about = visit_title(open_visits[-1]).lower() if open_visits else "new lead"
    if view.resend:
        about = _reason_words(view)
    subject = ", ".join(filter(None, (f"{short(view.rooftop.name, 80)}: {about}", short(name, 60), vehicle)))
    return Mail(subject, joined(sections))


def _reason_words(view: LeadView) -> str:
    """The reason why a lead is sent again, for a subject."""
    if view.cancelled_visit:
        return visit_title(view.cancelled_visit).lower()
    if view.withdrawn:
        return "consent withdrawn"
    return "lead with additions" if view.added else "lead sent again"


def _reason_clause(view: LeadView) -> str:
    """The reason why a lead is sent again, inside a sentence."""
    if view.cancelled_visit:
        return f"{visit_with_time(view.cancelled_visit)} was cancelled"
    if view.withdrawn:
        return "the customer withdrew consent"
    return "something was added to it" if view.added else "it is sent again"


def _appraisal(view: LeadView, visit: VisitView) -> list[str]:
    both = visit.kind == "test_drive" and visit.status == CONFIRMED and view.trade_in is not UNSET
    return ["Their trade-in is to be appraised at the same visit."] if both else []


def _contact_lines(view: LeadView) -> list[str]:
    """The contact points with their allowed uses, then the channels that must not be used."""
    customer, channels = view.customer, view.channels
    lines = withdrawal_words(view)
    preferred = customer.preferred_contact
    if customer.email is not UNSET:
        lines.append(f"E-mail: {short(customer.email)}{' (preferred)' if preferred == EMAIL else ''}")
    if customer.phone is not UNSET:
        uses = {channel: words for channel, words in ((PHONE, "calls"), (SMS, "text messages")) if channel in channels}
        use = f"{' and '.join(uses.values())}{' only' if len(uses) == 1 else ''}"
        if len(uses) > 1 and preferred in (PHONE, SMS):
            use = f"{use}, {uses[preferred]} preferred"
        lines.append(f"Phone: {phone_number(customer.phone)}, for {use}")
    if not channels:
        lines.append("They agree to no channel: their consent was withdrawn or has expired.")
    return lines + refusal_words(view)


def _listing(vehicle: Vehicle) -> list[str]:
    status = f"Stock status: {STATUSES[vehicle.status]}, {short(vehicle.rooftop)}"
    lines = [_title(vehicle, vehicle.condition), *_numbers(vehicle), status, *_appearance(vehicle)]
    if vehicle.price is not UNSET:
        lines.append(f"Price {money(vehicle.price)}, all our charges included")
    return lines + [short(fact) for fact in listing_facts(vehicle)]


def _wish(view: LeadView, wish: VehicleOfInterest) -> list[str]:
    lines = [_title(wish, wish.condition), *_numbers(wish)]
    if names_a_vehicle(wish):
        lines.append(NOT_IN_STOCK)
    lines += _appearance(wish)
    if wish.price is not UNSET:
        lines.append(f"Price they speak of: {money(wish.price)}")
    return lines + _first_facts(described_facts(wish, view.wish_extras))


def _trade_in(view: LeadView, trade_in: TradeIn) -> list[str]:
    lines = [_title(trade_in), *_numbers(trade_in), *_appearance(trade_in)]
    if trade_in.condition is not UNSET:
        lines.append(f"Condition, in their words: {trade_in.condition}")
    return lines + _first_facts(described_facts(trade_in, view.trade_in_extras))


def _title(vehicle: VehicleMembers, condition: object = UNSET) -> str:
    words = CONDITIONS.get(str(condition), "")
    return ", ".join(filter(None, (short(vehicle_words(vehicle), 100) or "Make and model not given", words)))


def _numbers(vehicle: VehicleMembers) -> list[str]:
    known = (("Stock", vehicle.stock), ("VIN", vehicle.vin))
    numbers = ", ".join(f"{name} {number}" for name, text in known if text and (number := short(text, 60)))
    return [numbers] if numbers else []


def _appearance(vehicle: VehicleMembers) -> list[str]:
    parts = [] if vehicle.mileage is UNSET else [f"{vehicle.mileage:,} miles"]
    for text, suffix in (
        (vehicle.exterior_color, " outside"),
        (vehicle.interior_color, " inside"),
        (vehicle.body, ""),
        (vehicle.transmission, " transmission"),
    ):
        if text and (words := short(text.replace("_", " "), 60)):
            parts.append(f"{words}{suffix}")
    return [", ".join(parts)] if parts else []


def _first_facts(facts: list[str]) -> list[str]:
    more = len(facts) - MOST_FACTS
    return [short(fact) for fact in facts[:MOST_FACTS]] + ([f"... and {more} more"] if more > 0 else [])
