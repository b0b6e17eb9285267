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
from dealer_agent.privacy.erasure import Person, is_known, revoke_consent
from dealer_agent.protocol.requests import Channel
from dealer_agent.storage.leads.stored_leads import find_leads_of
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
    with request.of.read(request.now) as tx:
        found = Person(None, contact).leads(tx)
        proven = proven_leads(tx, contact)
    request.record_access("search of a person", leads=len(found) + len(proven), even_without=True)
    rows = [
        (
            each.lead.lead_id,
            request.of.local(each.lead.received_at, each.lead.rooftop),
            each.lead.rooftop,
            allowed_text(channels_of(each, request.now)),
            not is_known(each),
        )
        for each in reversed(found)
    ]
    return request.page(
        "person_found.html",
        contact=request.text("contact", LONGEST_CONTACT),
        rows=rows[:ON_A_PAGE],
        number=len(rows),
        proven=len(proven),
        is_known=any(is_known(each) for each in found),
        channels=CHANNELS,
    )


def prove(request: ConsoleRequest) -> Response:
    """What a person consented to and withdrew, also for erased leads."""
    contact = contact_of(request)
    with request.of.read(request.now) as tx:
        found = _leads(tx, contact)
        events = proven_events(tx, found)
    request.record_access("proof of consent", leads=len(found))
    page = request.page_number()
    newest = list(reversed(events))[(page - 1) * ON_A_PAGE : page * ON_A_PAGE]
    shown = []
    for event in newest:
        facts = event_document(event, request.of.local)
        facts["customer"] = None if event.customer is None else name_and_contacts(event.customer)
        shown.append((facts["number"], facts["kind"], facts["at"], _facts(facts)))
    return request.page("proof.html", events=shown, number=len(events))


def _facts(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """The facts of a consent event that a page shows as short texts."""
    shown = ("lead", "customer", "granted", "expires", "channels", "scope", "purpose", "through", "caller")
    named = ((name, facts[name]) for name in (*shown, "text", "by", "reason", "request_hash"))
    return [
        (name.replace("_", " "), short(", ".join(value) if isinstance(value, list) else str(value), LONGEST_TEXT))
        for name, value in named
        if value
    ]


def export(request: ConsoleRequest) -> Response:
    """The consent record of a person as a file, which `dealer-agent consent verify` checks."""
    contact = contact_of(request)
    with request.of.read(request.now) as tx:
        found = _leads(tx, contact)
    request.record_access("export of a consent record", leads=len(found))
    document = BytesIO()
    with request.of.read(request.now) as tx:
        for line in evidence_of(tx, found).lines:
            document.write(line + b"\n")
    name = f"consent-{request.of.local(request.now):%Y-%m-%d}.jsonl"
    headers = {"content-disposition": f'attachment; filename="{name}"', "content-type": "application/jsonl"}
    return Response(document.getvalue(), headers=headers)


def _leads(tx: Transaction, contact: str) -> list[str]:
    """The leads of a contact point, erased ones too."""
    found = sorted({*find_leads_of(tx, [contact]), *proven_leads(tx, contact)})
    if not found:
        refuse("No consent is kept for this address or number: check it.")
    return found


def withdraw(request: ConsoleRequest) -> Response:
    """Records that a person withdrew consent. It applies to all leads with the person's contact points."""
    contact, reason = contact_of(request), request.text("reason", LONGEST_REASON)
    channels = [each for each in KNOWN_CHANNELS if each in request.form.get("channel", ())]
    if not channels:
        refuse("Choose at least one channel.")
    with request.of.read(request.now) as tx:
        found = [each.lead.lead_id for each in Person(None, contact).leads(tx) if is_known(each)]
    if not found:
        refuse("No data of this person is stored, so there is no consent to withdraw. You need do nothing.")
    request.record_access("consent withdrawn", leads=len(found), lead_id=found[0] if len(found) == 1 else None)
    revoke_consent(
        request.of.store,
        request.of.profile,
        found,
        channels,
        by=request.actor,
        reason=reason or None,
        at=request.now,
    )
    return request.go("privacy", said="withdrawn")


def show_log(request: ConsoleRequest) -> Response:
    """The access log, newest first."""
    with request.of.read(request.now) as tx:
        found = list_accesses(tx, ON_A_PAGE + 1, request.query.get("before"))
    shown = found[:ON_A_PAGE]
    older = shown[-1].access_id if len(found) > ON_A_PAGE else None
    return request.page("access_log.html", accesses=shown, older=older, opens=request.may(Act.OPEN_LEAD))
