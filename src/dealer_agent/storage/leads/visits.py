"""Stores visits and the places that they occupy (docs/protocol.md#appointments).

A visit occupies one of the rooftop's places for its kind in each quarter of an hour that it overlaps. A test drive also
occupies its vehicle, in the same table. An appraisal of a trade-in within a test drive of the same customer has no
places of its own: `shares` names the test drive.

Under the dealer's lock one lead at a time looks for a free place. If two still look at once, the primary key of
`places` decides, and the second one raises AlreadyStored.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import count
from typing import Any, Literal, NamedTuple

import msgspec
from sqlalchemy import BindParameter, Integer, Row, bindparam, delete, func, insert, select, update

from dealer_agent.leads.records import VisitRecord
from dealer_agent.leads.statuses import ACTIVE, ClosedStatus
from dealer_agent.leads.visit_times import QUARTER, quarters_of
from dealer_agent.protocol.requests import VisitKind
from dealer_agent.protocol.responses import AppointmentReply
from dealer_agent.storage.columns import microseconds
from dealer_agent.storage.errors import AlreadyStored
from dealer_agent.storage.leads.prepared_statements import Prepared, Read, read_of_keys
from dealer_agent.storage.schema import appointments, leads, places
from dealer_agent.storage.statements import of_dealer, of_leads, shown_to_staff
from dealer_agent.storage.transaction import Transaction

VEHICLE = "vehicle"
"""The kind of the place that is a vehicle. There is one of each."""


class BookedVisit(NamedTuple):
    """A confirmed visit of a customer."""

    appointment_id: str
    rooftop: str
    kind: VisitKind
    starts_at: datetime
    ends_at: datetime


class ListedVisit(NamedTuple):
    """A visit with the customer and the vehicle of its lead: JSON documents.

    `customer` is None once the customer is erased; `vehicle` is the listing, if the inventory had it. `lead_rooftop` is
    where the lead went, which may be another rooftop than that of the visit.
    """

    appointment: VisitRecord
    customer: bytes | None
    vehicle: bytes | None
    lead_rooftop: str


_OF_ROOFTOP = (
    of_dealer(places, rooftop="rooftop", kind="kind"),
    places.c.quarter >= bindparam("since"),
    places.c.quarter < bindparam("until"),
)

COUNT_PLACES = Prepared(select(places.c.quarter, func.count()).where(*_OF_ROOFTOP).group_by(places.c.quarter))

READ_PLACES = Prepared(select(places.c.quarter, places.c.place).where(*_OF_ROOFTOP))

READ_VEHICLE = Prepared(select(places.c.quarter, places.c.appointment_id).where(*_OF_ROOFTOP))

COUNT_DRIVES = Prepared(
    select(func.count(places.c.appointment_id.distinct())).where(
        of_dealer(places, rooftop="vehicle_id"),
        places.c.kind == VEHICLE,
        places.c.quarter >= bindparam("now"),
    )
)

ADD_PLACE = Prepared(insert(places))
ADD_VISIT = Prepared(insert(appointments))

_IDS: BindParameter[Any] = bindparam("appointment_ids", expanding=True)

DELETE_PLACES = delete(places).where(of_dealer(places), places.c.appointment_id.in_(_IDS))

_END = update(appointments).where(of_dealer(appointments)).values(status=bindparam("how"), cancelled_at=bindparam("at"))
CLOSE_VISITS = _END.where(appointments.c.appointment_id.in_(_IDS))

# Two statements, not one with OR: for that the databases would read all of the dealer's visits.
_ACTIVE = appointments.c.status.in_(ACTIVE)
END_VISITS, END_SHARING = CLOSE_VISITS.where(_ACTIVE), _END.where(appointments.c.shares.in_(_IDS), _ACTIVE)

STOP_SHARING = update(appointments).where(of_dealer(appointments, appointment_id="appointment")).values(shares=None)

MAKE_REQUESTED = STOP_SHARING.values(status="requested", starts_at=None, ends_at=None, reply=bindparam("answer"))

READ_VISIT = select(appointments).where(of_dealer(appointments, appointment_id="appointment_id"))

READ_SHARING = select(appointments).where(
    of_dealer(appointments), appointments.c.shares.in_(_IDS), appointments.c.status == "confirmed"
)

_OF_DEALER = select(appointments).where(of_dealer(appointments))

READ_VISITS = Prepared(
    _OF_DEALER.where(appointments.c.lead_id == bindparam("of_lead")).order_by(
        appointments.c.created_at, appointments.c.appointment_id
    )
)

# Without ORDER BY: with it, SQLite would read the visits of all leads.
FIND_BOOKED = select(*(appointments.c[name] for name in BookedVisit._fields)).where(
    of_leads(appointments),
    appointments.c.status == "confirmed",
    appointments.c.ends_at > bindparam("now"),
)

_LISTED = (
    select(appointments, leads.c.customer, leads.c.vehicle, leads.c.rooftop.label("lead_rooftop"))
    .join_from(appointments, leads)
    .where(of_dealer(appointments), shown_to_staff(leads))
)

LIST_BOOKED = _LISTED.where(appointments.c.starts_at >= bindparam("since")).order_by(
    appointments.c.starts_at, appointments.c.appointment_id
)

# Three statements that read an index in its order and stop. One statement would sort all visits.
_TO_COME = (appointments.c.starts_at >= bindparam("now"), appointments.c.starts_at < bindparam("until"))
_BY_TIME = (appointments.c.starts_at, appointments.c.appointment_id)
LIST_CALENDAR = (
    _LISTED.where(*_TO_COME, appointments.c.status == "confirmed").order_by(*_BY_TIME).limit(bindparam("most")),
    _LISTED.where(*_TO_COME, appointments.c.status != "confirmed").order_by(*_BY_TIME).limit(bindparam("most")),
    _LISTED.where(appointments.c.starts_at >= bindparam("since"), appointments.c.starts_at < bindparam("now"))
    .order_by(appointments.c.starts_at.desc(), appointments.c.appointment_id.desc())
    .limit(bindparam("most")),
)

LIST_WAITING = (
    _LISTED.where(
        appointments.c.created_at >= bindparam("since"),
        appointments.c.starts_at.is_(None),
        appointments.c.status.in_(("requested", "proposed", "unavailable")),
    )
    .order_by(appointments.c.created_at, appointments.c.appointment_id)
    .limit(bindparam("most", type_=Integer))
)

LIST_TIMED = (
    _LISTED.where(
        appointments.c.starts_at >= bindparam("since"),
        appointments.c.starts_at < bindparam("until"),
        appointments.c.status.in_(("confirmed", "done", "no_show")),
    )
    .order_by(*_BY_TIME)
    .limit(bindparam("most", type_=Integer))
    .offset(bindparam("skip", type_=Integer))
)

_AT_ROOFTOPS = appointments.c.rooftop.in_(bindparam("rooftops", expanding=True))
LIST_WAITING_AT, LIST_TIMED_AT = LIST_WAITING.where(_AT_ROOFTOPS), LIST_TIMED.where(_AT_ROOFTOPS)


def busy_quarters(tx: Transaction, rooftop: str, kind: str, since: datetime, until: datetime) -> dict[datetime, int]:
    """The number of occupied places in each quarter of an hour (UTC) from `since` to before `until`.

    Quarters without an occupied place are left out.
    """
    parameters = {"rooftop": rooftop, "kind": kind, "since": since, "until": until}
    return dict(COUNT_PLACES.read(tx, parameters, _place_keys(rooftop, kind, since, until)))


def vehicle_quarters(tx: Transaction, vehicle_id: str, since: datetime, until: datetime) -> dict[datetime, str]:
    """The id of the visit that has the vehicle, for each quarter of an hour (UTC) from `since` to before `until`.

    Quarters in which the vehicle is free are left out.
    """
    parameters = {"rooftop": vehicle_id, "kind": VEHICLE, "since": since, "until": until}
    return dict(READ_VEHICLE.read(tx, parameters, _place_keys(vehicle_id, VEHICLE, since, until)))


def count_drives(tx: Transaction, vehicle_id: str) -> int:
    """The number of confirmed test drives of a vehicle that are to come."""
    sought = {"vehicle_id": vehicle_id, "now": tx.now}
    ((number,),) = COUNT_DRIVES.read(tx, sought, [_places_key(vehicle_id, VEHICLE)])
    return int(number)


def occupy_places(tx: Transaction, visit: VisitRecord, quarters: Sequence[datetime], places: int | None) -> None:
    """Occupies a place of the rooftop in each quarter (in order of time) for a stored visit, and its vehicle.

    `places` is the rooftop's number of places. None: no limit, because the customer already has a confirmation for this
    time. Raises AlreadyStored if a quarter has no free place, because another visit was first, or if the vehicle is not
    free.
    """
    _occupy(tx, visit.appointment_id, visit.rooftop, visit.kind, quarters, places)
    if visit.vehicle_id is not None:
        _occupy(tx, visit.appointment_id, visit.vehicle_id, VEHICLE, quarters, 1)


def _occupy(
    tx: Transaction, appointment_id: str, rooftop: str, kind: str, quarters: Sequence[datetime], places: int | None
) -> None:
    """Occupies one place in each quarter. `rooftop` is a vehicle's id if `kind` is VEHICLE."""
    of_rooftop = {"rooftop": rooftop, "kind": kind}
    taken: Mapping[datetime, set[int]] = defaultdict(set)
    keys = [_place_key(rooftop, kind, quarter) for quarter in quarters]
    parameters = {"since": quarters[0], "until": quarters[-1] + QUARTER}
    for quarter, place in READ_PLACES.read(tx, of_rooftop | parameters, keys):
        taken[quarter].add(place)
    rows = []
    for quarter in quarters:
        # Counted, not numbered: a dealer who has fewer places than before keeps the visits of the others.
        if places is not None and len(taken[quarter]) >= places:
            raise AlreadyStored("every place at that time is occupied")
        place = next(number for number in count() if number not in taken[quarter])
        rows.append(of_rooftop | {"quarter": quarter, "place": place, "appointment_id": appointment_id})
    for key, row in zip(keys, rows, strict=True):
        ADD_PLACE.add(tx, row, keys=[key, _places_key(rooftop, kind)])


