"""The requests of customers: find a person, prove and export the consent, withdraw it; and the access log."""

from io import BytesIO
from typing import Any, get_args

from starlette.responses import Response

from dealer_agent.console.acts import Act
from dealer_agent.console.pages.lead_rows import ON_A_PAGE
from dealer_agent.console.requests import ConsoleRequest, refuse
from dealer_agent.leads.consent import CHANNELS, channels_of
from dealer_agent.leads.plain_text import short
from dealer_agent.leads.received_lead import known_contact
from dealer_agent.operations.lead_documents import allowed_text, event_document, name_and_contacts
from dealer_agent.privacy.erasure import CustomerReference, holds_customer_data, leads_of_contact, revoke_consent
from dealer_agent.protocol.requests import Channel
from dealer_agent.storage.privacy.accesses import list_accesses
from dealer_agent.storage.privacy.consent_evidence import evidence_of
from dealer_agent.storage.privacy.erasure import proven_events, proven_leads
from dealer_agent.storage.transaction import Transaction

LONGEST_CONTACT = 254
LONGEST_REASON = 500
LONGEST_TEXT = 400
KNOWN_CHANNELS: tuple[Channel, ...] = get_args(Channel)


def contact_of(request: ConsoleRequest) -> str:
    """The contact point of the form, in the normal form. Ends the page if it is neither an address nor a number."""
    contact = known_contact(request.text("contact", LONGEST_CONTACT))
    if contact is None:
        refuse("Write an e-mail address as name@example.com, or a phone number as +1 202 555 0123.")
    return contact


def show(request: ConsoleRequest) -> Response:
    """The form that finds a person."""
    return request.page("privacy.html")


def find(request: ConsoleRequest) -> Response:
    """What is stored of a person: the leads, and whether a proof of consent of erased leads is kept."""
    contact = contact_of(request)
    with request.dealer.read(request.now) as tx:
        leads = CustomerReference(None, contact).leads(tx)
        proven = proven_leads(tx, contact)
    request.record_access("search of a person", leads=len(leads) + len(proven), even_without=True)
    rows = [
        (
            each.lead.lead_id,
            request.dealer.local(each.lead.received_at, each.lead.rooftop),
            each.lead.rooftop,
            allowed_text(channels_of(each, request.now)),
            not holds_customer_data(each),
        )
        for each in reversed(leads)
    ]
    return request.page(
        "person_found.html",
        contact=request.text("contact", LONGEST_CONTACT),
        rows=rows[:ON_A_PAGE],
        number=len(rows),
        proven=len(proven),
        holds_customer_data=any(holds_customer_data(each) for each in leads),
        channels=CHANNELS,
    )


def prove(request: ConsoleRequest) -> Response:
    """What a person consented to and withdrew, also for erased leads."""
    contact = contact_of(request)
    with request.dealer.read(request.now) as tx:
        lead_ids = _leads(tx, contact)
        events = proven_events(tx, lead_ids)
    request.record_access("proof of consent", leads=len(lead_ids))
    page = request.page_number()
    newest = list(reversed(events))[(page - 1) * ON_A_PAGE : page * ON_A_PAGE]
    rows = []
    for event in newest:
        facts = event_document(event, request.dealer.local)
        facts["customer"] = None if event.customer is None else name_and_contacts(event.customer)
        rows.append((facts["number"], facts["kind"], facts["at"], _facts(facts)))
    return request.page("proof.html", events=rows, number=len(events))


def _facts(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """The facts of a consent event that a page shows as short texts."""
    names = ("lead", "customer", "granted", "expires", "channels", "scope", "purpose", "through", "caller")
    named = ((name, facts[name]) for name in (*names, "text", "by", "reason", "request_hash"))
    return [
        (name.replace("_", " "), short(", ".join(value) if isinstance(value, list) else str(value), LONGEST_TEXT))
        for name, value in named
        if value
    ]


def export(request: ConsoleRequest) -> Response:
    """The consent record of a person as a file, which `dealer-agent consent verify` checks."""
    contact = contact_of(request)
    with request.dealer.read(request.now) as tx:
        lead_ids = _leads(tx, contact)
    request.record_access("export of a consent record", leads=len(lead_ids))
    document = BytesIO()
    with request.dealer.read(request.now) as tx:
        for line in evidence_of(tx, lead_ids).lines:
            document.write(line + b"\n")
    name = f"consent-{request.dealer.local(request.now):%Y-%m-%d}.jsonl"
    headers = {"content-disposition": f'attachment; filename="{name}"', "content-type": "application/jsonl"}
    return Response(document.getvalue(), headers=headers)


def _leads(tx: Transaction, contact: str) -> list[str]:
    """The leads of a contact point, erased ones too."""
    lead_ids = leads_of_contact(tx, contact)
    if not lead_ids:
        refuse("No consent is kept for this address or number: check it.")
    return lead_ids


def withdraw(request: ConsoleRequest) -> Response:
    """Records that a person withdrew consent. It applies to all leads with the person's contact points."""
    contact, reason = contact_of(request), request.text("reason", LONGEST_REASON)
    channels = [each for each in KNOWN_CHANNELS if each in request.form.get("channel", ())]
    if not channels:
        refuse("Choose at least one channel.")
    with request.dealer.read(request.now) as tx:
        lead_ids = [
            each.lead.lead_id for each in CustomerReference(None, contact).leads(tx) if holds_customer_data(each)
        ]
    if not lead_ids:
        refuse("No data of this person is stored, so there is no consent to withdraw. You need do nothing.")
    request.record_access("consent withdrawn", leads=len(lead_ids), lead_id=lead_ids[0] if len(lead_ids) == 1 else None)
    revoke_consent(
        request.dealer.store,
        request.dealer.profile,
        lead_ids,
        channels,
        by=request.actor,
        reason=reason or None,
        at=request.now,
    )
    return request.go("privacy", said="withdrawn")


def show_log(request: ConsoleRequest) -> Response:
    """The access log, newest first."""
    with request.dealer.read(request.now) as tx:
        accesses = list_accesses(tx, ON_A_PAGE + 1, request.query.get("before"))
    page = accesses[:ON_A_PAGE]
    older = page[-1].access_id if len(accesses) > ON_A_PAGE else None
    return request.page("access_log.html", accesses=page, older=older, opens=request.may(Act.OPEN_LEAD))
