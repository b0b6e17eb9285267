"""`dealer-agent leads erase` and `leads dispose`: erase customer data on request and by age."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated

import msgspec
import typer

from dealer_agent.cli.access_recording import note_look
from dealer_agent.cli.erasure_finality import make_final, require_key_file, tell_when_final
from dealer_agent.cli.leads import DELIVERIES, ERASED
from dealer_agent.cli.person_lookup import EmailOption, LeadArgument, PhoneOption, ids_of, is_known, leads_of, one_of
from dealer_agent.cli.terminal import (
    HERE,
    DirOption,
    add_row,
    customer_store,
    fail,
    failures_in_plain_words,
    moment,
    out,
    plain,
    settings_in,
    table,
)
from dealer_agent.dealers.profile import Profile
from dealer_agent.leads.received_lead import contact_points
from dealer_agent.leads.visit_words import VISITS
from dealer_agent.protocol.requests import Customer
from dealer_agent.server.refresh import ages, dispose_by_age, purge_by_age
from dealer_agent.storage.errors import WrongKey
from dealer_agent.storage.leads import StoredLead
from dealer_agent.storage.notices import CancelledVisit, Erased
from dealer_agent.storage.store import Store

KEPT = {
    "Lead id, time, vehicle, rooftop; times of visits and deliveries": (
        "the dealership's own record of what happened; nothing in it names or reaches the person"
    ),
    "Consent events without texts and names: times, channels, a salted hash": (
        "the chain of events shows whether somebody changed it; without the salt the hash discloses nothing"
    ),
    "Withdrawals of consent: a keyed hash of the contact point, the channel, the time": (
        "an agent may send the old consent again; it must not allow a channel that the person withdrew"
    ),
    "Access log": "16 CFR 314.4(c)(8): who looked, when, and at which lead id",
}
"""What an erasure leaves, and why."""

PROOF = "Proof of consent: the text as shown, channels, times, agent, name, contact points; encrypted, apart"
PROOF_WHY = (
    "16 CFR 310.5: kept until {until:%Y-%m-%d}; only dealer-agent consent prove and consent export read it; "
    "--consent-too erases it"
)


def erase(
    lead_id: LeadArgument = None,
    email: EmailOption = None,
    phone: PhoneOption = None,
    directory: DirOption = HERE,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    consent_too: Annotated[
        bool,
        typer.Option(
            "--consent-too", help="Erase the proof of consent too, also that of leads that were erased before."
        ),
    ] = False,
    final: Annotated[
        bool,
        typer.Option(
            "--final",
            help="Make the erasure final now: replace the key to customer data and destroy the old key. Takes longer.",
        ),
    ] = False,
) -> None:
    """Erase a person: every lead with an e-mail address or phone number, or one lead. This cannot be undone.

    The command shows what it will erase, and asks. It overwrites names, addresses and messages, cancels future visits,
    and drops the deliveries that wait. It keeps the proof of consent apart, as the law requires, unless you give
    --consent-too. You need not restart a running service.
    """
    one_of(lead_id, email, phone)
    with failures_in_plain_words():
        settings = settings_in(directory)
        dealer_id = settings.dealer.id
        if final:
            require_key_file()
        with customer_store(settings) as store:
            end = make_final if final else tell_when_final
            if lead_id is not None and (problem := _unreadable(store, dealer_id, lead_id)):
                _erase_unread(store, settings.dealer, lead_id, problem, yes=yes, consent_too=consent_too)
                end(settings, store)
                return
            proven = _proven(store, dealer_id, lead_id, email, phone) if consent_too else []
            # A command that was killed before it was final may be repeated.
            if (proven or final) and lead_id is None:
                doomed = _left(store, dealer_id, email, phone)
            else:
                doomed = [each for each in leads_of(store, dealer_id, lead_id, email, phone) if is_known(each)]
            if not doomed and not proven:
                out.print("There is nothing to erase: the person was erased before, or was never here.")
                end(settings, store)
                return
            others = _others(store, dealer_id, doomed)
            count = len(doomed) + len(proven)
            note_look(
                store, dealer_id, "leads erase", leads=count, lead_id=lead_id or (_only(doomed) if count == 1 else None)
            )
            _show_doomed(doomed, proven)
            if not yes and not typer.confirm("Erase this person? This cannot be undone."):
                fail("Nothing was erased.")
            erased: Counter[str] = Counter()
            copies: dict[str, bool] = {}
            visits: list[CancelledVisit] = []
            ids = list(proven)
            for each in proven:
                store.erase_lead(dealer_id, each, datetime.now(UTC), consent_too=True)
            while doomed:
                erased.update(_counts(store, dealer_id, doomed))
                for stored in doomed:
                    ids.append(stored.lead.lead_id)
                    done = store.erase_lead(
                        dealer_id, ids[-1], datetime.now(UTC), tell=settings.dealer, consent_too=consent_too
                    )
                    _note_done(done, copies, visits)
                # Those too that came while the question was being read.
                doomed = [] if lead_id is not None else _left(store, dealer_id, email, phone)
            if proven:
                erased["Proofs of consent of leads that were erased before"] = len(proven)
            newest = store.newest_proof(dealer_id, ids)
            keep = timedelta(days=settings.dealer.privacy.keep_consents_days)
            _report(erased, None if newest is None else newest + keep)
            _show_told(copies, visits)
            if others:
                out.print(
                    "\nThese leads share an e-mail address or phone number with what was erased, and are kept: "
                    f"{', '.join(others)}. If they are the same person's, erase them too.",
                    markup=False,
                )
            end(settings, store)


def _report(erased: Mapping[str, int], until: datetime | None) -> None:
    made = table("\nErased", "What", "Count #")
    for what, count in erased.items():
        add_row(made, what, str(count))
    out.print(made)
    made = table("\nKept", "What", "Why")
    for what, why in KEPT.items():
        add_row(made, what, why)
    if until is not None:
        add_row(made, PROOF, PROOF_WHY.format(until=until))
    out.print(made)


def _note_done(done: Erased | None, copies: dict[str, bool], visits: list[CancelledVisit]) -> None:
    """Adds what the erasure of one lead found."""
    if done is None:
        return
    for (_, channel), arrived in done.copies.items():
        copies[channel] = copies.get(channel, False) or arrived
    visits.extend(done.visits)


def _show_told(copies: dict[str, bool], visits: Sequence[CancelledVisit]) -> None:
    """Where copies are, and which visits ended."""
    for arrived, words in ((True, "have a copy"), (False, "may have a copy, because a delivery was not finished")):
        where = ", ".join(plain(channel) for channel in sorted(copies) if copies[channel] is arrived)
        if where:
            out.print(f"\nThese channels {words}: {where}. Erase the lead there.", markup=False)
    if copies:
        out.print("The running service tells each of them to erase it, unless `notices` in dealer.toml excludes that.")
    for visit in visits:
        what = f"{VISITS[visit.kind]} at {plain(visit.rooftop)} on {moment(visit.starts_at)} UTC"
        out.print(f"\nThe {what} is cancelled. The running service tells the rooftop.", markup=False)


def _proven(store: Store, dealer_id: str, lead_id: str | None, email: str | None, phone: str | None) -> list[str]:
    """The leads that were erased before and whose proof of consent is kept."""
    if lead_id is not None:
        return [] if store.newest_proof(dealer_id, [lead_id]) is None else [lead_id]
    return store.proven_leads(dealer_id, f"email:{email}" if email is not None else f"phone:{phone}")


def _left(store: Store, dealer_id: str, email: str | None, phone: str | None) -> list[StoredLead]:
    """What is there of a person, after what was there is erased."""
    found = (store.get_lead(dealer_id, each) for each in ids_of(store, dealer_id, email, phone))
    return [stored for stored in found if stored is not None and is_known(stored)]


def _unreadable(store: Store, dealer_id: str, lead_id: str) -> str | None:
    """Why a lead cannot be shown to who erases it; None where it can."""
    try:
        store.whole_lead(dealer_id, lead_id, datetime.now(UTC))
    except WrongKey as problem:
        return str(problem)
    return None


def _erase_unread(store: Store, profile: Profile, lead_id: str, problem: str, *, yes: bool, consent_too: bool) -> None:
    """Erases a lead that was changed in the database and does not open: nothing else can be done with it."""
    out.print(f"The lead {lead_id} cannot be shown: {problem}", markup=False)
    if not yes and not typer.confirm("Erase it anyway? This cannot be undone."):
        fail("Nothing was erased.")
    copies: dict[str, bool] = {}
    visits: list[CancelledVisit] = []
    done = store.erase_lead(profile.id, lead_id, datetime.now(UTC), tell=profile, consent_too=consent_too)
    _note_done(done, copies, visits)
    out.print(f"The lead {lead_id} is erased.", markup=False)
    _show_told(copies, visits)
    if store.newest_proof(profile.id, [lead_id]) is not None:
        out.print("The proof of consent is kept apart. --consent-too erases it.")


def dispose(
    directory: DirOption = HERE,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show how much would be erased. Erase nothing.")] = False,
    clock_is_right: Annotated[
        bool,
        typer.Option(
            "--clock-is-right", help="Confirm this machine's clock, after the service did not run for a long time."
        ),
    ] = False,
) -> None:
    """Erase what is old, as the running service does every hour: see the section privacy of dealer.toml.

    If the clock is far from the time at which the service last ran, nothing is erased until you confirm the clock.
    """
    with failures_in_plain_words():
        settings = settings_in(directory)
        with customer_store(settings) as store:
            now = datetime.now(UTC)
            if dry_run:
                if (problem := store.clock_problem(settings.dealer.id, now)) and not clock_is_right:
                    fail(problem)
                done = store.disposable(settings.dealer.id, **ages(settings.dealer, now), now=now)
            else:
                if clock_is_right:
                    store.confirm_clock(settings.dealer.id, now)
                done = dispose_by_age(store, settings.dealer, now)
                purge_by_age(store, settings.dealer, now)
    kept = settings.dealer.privacy
    made = table("Would be forgotten" if dry_run else "Forgotten", "What", "After days #", "Count #")
    add_row(made, "Customers of leads, after their last use", str(kept.keep_leads_days), str(done.leads))
    add_row(made, "Texts of consents, after their last event", str(kept.keep_consents_days), str(done.consents))
    out.print(made)
    if dry_run:
        out.print("\nNothing was changed (--dry-run).")


def _only(leads: Sequence[StoredLead]) -> str | None:
    return leads[0].lead.lead_id if len(leads) == 1 else None


def _others(store: Store, dealer_id: str, doomed: Sequence[StoredLead]) -> list[str]:
    """Leads that share an address or a number with these, and are not among them."""
    known = {contact for stored in doomed for customer in _customers(stored) for contact in contact_points(customer)}
    mine = {stored.lead.lead_id for stored in doomed}
    return [each for each in store.find_leads_of(dealer_id, sorted(known)) if each not in mine]


def _customers(stored: StoredLead) -> list[Customer]:
    """The customer as every request of the lead told of them; of a lead that was disposed of, as the consents do."""
    documents = [stored.lead.customer, *(event.customer for event in stored.consents)]
    told = [msgspec.json.decode(document, type=Customer) for document in documents if document is not None]
    added = [msgspec.json.decode(event.changes, type=_Changes) for event in stored.events if event.changes is not None]
    return told + [changes.customer for changes in added if changes.customer is not None]


class _Changes(msgspec.Struct):
    """The part of what was added to a lead that tells of the customer."""

    customer: Customer | None = None


def _counts(store: Store, dealer_id: str, doomed: Sequence[StoredLead]) -> dict[str, int]:
    """What there is to erase."""
    ids = [stored.lead.lead_id for stored in doomed]
    deliveries = [each for lead_id in ids for each in store.list_deliveries(dealer_id, DELIVERIES, lead_id=lead_id)]
    return {
        "Leads: names, addresses, numbers, messages, the requests as they came": len(doomed),
        "Additions to them": sum(len(stored.events) for stored in doomed),
        "Consents: texts as shown, names, in the leads": len(
            [event for stored in doomed for event in stored.consents if event.consent_text is not None]
        ),
        "Visits: what was asked for; future ones are cancelled": sum(
            len(whole.visits)
            for lead_id in ids
            if (whole := store.whole_lead(dealer_id, lead_id, datetime.now(UTC))) is not None
        ),
        "Deliveries that were waiting": sum(each.state in ("waiting", "parked") for each in deliveries),
    }


def _show_doomed(doomed: Sequence[StoredLead], proven: Sequence[str]) -> None:
    if proven:
        out.print(f"The proof of consent of these erased leads will be erased: {', '.join(proven)}")
    if not doomed:
        return
    made = table("To be erased", "Id", "Received (UTC)", "Customer", "Agent")
    for stored in doomed:
        name = _customers(stored)[-1]
        received = f"{stored.lead.received_at:%Y-%m-%d %H:%M}"
        add_row(
            made,
            stored.lead.lead_id,
            received,
            f"{name.first_name} {name.last_name}",
            stored.lead.source_agent or ERASED,
        )
    out.print(made)
