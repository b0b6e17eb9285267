"""Mails about a lead to the dealer's staff, and about a visit to the customer. Pure.

The texts are in `templates`. Mails to the customer have only data of the dealer, and the customer's first name if it
looks like a name: anybody can send a lead with the e-mail address of another person, and could put a message to that
person into the first name. If a real name is left out, the mail greets without a name. In mails to the staff, text from
the sender is shortened. A line of the sender never starts at the margin, so it cannot imitate a line of the service.
"""

import re
import shlex
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple
from zoneinfo import ZoneInfo

from msgspec import UNSET

from dealer_agent.leads import wording
from dealer_agent.leads.consent import PHONE, SMS
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
from dealer_agent.leads.plain_text import short
from dealer_agent.leads.statuses import CANCELLED, CONFIRMED, PROPOSED, REQUESTED
from dealer_agent.leads.texts import paragraph, render_lines, render_paragraphs
from dealer_agent.leads.us_formats import join_words, period_words, phone_number, time_words
from dealer_agent.pasted_commands import Where

ANONYMOUS = "anonymous"
"""What commands call all senders that have not proved who they are."""

LONGEST = 30
"""Characters."""
MOST_WORDS = 2
MOST_PARTS = 3
"""Parts between spaces, hyphens and apostrophes."""
MOST_WIDE = 8
"""Wide letters (Chinese, Japanese, Korean). A few of them can be a sentence, because they need no spaces."""
MOST_MARKS = 3
"""Combining marks in a row."""
ABBREVIATION = 3
"""The longest part that may end with a period: `J.`, `St.`"""

_JOINERS = re.compile("[-\N{HYPHEN}'\N{RIGHT SINGLE QUOTATION MARK}\N{MODIFIER LETTER APOSTROPHE}]")
_INVISIBLE = frozenset(
    map(chr, (0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), *range(0xFE00, 0xFE10)))
) | frozenset(map(chr, range(0xE0100, 0xE01F0)))
"""Letters and marks that are invisible."""


def likely_name(text: str) -> str:
    """The text in Unicode's composed form (NFC). Empty if it does not look like a name."""
    name = unicodedata.normalize("NFC", text.strip(" "))
    # Names have no compatibility characters (full width, mathematical, ligatures).
    if not 0 < len(name) <= LONGEST or unicodedata.normalize("NFKC", name) != name:
        return ""
    words = name.split(" ")
    if len(words) > MOST_WORDS or sum(unicodedata.east_asian_width(letter) == "W" for letter in name) > MOST_WIDE:
        return ""
    parts = [part for word in words for part in _JOINERS.split(word)]
    # A word of a name does not start with a small letter. Most words of a sentence do.
    starts_large = not any(word[0].islower() for word in words if word)
    return name if len(parts) <= MOST_PARTS and all(map(_is_part, parts)) and starts_large else ""


def _is_part(part: str) -> bool:
    """Whether a word can be a part of a name: letters, or a short abbreviation."""
    letters = part.removesuffix(".")
    if letters != part and len(letters) > ABBREVIATION:
        return False
    kinds = [unicodedata.category(letter) for letter in letters]
    if not kinds or kinds[0][0] != "L" or not all(kind[0] == "L" or kind in ("Mn", "Mc") for kind in kinds):
        return False
    return not _INVISIBLE.intersection(letters) and "M" * (MOST_MARKS + 1) not in "".join(kind[0] for kind in kinds)


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


def staff_mail(message: DeliveredMessage, where: Where = Where()) -> Mail:  # noqa: B008 - a constant
    """The mail of a delivery to the staff of the rooftop, as readable text. `where` completes the commands in it."""
    match message:
        case LeadView():
            return _lead_mail(message, where)
        case ErasedLead():
            words = [*render_lines("erasure.txt", erased=message), "Also delete the earlier mails about it."]
            lines = [paragraph(" ".join(words))]
        case CancelledVisit():
            lines = [paragraph(line, "  ") for line in render_lines("visit_cancelled.txt", visit=message)]
    return Mail(adf_mail_subject(message), "\n".join(lines) + "\n")


def _lead_mail(view: LeadView, where: Where) -> Mail:
    """The mail to staff about a new lead, or about a lead that is sent again with the reason."""
    name = " ".join(filter(None, (short(view.customer.first_name, 60), short(view.customer.last_name, 60))))
    vehicle = short(wording.wanted_words(view), 100)
    about, reason = _resend_reason(view)
    text = render_paragraphs(
        "lead.txt",
        view=view,
        customer=view.customer,
        name=name or "A customer",
        vehicle=vehicle,
        resend_reason=reason,
        phone_use=_phone_use(view),
        sender=shlex.quote(view.caller or ANONYMOUS),
        where=where,
    )
    if not view.resend:
        open_visits = [visit for visit in view.visits if visit.status in (CONFIRMED, PROPOSED, REQUESTED)]
        about = wording.visit_title(open_visits[-1]).lower() if open_visits else "new lead"
    subject = (f"{short(view.rooftop.name, 80)}: {about}", short(name or "A customer", 60), vehicle)
    return Mail(", ".join(filter(None, subject)), text)


