"""The mails about a lead: the subject of the CRM's mail, the salesperson's mail, the customer's mails. Pure plain text.

No subject has a line break or another control character. In the mails to the dealer's people, text of the sender is
shortened and marked as the sender's. A mail to a customer has the dealer's own data only, and the customer's first name
if it looks like a name: anybody can send a lead with somebody else's address.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple
from zoneinfo import ZoneInfo

from msgspec import UNSET

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
from dealer_agent.leads.us_formats import either, phone_number
from dealer_agent.leads.wording import (
    CONDITIONS,
    STATUSES,
    VISITS,
    claimed_facts,
    ended_visit_lines,
    erasure_words,
    listing_facts,
    listing_words,
    money,
    period_words,
    place_words,
    refusal_words,
    same_person_words,
    time_words,
    vehicle_words,
    visit_lines,
    visit_title,
    wanted_words,
    withdrawal_words,
)
from dealer_agent.protocol.requests import TradeIn, VehicleOfInterest
from dealer_agent.protocol.vehicle import Vehicle, VehicleMembers

CALLS = ("phone_call", "video_call")
"""Visits for which the customer does not come to the rooftop."""

FACTS_TOLD = 20
"""The most facts about a described vehicle in a mail; the CRM gets all of them."""


class CalendarPart(NamedTuple):
    """An iCalendar file in a mail, with the METHOD that it holds."""

    name: str
    method: Method
    content: bytes


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail without its addresses. `text` ends with a newline."""

    subject: str
    text: str
    calendars: tuple[CalendarPart, ...] = ()


def adf_mail_subject(message: DeliveredMessage) -> str:
    """The subject of the mail with the ADF document. It begins with the rooftop and does not name the customer."""
    match message:
        case LeadView():
            return _adf_lead_subject(message)
        case ErasedLead():
            return f"{short(message.rooftop.name, 80)}: lead {message.lead_id} erased"
        case CancelledVisit():
            return _ended_visit_subject(message)


def staff_mail(message: DeliveredMessage) -> Mail:
    """A message in plain words, for the people of the rooftop."""
    match message:
        case LeadView():
            return lead_mail(message)
        case ErasedLead():
            words = [*erasure_words(message), "Also delete the earlier mails about it."]
            return Mail(adf_mail_subject(message), _text([wrapped(" ".join(words))]))
        case CancelledVisit():
            lines = [piece for line in ended_visit_lines(message) for piece in wrapped(line, hanging="  ")]
            return Mail(_ended_visit_subject(message), _text([lines]))


def _ended_visit_subject(ended: CancelledVisit) -> str:
    when = time_words(ended.time.start, ended.rooftop.zone)
    return f"{short(ended.rooftop.name, 80)}: {VISITS[ended.kind]} on {when} cancelled"


def _adf_lead_subject(view: LeadView) -> str:
    vehicle = short(wanted_words(view), 80)
    words = f"{_news_again(view) if view.resend else 'new lead'}{vehicle and ', '}{vehicle}"
    return f"{short(view.rooftop.name, 80)}: {words}"


def lead_mail(view: LeadView) -> Mail:
    """The lead in plain words, for the people of the rooftop."""
    name = _customer_name(view)
    vehicle = short(wanted_words(view), 100)
    asks = f"{name} is interested in the {vehicle}." if vehicle else f"{name} would like to hear from you."
    if view.resend:
        asks = f"{asks} You have this lead already: {_reason_again(view)}. This mail has the whole lead."
    # Lines of the service begin at the margin. A sender's text never does, so it cannot look like one of them.
    parts = [wrapped(asks, hanging="  "), *(wrapped(words) for words in same_person_words(view))]
    for visit in view.visits:
        parts.append(_part(*visit_lines(visit), *_shared(view, visit)))
        if visit.request.notes:
            parts.append(["Their notes for the visit:", *quoted(visit.request.notes)])
    parts.append(_part("How to reach them", *_reach(view)))
    if view.vehicle is not None:
        parts.append(_part("The vehicle", *_listing(view.vehicle)))
    elif view.wish is not UNSET:
        parts.append(_part("The vehicle, as they describe it", *_wish(view, view.wish)))
    if view.trade_in is not UNSET:
        parts.append(_part("Their trade-in, as they describe it", *_trade_in(view, view.trade_in)))
    parts += [["They write:", *words] for message in view.messages if (words := quoted(message))]
    agent = short(view.agent.name, 80) or "unnamed"
    received = time_words(view.received_at, view.rooftop.zone)
    sent = f"Sent on their behalf by an AI shopping agent ({agent}) on {received}. Lead {view.lead_id}."
    parts.append(wrapped(sent, hanging="  "))
    visits = [visit for visit in view.visits if visit.status in ("confirmed", "proposed", "requested")]
    about = visit_title(visits[-1]).lower() if visits else "new lead"
    if view.resend:
        about = _news_again(view)
    subject = ", ".join(filter(None, (f"{short(view.rooftop.name, 80)}: {about}", short(name, 60), vehicle)))
    return Mail(subject, _text(parts))


