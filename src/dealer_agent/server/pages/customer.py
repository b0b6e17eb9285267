"""Makes the pages behind links in a customer's mail. They show dealer and visit, but no data of the customer."""

from itertools import groupby

from dealer_agent.leads.consent import CHANNELS
from dealer_agent.leads.lead_view import RooftopView
from dealer_agent.leads.plain_text import short
from dealer_agent.leads.us_formats import day_words, period_words, phone_number, time_words
from dealer_agent.leads.wording import CALLS, VISITS, place_words
from dealer_agent.protocol.card import CardFacts
from dealer_agent.server.pages.site import render
from dealer_agent.visits.customer_actions import CustomerVisit


def visit_page(facts: CardFacts, dealer: str, visit: CustomerVisit, problem: str | None = None) -> str:
    """A visit that can be changed, with forms to move and to cancel it. `problem` says why a form changed nothing."""
    assert visit.time is not None, "a visit that can be changed has a time"
    zone = visit.rooftop.zone
    days = [
        (day, [(slot.start.isoformat(timespec="seconds"), time_words(slot.start, zone)) for slot in slots])
        for day, slots in groupby(visit.free, key=lambda slot: day_words(slot.start, zone))
    ]
    return render(
        "visit.html",
        facts,
        **_common(dealer, visit.rooftop, problem),
        kind=VISITS[visit.kind],
        when=period_words(visit.time, zone),
        place_label="With" if visit.kind in CALLS else "Where",
        place=short(visit.rooftop.name) if visit.kind in CALLS else place_words(visit.rooftop),
        vehicle=visit.vehicle,
        days=days,
    )


def contact_page(facts: CardFacts, dealer: str, visit: CustomerVisit, problem: str | None = None) -> str:
    """The channels that the customer does not allow, and a form to withdraw consent for the others."""
    allowed = [(channel, words.label) for channel, words in CHANNELS.items() if channel in visit.channels]
    refused = [words.label for channel, words in CHANNELS.items() if channel not in visit.channels]
    common = _common(dealer, visit.rooftop, problem)
    return render("contact.html", facts, **common, allowed=allowed, refused=refused)


def notice_page(facts: CardFacts, dealer: str, rooftop: RooftopView, title: str, *said: str) -> str:
    """A page without a form that says what happened, then what to do."""
    return render("notice.html", facts, **_common(dealer, rooftop, None), title=title, said=said)


def _common(dealer: str, rooftop: RooftopView, problem: str | None) -> dict[str, object]:
    """What all pages for customers show of the dealer."""
    phone = (rooftop.phone, phone_number(rooftop.phone)) if rooftop.phone else None
    return {
        "dealer": dealer,
        "rooftop": short(rooftop.name),
        "phone": phone,
        "email": rooftop.email,
        "problem": problem,
    }
