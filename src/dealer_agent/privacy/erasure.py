"""What a dealership does for a customer: it records that consent was withdrawn, and erases the person's data."""

from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from dealer_agent.dealers.profile import Profile
from dealer_agent.leads.consent import channels_of
from dealer_agent.leads.received_lead import contact_points
from dealer_agent.leads.records import StoredLead, additions_of
from dealer_agent.protocol.requests import Channel, Customer
from dealer_agent.storage.deliveries.notices import erase as erase_and_notify
from dealer_agent.storage.deliveries.notices import withdraw
from dealer_agent.storage.deliveries.outbox import list_deliveries
from dealer_agent.storage.errors import WrongKey
from dealer_agent.storage.leads.lead_record import lead_details
from dealer_agent.storage.leads.notes import notes_of
from dealer_agent.storage.leads.persons import find_leads_of
from dealer_agent.storage.leads.stored_leads import get_lead
from dealer_agent.storage.leads.visits import BookedVisit, visits_of
from dealer_agent.storage.privacy.erasure import erase_lead, newest_proof, proven_leads
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

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
PROOF_WHY = "16 CFR 310.5: kept until {until:%Y-%m-%d}"


class CustomerReference(NamedTuple):
    """A customer, by the id of one lead, else by a contact point (`leads.received_lead.contact_points`)."""

    lead_id: str | None
    contact: str

    def leads(self, tx: Transaction) -> list[StoredLead]:
        """The leads of the person, oldest first. An id also finds an erased lead."""
        ids = [self.lead_id] if self.lead_id is not None else find_leads_of(tx, [self.contact])
        return [stored for each in ids if (stored := get_lead(tx, each)) is not None]


def leads_of_contact(tx: Transaction, contact: str) -> list[str]:
    """The ids of the leads of a contact point, oldest first, also of erased leads whose proof of consent is kept."""
    return sorted({*find_leads_of(tx, [contact]), *proven_leads(tx, contact)})


def holds_customer_data(stored: StoredLead) -> bool:
    """Whether anything of the lead's customer is stored; after disposal by age, the consent may still be."""
    return stored.lead.customer is not None or any(event.consent_text is not None for event in stored.consents)


def customers_of(stored: StoredLead) -> list[Customer]:
    """The customer as each request of the lead names them. After disposal by age, only the consents have that."""
    documents = [stored.lead.customer, *(event.customer for event in stored.consents)]
    found = [msgspec.json.decode(document, type=Customer) for document in documents if document is not None]
    return found + [added.customer for added in additions_of(stored) if added.customer is not None]


def revoke_consent(
    store: Store,
    profile: Profile,
    lead_ids: Sequence[str],
    channels: Sequence[str],
    *,
    by: str,
    reason: str | None,
    at: datetime,
) -> dict[str, Sequence[Channel]]:
    """Records that the customer of these leads withdrew consent.

    Returns the channels that are still allowed, by the id of each lead with one of the customer's contact points.
    """
    done: dict[str, None] = {}
    for lead_id in lead_ids:
        if lead_id not in done:
            with store.lock(profile.id, at) as tx:
                applies_to = withdraw(tx, lead_id, channels, by=by, reason=reason, profile=profile)
            done.update(dict.fromkeys(applies_to))
    with store.read(profile.id) as tx:
        leads = [(each, get_lead(tx, each)) for each in done]
    return {each: channels_of(lead, at) if lead else () for each, lead in leads}


