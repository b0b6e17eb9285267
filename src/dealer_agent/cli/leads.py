"""`dealer-agent leads`: the leads that buyers sent, and how they are erased."""

import os
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from dealer_agent.callers.caller import read_sender
from dealer_agent.cli.command import YesOption, checked_by, command, newest
from dealer_agent.cli.customer_data import (
    EmailOption,
    LeadArgument,
    LeadIdArgument,
    PhoneOption,
    SinceOption,
    UntilOption,
    asked_text,
    days_between,
    person_of,
    record_access,
    require_leads,
    show_event,
)
from dealer_agent.cli.export import export
from dealer_agent.cli.lead_decisions import mark as mark_lead
from dealer_agent.cli.lead_decisions import quarantined, refuse, release
from dealer_agent.cli.open_dealer import CUSTOMERS
from dealer_agent.cli.tables import Table
from dealer_agent.cli.terminal import (
    Cell,
    bar_of,
    counted,
    err,
    fail,
    limited,
    local,
    moment,
    out,
    pasted,
    plain,
    progress,
    section,
)
from dealer_agent.config.keys import KEY_FILE_NAME, KEYS_VARIABLE, from_environment
from dealer_agent.dealers.profile import erase_before, purge_before
from dealer_agent.leads.consent_events import ERASED
from dealer_agent.leads.received_lead import known_contact
from dealer_agent.leads.records import LeadRecord, StoredLead
from dealer_agent.leads.statuses import WAITING, Mark
from dealer_agent.leads.wording import VISITS, claimed_name
from dealer_agent.open_installation import OpenDealer
from dealer_agent.operations.lead_documents import (
    allowed_text,
    identifying_members,
    lead_document,
    name_of,
    number_of_vehicle,
    read_whole_lead,
    review_words,
)
from dealer_agent.privacy.erasure import KEPT, PROOF, PROOF_WHY, Erasure, customers_of, holds_customer_data
from dealer_agent.storage.clock import clock_problem, confirm_clock
from dealer_agent.storage.leads.lead_search import MOST_SEARCHED, FoundLeads, LeadFilter, LeadState, find_leads
from dealer_agent.storage.leads.lead_summaries import summaries_of
from dealer_agent.storage.leads.quarantine import LeadReview, waiting_by_caller
from dealer_agent.storage.privacy import erasure
from dealer_agent.storage.privacy.erasure import purge
from dealer_agent.storage.transaction import Transaction

app = typer.Typer(no_args_is_help=True)


@command(app, "list", CUSTOMERS)
def list_(
    dealer: OpenDealer,
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT",
            callback=asked_text,
            help="Only leads with these words in the customer's name, e-mail address or phone number, the VIN, the"
            " stock number, the agent or the lead's id. With - the command asks for it, so that no command history"
            " has it.",
        ),
    ] = "",
    limit: Annotated[int, newest(1000)] = 20,
    since: SinceOption = None,
    until: UntilOption = None,
    state: Annotated[
        LeadState | None, typer.Option(help="Only leads with a delivery in this state, or leads that were erased.")
    ] = None,
    before: Annotated[str | None, typer.Option(metavar="LEAD", help="Only leads older than this one.")] = None,
    mark: Annotated[Mark | None, typer.Option(help="Only leads with this mark.")] = None,
    agent: Annotated[
        str | None,
        typer.Option(
            metavar="AGENT",
            callback=checked_by(read_sender),
            help="Only leads of this agent: its identity as `agents list` shows it, or `anonymous`.",
        ),
    ] = None,
) -> Table:
    """List the newest leads: customer, vehicle, rooftop, agent, visit, mark, and the states of the deliveries.

    Leads in quarantine are in `leads quarantined`.

    The agent is what the sender calls itself. The caller is the identity that it has proved; it is empty for an
    anonymous sender. A search decrypts at most the newest 20,000 leads of the chosen days. The access log has each
    search. Times are those of the lead's rooftop, and days those of the first rooftop in dealer.toml.
    """
    rows: list[tuple[Cell, ...]] = []
    first, end = days_between(dealer, since, until)
    contact = known_contact(text) if text else None
    wanted = LeadFilter(
        text=text, contact=contact, before=before, state=state, mark=mark, caller=agent, since=first, until=end
    )
    with dealer.read() as tx:
        problem = clock_problem(tx)
        waiting = sum(each.number for each in waiting_by_caller(tx))
        page = _found(tx, wanted, limit + 1)
        summaries = summaries_of(tx, [lead.lead_id for lead in page.leads])
        last = page.leads[:limit][-1].lead_id if page.leads else ""
        for lead in limited(page.leads, limit, f"give a higher --limit, or see older ones with --before {last}"):
            name = ERASED if lead.customer is None else name_of(lead.customer)
            what = number_of_vehicle(lead), lead.rooftop, lead.source_agent or ERASED
            summary, received = summaries[lead.lead_id], dealer.local(lead.received_at, lead.rooftop)
            rows.append((lead.lead_id, received, name, *what, lead.caller, summary.visit, lead.mark, summary.sent))
    if problem:
        err.print(f"Warning: {problem}", style="yellow")
    if page.incomplete:
        err.print(f"Only {page.opened:,} leads were searched: choose older ones with --until or --before.")
    shown = sum(lead.erased_at is None for lead in page.leads[:limit])
    action = f"leads list, search of {page.opened:,}" if text else "leads list"
    record_access(dealer, action, leads=shown, even_without=bool(text and page.opened))
    columns = ("Id", "Received", "Customer", "Vehicle", "Rooftop", "Agent", "Caller", "Visit", "Mark", "Deliveries")
    chosen = text or since or until or state or before or mark or agent is not None
    empty = "No such leads." if chosen else "No leads yet."
    note = f"{counted(waiting, 'lead')} in quarantine: see dealer-agent leads quarantined"
    return Table("Leads", columns, rows, empty=empty, notes=[note] if waiting else [])


