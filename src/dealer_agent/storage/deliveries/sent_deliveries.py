"""What was sent of a lead: the document of each delivery, who received the lead, and how many mails an address got.

The document is stored with a renewed lease, just before it is sent. Staff can queue it to be sent again.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from sqlalchemy import String, bindparam, func, or_, select, tuple_

from dealer_agent.dealers.routing import Kind, NewDelivery
from dealer_agent.leads.received_lead import known_sender_key
from dealer_agent.storage.columns import ExternalText, UtcTime
from dealer_agent.storage.deliveries.outbox import (
    KEEP_LEASE,
    WHOLE_LEADS,
    DueDelivery,
    Receiver,
    enqueue,
    get_delivery,
    list_deliveries,
    waiting,
)
from dealer_agent.storage.leads.persons import newest_leads_of
from dealer_agent.storage.leads.prepared_statements import Prepared, Read, read_of_keys
from dealer_agent.storage.schema import leads, outbox
from dealer_agent.storage.statements import of_dealer, of_leads
from dealer_agent.storage.transaction import Transaction

MOST_OF_LEAD = 1000
"""A bound that is above the number of deliveries of any lead."""


MOST_LEADS = 200
"""The most leads of one e-mail address that `count_mails_before` looks at: a stranger can send thousands."""


class StoredDocument(Struct, frozen=True):
    """The document that the first attempt of a delivery sent.

    It may be sent again only while everything in `needs` is allowed: the channels whose contact points it names or, in
    a mail to the customer, the e-mail address. `first`: it is the first document about the lead for its receiver.
    """

    content: bytes
    needs: tuple[str, ...] = ()
    first: bool = False


class LeadCopy(NamedTuple):
    """A receiver's copy of a lead. If `arrived` is False, it may have arrived.

    `being_sent` is the id of a delivery in progress.
    """

    arrived: bool
    being_sent: str | None


class DeliveryHistory(NamedTuple):
    """The results of other deliveries of a lead to the same receiver.

    `arrived`: one of them arrived, or may have. `superseded`: a later one arrived.
    """

    arrived: bool = False
    superseded: bool = False


# The kinds are compared one by one: a Prepared has no expanding parameters.
COPIES_OF_DEALER = select(
    *(outbox.c[name] for name in ("lead_id", "rooftop", "channel", "delivery_id", "state", "lease"))
).where(
    of_dealer(outbox),
    or_(*(outbox.c.kind == kind for kind in WHOLE_LEADS)),
    or_(outbox.c.state == "sent", outbox.c.unknown > 0),
)

READ_COPIES = COPIES_OF_DEALER.where(outbox.c.lead_id == bindparam("of_lead"))

# Leads of anonymous callers have NULL: both databases compare two NULLs with IS NOT DISTINCT FROM.
COUNT_MAILS_BEFORE = (
    select(func.count())
    .select_from(outbox)
    .join(leads)
    .where(
        of_leads(outbox),
        leads.c.caller.is_not_distinct_from(bindparam("caller", type_=ExternalText)),
        outbox.c.kind == bindparam("kind"),
        outbox.c.state.in_(("waiting", "sent")),
        outbox.c.created_at > bindparam("since"),
        tuple_(outbox.c.created_at, outbox.c.delivery_id)
        < tuple_(bindparam("at", type_=UtcTime), bindparam("delivery_id", type_=String)),
    )
)

RENEW = Prepared(KEEP_LEASE)

STORE_DOCUMENT = Prepared(KEEP_LEASE.values(document=bindparam("encrypted")))

LEASE_TAKEN = "another process is sending this delivery; there is nothing to do"


def copies(tx: Transaction, lead_id: str) -> dict[Receiver, LeadCopy]:
    """The copies of a lead by receiver. A receiver that certainly has no copy is left out."""
    by_receiver: dict[Receiver, LeadCopy] = {}
    for row in tx.execute(READ_COPIES, {"of_lead": lead_id}):
        receiver = row.rooftop, row.channel
        before = by_receiver.get(receiver, LeadCopy(arrived=False, being_sent=None))
        being_sent = row.delivery_id if row.lease is not None else before.being_sent
        by_receiver[receiver] = LeadCopy(before.arrived or row.state == "sent", being_sent)
    return by_receiver


def read_of_histories(lead_ids: Sequence[str]) -> Read:
    """The statement that reads the deliveries of leads that arrived, or may have. The rows are in no order."""
    return read_of_keys(COPIES_OF_DEALER, outbox.c.lead_id, lead_ids)


def history_in(rows: Iterable[Any], delivery: DueDelivery) -> DeliveryHistory:
    """The history in the rows of `read_of_histories` for the delivery's lead."""
    others = [
        row
        for row in rows
        if (row.rooftop, row.channel) == delivery.receiver and row.delivery_id != delivery.delivery_id
    ]
    later = any(row.state == "sent" and row.delivery_id > delivery.delivery_id for row in others)
    return DeliveryHistory(bool(others), later)


