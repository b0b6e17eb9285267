"""What a delivery sent, and which receivers have a lead, as statements on the caller's transaction."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, bindparam, or_, select, update

from dealer_agent.dealers.routing import Kind, NewDelivery
from dealer_agent.encryption.cipher import Cipher
from dealer_agent.storage.outbox import (
    HELD,
    OF_LEAD,
    WHOLE_LEADS,
    Address,
    DueDelivery,
    enqueue,
    get_delivery,
    list_deliveries,
    waiting,
)
from dealer_agent.storage.prepared_statements import Prepared
from dealer_agent.storage.schema import outbox

MOST_OF_LEAD = 1000
"""A bound that is above the number of deliveries of any lead."""


class KeptDocument(Struct, frozen=True):
    """What the first attempt of a delivery sent.

    `needs` is what it may be sent with only: the channels whose contact points it names or, to a customer, the address.
    `first` says that it tells the receiver of the lead for the first time.
    """

    content: bytes
    needs: tuple[str, ...] = ()
    first: bool = False


class Copy(NamedTuple):
    """A receiver that has a lead, or may have it if `arrived` is False. `being_sent` is a delivery in progress."""

    arrived: bool
    being_sent: str | None


class History(NamedTuple):
    """What other deliveries of a lead did at the same receiver.

    `arrived`: one of them arrived, or may have. `superseded`: a later one arrived.
    """

    arrived: bool = False
    superseded: bool = False


READ_COPIES = select(outbox.c.rooftop, outbox.c.channel, outbox.c.state, outbox.c.delivery_id, outbox.c.lease).where(
    OF_LEAD, outbox.c.kind.in_(WHOLE_LEADS), or_(outbox.c.state == "sent", outbox.c.unknown > 0)
)

READ_HISTORY = Prepared(
    select(outbox.c.delivery_id, outbox.c.state).where(
        OF_LEAD,
        outbox.c.rooftop == bindparam("rooftop"),
        outbox.c.channel == bindparam("channel"),
        outbox.c.delivery_id != bindparam("delivery_id"),
        or_(*(outbox.c.kind == kind for kind in WHOLE_LEADS)),
        or_(outbox.c.state == "sent", outbox.c.unknown > 0),
    )
)

KEEP_DOCUMENT = Prepared(update(outbox).where(HELD).values(document=bindparam("sealed")))


def copies(connection: Connection, dealer_id: str, lead_id: str) -> dict[Address, Copy]:
    """The receivers that have a lead or may have it."""
    found: dict[Address, Copy] = {}
    for row in connection.execute(READ_COPIES, {"of_dealer": dealer_id, "of_lead": lead_id}):
        address = row.rooftop, row.channel
        before = found.get(address, Copy(arrived=False, being_sent=None))
        being_sent = row.delivery_id if row.lease is not None else before.being_sent
        found[address] = Copy(before.arrived or row.state == "sent", being_sent)
    return found


def history_sought(dealer_id: str, delivery: DueDelivery) -> dict[str, str]:
    """What READ_HISTORY looks for."""
    return {
        "of_dealer": dealer_id,
        "of_lead": delivery.lead_id,
        "rooftop": delivery.rooftop,
        "channel": delivery.channel,
        "delivery_id": delivery.delivery_id,
    }


def history_in(others: Sequence[Any], delivery: DueDelivery) -> History:
    """What the deliveries in rows of READ_HISTORY did."""
    later = any(row.state == "sent" and row.delivery_id > delivery.delivery_id for row in others)
    return History(bool(others), later)


def keep_document(
    connection: Connection, cipher: Cipher, dealer_id: str, delivery: DueDelivery, document: KeptDocument
) -> None:
    """Stores the document before its first attempt.

    Raises AlreadyStored if the lease was lost, at once or when the group is written: then nothing may be sent.
    """
    sealed = cipher.seal(msgspec.msgpack.encode(document), *document_context(dealer_id, delivery.delivery_id))
    mine = {"of_dealer": dealer_id, "settled": delivery.delivery_id, "held": delivery.lease}
    KEEP_DOCUMENT.add(connection, mine | {"sealed": sealed}, conflict="another has the lease of this delivery")


def kept_document(cipher: Cipher, dealer_id: str, delivery: DueDelivery) -> KeptDocument | None:
    """The document of the first attempt of a delivery; None before that attempt. Raises EncryptionError."""
    if delivery.document is None:
        return None
    opened = cipher.open(delivery.document, *document_context(dealer_id, delivery.delivery_id))
    return msgspec.msgpack.decode(opened, type=KeptDocument)


def document_context(dealer_id: str, delivery_id: str) -> tuple[str, ...]:
    """What the seal of a delivery's document is bound to."""
    return "outbox", "document", dealer_id, delivery_id


def send_again(
    connection: Connection,
    dealer_id: str,
    at: datetime,
    *,
    lead_id: str | None = None,
    delivery_id: str | None = None,
    channel: str | None = None,
) -> list[str]:
    """Sends a delivery again, or a lead to each receiver that it was sent to, with new ids.

    Returns the new ids; none where nothing like it was sent. `channel` leaves out the others.
    """
    if delivery_id is not None:
        found = get_delivery(connection, dealer_id, delivery_id)
        sent = [found] if found is not None and found.state == "sent" else []
    else:
        every = list_deliveries(connection, dealer_id, MOST_OF_LEAD, state="sent", lead_id=lead_id, channel=channel)
        sent = list({(row.rooftop, row.channel): row for row in every if row.kind in WHOLE_LEADS}.values())
    made = []
    for row in sent:
        kind: Kind = "resend" if row.kind == "lead" else row.kind
        again = NewDelivery(kind, row.rooftop, row.channel, None if row.kind in WHOLE_LEADS else row.event_id)
        made += enqueue(connection, dealer_id, row.lead_id, [again], at, waiting(connection, dealer_id, row.lead_id))
    return made
