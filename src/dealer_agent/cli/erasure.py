"""`dealer-agent leads erase`: erases the data of a person, and makes the erasure final."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from dealer_agent.cli.customer_data import (
    EmailOption,
    LeadArgument,
    Person,
    PhoneOption,
    is_known,
    record_access,
)
from dealer_agent.cli.open_dealer import HERE, DirOption, OpenDealer, open_dealer
from dealer_agent.cli.terminal import Cell, JsonOption, fail, local, out, plain, print_json, print_table
from dealer_agent.config.keys import KEY_FILE_NAME, KEYS_VARIABLE, from_environment
from dealer_agent.leads.consent_events import ERASED
from dealer_agent.leads.received_lead import contact_points
from dealer_agent.leads.records import StoredLead, additions_of
from dealer_agent.leads.wording import VISITS
from dealer_agent.protocol.requests import Customer
from dealer_agent.storage.appointments import Booked, appointments_of
from dealer_agent.storage.erasure import erase_lead, newest_proof, proven_leads
from dealer_agent.storage.errors import WrongKey
from dealer_agent.storage.lead_record import lead_details
from dealer_agent.storage.leads import find_leads_of
from dealer_agent.storage.notices import erase as erase_and_notify
from dealer_agent.storage.outbox import list_deliveries

if TYPE_CHECKING:
    from dealer_agent.server.key_rotation import KeyRotation

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
PROOF = "Proof of consent (encrypted): the text as shown, channels, times, agent, name, contact points"
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
        bool, typer.Option("--consent-too", help="Erase the proof of consent too, also of leads erased before.")
    ] = False,
    final: Annotated[
        bool,
        typer.Option(
            "--final", help="Make the erasure final now: replace the key, and destroy the old one. Takes longer."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Erase a person: every lead with an e-mail address or phone number, or one lead. This cannot be undone.

    The command shows what it will erase, and asks. It overwrites names, addresses and messages, cancels future visits,
    and drops the deliveries that wait. It keeps the proof of consent separately, as the law requires, unless you give
    --consent-too. You need not restart a running service.
    """
    person = Person(lead_id, email, phone)
    if final and from_environment(os.environ):
        fail(
            f"--final cannot change the keys in {KEYS_VARIABLE}. Erase without it, then replace the key "
            "(dealer-agent keys rotate --help): the erasure is final when you have removed the old key there"
        )
    with open_dealer(directory, customers=True) as dealer:
        erasure = _Erasure(dealer, consent_too)
        if lead_id is not None and (problem := _why_unreadable(dealer, lead_id)):
            # Somebody changed the lead in the database.
            out.print(f"The lead {lead_id} cannot be shown: {problem}")
            _confirm("Erase it anyway?", yes=yes)
            erasure.erase(lead_id)
            out.print(f"The lead {lead_id} is erased.")
            erasure.show_receivers()
            if erasure.proof_kept_until() is not None:
                out.print("The proof of consent is kept separately. --consent-too erases it.")
        else:
            _erase_person(erasure, person, yes=yes, again=final)
        (_make_final if final else _tell_when_final)(dealer)
        if as_json:
            until = erasure.proof_kept_until()
            print_json(
                {
                    "erased": erasure.lead_ids,
                    "channels_with_a_copy": erasure.copies,
                    "cancelled_visits": [visit.appointment_id for visit in erasure.visits],
                    "proof_kept_until": dealer.local(until),
                    "final": final,
                }
            )


def _confirm(question: str, *, yes: bool) -> None:
    if not yes and not typer.confirm(f"{question} This cannot be undone.", err=True):
        fail("Nothing was erased.")


