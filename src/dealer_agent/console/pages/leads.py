"""The leads of a dealer: the list, the search, one lead with its time line, and what people do with it."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple, get_args

from msgspec import UNSET
from starlette.responses import Response

from dealer_agent.callers.caller import read_sender
from dealer_agent.console.acts import Act
from dealer_agent.console.pages import holds
from dealer_agent.console.pages.lead_rows import NO_LEAD, ON_A_PAGE, require_lead, rooftops_of, rows_of, write
from dealer_agent.console.rendering import moment
from dealer_agent.console.requests import ConsoleRequest, not_found, refuse
from dealer_agent.console.time_line import time_line
from dealer_agent.lead_intake.decisions import DecidedLead, Decisions, reason_of
from dealer_agent.leads.consent import EMAIL, PHONE, SMS
from dealer_agent.leads.plain_text import lines, short
from dealer_agent.leads.received_lead import known_contact
from dealer_agent.leads.records import LeadContent, VisitRecord
from dealer_agent.leads.statuses import POSSIBLE, Mark, VisitAction
from dealer_agent.leads.wording import VISITS, claimed_name, requested_periods
from dealer_agent.operations.lead_documents import (
    WholeLead,
    allowed_text,
    identifying_members,
    lead_document,
    name_of,
    read_whole_lead,
    review_words,
)
from dealer_agent.operations.offers import LONGEST_REASON, MOST_HOURS, price_of_lead
from dealer_agent.operations.resending import find_delivery, retry
from dealer_agent.operations.resending import send_again as resend
from dealer_agent.protocol.timestamps import parse_timestamp
from dealer_agent.storage.deliveries.outbox import State, retry_deliveries
from dealer_agent.storage.leads.lead_search import EARLIEST, FoundLeads, LeadFilter, find_leads
from dealer_agent.storage.leads.notes import MOST_NOTES, add_note, notes_of
from dealer_agent.storage.leads.outcomes import set_mark
from dealer_agent.storage.offers import find_hold
from dealer_agent.storage.privacy.accesses import log_access
from dealer_agent.storage.transaction import Transaction
from dealer_agent.visits.notifications import IntakeContext

MARKS: tuple[Mark, ...] = get_args(Mark)
LEAD_MARKS: tuple[Mark | Literal["none"], ...] = ("none", *MARKS)
LEAD_STATES: tuple[State, ...] = get_args(State)
DAYS = ("1", "7", "30", "90", "365")
MOST_SEARCHED = 250
"""The most leads that one search decrypts. The page offers to search older ones."""
LONGEST_TEXT = 100
LONGEST_NOTE = 2_000
LONGEST_MESSAGE = 4_000
LONGEST_NAME = 60
LONGEST_FACT = 150
MOST_FACTS = 40
MOST_VISITS = 5
MOST_ASKED = 8
ENTRIES = 30
"""How many entries of a time line are on a page."""
QUARANTINE = "quarantine"


class VisitCard(NamedTuple):
    """A visit of a lead, what the customer asked for, and how it can be changed now."""

    visit: VisitRecord
    starts: datetime | None
    asked: list[tuple[str, str]]
    possible: list[VisitAction]


def list_(request: ConsoleRequest) -> Response:
    """The newest leads that match the filter. Names are masked."""
    chosen = chosen_of(request, request.query)
    matching = replace(filter_of(request, chosen), before=request.query.get("before"))
    with request.dealer.read(request.now) as tx:
        page = find_leads(tx, matching, ON_A_PAGE + 1)
        return _list_page(request, tx, chosen, page)


def search(request: ConsoleRequest) -> Response:
    """The leads with these words in the name, the e-mail address or the phone number. Names stay masked."""
    text = request.text("text", LONGEST_TEXT)
    form = {name: request.text(name, 200) for name in ("state", "mark", "days", "agent", "before")}
    chosen = chosen_of(request, form)
    if not text:
        return request.go("leads", **chosen)
    matching = replace(
        filter_of(request, chosen), text=text, contact=known_contact(text), before=form["before"] or None
    )
    with request.dealer.read(request.now) as tx:
        page = find_leads(tx, matching, ON_A_PAGE + 1, most=MOST_SEARCHED)
        response = _list_page(request, tx, chosen, page, text)
    shown = sum(lead.erased_at is None for lead in page.leads[:ON_A_PAGE])
    request.record_access(f"search of {page.opened:,} leads", leads=shown, even_without=page.opened > 0)
    return response


def chosen_of(request: ConsoleRequest, query: Mapping[str, str]) -> dict[str, str]:
    """What a person chose, without what is not known."""
    states = (*LEAD_STATES, *((QUARANTINE,) if request.may(Act.DECIDE_QUARANTINE) else ()))
    allowed = {"state": states, "mark": LEAD_MARKS, "days": DAYS}
    chosen = {name: query[name] for name, values in allowed.items() if query.get(name) in values}
    if agent := query.get("agent", "").strip()[:200]:
        chosen["agent"] = agent
    return chosen


def filter_of(request: ConsoleRequest, chosen: Mapping[str, str]) -> LeadFilter:
    """The filter that a person chose, for the rooftops that the person sees."""
    state, mark, days, agent = (chosen.get(name) for name in ("state", "mark", "days", "agent"))
    since = EARLIEST
    if days:
        today = request.dealer.local(request.now).date()
        since = request.dealer.start_of(today - timedelta(days=int(days) - 1))
    return LeadFilter(
        since=since,
        state=next((each for each in LEAD_STATES if each == state), None),
        mark=next((each for each in LEAD_MARKS if each == mark), None),
        caller=_caller(agent),
        rooftops=rooftops_of(request),
        quarantined=state == QUARANTINE,
    )


def _caller(agent: str | None) -> str | None:
    try:
        return read_sender(agent)
    except ValueError as problem:
        refuse(f"{str(problem).rstrip('.')}.")


def _list_page(
    request: ConsoleRequest, tx: Transaction, chosen: Mapping[str, str], page: FoundLeads, text: str = ""
) -> Response:
    """A page of the list of leads, with the filters that were chosen and the link to older leads."""
    leads = page.leads[:ON_A_PAGE]
    older = leads[-1].lead_id if len(page.leads) > ON_A_PAGE else page.last
    return request.page(
        "leads.html",
        rows=rows_of(request, tx, leads),
        chosen=chosen,
        text=text,
        older=older,
        page=page,
    )


def show(request: ConsoleRequest) -> Response:
    """One lead. The access log has who opened it."""
    whole = _read_lead(request)
    return request.page("lead.html", **_shown(request, whole), **_offer_shown(request, whole))


def _read_lead(request: ConsoleRequest) -> WholeLead:
    """The lead of the path, with all its parts. The access is recorded."""
    lead_id = request.params["lead"]
    with request.dealer.read(request.now) as tx:
        require_lead(request, tx, lead_id)
        whole = read_whole_lead(tx, lead_id)
    if whole is None:
        not_found(NO_LEAD)
    request.record_access("lead opened", leads=1, lead_id=lead_id)
    return whole


def _offer_shown(request: ConsoleRequest, whole: WholeLead) -> dict[str, Any]:
    """The price that the lead keeps of its quote, and its hold as it is now."""
    offer = None if whole.lead.erased_at is not None else LeadContent.of(whole.details.stored).offer
    price = None if offer is None else price_of_lead(offer)
    hold = None
    if price is not None and price.hold_id is not None:
        with request.dealer.read(request.now) as tx:
            stored = find_hold(tx, price.hold_id)
            hold = next(iter(holds.rows_of(request, tx, [] if stored is None else [stored])), None)
    return {
        "price": price,
        "valid_until": None if price is None else request.dealer.local(parse_timestamp(price.valid_until)),
        "hold": hold,
        "longest_reason": LONGEST_REASON,
        "most_hours": MOST_HOURS,
    }


def _shown(request: ConsoleRequest, whole: WholeLead) -> dict[str, Any]:
    """What the page of a lead shows."""
    document, lead, page = lead_document(request.dealer, whole), whole.lead, request.page_number()
    entries = time_line(request.dealer, whole, request.sees)
    visits = [
        VisitCard(visit, described["starts"], _request_of_visit(request, visit), _possible(visit.state_at(request.now)))
        for visit, described in zip(whole.details.visits, document["appointments"], strict=True)
        if request.sees(visit.rooftop) and not visit.is_off
    ]
    return {
        "whole": whole,
        "lead": lead,
        "received": document["received"],
        "agent": claimed_name(lead.source_agent or "") or "an unnamed agent",
        "name": None if lead.customer is None else short(name_of(lead.customer), LONGEST_NAME),
        "customer": _contact_facts(document),
        "vehicle": _facts(identifying_members(document["vehicle"])),
        "wanted": _facts(document["vehicle_of_interest"]),
        "trade_in": _facts(document["trade_in"]),
        "message": "\n".join(lines(document["message"] or ""))[:LONGEST_MESSAGE],
        "allowed": allowed_text(document["may_be_contacted_by"]),
        "decided": review_words(request.dealer, whole.review, lead.rooftop),
        "entries": entries[(page - 1) * ENTRIES : page * ENTRIES],
        "page": page,
        "more": len(entries) > page * ENTRIES,
        "visits": visits[::-1][:MOST_VISITS],
        "kinds": VISITS,
        "marks": MARKS,
        "rooftops": [each.name for each in request.dealer.profile.rooftops if request.sees(each.name)],
    }


def _contact_facts(document: dict[str, Any]) -> list[tuple[str, str]]:
    """The facts of the customer. They say which contact points must not be used."""
    allowed = document["may_be_contacted_by"]
    refused = {"email": EMAIL not in allowed, "phone": PHONE not in allowed and SMS not in allowed}
    return [
        (name, f"{text} (no consent to use it)" if refused.get(name) else text)
        for name, text in _facts(document["customer"])
    ]


def _request_of_visit(request: ConsoleRequest, visit: VisitRecord) -> list[tuple[str, str]]:
    """What the customer asked for. The title of the visit has its kind, and its time if it has one."""
    appointment = visit.read_request()
    if appointment is None:
        return []
    facts: list[tuple[str, str]] = []
    if visit.starts_at is None:
        zones = {each.name: each.timezone for each in request.dealer.profile.rooftops}
        for period in requested_periods(appointment, zones.get(visit.rooftop, request.dealer.profile.timezone)):
            ends = f" to {moment(request.dealer.local(period.end, visit.rooftop))}" if period.end else ""
            facts.append(("time", f"{moment(request.dealer.local(period.start, visit.rooftop))}{ends}"))
    if appointment.duration_minutes is not UNSET:
        facts.append(("minutes", f"{appointment.duration_minutes:,}"))
    if appointment.notes is not UNSET:
        facts.append(("notes", short(appointment.notes, LONGEST_FACT)))
    return facts[:MOST_ASKED]


def _possible(state: str) -> list[VisitAction]:
    return [action for action, states in POSSIBLE.items() if state in states]


def _facts(described: Any, before: str = "") -> list[tuple[str, str]]:
    """The members of a JSON object as names and short texts, those of objects in it too."""
    facts: list[tuple[str, str]] = []
    if not isinstance(described, dict):
        return facts
    for name, value in described.items():
        label = short(f"{before}{name}".replace("_", " "), 60)
        if isinstance(value, dict):
            facts += _facts(value, f"{label}, ")
        elif isinstance(value, list):
            facts.append((label, short(", ".join(map(str, value)), LONGEST_FACT)))
        elif value not in (None, ""):
            facts.append((label, short(str(value), LONGEST_FACT)))
    return facts[:MOST_FACTS]


def mark(request: ConsoleRequest) -> Response:
    """Records what became of a lead."""
    lead_id, chosen = request.params["lead"], request.text("mark", 20)
    lead_mark = next((each for each in MARKS if each == chosen), None)
    with request.dealer.lock() as tx:
        require_lead(request, tx, lead_id)
        if lead_mark is None:
            refuse("Choose one of the marks.")
        set_mark(tx, lead_id, lead_mark, by=request.actor)
        log_access(tx, request.actor, f"console: lead marked as {lead_mark}", lead_id=lead_id, leads=1)
    return _redirect_to_lead(request, "lead-marked")


def note(request: ConsoleRequest) -> Response:
    """Adds a note to a lead. It is erased with the customer."""
    lead_id, text = request.params["lead"], request.text("text", LONGEST_NOTE)
    with request.dealer.lock() as tx:
        facts = require_lead(request, tx, lead_id)
        if not text:
            refuse("Write a note first.")
        if facts.erased_at is not None:
            refuse("The customer of this lead was erased, so it gets no notes any more.")
        if len(notes_of(tx, lead_id)) >= MOST_NOTES:
            refuse(f"A lead has at most {MOST_NOTES} notes.")
        add_note(tx, lead_id, text, by=request.actor)
        log_access(tx, request.actor, "console: note about a lead", lead_id=lead_id, leads=1)
    return _redirect_to_lead(request, "note-added")


def send_again(request: ConsoleRequest) -> Response:
    """Sends a lead again to all receivers that have it, or one of its deliveries."""
    lead_id, delivery_id = request.params["lead"], request.text("delivery", 40)

    def work(tx: Transaction, _: IntakeContext) -> None:
        """Sends the lead again: to all channels, or only the delivery that was chosen."""
        require_lead(request, tx, lead_id)
        if not delivery_id:
            resend(tx, lead_id)
        else:
            delivery = find_delivery(tx, delivery_id)
            if delivery.lead_id != lead_id:
                not_found(NO_LEAD)
            if delivery.state == "sent":
                resend(tx, delivery_id)
            else:
                retry(tx, delivery_id)
        log_access(tx, request.actor, "console: lead sent again", lead_id=lead_id, leads=1)

    write(request, work)
    return _redirect_to_lead(request, "sent-again")


def try_again(request: ConsoleRequest) -> Response:
    """Tries at once all deliveries of a lead that wait or could not be delivered."""
    lead_id = request.params["lead"]

    def work(tx: Transaction, _: IntakeContext) -> int:
        require_lead(request, tx, lead_id)
        log_access(tx, request.actor, "console: deliveries tried again", lead_id=lead_id, leads=1)
        return retry_deliveries(tx, lead_id=lead_id)

    if not write(request, work):
        refuse("This lead has no delivery to try again: none waits, and none is undeliverable.", 409)
    return _redirect_to_lead(request, "tried-again")


def release(request: ConsoleRequest) -> Response:
    """Releases a lead from quarantine."""
    decided = _decide(request, "lead released", lambda decisions, lead_id: decisions.release(lead_id))
    return _redirect_to_lead(request, "lead-released-late" if decided.passed else "lead-released")


def refuse_lead(request: ConsoleRequest) -> Response:
    """Refuses a lead in quarantine for good."""
    why = request.text("reason", 500)

    def decide(decisions: Decisions, lead_id: str) -> DecidedLead | None:
        return decisions.refuse(lead_id, reason_of(why))

    _decide(request, "lead refused", decide)
    return _redirect_to_lead(request, "lead-refused")


def _decide(request: ConsoleRequest, action: str, decide: Any) -> DecidedLead:
    """Decides about a lead that waits in quarantine, with its entry in the access log."""
    lead_id = request.params["lead"]

    def work(tx: Transaction, context: IntakeContext) -> DecidedLead | None:
        require_lead(request, tx, lead_id)
        done: DecidedLead | None = decide(Decisions(tx, context, request.actor), lead_id)
        if done is not None:
            log_access(tx, request.actor, f"console: {action}", lead_id=lead_id, leads=1)
        return done

    decided = write(request, work)
    if decided is None:
        refuse("This lead does not wait any more: somebody else has decided about it.", 409)
    return decided


def _redirect_to_lead(request: ConsoleRequest, said: str) -> Response:
    """Leads to the page of the lead, or to the page of today if the form is there."""
    if request.text("back", 10) == "today":
        return request.go(said=said)
    return request.go("leads", request.params["lead"], said=said)