def _place_keys(rooftop: str, kind: str, since: datetime, until: datetime) -> list[bytes] | None:
    """Keys of the places in the quarters from `since` to before `until`; None if they are too many to look up."""
    if until - since > timedelta(days=1):
        return None
    first = since.replace(minute=since.minute // 15 * 15, second=0, microsecond=0)
    return [_place_key(rooftop, kind, first + QUARTER * number) for number in range(-((first - until) // QUARTER))]


def _place_key(rooftop: str, kind: str, quarter: datetime) -> bytes:
    """The key that a row of `places` has while it is collected: by it, a statement for this quarter finds the row."""
    return b"%d %b" % (microseconds(quarter), _places_key(rooftop, kind))


def _places_key(rooftop: str, kind: str) -> bytes:
    """The key of the places of any quarter. It has no digits in front, so it is not the key of a quarter."""
    return f"{kind} {rooftop}".encode()


def record_visit(tx: Transaction, visit: VisitRecord) -> None:
    """Stores a visit of a stored lead. If it is confirmed, call `occupy_places` afterwards."""
    row = {name: getattr(visit, name) for name in VisitRecord.__dataclass_fields__}
    if visit.request is not None:
        row["request"] = tx.encrypt(visit.request, appointments.c.request, visit.appointment_id)
    ADD_VISIT.add(tx, row)


def end_visits(tx: Transaction, appointment_ids: Sequence[str], how: Literal["replaced", "cancelled"]) -> int:
    """Ends active visits and those that share their places, and frees the places. Returns how many ended."""
    if not appointment_ids:
        return 0
    ended = {"appointment_ids": list(appointment_ids), "how": how, "at": tx.now}
    tx.execute(DELETE_PLACES, ended)
    return sum(tx.execute(statement, ended).rowcount for statement in (END_VISITS, END_SHARING))


def make_requested(tx: Transaction, visit: VisitRecord) -> None:
    """Makes a confirmed visit one that has no time yet, and frees its places: a person must arrange it."""
    reply = AppointmentReply(appointment_id=visit.appointment_id, status="requested")
    tx.execute(DELETE_PLACES, {"appointment_ids": [visit.appointment_id]})
    tx.execute(MAKE_REQUESTED, {"appointment": visit.appointment_id, "answer": msgspec.json.encode(reply)})


def close_visits(tx: Transaction, appointment_ids: Sequence[str], how: ClosedStatus) -> None:
    """Closes visits that have begun. They keep their places."""
    tx.execute(CLOSE_VISITS, {"appointment_ids": list(appointment_ids), "how": how, "at": tx.now})


def sharing_places_of(tx: Transaction, appointment_ids: Sequence[str]) -> list[VisitRecord]:
    """The confirmed visits that have no places of their own, but share the places of one of these visits."""
    if not appointment_ids:
        return []
    return visits_in(tx, tx.execute(READ_SHARING, {"appointment_ids": list(appointment_ids)}))


def give_own_places(tx: Transaction, appointment_ids: Sequence[str], lead_ids: Collection[str]) -> None:
    """Gives own places to the confirmed visits of other leads that share the places of these visits.

    Each keeps its time, even if the rooftop then has more visits than places.
    """
    if not appointment_ids:
        return
    for row in tx.execute(READ_SHARING, {"appointment_ids": list(appointment_ids)}).all():
        if row.lead_id in lead_ids:
            continue
        # Nothing is decrypted: a lead can be erased although a value of another lead cannot be decrypted.
        values = row._asdict() | {"request": None, "shares": None}
        alone = VisitRecord(**{name: values[name] for name in VisitRecord.__dataclass_fields__})
        assert alone.slot is not None, "a visit that shares places is confirmed"
        tx.execute(STOP_SHARING, {"appointment": alone.appointment_id})
        occupy_places(tx, alone, quarters_of(alone.slot), places=None)


def find_visit(tx: Transaction, appointment_id: str) -> VisitRecord | None:
    """One visit, also one that has ended."""
    row = tx.execute(READ_VISIT, {"appointment_id": appointment_id}).one_or_none()
    return None if row is None else _visit(tx, row)


def visits_of(tx: Transaction, lead_id: str) -> list[VisitRecord]:
    """All visits that a lead requested, also those that ended, oldest first."""
    return visits_in(tx, READ_VISITS.read(tx, {"of_lead": lead_id}))


def read_of_visits(lead_ids: Sequence[str]) -> Read:
    """The statement that reads the visits of several leads. The rows are in no order."""
    return read_of_keys(_OF_DEALER, appointments.c.lead_id, lead_ids)


def visits_in(tx: Transaction, rows: Iterable[Any]) -> list[VisitRecord]:
    """The visits in rows of READ_VISITS."""
    return [_visit(tx, row) for row in rows]


def booked_visits(tx: Transaction, lead_ids: Iterable[str], kind: VisitKind | None = None) -> list[BookedVisit]:
    """The confirmed visits that these leads have and that are not over, in the order of time. By default of any kind.

    Nothing is decrypted.
    """
    parameters = {"lead_ids": list(lead_ids), "now": tx.now}
    if not parameters["lead_ids"]:
        return []
    visits = (BookedVisit(*row) for row in tx.execute(FIND_BOOKED, parameters))
    wanted = (visit for visit in visits if kind in (None, visit.kind))
    return sorted(wanted, key=lambda visit: (visit.starts_at, visit.appointment_id))


def list_booked(tx: Transaction, since: datetime) -> list[ListedVisit]:
    """The visits that were ever confirmed for a time from `since` on, cancelled ones too, in the order of time."""
    return [_listed(tx, row) for row in tx.execute(LIST_BOOKED, {"since": since})]


def list_calendar(tx: Transaction, *, since: datetime, until: datetime, most: int) -> list[ListedVisit]:
    """At most `most` of the visits that were ever confirmed for a time from `since` to before `until`, by time.

    Confirmed future visits have priority, then cancelled future visits, then the latest past visits.
    """
    rows: list[Row[Any]] = []
    for statement in LIST_CALENDAR:
        if len(rows) < most:
            rows += tx.execute(statement, {"since": since, "now": tx.now, "until": until, "most": most - len(rows)})
    return [_listed(tx, row) for row in sorted(rows, key=lambda row: (row.starts_at, row.appointment_id))]


MOST_WAITING = 10_000
"""The most visits without a time that are listed at once."""


def list_waiting(
    tx: Transaction, since: datetime, *, rooftops: Sequence[str] = (), most: int = MOST_WAITING
) -> list[ListedVisit]:
    """The visits requested since `since` that have no time yet: a person must arrange them. Oldest first.

    With `rooftops`, only those at these rooftops.
    """
    statement = LIST_WAITING_AT if rooftops else LIST_WAITING
    rows = tx.execute(statement, {"since": since, "rooftops": rooftops, "most": most})
    return [_listed(tx, row) for row in rows]


def list_timed(
    tx: Transaction, since: datetime, until: datetime, *, rooftops: Sequence[str] = (), most: int, skip: int = 0
) -> list[ListedVisit]:
    """At most `most` visits that begin from `since` to before `until`, by time. Cancelled ones are left out.

    With `rooftops`, only those at these rooftops. The first `skip` visits are left out.
    """
    statement = LIST_TIMED_AT if rooftops else LIST_TIMED
    parameters = {"since": since, "until": until, "rooftops": rooftops, "most": most, "skip": skip}
    return [_listed(tx, row) for row in tx.execute(statement, parameters)]


def _listed(tx: Transaction, row: Row[Any]) -> ListedVisit:
    customer = None if row.customer is None else tx.decrypt(row.customer, leads.c.customer, row.lead_id)
    return ListedVisit(_visit(tx, row), customer, row.vehicle, row.lead_rooftop)


def _visit(tx: Transaction, row: Any) -> VisitRecord:
    values = {name: getattr(row, name) for name in VisitRecord.__dataclass_fields__}
    if values["request"] is not None:
        values["request"] = tx.decrypt(values["request"], appointments.c.request, row.appointment_id)
    return VisitRecord(**values)