def confirmation_mail(view: LeadView, links: CustomerLinks) -> Mail:
    """Confirms the visit that was confirmed last, with a calendar entry. Raises ValueError if none is confirmed."""
    visit = next((visit for visit in reversed(view.visits) if visit.status == "confirmed"), None)
    if visit is None:
        raise ValueError("only a confirmed visit can be confirmed by mail")
    time, house, kind = visit.times[0], short(visit.rooftop.name, 80), VISITS[visit.kind]
    change = f"If you have a question, please {ways_to_reach(visit.rooftop)}."
    parts = [
        _greeting(view),
        wrapped(" ".join([f"Your {kind} with {house} is confirmed.", *_instead(visit, time)])),
        _facts_of_visit(view, visit, time),
        wrapped(" ".join([*_to_bring(view, visit), change])),
        _link("See, move or cancel this visit:", "visit", view, visit, links),
        [f"We look forward to {'talking with' if visit.kind in CALLS else 'seeing'} you."],
        [house],
        _why(),
        _link("To stop e-mail, calls or text messages about this request:", "contact", view, visit, links),
    ]
    subject = f"{house}: your {kind} on {time_words(time.start, visit.rooftop.zone)}"
    entry = CalendarPart("visit.ics", "PUBLISH", calendar_file(house, [_entry(view, visit, time)]))
    return Mail(subject, _text(parts), (entry, *_earlier_entries(view, visit)))


def cancellation_mail(view: LeadView, links: CustomerLinks) -> Mail:
    """Says that the visit that was cancelled last does not take place, with an entry that removes it from calendars.

    Raises ValueError if no cancelled visit had a time.
    """
    visit = next((visit for visit in reversed(view.visits) if visit.status == "cancelled" and visit.times), None)
    if visit is None:
        raise ValueError("only a cancelled visit that had a time has a cancellation mail")
    time, house, kind = visit.times[0], short(visit.rooftop.name, 80), VISITS[visit.kind]
    parts = [
        _greeting(view),
        wrapped(f"Your {kind} with {house} is cancelled:"),
        _facts_of_visit(view, visit, time),
        wrapped(f"If you would like another time, please {ways_to_reach(visit.rooftop)}."),
        [house],
        _why(),
        _link("To stop e-mail, calls or text messages about this request:", "contact", view, visit, links),
    ]
    subject = f"{house}: your {kind} on {time_words(time.start, visit.rooftop.zone)} is cancelled"
    entry = CalendarPart("visit.ics", "CANCEL", cancellation_file(_entry(view, visit, time)))
    return Mail(subject, _text(parts), (entry, *_earlier_entries(view, visit)))


def _news_again(view: LeadView) -> str:
    """Why a lead is sent again, for a subject."""
    if view.called_off:
        return visit_title(view.called_off).lower()
    if view.withdrawn:
        return "consent withdrawn"
    return "lead with additions" if view.added else "lead sent again"


def _reason_again(view: LeadView) -> str:
    """Why a lead is sent again, inside a sentence."""
    if view.called_off:
        return f"{_the_visit(view.called_off)} was cancelled"
    if view.withdrawn:
        return "the customer withdrew consent"
    return "something was added to it" if view.added else "it is sent again"


