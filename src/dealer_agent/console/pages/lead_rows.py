"""What the pages of leads share: who may see a lead, what a list shows of one, and work in the service's writer."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple, TypeVar

from dealer_agent.console.acts import Act
from dealer_agent.console.requests import ConsoleRequest, not_found, refuse, sentence_of
from dealer_agent.correctable import NotPossible
from dealer_agent.leads.plain_text import short
from dealer_agent.leads.records import LeadRecord
from dealer_agent.leads.wording import claimed_name
from dealer_agent.operations.lead_documents import name_of, number_of_vehicle, vehicle_of
from dealer_agent.storage.leads.lead_summaries import summaries_of
from dealer_agent.storage.leads.stored_leads import LeadFacts, read_facts
from dealer_agent.storage.transaction import Transaction
from dealer_agent.visits.notifications import IntakeContext

ON_A_PAGE = 50
WRITE_SECONDS = 15.0
NO_LEAD = "There is no such lead, or it is not one of your rooftops."
NO_TIME = "The database is busy. Check whether your change was made, and try again if it was not."

Result = TypeVar("Result")


class LeadRow(NamedTuple):
    """A lead in a list. `name` is for the filter `masked` only. `caller` is a proved identity; `agent` is a claim."""

    lead_id: str
    received: datetime
    name: str | None
    vehicle: str
    rooftop: str
    agent: str
    caller: str
    visit: str
    mark: str
    sent: str
    is_erased: bool


def rows_of(request: ConsoleRequest, tx: Transaction, leads: Sequence[LeadRecord]) -> list[LeadRow]:
    """The rows of a list of leads."""
    summaries = summaries_of(tx, [lead.lead_id for lead in leads])
    return [
        LeadRow(
            lead.lead_id,
            request.dealer.local(lead.received_at, lead.rooftop),
            None if lead.customer is None else name_of(lead.customer),
            short(" ".join(filter(None, (vehicle_of(lead.vehicle), number_of_vehicle(lead)))), 80),
            lead.rooftop,
            claimed_name(lead.source_agent or ""),
            short(lead.caller or "", 100),
            summaries[lead.lead_id].visit or "",
            lead.mark or "",
            summaries[lead.lead_id].sent,
            lead.erased_at is not None,
        )
        for lead in leads
    ]


def rooftops_of(request: ConsoleRequest) -> tuple[str, ...]:
    """The rooftops whose leads and visits the person sees; empty: all."""
    return () if request.member is None else tuple(request.member.rooftops)


def sees_lead(request: ConsoleRequest, rooftop: str, *, is_kept_from_staff: bool) -> bool:
    """Whether the person may see a lead. One in quarantine only those see who decide about it."""
    return request.sees(rooftop) and (not is_kept_from_staff or request.may(Act.DECIDE_QUARANTINE))


def require_lead(request: ConsoleRequest, tx: Transaction, lead_id: str) -> LeadFacts:
    """The facts of a lead that the person may see. Ends the page with 404 for any other."""
    facts = read_facts(tx, lead_id)
    if facts is None or not sees_lead(request, facts.rooftop, is_kept_from_staff=facts.is_kept_from_staff):
        not_found(NO_LEAD)
    return facts


def write(request: ConsoleRequest, work: Callable[[Transaction, IntakeContext], Result]) -> Result:
    """Does work in the writer of the running service, which then sends what is new. NotPossible ends the page."""
    intake = request.service().dealer.lead_intake
    try:
        result: Result = request.run(intake.write_for_staff(work, request.now, WRITE_SECONDS))
    except NotPossible as problem:
        refuse(sentence_of(problem))
    except TimeoutError:
        refuse(NO_TIME, 503, "Please try again")
    return result