@dataclass
class _Erasure:
    """Erases leads. Collects their ids, the channels that have copies, and the cancelled visits.

    `copies` has channel names: True if a delivery arrived there, False if it may have arrived.
    """

    dealer: OpenDealer
    consent_too: bool
    lead_ids: list[str] = field(default_factory=list)
    copies: dict[str, bool] = field(default_factory=dict)
    visits: list[Booked] = field(default_factory=list)

    def erase(self, lead_id: str) -> None:
        self.lead_ids.append(lead_id)
        with self.dealer.lock() as tx:
            done = erase_and_notify(tx, lead_id, self.dealer.profile, consent_too=self.consent_too)
        if done is not None:
            for (_, channel), arrived in done.copies.items():
                self.copies[channel] = self.copies.get(channel, False) or arrived
            self.visits.extend(done.visits)

    def proof_kept_until(self) -> datetime | None:
        with self.dealer.read() as tx:
            newest = newest_proof(tx, self.lead_ids)
        return None if newest is None else newest + timedelta(days=self.dealer.profile.privacy.keep_consents_days)

    def show_receivers(self) -> None:
        for arrived, words in ((True, "have a copy"), (False, "may have a copy, because a delivery was not finished")):
            where = ", ".join(plain(channel) for channel in sorted(self.copies) if self.copies[channel] is arrived)
            if where:
                out.print(f"\nThese channels {words}: {where}. Erase the lead there.")
        if self.copies:
            out.print("The running service notifies each of them, unless `notices` in dealer.toml excludes that.")
        for visit in self.visits:
            when = local(self.dealer.local(visit.starts_at, visit.rooftop))
            what = f"{VISITS[visit.kind]} at {plain(visit.rooftop)} on {when}"
            out.print(f"\nThe {what} is cancelled. The running service notifies the rooftop.")


def _erase_person(erasure: _Erasure, person: Person, *, yes: bool, again: bool) -> None:
    """Erases all leads of the person. With `again`, it is no error that there are none.

    So a command that was killed before the erasure was final can be repeated.
    """
    dealer = erasure.dealer
    proven: list[str] = []
    if erasure.consent_too:
        with dealer.read() as tx:
            if person.lead_id is None:
                proven = proven_leads(tx, person.contact)
            elif newest_proof(tx, [person.lead_id]) is not None:
                proven = [person.lead_id]
    # `leads_in` ends the command if there is no lead.
    repeats = (proven or again) and person.lead_id is None
    leads = list(filter(is_known, person.leads_now(dealer) if repeats else person.leads_in(dealer)))
    if not leads and not proven:
        out.print("There is nothing to erase: the person was erased before, or was never here.")
        return
    others = _others(dealer, leads)
    only = leads[0].lead.lead_id if len(leads) == 1 and not proven else None
    record_access(dealer, "leads erase", leads=len(leads) + len(proven), lead_id=person.lead_id or only)
    if proven:
        out.print(f"The proof of consent of these erased leads will be erased: {', '.join(proven)}")
    if leads:
        print_table("To be erased", ("Id", "Received", "Customer", "Agent"), [_row(dealer, each) for each in leads])
    _confirm("Erase this person?", yes=yes)
    for each in proven:
        erasure.lead_ids.append(each)
        with dealer.lock() as tx:
            erase_lead(tx, each, consent_too=True)
    counts: Counter[str] = Counter()
    while leads:
        counts.update(_counts(dealer, leads))
        for stored in leads:
            erasure.erase(stored.lead.lead_id)
        # Leads may arrive while the question is on the terminal.
        leads = [] if person.lead_id else list(filter(is_known, person.leads_now(dealer)))
    if proven:
        counts["Proofs of consent of leads that were erased before"] = len(proven)
    print_table("\nErased", ("What", "Count"), list(counts.items()))
    until = erasure.proof_kept_until()
    proof = [] if until is None else [(PROOF, PROOF_WHY.format(until=until))]
    print_table("\nKept", ("What", "Why"), [*KEPT.items(), *proof])
    erasure.show_receivers()
    if others:
        out.print(
            "\nThese leads share an e-mail address or phone number with what was erased, and are kept: "
            f"{', '.join(others)}. If they are the same person's, erase them too."
        )


def _why_unreadable(dealer: OpenDealer, lead_id: str) -> str | None:
    try:
        with dealer.read() as tx:
            lead_details(tx, lead_id)
    except WrongKey as problem:
        return str(problem)
    return None


def _others(dealer: OpenDealer, leads: Sequence[StoredLead]) -> list[str]:
    known = {contact for stored in leads for customer in _customers(stored) for contact in contact_points(customer)}
    erased = {stored.lead.lead_id for stored in leads}
    with dealer.read() as tx:
        return [each for each in find_leads_of(tx, sorted(known)) if each not in erased]


def _customers(stored: StoredLead) -> list[Customer]:
    """The customer as each request of the lead names them. After disposal by age, only the consents have that."""
    documents = [stored.lead.customer, *(event.customer for event in stored.consents)]
    found = [msgspec.json.decode(document, type=Customer) for document in documents if document is not None]
    return found + [added.customer for added in additions_of(stored) if added.customer is not None]