def _found(tx: Transaction, wanted: LeadFilter, limit: int) -> FoundLeads:
    """The leads, with a progress bar while a search decrypts them."""
    if not wanted.text:
        return find_leads(tx, wanted, limit)
    with progress() as bar:
        task = bar.add_task("Searching", total=MOST_SEARCHED)
        return find_leads(tx, wanted, limit, lambda opened: bar.update(task, completed=opened))


@command(app, "show", CUSTOMERS)
def show(dealer: OpenDealer, lead_id: LeadIdArgument) -> dict[str, Any]:
    """Show all of one lead: customer, vehicle, visits, later additions, consent and deliveries."""
    with dealer.read() as tx:
        whole = read_whole_lead(tx, lead_id)
    if whole is None:
        fail(f"There is no lead {lead_id}; see dealer-agent leads list")
    record_access(dealer, "leads show", leads=1, lead_id=lead_id)
    document = lead_document(dealer, whole)
    lead, consents, _ = whole.details.stored
    out.print(f"[bold]Lead {lead.lead_id}[/], {lead.status} {local(document['received'])}", markup=True)
    for_rooftop = f", for {plain(lead.rooftop)}" if lead.rooftop else ""
    caller = f", verified as {lead.caller}" if lead.caller else ", which says so itself, not verified"
    name = claimed_name(lead.source_agent) if lead.source_agent else ERASED
    out.print(f"From {plain(name)}{plain(caller)}{for_rooftop}")
    _show_review(dealer, lead, whole.review)
    if lead.may_be_same_person_as is not None:
        out.print(f"It may be the same person as lead {lead.may_be_same_person_as}, which another sender sent.")
    if lead.erased_at is not None:
        out.print(f"\nThe customer was erased {local(document['erased'])}. The rest identifies nobody.")
    section("Customer", document["customer"])
    section("Vehicle of interest", document["vehicle_of_interest"])
    section("In stock when the lead came", identifying_members(document["vehicle"]))
    section("Trade-in", document["trade_in"])
    section("Message", document["message"])
    for addition in document["additions"]:
        changes = addition["changes"] or {}
        if did := changes.get("by_agent"):
            section(f"The agent {did['did']} the visit, {local(addition['at'])}", did)
        else:
            section(f"Added {local(addition['at'])}", changes or ERASED)
    for note in document["notes"]:
        section(f"Note of {note['by']}, {local(note['at'])}", note["text"] or ERASED)
    for visit in document["appointments"]:
        _show_visit(visit)
    for consent in consents:
        show_event(consent, dealer.clock(lead.rooftop))
    out.print(f"\nMay be contacted now by: {allowed_text(document['may_be_contacted_by'])}")
    if whole.deliveries:
        columns = {"Id": "delivery_id", "What": "kind", "Channel": "channel", "State": "state", "Attempts": "attempts"}
        columns |= {"Settled": "settled_at", "Problem": "problem"}
        Table.of("\nDeliveries", columns, whole.deliveries, dealer.clock(lead.rooftop), time=moment).show()
    return document


