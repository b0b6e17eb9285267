"""Mails about a lead to the dealer's staff, and about a visit to the customer. Pure.

Mails to the customer have only data of the dealer, and the customer's first name if it looks like a name: anybody can
send a lead with the e-mail address of another person. In mails to the staff, text from the sender is shortened. A line
of the sender never starts at the margin, so it cannot imitate a line of the service.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple
from zoneinfo import ZoneInfo

from msgspec import UNSET

from dealer_agent.leads import wording
from dealer_agent.leads.consent import EMAIL, PHONE, SMS
from dealer_agent.leads.customer_links import CustomerLinks, LinkPurpose
from dealer_agent.leads.icalendar import CalendarVisit, Method, calendar_file, cancellation_file
from dealer_agent.leads.lead_view import (
    CancelledVisit,
    DeliveredMessage,
    ErasedLead,
    LeadView,
    RooftopView,
    VisitTime,
    VisitView,
)
from dealer_agent.leads.person_name import likely_name
from dealer_agent.leads.plain_text import quoted, short, wrapped
from dealer_agent.leads.received_lead import names_a_vehicle
from dealer_agent.leads.statuses import CANCELLED, CONFIRMED, PROPOSED, REQUESTED
from dealer_agent.leads.us_formats import join_words, money, period_words, phone_number, time_words
from dealer_agent.protocol.requests import TradeIn, VehicleOfInterest
from dealer_agent.protocol.vehicle import Vehicle, VehicleMembers


class CalendarPart(NamedTuple):
    """An iCalendar file in a mail, with its METHOD."""

    name: str
    method: Method
    content: bytes


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail without sender and recipients. The subject has no control character. `text` ends with a newline."""

    subject: str
    text: str
    calendars: tuple[CalendarPart, ...] = ()


def section(title: str, lines: Iterable[str]) -> list[str]:
    """A title with indented lines below it."""
    return [*wrapped(title), *(piece for line in lines for piece in wrapped(f"  {line}", hanging="    "))]


def joined(sections: Iterable[list[str]]) -> str:
    """The sections with empty lines between them. An empty section is left out."""
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


MOST_FACTS = 20
"""The most facts from a described vehicle in a mail. ADF and JSON have all of them."""


def adf_mail_subject(message: DeliveredMessage) -> str:
    """The subject of the mail with the ADF document. It starts with the rooftop and does not name the customer."""
    match message:
        case LeadView():
            reason = _resend_reason(message)[0] if message.resend else "new lead"
            about = [reason, short(wording.wanted_words(message), 80)]
        case ErasedLead():
            about = [f"lead {message.lead_id} erased"]
        case CancelledVisit():
            when = time_words(message.time.start, message.rooftop.zone)
            about = [f"{wording.VISITS[message.kind]} on {when} cancelled"]
    return f"{short(message.rooftop.name, 80)}: {', '.join(filter(None, about))}"


def staff_mail(message: DeliveredMessage) -> Mail:
    """The mail of a delivery to the staff of the rooftop, as readable text."""
    match message:
        case LeadView():
            return _lead_mail(message)
        case ErasedLead():
            lines = wrapped(" ".join([*wording.erasure_words(message), "Also delete the earlier mails about it."]))
        case CancelledVisit():
            lines = [piece for line in wording.cancelled_visit_lines(message) for piece in wrapped(line, hanging="  ")]
    return Mail(adf_mail_subject(message), joined([lines]))


def _lead_mail(view: LeadView) -> Mail:
    names = (short(view.customer.first_name, 60), short(view.customer.last_name, 60))
    name = " ".join(filter(None, names)) or "A customer"
    vehicle = short(wording.wanted_words(view), 100)
    summary = f"{name} is interested in the {vehicle}." if vehicle else f"{name} would like to hear from you."
    if view.resend:
        summary = f"{summary} You have this lead already: {_resend_reason(view)[1]}. This mail has the whole lead."
    sections = [wrapped(summary, hanging="  "), *(wrapped(words) for words in wording.same_person_words(view))]
    for visit in view.visits:
        lines = wording.visit_lines(visit)
        sections.append(section(lines[0], [*lines[1:], *_appraisal(view, visit)]))
        if visit.request.notes:
            sections.append(["Their notes for the visit:", *quoted(visit.request.notes)])
    sections.append(section("How to reach them", _contact_lines(view)))
    if view.vehicle is not None:
        sections.append(section("The vehicle", _listing(view.vehicle)))
    elif view.interest is not UNSET:
        sections.append(section("The vehicle, as they describe it", _vehicle_of_interest(view, view.interest)))
    if view.trade_in is not UNSET:
        sections.append(section("Their trade-in, as they describe it", _trade_in(view, view.trade_in)))
    sections += [["They write:", *words] for message in view.messages if (words := quoted(message))]
    agent = short(view.agent.name, 80) or "unnamed"
    received = time_words(view.received_at, view.rooftop.zone)
    origin = f"Sent on their behalf by an AI shopping agent ({agent}) on {received}. Lead {view.lead_id}."
    sections.append(wrapped(origin, hanging="  "))
    open_visits = [visit for visit in view.visits if visit.status in (CONFIRMED, PROPOSED, REQUESTED)]
    about = wording.visit_title(open_visits[-1]).lower() if open_visits else "new lead"
    if view.resend:
        about = _resend_reason(view)[0]
    subject = ", ".join(filter(None, (f"{short(view.rooftop.name, 80)}: {about}", short(name, 60), vehicle)))
    return Mail(subject, joined(sections))