def renew(tx: Transaction, delivery: DueDelivery, lease: timedelta, document: StoredDocument | None = None) -> None:
    """Renews the lease just before the document is sent. Stores `document`, that of a first attempt.

    Raises AlreadyStored if the lease was lost, at once or when the group is written: then nothing may be sent.
    """
    parameters = {"settled": delivery.delivery_id, "held": delivery.lease, "until": tx.now + lease}
    if document is None:
        RENEW.add(tx, parameters, conflict=LEASE_TAKEN)
    else:
        encrypted = tx.encrypt(msgspec.msgpack.encode(document), outbox.c.document, delivery.delivery_id)
        STORE_DOCUMENT.add(tx, {**parameters, "encrypted": encrypted}, conflict=LEASE_TAKEN)


def decrypted_document(tx: Transaction, delivery: DueDelivery) -> StoredDocument | None:
    """The document of the first attempt of a delivery; None before that attempt. Raises EncryptionError."""
    if delivery.document is None:
        return None
    content = tx.decrypt(delivery.document, outbox.c.document, delivery.delivery_id)
    return msgspec.msgpack.decode(content, type=StoredDocument)


def count_mails_before(
    tx: Transaction, delivery: DueDelivery, email: str, caller: str | None, within: timedelta
) -> int:
    """How many mails of this kind the e-mail address got, or has in the queue, `within` the time before this delivery.

    It counts the leads of the same known caller, or all leads of anonymous ones: nothing distinguishes these, and they
    must not use up the mails of a known caller. `email` is normalised. It looks at the newest
    MOST_LEADS leads only. If all of them came within that time, the result is at least MOST_LEADS.
    """
    contact = f"email:{email}"
    contact = contact if caller is None else known_sender_key(caller, contact)
    newest = newest_leads_of(tx, [contact], MOST_LEADS)
    since = delivery.tried_since - within
    if sum(at > since for at in newest.values()) >= MOST_LEADS:
        return MOST_LEADS
    parameters = {
        "lead_ids": list(newest),
        "caller": caller,
        "kind": delivery.kind,
        "since": since,
        "at": delivery.tried_since,
        "delivery_id": delivery.delivery_id,
    }
    return int(tx.execute(COUNT_MAILS_BEFORE, parameters).scalar_one())


def send_again(
    tx: Transaction, *, lead_id: str | None = None, delivery_id: str | None = None, channel: str | None = None
) -> list[str]:
    """Queues once more a delivery that was sent, or a lead for each receiver that has it.

    Returns the new delivery ids; none if nothing was sent before. With `channel`, only that channel gets the lead.
    """
    if delivery_id is not None:
        delivery = get_delivery(tx, delivery_id)
        sent = [delivery] if delivery is not None and delivery.state == "sent" else []
    else:
        every = list_deliveries(tx, MOST_OF_LEAD, state="sent", lead_id=lead_id, channel=channel)
        sent = list({(row.rooftop, row.channel): row for row in every if row.kind in WHOLE_LEADS}.values())
    new_ids = []
    for row in sent:
        kind: Kind = "resend" if row.kind == "lead" else row.kind
        again = NewDelivery(kind, row.rooftop, row.channel, None if row.kind in WHOLE_LEADS else row.event_id)
        new_ids += enqueue(tx, row.lead_id, [again], waiting(tx, row.lead_id))
    return new_ids
