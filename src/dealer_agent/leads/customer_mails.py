"""Mails to the customer about a confirmed or cancelled visit. Pure.

They have only data of the dealer, and the customer's first name if it looks like a name: anybody can send a lead with
another person's address.
"""

from collections.abc import Iterator
from zoneinfo import ZoneInfo

from msgspec import UNSET

from dealer_agent.leads.customer_links import CustomerLinks, LinkPurpose
from dealer_agent.leads.icalendar import CalendarVisit, calendar_file, cancellation_file
from dealer_agent.leads.lead_view import LeadView, RooftopView, VisitTime, VisitView
from dealer_agent.leads.mail_text import CalendarPart, Mail, joined
from dealer_agent.leads.person_name import likely_name
from dealer_agent.leads.plain_text import short, wrapped
from dealer_agent.leads.statuses import CANCELLED, CONFIRMED
from dealer_agent.leads.us_formats import join_words, period_words, phone_number, time_words
from dealer_agent.leads.vehicle_words import listing_words
from dealer_agent.leads.visit_words import CALLS, VISITS, place_words, visit_name, visit_with_time

_WHY = (
    "You get this mail because a shopping agent asked for this visit. It gave us your address, and said that you "
    "agreed to be contacted by e-mail. If you did not ask for this visit, please tell us."
)


def confirmation_mail(view: LeadView, links: CustomerLinks) -> Mail:
    """Confirms the last confirmed visit, with a calendar entry. Raises ValueError if no visit is confirmed."""
    visit = next((visit for visit in reversed(view.visits) if visit.status == CONFIRMED), None)
    if visit is None:
        raise ValueError("only a confirmed visit can be confirmed by mail")
    rooftop, kind = _rooftop(visit), VISITS[visit.kind]
    change = f"If you have a question, please {ways_to_reach(visit.rooftop)}."
    opening = " ".join([f"Your {kind} with {rooftop} is confirmed.", *_replaced(visit)])
    sections = [
        wrapped(" ".join([*_to_bring(view, visit), change])),
        _link("See, move or cancel this visit:", "visit", view, visit, links),
        [f"We look forward to {'talking with' if visit.kind in CALLS else 'seeing'} you."],
    ]
    entry = CalendarPart("visit.ics", "PUBLISH", calendar_file(rooftop, [_entry(view, visit)]))
    return _mail(view, visit, links, "", opening, sections, entry)


def cancellation_mail(view: LeadView, links: CustomerLinks) -> Mail:
    """Reports the last cancelled visit, with an entry that removes it from calendars.

    Raises ValueError if no cancelled visit has a time.
    """
    visit = next((visit for visit in reversed(view.visits) if visit.status == CANCELLED and visit.times), None)
    if visit is None:
        raise ValueError("only a cancelled visit that had a time has a cancellation mail")
    opening = f"Your {VISITS[visit.kind]} with {_rooftop(visit)} is cancelled:"
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
    return Mail(f"{rooftop}: your {VISITS[visit.kind]} on {when}{outcome}", text, (entry, *earlier))


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
    return [f"It replaces {visit_with_time(moved[-1])}."] if moved else []


def _all_replaced(visit: VisitView) -> Iterator[VisitView]:
    for earlier in visit.replaces:
        yield earlier
        yield from _all_replaced(earlier)


def _facts(view: LeadView, visit: VisitView) -> list[str]:
    rooftop, time = visit.rooftop, visit.times[0]
    lines = [f"When:     {period_words(time, rooftop.zone)}"]
    if own := _own_clock(visit, time):
        lines.append(f"          ({own} on your clock)")
    place = f"With:     {short(rooftop.name)}" if visit.kind in CALLS else f"Where:    {place_words(rooftop)}"
    lines += wrapped(place, hanging=" " * 10)
    if vehicle := listing_words(view.vehicle, visit.kind):
        lines.append(f"Vehicle:  {vehicle}")
    return lines


def _entry(view: LeadView, visit: VisitView) -> CalendarVisit:
    assert visit.appointment_id is not None, "a visit with a time has an id"
    rooftop, time = visit.rooftop, visit.times[0]
    notes = (
        listing_words(view.vehicle, visit.kind),
        period_words(time, rooftop.zone),
        phone_number(rooftop.phone) if rooftop.phone else "",
    )
    return CalendarVisit(
        appointment_id=visit.appointment_id,
        title=f"{visit_name(visit.kind)}, {_rooftop(visit)}",
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
