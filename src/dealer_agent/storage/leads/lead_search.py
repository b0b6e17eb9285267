"""Searches the stored leads for the lists of staff: `dealer-agent leads list`, and the console.

Customer data is encrypted, so a search decrypts leads, newest first, until it has enough or has looked at
MOST_SEARCHED. A whole e-mail address or phone number is found by its keyed hash instead, at any age.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, NamedTuple

import msgspec
from msgspec import UNSET, Struct
from sqlalchemy import bindparam, exists, func, select

from dealer_agent.leads.records import Addition, LeadRecord
from dealer_agent.leads.statuses import Mark
from dealer_agent.protocol.requests import Customer, VehicleOfInterest
from dealer_agent.storage.deliveries.outbox import State
from dealer_agent.storage.leads.persons import find_leads_of
from dealer_agent.storage.leads.stored_leads import IS_BEFORE, LIST_LEADS, LIST_QUARANTINED, WAITS, leads_in
from dealer_agent.storage.schema import lead_events, leads, outbox
from dealer_agent.storage.statements import of_dealer, of_leads, same_lead, shown_to_staff
from dealer_agent.storage.transaction import Transaction

LEAST_DIGITS = 7
"""Fewer digits are not a phone number: they may be part of a VIN, a year or a stock number."""

_PHONE = re.compile(r"[0-9 ()+./-]+")


class _LeadRequestTexts(Struct):
    """What a search reads of the request of a lead."""

    vehicle_of_interest: VehicleOfInterest | None = None


def has_words(text: str, lead: LeadRecord, added: Iterable[Customer] = ()) -> bool:
    """Whether every word is part of the lead's id, agent, VIN, stock number, or of the customer's name or address.

    Case does not matter. A text that looks like a phone number may also be part of a phone number, in any notation.
    `added` are the customers in later additions to the lead.
    """
    customers = [*added] if lead.customer is None else [msgspec.json.decode(lead.customer, type=Customer), *added]
    texts = [each.casefold() for each in (*_of_lead(lead), *_of_customers(customers)) if each]
    if all(any(word in each for each in texts) for word in text.casefold().split()):
        return True
    digits = re.sub("[^0-9]", "", text)
    if not _PHONE.fullmatch(text) or len(digits) < LEAST_DIGITS:
        return False
    numbers = (re.sub("[^0-9]", "", each.phone) for each in customers if each.phone is not UNSET)
    return any(digits in number for number in numbers)


def _of_lead(lead: LeadRecord) -> Iterator[str | None]:
    """The texts of a lead in which a search looks."""
    yield from (lead.lead_id, lead.source_agent, lead.vin, lead.stock)
    if lead.payload is not None:
        wanted = msgspec.json.decode(lead.payload, type=_LeadRequestTexts).vehicle_of_interest
        if wanted is not None:
            yield from (each for each in (wanted.vin, wanted.stock) if each is not UNSET)


def _of_customers(customers: Iterable[Customer]) -> Iterator[str]:
    for customer in customers:
        yield f"{customer.first_name} {customer.last_name}"
        if customer.email is not UNSET:
            yield customer.email


MOST_SEARCHED = 20_000
"""The most leads that a search decrypts."""
PAGE = 200
"""How many leads a search reads at a time."""
MOST_OF_PERSON = 1000
"""The most leads of one contact point, the newest ones."""

LeadState = Literal[State, "erased"]
"""The state of one of its deliveries, or that its customer is erased."""

# No lead is received before EARLIEST, or at LATEST or later.
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)

READ_CHANGES = select(lead_events.c.lead_id, lead_events.c.event_id, lead_events.c.changes).where(
    of_leads(lead_events), lead_events.c.changes.is_not(None)
)

_RECEIVED = (leads.c.received_at >= bindparam("since"), leads.c.received_at < bindparam("until"))
MOST_IDS_OF_RARE_STATE = 1_000
"""A state is rare if no more leads or deliveries than this have it."""

# In the order of an index that begins with the state: otherwise SQLite would read the deliveries of all leads.
FIND_IN_STATE = (
    select(outbox.c.lead_id)
    .where(of_dealer(outbox, state="state"))
    .order_by(outbox.c.rooftop, outbox.c.channel, outbox.c.due_at, outbox.c.delivery_id)
    .limit(bindparam("most"))
)

FIND_QUARANTINED = select(leads.c.lead_id).where(of_dealer(leads), WAITS).limit(bindparam("most"))

_HAS_DELIVERY = exists().where(same_lead(outbox, leads), outbox.c.state == bindparam("state"))
_OF_ROOFTOPS = leads.c.rooftop.in_(bindparam("rooftops", expanding=True))

COUNT_UNMARKED = (
    select(func.count())
    .select_from(leads)
    .where(
        of_dealer(leads),
        leads.c.received_at >= bindparam("since"),
        leads.c.mark.is_(None),
        leads.c.erased_at.is_(None),
        shown_to_staff(leads),
    )
)

COUNT_UNMARKED_OF = COUNT_UNMARKED.where(_OF_ROOFTOPS)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadFilter:
    """Which leads to find. With `quarantined`, those that wait in quarantine; else, those that staff may see.

    `text` is what a lead contains, and `contact` the same as a normalised contact point.
    `before` is the id of a lead; only older ones are found. `since` is included, `until` is not. `caller` is the
    identity of the sender, empty for all anonymous ones. The mark `none` is that of leads without a mark. `rooftops`
    are those of the leads; empty: all.
    """

    text: str = ""
    contact: str | None = None
    before: str | None = None
    since: datetime = EARLIEST
    until: datetime = LATEST
    state: LeadState | None = None
    mark: Mark | Literal["none"] | None = None
    caller: str | None = None
    rooftops: tuple[str, ...] = ()
    quarantined: bool = False


class FoundLeads(NamedTuple):
    """The leads that were found, newest first. `opened` leads were decrypted.

    `incomplete`: the search ended before the oldest lead. `last` is the id of the last lead that it looked at.
    """

    leads: list[LeadRecord]
    opened: int
    incomplete: bool
    last: str | None = None


def find_leads(
    tx: Transaction,
    search: LeadFilter,
    limit: int,
    on_progress: Callable[[int], None] = lambda _: None,
    *,
    most: int = MOST_SEARCHED,
) -> FoundLeads:
    """At most `limit` leads. A search for a text decrypts at most about `most` leads.

    `on_progress` gets the number of leads that were decrypted. Raises EncryptionError.
    """
    if not search.text:
        few = _ids_in_rare_state(tx, search)
        matching = [] if few == [] else _find_page(tx, search, search.before, limit, few)
        return FoundLeads(matching, len(matching), incomplete=False)
    ids = [search.text.upper()] if search.contact is None else find_leads_of(tx, [search.contact])[-MOST_OF_PERSON:]
    if ids and (of_person := _find_page(tx, search, search.before, limit, ids)):
        return FoundLeads(of_person, len(of_person), incomplete=False)
    matching, opened, before = [], 0, search.before
    while opened < most:
        page = _find_page(tx, search, before, wanted := min(PAGE, most - opened))
        added = _added_customers(tx, [lead.lead_id for lead in page])
        for lead in page:
            opened += 1
            if has_words(search.text, lead, added[lead.lead_id]):
                matching.append(lead)
            if len(matching) == limit:
                return FoundLeads(matching, opened, incomplete=False)
        on_progress(opened)
        if len(page) < wanted:
            return FoundLeads(matching, opened, incomplete=False)
        before = page[-1].lead_id
    return FoundLeads(matching, opened, incomplete=True, last=before)


def count_unmarked(tx: Transaction, since: datetime, rooftops: Sequence[str] = ()) -> int:
    """How many leads of these rooftops (empty: all) that came since then have no mark yet. It decrypts nothing."""
    statement = COUNT_UNMARKED_OF if rooftops else COUNT_UNMARKED
    return int(tx.execute(statement, {"since": since, "rooftops": rooftops}).scalar_one())


def _ids_in_rare_state(tx: Transaction, search: LeadFilter) -> list[str] | None:
    """The ids of the leads in a rare state; None if the state is not rare, or if none is sought.

    Otherwise the databases would look at all leads, newest first, to find a few old ones.
    """
    most = MOST_IDS_OF_RARE_STATE + 1
    if search.quarantined:
        lead_ids = list(tx.execute(FIND_QUARANTINED, {"most": most}).scalars())
    elif search.state in ("waiting", "undeliverable", "dropped"):
        lead_ids = list(tx.execute(FIND_IN_STATE, {"state": search.state, "most": most}).scalars())
    else:
        return None
    return list(dict.fromkeys(lead_ids)) if len(lead_ids) <= MOST_IDS_OF_RARE_STATE else None


def _find_page(
    tx: Transaction, search: LeadFilter, before: str | None, limit: int, ids: Sequence[str] | None = None
) -> list[LeadRecord]:
    """The newest leads that are older than `before`. With `ids`, only these."""
    statement = (LIST_QUARANTINED if search.quarantined else LIST_LEADS).where(*_RECEIVED)
    if before is not None:
        statement = statement.where(IS_BEFORE)
    if search.state == "erased":
        statement = statement.where(leads.c.erased_at.is_not(None))
    elif search.state is not None:
        statement = statement.where(_HAS_DELIVERY)
    if search.mark == "none":
        statement = statement.where(leads.c.mark.is_(None))
    elif search.mark is not None:
        statement = statement.where(leads.c.mark == search.mark)
    if search.rooftops:
        statement = statement.where(_OF_ROOFTOPS)
    if search.caller == "":
        statement = statement.where(leads.c.caller.is_(None))
    elif search.caller is not None:
        statement = statement.where(leads.c.caller == bindparam("caller"))
    if ids is not None:
        statement = statement.where(leads.c.lead_id.in_(bindparam("lead_ids", expanding=True)))
    values = {"since": search.since, "until": search.until, "state": search.state, "before": before, "lead_ids": ids}
    values |= {"caller": search.caller, "rooftops": search.rooftops}
    return leads_in(tx, tx.execute(statement, values | {"limit": limit}))


def _added_customers(tx: Transaction, lead_ids: Sequence[str]) -> Mapping[str, list[Customer]]:
    """The customers in the additions to these leads."""
    added: Mapping[str, list[Customer]] = defaultdict(list)
    for lead_id, event_id, changes in tx.execute(READ_CHANGES, {"lead_ids": list(lead_ids)}):
        content = tx.decrypt(changes, lead_events.c.changes, event_id)
        if (customer := msgspec.json.decode(content, type=Addition).customer) is not None:
            added[lead_id].append(customer)
    return added
