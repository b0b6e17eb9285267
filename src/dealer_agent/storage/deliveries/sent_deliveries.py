"""The document that a delivery sent, and which receivers have a lead."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from sqlalchemy import bindparam, or_, select

from dealer_agent.dealers.routing import Kind, NewDelivery
from dealer_agent.storage.deliveries.outbox import (
    KEEP_LEASE,
    LEASE_TAKEN,
    WHOLE_LEADS,
    DueDelivery,
    Receiver,
    enqueue,
    get_delivery,
    list_deliveries,
    waiting,
)
from dealer_agent.storage.leads.prepared_statements import Prepared, Read
from dealer_agent.storage.schema import of_lead, outbox
from dealer_agent.storage.transaction import Transaction

MOST_OF_LEAD = 1000
"""A bound that is above the number of deliveries of any lead."""


class StoredDocument(Struct, frozen=True):
    """The document that the first attempt of a delivery sent.

    It may be sent again only while everything in `needs` is allowed: the channels whose contact points it names or, in
    a mail to the customer, the e-mail address. `first`: it is the first document about the lead for its receiver.
    """

    content: bytes
    needs: tuple[str, ...] = ()
    first: bool = False


class Copy(NamedTuple):
    """A receiver's copy of a lead. If `arrived` is False, it may have arrived.

    `being_sent` is the id of a delivery in progress.
    """

    arrived: bool
    being_sent: str | None


class History(NamedTuple):
    """The results of other deliveries of a lead to the same receiver.

    `arrived`: one of them arrived, or may have. `superseded`: a later one arrived.
    """

    arrived: bool = False
    superseded: bool = False


READ_COPIES = select(outbox.c.rooftop, outbox.c.channel, outbox.c.state, outbox.c.delivery_id, outbox.c.lease).where(
    of_lead(outbox), outbox.c.kind.in_(WHOLE_LEADS), or_(outbox.c.state == "sent", outbox.c.unknown > 0)
)

READ_HISTORY = Prepared(
    select(outbox.c.delivery_id, outbox.c.state).where(
        of_lead(outbox),
        outbox.c.rooftop == bindparam("rooftop"),
        outbox.c.channel == bindparam("channel"),
        outbox.c.delivery_id != bindparam("delivery_id"),
        or_(*(outbox.c.kind == kind for kind in WHOLE_LEADS)),
        or_(outbox.c.state == "sent", outbox.c.unknown > 0),
    )
)

STORE_DOCUMENT = Prepared(KEEP_LEASE.values(document=bindparam("encrypted")))


def copies(tx: Transaction, lead_id: str) -> dict[Receiver, Copy]:
    """The copies of a lead by receiver. A receiver that certainly has no copy is left out."""
    found: dict[Receiver, Copy] = {}
    for row in tx.execute(READ_COPIES, {"of_lead": lead_id}):
        receiver = row.rooftop, row.channel
        before = found.get(receiver, Copy(arrived=False, being_sent=None))
        being_sent = row.delivery_id if row.lease is not None else before.being_sent
        found[receiver] = Copy(before.arrived or row.state == "sent", being_sent)
    return found


def history_read(delivery: DueDelivery) -> Read:
    """The statement that reads the other deliveries to the same receiver."""
    return READ_HISTORY, {
        "of_lead": delivery.lead_id,
        "rooftop": delivery.rooftop,
        "channel": delivery.channel,
        "delivery_id": delivery.delivery_id,
    }


def history_in(others: Sequence[Any], delivery: DueDelivery) -> History:
    """The history in the rows of `history_read`."""
    later = any(row.state == "sent" and row.delivery_id > delivery.delivery_id for row in others)
    return History(bool(others), later)


def store_document(tx: Transaction, delivery: DueDelivery, document: StoredDocument, lease: timedelta) -> None:
    """Stores the document just before it is sent first, and renews the lease.

    Raises AlreadyStored if the lease was lost, at once or when the group is written: then nothing may be sent.
    """
    encrypted = tx.encrypt(msgspec.msgpack.encode(document), outbox.c.document, delivery.delivery_id)
    held = {"settled": delivery.delivery_id, "held": delivery.lease, "until": tx.now + lease}
    STORE_DOCUMENT.add(tx, {**held, "encrypted": encrypted}, conflict=LEASE_TAKEN)


def decrypted_document(tx: Transaction, delivery: DueDelivery) -> StoredDocument | None:
    """The document of the first attempt of a delivery; None before that attempt. Raises EncryptionError."""
    if delivery.document is None:
        return None
    content = tx.decrypt(delivery.document, outbox.c.document, delivery.delivery_id)
    return msgspec.msgpack.decode(content, type=StoredDocument)


def send_again(
    tx: Transaction, *, lead_id: str | None = None, delivery_id: str | None = None, channel: str | None = None
) -> list[str]:
    """Queues a delivery that was sent again, or a lead for each receiver that has it.

    Returns the new delivery ids; none if nothing was sent before. With `channel`, only that channel gets the lead.
    """
    if delivery_id is not None:
        found = get_delivery(tx, delivery_id)
        sent = [found] if found is not None and found.state == "sent" else []
    else:
        every = list_deliveries(tx, MOST_OF_LEAD, state="sent", lead_id=lead_id, channel=channel)
        sent = list({(row.rooftop, row.channel): row for row in every if row.kind in WHOLE_LEADS}.values())
    made = []
    for row in sent:
        kind: Kind = "resend" if row.kind == "lead" else row.kind
        again = NewDelivery(kind, row.rooftop, row.channel, None if row.kind in WHOLE_LEADS else row.event_id)
        made += enqueue(tx, row.lead_id, [again], waiting(tx, row.lead_id))
    return made
