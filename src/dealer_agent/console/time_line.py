"""The time line of a lead: what happened, newest first, with short texts."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from dealer_agent.dealers.routing import TO_CUSTOMER, Kind
from dealer_agent.leads.consent_events import GRANTED, KEPT_AS_PROOF, REFUSED, WITHDRAWN, WITHDRAWN_ELSEWHERE
from dealer_agent.leads.plain_text import short
from dealer_agent.leads.records import VisitRecord
from dealer_agent.leads.statuses import RELEASED, WAITING
from dealer_agent.leads.wording import VISITS, claimed_name
from dealer_agent.open_installation import OpenDealer
from dealer_agent.operations.lead_documents import WholeLead
from dealer_agent.protocol.timestamps import zone_abbreviation
from dealer_agent.storage.deliveries.outbox import DeliveryRecord

LONGEST = 300
"""How much of a text an entry shows."""

_KINDS: dict[Kind, str] = {
    "lead": "The lead",
    "resend": "The lead again",
    "notify": "The mail to staff",
    "confirm": "The mail to the customer about a confirmed visit",
    "cancel": "The mail to the customer about a cancelled visit",
    "withdrawal": "The notice that consent was withdrawn",
    "erasure": "The notice that the customer was erased",
    "visit_cancelled": "The notice that a visit was cancelled",
}
_CONSENT = {
    GRANTED: "Consent given",
    WITHDRAWN: "Consent withdrawn",
    WITHDRAWN_ELSEWHERE: "Consent withdrawn on another lead",
    REFUSED: "Consent refused in quarantine",
    KEPT_AS_PROOF: "Consent kept as proof only",
}


class Entry(NamedTuple):
    """Something that happened. `texts` may have texts of strangers. `delivery` can be sent again, if it is given."""

    at: datetime
    title: str
    texts: tuple[str, ...] = ()
    delivery: DeliveryRecord | None = None
    is_bad: bool = False


def time_line(dealer: OpenDealer, whole: WholeLead, sees: Callable[[str | None], bool]) -> list[Entry]:
    """What happened to a lead, newest first, in the time zone of its rooftop.

    `sees` says whether the person may see the visits of a rooftop.
    """
    clock = dealer.clock(whole.lead.rooftop)
    entries = [
        *_received(whole),
        *_consents(whole),
        *_additions(whole),
        *_visits(dealer, whole, sees),
        *map(_delivery, whole.deliveries),
        *(Entry(note.at, f"Note of {note.written_by}", _shown(note.text or "erased")) for note in whole.notes),
    ]
    entries.sort(key=lambda entry: entry.at, reverse=True)
    return [entry._replace(at=clock(entry.at) or entry.at) for entry in entries]


def _shown(*texts: str | None) -> tuple[str, ...]:
    return tuple(short(text, LONGEST) for text in texts if text)


def _received(whole: WholeLead) -> Iterator[Entry]:
    """When the lead was received, erased, put into quarantine, released or refused, and marked."""
    lead, review = whole.lead, whole.review
    sender = f"from {lead.caller}, verified" if lead.caller else "from an unverified sender"
    yield Entry(lead.received_at, f"Received {sender}", _shown(claimed_name(lead.source_agent or "")))
    if lead.erased_at is not None:
        yield Entry(lead.erased_at, "The customer was erased")
    if lead.quarantined_at is not None:
        yield Entry(lead.quarantined_at, "Came into quarantine", is_bad=lead.quarantine == WAITING)
    if review is None:
        return
    if review.decided_at is not None:
        what = "Released from quarantine" if review.quarantine == RELEASED else "Refused in quarantine"
        yield Entry(review.decided_at, f"{what} by {review.decided_by}", _shown(review.decided_why))
    if review.marked_at is not None:
        yield Entry(review.marked_at, f"Marked as {review.mark} by {review.marked_by}")


def _consents(whole: WholeLead) -> Iterator[Entry]:
    for event in whole.details.stored.consents:
        by = f" by {event.by}" if event.by else ""
        channels = f": {', '.join(event.channels)}" if event.channels else ""
        title = f"{_CONSENT.get(event.kind, f'Consent {event.kind}')}{by}{channels}"
        yield Entry(event.at, title, _shown(event.consent_text, event.reason))


def _additions(whole: WholeLead) -> Iterator[Entry]:
    """What the customer or the agent added after the lead."""
    for event in whole.details.stored.events:
        if event.changes is None:
            yield Entry(event.at, "Addition", ("erased",))
            continue
        # A visit has an entry of its own.
        changes = msgspec.json.decode(event.changes)
        if did := changes.get("by_agent"):
            yield Entry(event.at, f"The agent {did['did']} the visit", _shown(did.get("reason")))
        texts = [changes.get("message"), *(f"{name}: {value}" for name, value in _facts(changes))]
        if any(texts):
            yield Entry(event.at, "The customer added something", _shown(*texts))


def _facts(changes: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for part in ("customer", "trade_in"):
        for name, value in (changes.get(part) or {}).items():
            yield f"{part.replace('_', ' ')}, {name.replace('_', ' ')}", value


def _visits(dealer: OpenDealer, whole: WholeLead, sees: Callable[[str | None], bool]) -> Iterator[Entry]:
    """The visits of the lead that the person may see, and how each ended."""
    for visit in whole.details.visits:
        if not sees(visit.rooftop):
            continue
        name = VISITS.get(visit.kind, "visit").capitalize()
        made = "booked" if visit.starts_at is not None else "asked for, without a time yet"
        yield Entry(visit.created_at, f"{name} {made}, {visit.rooftop}{_when(dealer, visit)}")
        if visit.cancelled_at is not None:
            ended = {"done": "took place", "no_show": "did not take place: the customer did not come"}
            what = ended.get(visit.status, f"was {visit.status}")
            yield Entry(visit.cancelled_at, f"{name} {what}{_when(dealer, visit)}")


def _when(dealer: OpenDealer, visit: VisitRecord) -> str:
    starts = dealer.local(visit.starts_at, visit.rooftop)
    return "" if starts is None else f", {starts:%a %Y-%m-%d %H:%M} {zone_abbreviation(starts)}"


def _delivery(each: DeliveryRecord) -> Entry:
    """A delivery of the lead, with its state."""
    where = "" if each.kind in TO_CUSTOMER else f" to {each.channel}, {each.rooftop}"
    what = f"{_KINDS[each.kind]}{where}"
    texts = _shown(each.problem)
    match each.state:
        case "sent":
            return Entry(each.settled_at or each.created_at, f"{what}: delivered", texts, each)
        case "waiting":
            return Entry(each.created_at, f"{what}: waits, {each.attempts} tries", texts, each)
        case "undeliverable":
            return Entry(each.settled_at or each.created_at, f"{what}: not delivered", texts, each, is_bad=True)
    return Entry(each.settled_at or each.created_at, f"{what}: not sent any more", texts)
