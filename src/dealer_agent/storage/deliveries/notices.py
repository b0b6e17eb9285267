"""Withdraws consent or erases a customer, and adds the deliveries that notify the receivers of the lead.

See docs/protocol.md#withdrawal and docs/protocol.md#erasure. The caller holds the dealer's lock.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from dealer_agent.dealers.profile import Profile
from dealer_agent.dealers.routing import notices_of, visit_cancelled_notices
from dealer_agent.leads.consent_events import (
    EVEN_EXPIRED,
    WITHDRAWN,
    WITHDRAWN_ELSEWHERE,
    channels_allowed,
    without_refused,
)
from dealer_agent.storage.deliveries.outbox import Receiver, WaitingDelivery, enqueue, waiting
from dealer_agent.storage.deliveries.sent_deliveries import copies
from dealer_agent.storage.leads.persons import newest_leads_of
from dealer_agent.storage.leads.stored_leads import read_facts
from dealer_agent.storage.leads.visits import BookedVisit, booked_visits
from dealer_agent.storage.privacy.consents import (
    REVOKED_BEFORE,
    allowed_channels,
    channel_events,
    record_withdrawal_event,
    repeat_withdrawal_event,
)
from dealer_agent.storage.privacy.erasure import erase_lead
from dealer_agent.storage.privacy.withdrawals import (
    CONTACT_POINTS,
    PURPOSE,
    Differences,
    WithdrawalTimes,
    contact_points_of,
    leads_to_recheck,
    permanent_hash,
    restore_withdrawals,
)
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

MOST_OTHER_LEADS = 200
"""The most other leads of each contact point to which a withdrawal applies. New leads wait meanwhile."""


class ErasureReceivers(NamedTuple):
    """Who must be notified of the erasure of a lead.

    `copies`: the receivers; True if the lead arrived there, False if this is unknown. `visits`: the confirmed future
    visits that were cancelled.
    """

    copies: dict[Receiver, bool]
    visits: tuple[BookedVisit, ...]


def withdraw(
    tx: Transaction,
    lead_id: str,
    channels: Sequence[str],
    *,
    by: str,
    reason: str | None,
    profile: Profile,
    known_by: tuple[str, ...] = CONTACT_POINTS,
) -> tuple[str, ...]:
    """Records that a customer withdrew consent for these channels, and notifies receivers as the profile says.

    It applies to this lead, to later leads with an earlier consent, and to other leads that allow one of the channels:
    the newest MOST_OTHER_LEADS with each of the person's contact points. `known_by` are the kinds of contact points by
    which they are found: e-mail addresses only, for a link in a mail. The receivers of a lead are notified if it
    allowed one of the channels. `by` is the person who records the withdrawal. Returns the ids of the leads, `lead_id`
    first. Raises StorageError if there is no such lead.
    """
    newest = newest_leads_of(tx, contact_points_of(tx, lead_id, known_by), MOST_OTHER_LEADS)
    # A consent that has expired counts: receivers may not know that.
    allowed = {each: allowed_channels(tx, each, EVEN_EXPIRED).intersection(channels) for each in (lead_id, *newest)}
    others = [other for other in sorted(newest) if other != lead_id and allowed[other]]
    for each in (lead_id, *others):
        kind = WITHDRAWN if each == lead_id else WITHDRAWN_ELSEWHERE
        number = record_withdrawal_event(tx, each, channels, by=by, reason=reason, kind=kind, known_by=known_by)
        if allowed[each]:
            _notify(tx, each, number, profile)
    return lead_id, *others


def withdraw_late(tx: Transaction, lead_id: str, restored: WithdrawalTimes, profile: Profile) -> bool:
    """Withdraws channels of a lead that was stored while the table of withdrawals lacked rows, and notifies receivers.

    `restored` are the rows that were written again. `lead_id` is one of `leads_to_recheck`. Returns False, and changes
    nothing, if these withdrawals concern no channel that the lead allows.
    """
    channels = channels_withdrawn(tx, lead_id, restored)
    if not channels:
        return False
    event_number = repeat_withdrawal_event(
        tx, lead_id, channels, by="dealer-agent", reason=REVOKED_BEFORE, kind=WITHDRAWN_ELSEWHERE
    )
    _notify(tx, lead_id, event_number, profile)
    return True


def channels_withdrawn(tx: Transaction, lead_id: str, restored: WithdrawalTimes) -> list[str]:
    """The channels that a lead allows, although one of these withdrawals came after the consent."""
    events = without_refused(channel_events(tx, lead_id))

    def newest_grant(channel: str) -> datetime:
        return max(each.granted_at for each in events if each.granted_at is not None and channel in each.channels)

    hashes = [permanent_hash(tx, PURPOSE, contact) for contact in contact_points_of(tx, lead_id)]
    return sorted(
        channel
        for channel in channels_allowed(events, EVEN_EXPIRED)
        if any(restored.get((each, channel), EVEN_EXPIRED) >= newest_grant(channel) for each in hashes)
    )


def restore_from_chain(store: Store, profile: Profile, now: datetime) -> tuple[Differences, int]:
    """Writes the table of withdrawals as the chain says, which the caller has verified.

    The withdrawals also apply to leads that came while rows were missing. Returns what was different, and the number of
    these leads.
    """
    with store.lock(profile.id, now) as tx:
        differences = restore_withdrawals(tx)
        lead_ids = leads_to_recheck(tx, differences.restored)
    changed = 0
    for lead_id in lead_ids:
        with store.lock(profile.id, now) as tx:
            changed += withdraw_late(tx, lead_id, differences.restored, profile)
    return differences, changed


def _notify(tx: Transaction, lead_id: str, event_number: int, profile: Profile) -> None:
    """Adds to the outbox the notices about a withdrawal event, for the receivers that have the lead."""
    rows = notices_of(profile, "withdrawal", copies(tx, lead_id), str(event_number))
    enqueue(tx, lead_id, rows, waiting(tx, lead_id))


def erase(tx: Transaction, lead_id: str, profile: Profile, *, consent_too: bool) -> ErasureReceivers | None:
    """Erases the customer of a lead (`erasure.erase_lead`), and sends the notices that the profile asks for.

    A notice asks the receivers of the lead to erase it. Another notice tells the staff of a rooftop which visits were
    cancelled. There is none if the lead waits in quarantine, or was refused there, and nobody got it. Returns None if
    there was no customer data to erase.
    """
    visits = tuple(booked for booked in booked_visits(tx, [lead_id]) if booked.starts_at > tx.now)
    received = copies(tx, lead_id)
    lead = read_facts(tx, lead_id)
    nobody_knows = not received and lead is not None and lead.is_kept_from_staff
    if not erase_lead(tx, lead_id, consent_too=consent_too):
        return None
    being_sent = {
        receiver: WaitingDelivery(copy.being_sent, untried=False)
        for receiver, copy in received.items()
        if copy.being_sent is not None
    }
    enqueue(tx, lead_id, notices_of(profile, "erasure", received), being_sent)
    for visit in () if nobody_knows else visits:
        enqueue(tx, lead_id, visit_cancelled_notices(profile, visit.rooftop, visit.appointment_id))
    return ErasureReceivers({receiver: copy.arrived for receiver, copy in received.items()}, visits)