def _resend_reason(view: LeadView) -> tuple[str, str]:
    """The reason in a subject, and inside a sentence."""
    if visit := view.cancelled_visit:
        return wording.visit_title(visit).lower(), f"{wording.visit_with_time(visit)} was cancelled"
    if view.withdrawn:
        return "consent withdrawn", "the customer withdrew consent"
    if view.added:
        return "lead with additions", "something was added to it"
    return "lead sent again", "it is sent again"


def _appraisal(view: LeadView, visit: VisitView) -> list[str]:
    both = visit.kind == "test_drive" and visit.status == CONFIRMED and view.trade_in is not UNSET
    return ["Their trade-in is to be appraised at the same visit."] if both else []


def _contact_lines(view: LeadView) -> list[str]:
    """The contact points with their allowed uses, then the channels that must not be used."""
    customer, channels = view.customer, view.channels
    lines = wording.withdrawal_words(view)
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
    return lines + wording.refusal_words(view)


def _listing(vehicle: Vehicle) -> list[str]:
    status = f"Stock status: {wording.STATUSES[vehicle.status]}, {short(vehicle.rooftop)}"
    lines = [_title(vehicle, vehicle.condition), *_numbers(vehicle), status, *_appearance(vehicle)]
    if vehicle.price is not UNSET:
        lines.append(f"Price {money(vehicle.price)}, all our charges included")
    return lines + [short(fact) for fact in wording.listing_facts(vehicle)]


def _vehicle_of_interest(view: LeadView, interest: VehicleOfInterest) -> list[str]:
    lines = [_title(interest, interest.condition), *_numbers(interest)]
    if names_a_vehicle(interest):
        lines.append(wording.NOT_IN_STOCK)
    lines += _appearance(interest)
    if interest.price is not UNSET:
        lines.append(f"Price they speak of: {money(interest.price)}")
    return lines + _first_facts(wording.described_facts(interest, view.interest_extras))


def _trade_in(view: LeadView, trade_in: TradeIn) -> list[str]:
    lines = [_title(trade_in), *_numbers(trade_in), *_appearance(trade_in)]
    if trade_in.condition is not UNSET:
        lines.append(f"Condition, in their words: {trade_in.condition}")
    return lines + _first_facts(wording.described_facts(trade_in, view.trade_in_extras))


def _title(vehicle: VehicleMembers, condition: object = UNSET) -> str:
    words = wording.CONDITIONS.get(str(condition), "")
    return ", ".join(filter(None, (short(wording.vehicle_words(vehicle), 100) or "Make and model not given", words)))


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


_WHY = (
    "You get this mail because a shopping agent asked for this visit. It gave us your address, and said that you "
    "agreed to be contacted by e-mail. If you did not ask for this visit, please tell us."
)


def confirmation_mail(view: LeadView, visit: VisitView, links: CustomerLinks) -> Mail:
    """Confirms a confirmed visit of the lead, with a calendar entry."""
    rooftop, kind = _rooftop(visit), wording.VISITS[visit.kind]
    change = f"If you have a question, please {ways_to_reach(visit.rooftop)}."
    opening = " ".join([f"Your {kind} with {rooftop} is confirmed.", *_replaced(visit)])
    sections = [
        wrapped(" ".join([*_to_bring(view, visit), change])),
        _link("See, move or cancel this visit:", "visit", view, visit, links),
        [f"We look forward to {'talking with' if visit.kind in wording.CALLS else 'seeing'} you."],
    ]
    entry = CalendarPart("visit.ics", "PUBLISH", calendar_file(rooftop, [_entry(view, visit)]))
    return _mail(view, visit, links, "", opening, sections, entry)


def cancellation_mail(view: LeadView, visit: VisitView, links: CustomerLinks) -> Mail:
    """Reports a cancelled visit that had a time, with an entry that removes it from calendars."""
    opening = f"Your {wording.VISITS[visit.kind]} with {_rooftop(visit)} is cancelled:"
    sections = [wrapped(f"If you would like another time, please {ways_to_reach(visit.rooftop)}.")]
    entry = CalendarPart("visit.ics", "CANCEL", cancellation_file(_entry(view, visit)))
    return _mail(view, visit, links, " is cancelled", opening, sections, entry)