def _show_review(dealer: OpenDealer, lead: LeadRecord, review: LeadReview | None) -> None:
    """Whether the lead waits in quarantine, with the commands that end it, and what people said of it."""
    clock = dealer.clock(lead.rooftop)
    since = clock(lead.quarantined_at)
    if lead.quarantine == WAITING and since is not None and lead.erased_at is None:
        out.print(f"\nIt waits in quarantine since {local(since)}. What came since then was sent to nobody.")
        out.print(f"  To send it: {pasted('dealer-agent leads release')} {lead.lead_id}")
        out.print(f"  To refuse it: {pasted('dealer-agent leads refuse')} {lead.lead_id} --reason 'WHY'")
    elif words := review_words(dealer, review, lead.rooftop):
        out.print(f"It waited in quarantine. {plain(words)}")
    if review is not None and (marked_at := clock(review.marked_at)) is not None:
        out.print(f"{plain(review.marked_by or '')} marked it on {local(marked_at)}: {review.mark}.")


def _show_visit(visit: dict[str, Any]) -> None:
    request = visit["request"] or {"asked for": ERASED}
    facts = {name: visit[name] for name in ("rooftop", "starts", "ends", "ended")}
    section(f"Visit {visit['id']}: {visit['kind']}, {visit['status']}", facts | request)


PROOF_COMMANDS = "; only dealer-agent consent prove and consent export read it; --consent-too erases it"


@command(app, "erase", CUSTOMERS)
def erase(
    dealer: OpenDealer,
    lead_id: LeadArgument = None,
    email: EmailOption = None,
    phone: PhoneOption = None,
    yes: YesOption = False,
    consent_too: Annotated[
        bool, typer.Option("--consent-too", help="Erase the proof of consent too, also of leads erased before.")
    ] = False,
    final: Annotated[
        bool,
        typer.Option(
            "--final", help="Make the erasure final now: replace the key, and destroy the old one. Takes longer."
        ),
    ] = False,
) -> dict[str, Any]:
    """Erase a person: every lead with an e-mail address or phone number, or one lead. This cannot be undone.

    The command shows what it will erase, and asks. It overwrites names, addresses and messages, cancels future visits,
    and drops the deliveries that wait. It keeps the proof of consent separately, as the law requires, unless you give
    --consent-too. You need not restart a running service.
    """
    person = person_of(lead_id, email, phone)
    if final and from_environment(os.environ):
        fail(
            f"--final cannot change the keys in {KEYS_VARIABLE}. Erase without it, then replace the key "
            "(dealer-agent keys rotate --help): the erasure is final when you have removed the old key there"
        )
    erased = Erasure(dealer.store, dealer.profile, person, consent_too)
    if lead_id is not None and (problem := erased.why_unreadable()):
        out.print(f"The lead {lead_id} cannot be shown: {problem}")
        _confirm("Erase it anyway?", yes=yes)
        erased.erase_one(lead_id)
        out.print(f"The lead {lead_id} is erased.")
        _show_receivers(dealer, erased)
        if erased.proof_kept_until() is not None:
            out.print("The proof of consent is kept separately. --consent-too erases it.")
    else:
        _erase_person(dealer, erased, yes=yes, again=final)
    (_make_final if final else _tell_when_final)(dealer)
    return {
        "erased": erased.lead_ids,
        "channels_with_a_copy": erased.copies,
        "cancelled_visits": [visit.appointment_id for visit in erased.visits],
        "proof_kept_until": dealer.local(erased.proof_kept_until()),
        "final": final,
    }


def _confirm(question: str, *, yes: bool) -> None:
    if not yes and not typer.confirm(f"{question} This cannot be undone.", err=True):
        fail("Nothing was erased.")


def _erase_person(dealer: OpenDealer, erased: Erasure, *, yes: bool, again: bool) -> None:
    """Erases all leads of the person. With `again`, it is not an error that there are none.

    So a command that was killed before the erasure was final can be repeated.
    """
    person, proven = erased.person, erased.proven()
    stored = erased.leads()
    if person.lead_id is not None or not (proven or again):
        require_leads(person, stored)
    leads = list(filter(holds_customer_data, stored))
    if not leads and not proven:
        out.print("There is nothing to erase: the person was erased before, or was never here.")
        return
    others = erased.others(leads)
    only = leads[0].lead.lead_id if len(leads) == 1 and not proven else None
    record_access(dealer, "leads erase", leads=len(leads) + len(proven), lead_id=person.lead_id or only)
    if proven:
        out.print(f"The proof of consent of these erased leads will be erased: {', '.join(proven)}")
    if leads:
        rows = [_erased_row(dealer, each) for each in leads]
        Table("To be erased", ("Id", "Received", "Customer", "Agent"), rows).show()
    _confirm("Erase this person?", yes=yes)
    counts = erased.erase(leads, proven)
    Table("\nErased", ("What", "Count"), list(counts.items())).show()
    until = erased.proof_kept_until()
    proof = [] if until is None else [(PROOF, PROOF_WHY.format(until=until) + PROOF_COMMANDS)]
    Table("\nKept", ("What", "Why"), [*KEPT.items(), *proof]).show()
    _show_receivers(dealer, erased)
    if others:
        out.print(
            "\nThese leads share an e-mail address or phone number with what was erased, and are kept: "
            f"{', '.join(others)}. If they are the same person's, erase them too."
        )


