"""Erases a customer, by one lead or by a contact point, after a page that says what is erased and what is kept."""

from starlette.responses import Response

from dealer_agent.console.pages.lead_rows import require_lead
from dealer_agent.console.pages.privacy import contact_of
from dealer_agent.console.requests import ConsoleRequest, refuse
from dealer_agent.leads.records import StoredLead
from dealer_agent.operations.key_changes import when_final
from dealer_agent.privacy.erasure import (
    KEPT,
    PROOF,
    PROOF_WHY,
    CustomerReference,
    Erasure,
    customers_of,
    holds_customer_data,
)

MOST_SHOWN = 50


def show_lead(request: ConsoleRequest) -> Response:
    """Says what the erasure of a lead's customer erases, and what it keeps."""
    return _confirmation_page(request, _person_of_lead(request))


def erase_lead(request: ConsoleRequest) -> Response:
    """Erases the customer of one lead."""
    return _erase(request, _person_of_lead(request))


def show_person(request: ConsoleRequest) -> Response:
    """Says what the erasure of a person erases, and what it keeps."""
    return _confirmation_page(request, CustomerReference(None, contact_of(request)))


def erase_person(request: ConsoleRequest) -> Response:
    """Erases all leads of a person."""
    return _erase(request, CustomerReference(None, contact_of(request)))


def _person_of_lead(request: ConsoleRequest) -> CustomerReference:
    lead_id = request.params["lead"]
    with request.dealer.read(request.now) as tx:
        require_lead(request, tx, lead_id)
    return CustomerReference(lead_id, "")


def _confirmation_page(request: ConsoleRequest, person: CustomerReference) -> Response:
    """The page that shows what an erasure would erase, and asks for a confirmation. It is in the access log."""
    erasure = Erasure(request.dealer.store, request.dealer.profile, person, consent_too=False)
    problem = erasure.why_unreadable()
    leads = [] if problem else [each for each in erasure.leads() if holds_customer_data(each)]
    if not leads and problem is None:
        refuse("There is nothing to erase: the person was erased before, or was never here.")
    request.record_access("erasure prepared", leads=len(leads), lead_id=person.lead_id)
    return request.page(
        "erase.html",
        person=person,
        rows=[_row(request, each) for each in leads[:MOST_SHOWN]],
        number=len(leads),
        others=erasure.others(leads)[:MOST_SHOWN] if leads else [],
        problem=problem,
        kept=KEPT,
        proof=PROOF,
    )


def _row(request: ConsoleRequest, stored: StoredLead) -> tuple[str, object, str]:
    """The id of a lead, when it came, and the name of its customer."""
    customer, lead = customers_of(stored)[-1], stored.lead
    return (
        lead.lead_id,
        request.dealer.local(lead.received_at, lead.rooftop),
        f"{customer.first_name} {customer.last_name}",
    )


def _erase(request: ConsoleRequest, person: CustomerReference) -> Response:
    """Erases the customer, and shows what was erased and what is kept. A lead that cannot be read is erased alone."""
    consent_too = bool(request.text("consent_too", 10))
    if request.text("sure", 10) != "yes":
        refuse("Nothing was erased. Tick the box that says that it cannot be undone.")
    erasure = Erasure(request.dealer.store, request.dealer.profile, person, consent_too)
    # Leads that were erased before, and whose proof of consent is to be erased now.
    proven = erasure.proven()
    if person.lead_id is not None and erasure.why_unreadable():
        request.record_access("customer erased", leads=1, lead_id=person.lead_id)
        erasure.erase_one(person.lead_id)
        counts = {"Leads that could not be read": 1}
    else:
        leads = [each for each in erasure.leads() if holds_customer_data(each)]
        if not leads and not proven:
            refuse("There is nothing to erase: the person was erased before, or was never here.")
        request.record_access("customer erased", leads=len(leads) + len(proven), lead_id=person.lead_id)
        counts = dict(erasure.erase(leads, proven))
    until = erasure.proof_kept_until()
    return request.page(
        "erased.html",
        counts=counts,
        copies=sorted(erasure.copies.items()),
        visits=[(each, request.dealer.local(each.starts_at, each.rooftop)) for each in erasure.visits],
        kept=KEPT if until is None else KEPT | {PROOF: PROOF_WHY.format(until=until)},
        final=when_final(request.dealer.settings, request.dealer.store, request.now),
    )