def _counts(dealer: OpenDealer, leads: Sequence[StoredLead]) -> dict[str, int]:
    ids = [stored.lead.lead_id for stored in leads]
    with dealer.read() as tx:
        deliveries = [each for lead_id in ids for each in list_deliveries(tx, 1000, lead_id=lead_id)]
        visits = sum(len(appointments_of(tx, lead_id)) for lead_id in ids)
    return {
        "Leads: names, addresses, numbers, messages, the requests as they came": len(leads),
        "Additions to them": sum(len(stored.events) for stored in leads),
        "Consents: texts as shown, names, in the leads": len(
            [event for stored in leads for event in stored.consents if event.consent_text is not None]
        ),
        "Visits: what was asked for; future ones are cancelled": visits,
        "Deliveries that were waiting": sum(each.state in ("waiting", "parked") for each in deliveries),
    }


def _row(dealer: OpenDealer, stored: StoredLead) -> tuple[Cell, ...]:
    name, lead = _customers(stored)[-1], stored.lead
    return (
        lead.lead_id,
        dealer.local(lead.received_at, lead.rooftop),
        f"{name.first_name} {name.last_name}",
        lead.source_agent or ERASED,
    )


def _make_final(dealer: OpenDealer) -> None:
    """Replaces the key, and destroys every key that may have encrypted erased data. Ends the command if one is left.

    In an installation, the dealer's key first: the key of the installation decrypts remains of it.
    """
    # Imported here: the other commands of the group need no key rotation.
    from dealer_agent.cli.keys import rotations_of

    with rotations_of(dealer) as rotations:
        for rotation in rotations:
            left = _destroy_keys(rotation)
            if left:
                fail(
                    f"The erasure is not final: the key {', '.join(left)} is still needed, because a value cannot be "
                    "encrypted with the new key. dealer-agent consent verify says what was changed in the database"
                )
    out.print(
        f"\nThe erasure is final: the old key is destroyed. Back up {_key_folder(dealer) / KEY_FILE_NAME} again, and "
        "delete its older copies: with one of them, remains in the database's files and in its backups can be read."
    )


def _destroy_keys(rotation: "KeyRotation") -> list[str]:
    """Replaces the keys. Returns those that could not be destroyed."""
    from dealer_agent.cli.keys import change_key, changing_keys

    if rotation.place is None:
        fail(f"The keys in {KEYS_VARIABLE} cannot be changed")
    with changing_keys(rotation.place):
        rotation.cipher.refresh()
        before = set(rotation.cipher.keyring.ids)
        change_key(rotation, destroy=True)
        if rotation.cipher.keyring.active in before:  # It only completed a change that was interrupted.
            change_key(rotation, destroy=True)
        return sorted(before.intersection(rotation.cipher.keyring.ids))


def _tell_when_final(dealer: OpenDealer) -> None:
    """Shows when the erasure becomes final, or what makes it final."""
    from dealer_agent.server.key_rotation import changeable_key_file

    if from_environment(os.environ):
        when = f"when you have replaced the key in {KEYS_VARIABLE} and removed the old one there "
        when += "(dealer-agent keys rotate --help)"
        if by := _replaced_by(dealer):
            when += f", after {by:%Y-%m-%d}: the running service replaces the dealer's own key by then"
    elif changeable_key_file(_key_folder(dealer), os.environ) and (by := _replaced_by(dealer)):
        when = f"by {by:%Y-%m-%d}: the running service destroys the key by then. --final does it at once"
    else:
        when = "when the key is destroyed. The service does not do this by itself here: "
        when += "run dealer-agent leads erase --final"
    out.print(
        f"\nThe erasure becomes final {when}. Until then, a person who has the key and the database's files can read "
        "remains in them."
    )


def _replaced_by(dealer: OpenDealer) -> datetime | None:
    """When the running service will have destroyed the keys that it may change; None if it leaves one of them."""
    from dealer_agent.cli.keys import rotations_of

    by = None
    with rotations_of(dealer) as rotations:
        for rotation in rotations:
            if rotation.place is not None and (by := rotation.final_by(datetime.now(UTC), by)) is None:
                return None
    return by


def _key_folder(dealer: OpenDealer) -> Path:
    return dealer.settings.installation or dealer.settings.directory