def _erased_row(dealer: OpenDealer, stored: StoredLead) -> tuple[Cell, ...]:
    name, lead = customers_of(stored)[-1], stored.lead
    received = dealer.local(lead.received_at, lead.rooftop)
    return lead.lead_id, received, f"{name.first_name} {name.last_name}", lead.source_agent or ERASED


def _show_receivers(dealer: OpenDealer, erased: Erasure) -> None:
    """Says which channels have a copy, and which visits are cancelled."""
    for arrived, words in ((True, "have a copy"), (False, "may have a copy, because a delivery was not finished")):
        where = ", ".join(plain(channel) for channel in sorted(erased.copies) if erased.copies[channel] is arrived)
        if where:
            out.print(f"\nThese channels {words}: {where}. Erase the lead there.")
    if erased.copies:
        out.print("The running service notifies each of them, unless `notices` in dealer.toml excludes that.")
    for visit in erased.visits:
        when = local(dealer.local(visit.starts_at, visit.rooftop))
        what = f"{VISITS[visit.kind]} at {plain(visit.rooftop)} on {when}"
        out.print(f"\nThe {what} is cancelled. The running service notifies the rooftop.")


def _make_final(dealer: OpenDealer) -> None:
    """Replaces the key, and destroys every key that may have encrypted erased data. Ends the command if one is left.

    In an installation, the dealer's key first: the key of the installation decrypts remains of it.
    """
    # Imported here: the other commands of the group need no key rotation.
    from dealer_agent.cli.keys import show_change
    from dealer_agent.operations.key_changes import destroy_keys, rotations_of

    with bar_of("Encrypting") as on_progress:
        for rotation in rotations_of(dealer.settings, dealer.store, on_progress):
            for changed in destroy_keys(rotation):
                show_change(changed)
    folder = dealer.settings.installation or dealer.settings.folder
    out.print(
        f"\nThe erasure is final: the old key is destroyed. Back up {folder / KEY_FILE_NAME} again, and "
        "delete its older copies: who has one can still read erased data in the database's files and in its backups."
    )


def _tell_when_final(dealer: OpenDealer) -> None:
    """Says when an erasure becomes final, so that nobody takes it for complete before."""
    # Imported here, as in `_make_final`.
    from dealer_agent.operations.key_changes import when_final

    out.print(
        f"\nThe erasure becomes final {when_final(dealer.settings, dealer.store, datetime.now(UTC))}. Until then, a "
        "person who has the key and the database's files can read erased data in them. --final makes it final at once, "
        "if this machine may change the key."
    )


command(app, "quarantined", CUSTOMERS)(quarantined)
command(app, "release", CUSTOMERS)(release)
command(app, "refuse", CUSTOMERS)(refuse)
command(app, "mark", CUSTOMERS)(mark_lead)
command(app, "export", CUSTOMERS)(export)


@command(app, "dispose", CUSTOMERS)
def dispose(
    dealer: OpenDealer,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show how much would be erased. Erase nothing.")] = False,
    clock_is_right: Annotated[
        bool, typer.Option("--clock-is-right", help="Confirm the clock, after the service did not run for a long time.")
    ] = False,
) -> dict[str, Any]:
    """Erase old customer data, as the running service does every hour: see the section privacy of dealer.toml.

    If the clock is far from the time at which the service last ran, nothing is erased until you confirm the clock.
    """
    now = datetime.now(UTC)
    profile = dealer.profile
    if dry_run:
        with dealer.read(now) as tx:
            if (problem := clock_problem(tx)) and not clock_is_right:
                fail(problem)
            done = erasure.disposable(tx, **erase_before(profile.privacy, now))
    else:
        if clock_is_right:
            with dealer.write(now) as tx:
                confirm_clock(tx)
        done = erasure.dispose(dealer.store, profile.id, **erase_before(profile.privacy, now), now=now)
        purge(dealer.store, profile.id, **purge_before(profile.privacy, now), now=now)
    rows = (
        ("Customers of leads, after their last use", profile.privacy.keep_leads_days, done.leads),
        ("Texts of consents, after their last event", profile.privacy.keep_consents_days, done.consents),
    )
    Table("Would be erased" if dry_run else "Erased", ("What", "After days", "Count"), rows).show()
    if dry_run:
        out.print("\nNothing was changed (--dry-run).")
    return {"customers_of_leads": done.leads, "texts_of_consents": done.consents, "dry_run": dry_run}