def _the_visit(visit: VisitView) -> str:
    """`the test drive on Tuesday, March 3, 2026, 10:00 AM CST`."""
    when = f" on {time_words(visit.times[0].start, visit.rooftop.zone)}" if visit.times else ""
    return f"the {VISITS[visit.kind]}{when}"


def _greeting(view: LeadView) -> list[str]:
    first_name = likely_name(view.customer.first_name)
    return [f"Hello {first_name}," if first_name else "Hello,"]


def _why() -> list[str]:
    return wrapped(
        "You get this mail because a shopping agent asked for this visit. It gave us your address, and said that you "
        "agreed to be contacted by e-mail. If you did not ask for this visit, please tell us."
    )


def _link(words: str, purpose: LinkPurpose, view: LeadView, visit: VisitView, links: CustomerLinks) -> list[str]:
    """A link on a line of its own, so that mail programs find its end."""
    assert visit.appointment_id is not None, "a visit with a time has an id"
    ends_at = visit.times[0].end or visit.times[0].start
    return [*wrapped(words), links.address(purpose, view.lead_id, visit.appointment_id, ends_at)]


def ways_to_reach(rooftop: RooftopView) -> str:
    """`call +1 202-555-0110 or write to nashville@example.com`, as far as the rooftop has them."""
    ways = [f"call {phone_number(rooftop.phone)}"] if rooftop.phone else []
    ways += [f"write to {rooftop.email}"] if rooftop.email else []
    return either(ways) or "let us know"


def _instead(visit: VisitView, time: VisitTime) -> list[str]:
    """That the visit replaces one at another time, which the customer may know."""
    moved = [earlier for earlier in visit.replaces if earlier.times[0].start != time.start]
    return [f"It replaces {_the_visit(moved[-1])}."] if moved else []


def _earlier_entries(view: LeadView, visit: VisitView) -> list[CalendarPart]:
    """Calendar entries that remove the visits which this one replaced, each under its own UID.

    It has all of them, because the customer may have had a mail about any of them.
    """
    return [
        CalendarPart(f"earlier-{number}.ics", "CANCEL", cancellation_file(_entry(view, earlier, earlier.times[0])))
        for number, earlier in enumerate(_all_replaced(visit), 1)
    ]


def _all_replaced(visit: VisitView) -> Iterator[VisitView]:
    for earlier in visit.replaces:
        yield earlier
        yield from _all_replaced(earlier)


def _facts_of_visit(view: LeadView, visit: VisitView, time: VisitTime) -> list[str]:
    rooftop = visit.rooftop
    told = [f"When:     {period_words(time, rooftop.zone)}"]
    if own := _own_clock(visit, time):
        told.append(f"          ({own} on your clock)")
    place = f"With:     {short(rooftop.name)}" if visit.kind in CALLS else f"Where:    {place_words(rooftop)}"
    told += wrapped(place, hanging=" " * 10)
    if vehicle := listing_words(view.vehicle, visit.kind):
        told.append(f"Vehicle:  {vehicle}")
    return told


def _entry(view: LeadView, visit: VisitView, time: VisitTime) -> CalendarVisit:
    assert visit.appointment_id is not None, "a visit with a time has an id"
    rooftop, kind = visit.rooftop, VISITS[visit.kind]
    notes = (
        listing_words(view.vehicle, visit.kind),
        period_words(time, rooftop.zone),
        phone_number(rooftop.phone) if rooftop.phone else "",
    )
    return CalendarVisit(
        appointment_id=visit.appointment_id,
        title=f"{kind[0].upper()}{kind[1:]}, {short(rooftop.name, 80)}",
        start=time.start,
        end=time.end,
        rooftop=rooftop,
        changed_at=visit.changed_at,
        notes=tuple(filter(None, notes)),
        cancelled=visit.status == "cancelled",
    )


def _customer_name(view: LeadView) -> str:
    name = " ".join(filter(None, (short(view.customer.first_name, 60), short(view.customer.last_name, 60))))
    return name or "A customer"


def _shared(view: LeadView, visit: VisitView) -> list[str]:
    both = visit.kind == "test_drive" and visit.status == "confirmed" and view.trade_in is not UNSET
    return ["Their trade-in is to be appraised at the same visit."] if both else []