def _resend_reason(view: LeadView) -> tuple[str, str]:
    """The reason in a subject, and inside a sentence."""
    if visit := view.ended_visit:
        return wording.visit_title(visit).lower(), f"{wording.visit_with_time(visit)} {wording.ENDS[visit.status]}"
    if view.withdrawn:
        return "consent withdrawn", "the customer withdrew consent"
    if view.added:
        return "lead with additions", "something was added to it"
    return "lead sent again", "it is sent again"


def _phone_use(view: LeadView) -> str:
    """What the customer's phone number may be used for."""
    uses = {channel: use for channel, use in ((PHONE, "calls"), (SMS, "text messages")) if channel in view.channels}
    if len(uses) == 1:
        return f"{next(iter(uses.values()))} only"
    preferred = view.customer.preferred_contact
    return " and ".join(uses.values()) + (f", {uses[preferred]} preferred" if preferred in uses else "")


def visit_mail(view: LeadView, visit: VisitView, links: CustomerLinks) -> Mail:
    """Tells the customer about a confirmed visit or a cancelled one that had a time, with an entry for calendars."""
    assert visit.appointment_id is not None, "a visit with a time has an id"
    rooftop, time, cancelled = short(visit.rooftop.name, 80), visit.times[0], visit.status == CANCELLED
    target = (view.lead_id, visit.appointment_id, time.end or time.start)
    moved = [earlier for earlier in visit.replaces if earlier.times[0].start != time.start]

    def link(purpose: LinkPurpose) -> str:
        return links.address(purpose, *target)

    text = render_paragraphs(
        "visit.txt",
        view=view,
        visit=visit,
        cancelled=cancelled,
        first_name=likely_name(view.customer.first_name),
        kind=wording.VISITS[visit.kind],
        is_call=visit.kind in wording.CALLS,
        rooftop=rooftop,
        moved_from=moved[-1] if moved else None,
        own_clock=_own_clock(visit, time),
        vehicle=wording.listing_words(view.vehicle, visit.kind),
        ways_to_reach=ways_to_reach(visit.rooftop),
        link=link,
    )
    when = time_words(time.start, visit.rooftop.zone)
    subject = f"{rooftop}: your {wording.VISITS[visit.kind]} on {when}{' is cancelled' if cancelled else ''}"
    entry = _entry(view, visit)
    if cancelled:
        first = CalendarPart("visit.ics", "CANCEL", cancellation_file(entry))
    else:
        first = CalendarPart("visit.ics", "PUBLISH", calendar_file(rooftop, [entry]))
    # A mail about any of the earlier visits may have reached the customer, so each one is removed by its own UID.
    earlier = (
        CalendarPart(f"earlier-{number}.ics", "CANCEL", cancellation_file(_entry(view, each)))
        for number, each in enumerate(_all_replaced(visit), 1)
    )
    return Mail(subject, text, (first, *earlier))


def ways_to_reach(rooftop: RooftopView) -> str:
    """`call +1 202-555-0110 or write to nashville@example.com`, with the contact points that the rooftop has."""
    ways = [f"call {phone_number(rooftop.phone)}"] if rooftop.phone else []
    ways += [f"write to {rooftop.email}"] if rooftop.email else []
    return join_words(ways, "or") or "let us know"


def _all_replaced(visit: VisitView) -> Iterator[VisitView]:
    for earlier in visit.replaces:
        yield earlier
        yield from _all_replaced(earlier)


def _entry(view: LeadView, visit: VisitView) -> CalendarVisit:
    """A confirmed visit as an entry of the customer's calendar."""
    assert visit.appointment_id is not None, "a visit with a time has an id"
    rooftop, time = visit.rooftop, visit.times[0]
    notes = (
        wording.listing_words(view.vehicle, visit.kind),
        period_words(time, rooftop.zone),
        phone_number(rooftop.phone) if rooftop.phone else "",
    )
    return CalendarVisit(
        appointment_id=visit.appointment_id,
        title=f"{wording.visit_name(visit.kind)}, {short(rooftop.name, 80)}",
        start=time.start,
        end=time.end,
        rooftop=rooftop,
        changed_at=visit.changed_at,
        notes=tuple(filter(None, notes)),
        cancelled=visit.status == CANCELLED,
    )


def _own_clock(visit: VisitView, time: VisitTime) -> str:
    """The time in the customer's zone. Empty if they named none or its clock shows the rooftop's time."""
    own = visit.request.timezone
    if own is UNSET:
        return ""
    offsets = {time.start.astimezone(ZoneInfo(zone)).utcoffset() for zone in (own, visit.rooftop.zone)}
    return period_words(time, own) if len(offsets) > 1 else ""