@dataclass
class Erasure:
    """The erasure of a person. It collects what it erases, for the person who runs it.

    `copies` has the names of channels: True if a delivery arrived there, False if it may have arrived.
    """

    store: Store
    profile: Profile
    person: CustomerReference
    consent_too: bool
    lead_ids: list[str] = field(default_factory=list)
    copies: dict[str, bool] = field(default_factory=dict)
    visits: list[BookedVisit] = field(default_factory=list)

    def why_unreadable(self) -> str | None:
        """Why the lead that the person is named by cannot be read: somebody changed it in the database."""
        try:
            with self._read() as tx:
                if self.person.lead_id is not None:
                    lead_details(tx, self.person.lead_id)
        except WrongKey as problem:
            return str(problem)
        return None

    def leads(self) -> list[StoredLead]:
        """All leads of the person, also those that are erased."""
        with self._read() as tx:
            return self.person.leads(tx)

    def proven(self) -> list[str]:
        """The erased leads of the person whose proof of consent is to be erased now."""
        if not self.consent_too:
            return []
        with self._read() as tx:
            if self.person.lead_id is None:
                return proven_leads(tx, self.person.contact)
            return [self.person.lead_id] if newest_proof(tx, [self.person.lead_id]) is not None else []

    def others(self, leads: Sequence[StoredLead]) -> list[str]:
        """The leads that share a contact point with these."""
        known = {point for stored in leads for customer in customers_of(stored) for point in contact_points(customer)}
        with self._read() as tx:
            found = find_leads_of(tx, sorted(known))
        ids = {stored.lead.lead_id for stored in leads}
        return [each for each in found if each not in ids]

    def erase(self, leads: Sequence[StoredLead], proven: Sequence[str]) -> Counter[str]:
        """Erases the leads, those that arrive meanwhile, and the proofs. Returns what was erased, in words."""
        for each in proven:
            self.lead_ids.append(each)
            with self.store.lock(self.profile.id) as tx:
                erase_lead(tx, each, consent_too=True)
        counts: Counter[str] = Counter()
        while leads:
            counts.update(self._counts(leads))
            for stored in leads:
                self.erase_one(stored.lead.lead_id)
            leads = [] if self.person.lead_id else list(filter(holds_customer_data, self.leads()))
        if proven:
            counts["Proofs of consent of leads that were erased before"] = len(proven)
        return counts

    def erase_one(self, lead_id: str) -> None:
        """Erases one lead, cancels its visits, and drops its deliveries."""
        self.lead_ids.append(lead_id)
        with self.store.lock(self.profile.id) as tx:
            done = erase_and_notify(tx, lead_id, self.profile, consent_too=self.consent_too)
        if done is not None:
            # The channels that have the lead. True: it has arrived. False: it may have arrived.
            for (_, channel), arrived in done.copies.items():
                self.copies[channel] = self.copies.get(channel, False) or arrived
            self.visits.extend(done.visits)

    def proof_kept_until(self) -> datetime | None:
        """The end of the time for which the proof of consent is kept; None if there is none."""
        with self._read() as tx:
            newest = newest_proof(tx, self.lead_ids)
        return None if newest is None else newest + timedelta(days=self.profile.privacy.keep_consents_days)

    def _counts(self, leads: Sequence[StoredLead]) -> dict[str, int]:
        """How many records the erasure of these leads removes, in words for the person who asked for it."""
        ids = [stored.lead.lead_id for stored in leads]
        with self._read() as tx:
            deliveries = [each for lead_id in ids for each in list_deliveries(tx, 1000, lead_id=lead_id)]
            visits = sum(len(visits_of(tx, lead_id)) for lead_id in ids)
            notes = sum(len(notes_of(tx, lead_id)) for lead_id in ids)
        texts = [event for stored in leads for event in stored.consents if event.consent_text is not None]
        return {
            "Leads: names, addresses, numbers, messages, the requests as they came": len(leads),
            "Additions to them": sum(len(stored.events) for stored in leads),
            "Notes of staff about them": notes,
            "Consents: texts as shown, names, in the leads": len(texts),
            "Visits: what was asked for; future ones are cancelled": visits,
            "Deliveries that were waiting": sum(each.state in ("waiting", "undeliverable") for each in deliveries),
        }

    def _read(self) -> AbstractContextManager[Transaction]:
        return self.store.read(self.profile.id)