def _reach(view: LeadView) -> list[str]:
    """The contact points that may be used and their use, then the channels that must not be used."""
    customer, channels = view.customer, view.channels
    told = withdrawal_words(view)
    preferred = customer.preferred_contact
    if customer.email is not UNSET:
        told.append(f"E-mail: {short(customer.email)}{' (preferred)' if preferred == 'email' else ''}")
    if customer.phone is not UNSET:
        uses = [words for channel, words in (("phone", "calls"), ("sms", "text messages")) if channel in channels]
        liked = {"phone": ", calls preferred", "sms": ", text messages preferred"}
        likes = liked.get(preferred, "") if preferred is not UNSET and len(uses) > 1 else ""
        use = f"{' and '.join(uses)}{' only' if len(uses) == 1 else ''}{likes}"
        told.append(f"Phone: {phone_number(customer.phone)}, for {use}")
    if not channels:
        told.append("They agree to no channel: their consent was withdrawn or has expired.")
    return told + refusal_words(view)


def _listing(vehicle: Vehicle) -> list[str]:
    told = [_title(vehicle, vehicle.condition)]
    told += _numbers(vehicle)
    told.append(f"Stock status: {STATUSES[vehicle.status]}, {short(vehicle.rooftop)}")
    told += _looks(vehicle)
    if vehicle.price is not UNSET:
        told.append(f"Price {money(vehicle.price)}, all our charges included")
    return told + [short(fact) for fact in listing_facts(vehicle)]


def _wish(view: LeadView, wish: VehicleOfInterest) -> list[str]:
    told = [_title(wish, wish.condition), *_numbers(wish)]
    if names_a_vehicle(wish):
        told.append("Not found in stock when the lead came.")
    told += _looks(wish)
    if wish.price is not UNSET:
        told.append(f"Price they speak of: {money(wish.price)}")
    return told + _some(claimed_facts(wish, view.wish_extras))


def _trade_in(view: LeadView, trade_in: TradeIn) -> list[str]:
    told = [_title(trade_in), *_numbers(trade_in), *_looks(trade_in)]
    if trade_in.condition is not UNSET:
        told.append(f"Condition, in their words: {trade_in.condition}")
    return told + _some(claimed_facts(trade_in, view.trade_in_extras))


def _title(vehicle: VehicleMembers, condition: object = UNSET) -> str:
    words = CONDITIONS.get(str(condition), "")
    return ", ".join(filter(None, (short(vehicle_words(vehicle), 100) or "Make and model not given", words)))


def _numbers(vehicle: VehicleMembers) -> list[str]:
    known = (("Stock", vehicle.stock), ("VIN", vehicle.vin))
    told = ", ".join(f"{name} {number}" for name, said in known if said and (number := short(said, 60)))
    return [told] if told else []


def _looks(vehicle: VehicleMembers) -> list[str]:
    parts = [] if vehicle.mileage is UNSET else [f"{vehicle.mileage:,} miles"]
    for said, what in (
        (vehicle.exterior_color, " outside"),
        (vehicle.interior_color, " inside"),
        (vehicle.body, ""),
        (vehicle.transmission, " transmission"),
    ):
        if said and (words := short(said.replace("_", " "), 60)):
            parts.append(f"{words}{what}")
    return [", ".join(parts)] if parts else []


def _some(facts: list[str]) -> list[str]:
    told = [short(fact) for fact in facts[:FACTS_TOLD]]
    more = len(facts) - FACTS_TOLD
    return told if more <= 0 else [*told, f"... and {more} more"]


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
    """The time in the buyer's time zone; empty if they named none or its clock shows the rooftop's time."""
    own = visit.request.timezone
    if own is UNSET or time.start.astimezone(ZoneInfo(own)).utcoffset() == (
        time.start.astimezone(ZoneInfo(visit.rooftop.zone)).utcoffset()
    ):
        return ""
    return period_words(time, own)


def _part(title: str, *told: str) -> list[str]:
    return [*wrapped(title), *(piece for line in told for piece in wrapped(f"  {line}", hanging="    "))]


def _text(parts: Iterable[list[str]]) -> str:
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"