def _mail(
    view: LeadView,
    visit: VisitView,
    links: CustomerLinks,
    outcome: str,
    opening: str,
    sections: list[list[str]],
    entry: CalendarPart,
) -> Mail:
    rooftop = _rooftop(visit)
    first_name = likely_name(view.customer.first_name)
    text = joined(
        [
            [f"Hello {first_name}," if first_name else "Hello,"],
            wrapped(opening),
            _facts(view, visit),
            *sections,
            [rooftop],
            wrapped(_WHY),
            _link("To stop e-mail, calls or text messages about this request:", "contact", view, visit, links),
        ]
    )
    when = time_words(visit.times[0].start, visit.rooftop.zone)
    # A mail about any of the earlier visits may have reached the customer, so each one is removed by its own UID.
    earlier = (
        CalendarPart(f"earlier-{number}.ics", "CANCEL", cancellation_file(_entry(view, each)))
        for number, each in enumerate(_all_replaced(visit), 1)
    )
    return Mail(f"{rooftop}: your {wording.VISITS[visit.kind]} on {when}{outcome}", text, (entry, *earlier))


def ways_to_reach(rooftop: RooftopView) -> str:
    """`call +1 202-555-0110 or write to nashville@example.com`, with the contact points that the rooftop has."""
    ways = [f"call {phone_number(rooftop.phone)}"] if rooftop.phone else []
    ways += [f"write to {rooftop.email}"] if rooftop.email else []
    return join_words(ways, "or") or "let us know"


def _rooftop(visit: VisitView) -> str:
    return short(visit.rooftop.name, 80)


def _link(words: str, purpose: LinkPurpose, view: LeadView, visit: VisitView, links: CustomerLinks) -> list[str]:
    """A link on its own line, so that mail programs find its end."""
    assert visit.appointment_id is not None, "a visit with a time has an id"
    ends_at = visit.times[0].end or visit.times[0].start
    return [*wrapped(words), links.address(purpose, view.lead_id, visit.appointment_id, ends_at)]


def _replaced(visit: VisitView) -> list[str]:
    moved = [earlier for earlier in visit.replaces if earlier.times[0].start != visit.times[0].start]
    return [f"It replaces {wording.visit_with_time(moved[-1])}."] if moved else []


def _all_replaced(visit: VisitView) -> Iterator[VisitView]:
    for earlier in visit.replaces:
        yield earlier
        yield from _all_replaced(earlier)


def _facts(view: LeadView, visit: VisitView) -> list[str]:
    rooftop, time = visit.rooftop, visit.times[0]
    lines = [f"When:     {period_words(time, rooftop.zone)}"]
    if own := _own_clock(visit, time):
        lines.append(f"          ({own} on your clock)")
    is_call = visit.kind in wording.CALLS
    place = f"With:     {short(rooftop.name)}" if is_call else f"Where:    {wording.place_words(rooftop)}"
    lines += wrapped(place, hanging=" " * 10)
    if vehicle := wording.listing_words(view.vehicle, visit.kind):
        lines.append(f"Vehicle:  {vehicle}")
    return lines


def _entry(view: LeadView, visit: VisitView) -> CalendarVisit:
    assert visit.appointment_id is not None, "a visit with a time has an id"
    rooftop, time = visit.rooftop, visit.times[0]
    notes = (
        wording.listing_words(view.vehicle, visit.kind),
        period_words(time, rooftop.zone),
        phone_number(rooftop.phone) if rooftop.phone else "",
    )
    return CalendarVisit(
        appointment_id=visit.appointment_id,
        title=f"{wording.visit_name(visit.kind)}, {_rooftop(visit)}",
        start=time.start,
        end=time.end,
        rooftop=rooftop,
        changed_at=visit.changed_at,
        notes=tuple(filter(None, notes)),
        cancelled=visit.status == CANCELLED,
    )


def _to_bring(view: LeadView, visit: VisitView) -> list[str]:
    match visit.kind:
        case "test_drive" if view.trade_in is not UNSET:
            return [
                "Please bring your driver's license, and the vehicle that you think of trading in: we will appraise it "
                "at the same visit."
            ]
        case "test_drive":
            return ["Please bring your driver's license."]
        case "trade_in" | "trade_in_appraisal":
            return ["Please bring the vehicle with its keys, title and registration."]
        case "handover":
            return ["Please bring your driver's license and proof of insurance."]
    return []


def _own_clock(visit: VisitView, time: VisitTime) -> str:
    """The time in the customer's zone. Empty if they named none or its clock shows the rooftop's time."""
    own = visit.request.timezone
    if own is UNSET:
        return ""
    offsets = {time.start.astimezone(ZoneInfo(zone)).utcoffset() for zone in (own, visit.rooftop.zone)}
    return period_words(time, own) if len(offsets) > 1 else ""
