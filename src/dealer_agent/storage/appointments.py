"""Visits and the places that they take, as statements on the caller's transaction (contract, part 10).

A visit holds one of the rooftop's places for its kind in each quarter of an hour that it touches. The dealer's lock
lets one lead at a time look for a free place; should two ever look together, the primary key of `places` decides, and
the one that comes second raises AlreadyStored.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from typing import Any, Literal, NamedTuple

from sqlalchemy import Connection, Row, bindparam, delete, func, insert, select, update

from dealer_agent.encryption.cipher import Cipher
from dealer_agent.leads.visit_times import QUARTER, Slot, quarters_of
from dealer_agent.protocol.requests import VisitKind
from dealer_agent.storage.errors import AlreadyStored
from dealer_agent.storage.prepared_statements import Prepared
from dealer_agent.storage.schema import appointments, leads, microseconds, places

Status = Literal["requested", "proposed", "confirmed", "unavailable", "replaced", "cancelled"]
"""`unavailable`: no time was to be had, and people must find one. `replaced`: the customer asked anew. `cancelled`: the
dealer or the customer called it off."""

STANDING: tuple[Status, ...] = ("requested", "proposed", "confirmed", "unavailable")


@dataclass(frozen=True, slots=True, kw_only=True)
class AppointmentRecord:
    """A visit as it was asked for and answered: `request` and `reply` are JSON documents in UTF-8.

    `request` is None once the customer is erased. A confirmed visit has `starts_at` and `ends_at`; `shares` is the
    visit whose places it uses, where it has none of its own.
    """

    dealer_id: str
    appointment_id: str
    lead_id: str
    rooftop: str
    kind: VisitKind
    status: Status
    created_at: datetime
    reply: bytes
    request: bytes | None
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    cancelled_at: datetime | None = None
    shares: str | None = None

    @property
    def stands(self) -> bool:
        """Whether it is neither called off nor replaced by another."""
        return self.status in STANDING


class Booked(NamedTuple):
    """A confirmed visit of a customer's."""

    appointment_id: str
    rooftop: str
    starts_at: datetime
    ends_at: datetime


class ListedAppointment(NamedTuple):
    """A visit beside what tells whose it is and what it is about: JSON documents of its lead.

    `customer` is None once the customer is erased; `vehicle` is the listing, where the stock had it.
    """

    appointment: AppointmentRecord
    customer: bytes | None
    vehicle: bytes | None


READ_BUSY = Prepared(
    select(places.c.quarter, func.count())
    .where(
        places.c.dealer_id == bindparam("dealer_id"),
        places.c.rooftop == bindparam("rooftop"),
        places.c.kind == bindparam("kind"),
        places.c.quarter >= bindparam("since"),
        places.c.quarter < bindparam("until"),
    )
    .group_by(places.c.quarter)
)

READ_TAKEN = Prepared(
    select(places.c.quarter, places.c.place).where(
        places.c.dealer_id == bindparam("dealer_id"),
        places.c.rooftop == bindparam("rooftop"),
        places.c.kind == bindparam("kind"),
        places.c.quarter >= bindparam("first"),
        places.c.quarter <= bindparam("last"),
    )
)

TAKE_PLACES = Prepared(insert(places))
ADD_APPOINTMENT = Prepared(insert(appointments))

FREE_PLACES = delete(places).where(
    places.c.dealer_id == bindparam("in_dealer"),
    places.c.appointment_id.in_(bindparam("appointment_ids", expanding=True)),
)

# Two statements, not one: for their OR the databases would read all of the dealer's visits.
_END = (
    update(appointments)
    .where(appointments.c.dealer_id == bindparam("in_dealer"), appointments.c.status.in_(STANDING))
    .values(status=bindparam("how"), cancelled_at=bindparam("at"))
)
END_APPOINTMENTS = _END.where(appointments.c.appointment_id.in_(bindparam("appointment_ids", expanding=True)))

# What shares a visit's places has none of its own: it ends with it.
END_SHARING = _END.where(appointments.c.shares.in_(bindparam("appointment_ids", expanding=True)))

LEAVE_ALONE = (
    update(appointments)
    .where(
        appointments.c.dealer_id == bindparam("in_dealer"), appointments.c.appointment_id == bindparam("appointment")
    )
    .values(shares=None)
)

READ_APPOINTMENT = select(appointments).where(
    appointments.c.dealer_id == bindparam("dealer_id"), appointments.c.appointment_id == bindparam("appointment_id")
)

READ_SHARING = select(appointments).where(
    appointments.c.dealer_id == bindparam("dealer_id"),
    appointments.c.shares.in_(bindparam("appointment_ids", expanding=True)),
    appointments.c.status == "confirmed",
)

READ_APPOINTMENTS = Prepared(
    select(appointments)
    .where(appointments.c.dealer_id == bindparam("dealer_id"), appointments.c.lead_id == bindparam("lead_id"))
    .order_by(appointments.c.created_at, appointments.c.appointment_id)
)

# In no order: to have one, SQLite would read the visits of all leads.
FIND_BOOKED = select(*(appointments.c[name] for name in Booked._fields)).where(
    appointments.c.dealer_id == bindparam("dealer_id"),
    appointments.c.lead_id.in_(bindparam("lead_ids", expanding=True)),
    appointments.c.kind == bindparam("kind"),
    appointments.c.status == "confirmed",
    appointments.c.ends_at > bindparam("now"),
)

_LISTED = (
    select(appointments, leads.c.customer, leads.c.vehicle)
    .join_from(
        appointments,
        leads,
        (appointments.c.dealer_id == leads.c.dealer_id) & (appointments.c.lead_id == leads.c.lead_id),
    )
    .where(appointments.c.dealer_id == bindparam("dealer_id"))
)

LIST_BOOKED = _LISTED.where(appointments.c.starts_at >= bindparam("since")).order_by(
    appointments.c.starts_at, appointments.c.appointment_id
)

# Visits to come before those that are over or called off, and of these the nearest: three statements that read an index
# in its order and stop, where one would sort all visits.
_TO_COME = (appointments.c.starts_at >= bindparam("now"), appointments.c.starts_at < bindparam("until"))
_BY_TIME = (appointments.c.starts_at, appointments.c.appointment_id)
LIST_SHOWN = (
    _LISTED.where(*_TO_COME, appointments.c.status == "confirmed").order_by(*_BY_TIME).limit(bindparam("most")),
    _LISTED.where(*_TO_COME, appointments.c.status != "confirmed").order_by(*_BY_TIME).limit(bindparam("most")),
    _LISTED.where(appointments.c.starts_at >= bindparam("since"), appointments.c.starts_at < bindparam("now"))
    .order_by(appointments.c.starts_at.desc(), appointments.c.appointment_id.desc())
    .limit(bindparam("most")),
)

LIST_WAITING = _LISTED.where(
    appointments.c.created_at >= bindparam("since"),
    appointments.c.starts_at.is_(None),
    appointments.c.status.in_(("requested", "proposed", "unavailable")),
).order_by(appointments.c.created_at, appointments.c.appointment_id)


def busy_quarters(
    connection: Connection, dealer_id: str, rooftop: str, kind: str, since: datetime, until: datetime
) -> dict[datetime, int]:
    """How many places are taken in each quarter of an hour (UTC) from `since` to before `until`, where any is."""
    sought = {"dealer_id": dealer_id, "rooftop": rooftop, "kind": kind, "since": since, "until": until}
    return dict(READ_BUSY.read(connection, sought, _place_keys(rooftop, kind, since, until)))


def take_places(
    connection: Connection, appointment: AppointmentRecord, quarters: Sequence[datetime], of: int | None
) -> None:
    """Takes one of the rooftop's `of` places in each quarter (in order of time), for an appointment that is recorded.

    Raises AlreadyStored when one of the quarters has none left: who asked looks again, and sees who was first. None
    left there never is where `of` is None: for a visit that was promised already.
    """
    pool = {"dealer_id": appointment.dealer_id, "rooftop": appointment.rooftop, "kind": appointment.kind}
    taken: Mapping[datetime, set[int]] = defaultdict(set)
    keys = [_place_key(appointment.rooftop, appointment.kind, quarter) for quarter in quarters]
    for quarter, place in READ_TAKEN.read(connection, pool | {"first": quarters[0], "last": quarters[-1]}, keys):
        taken[quarter].add(place)
    rows = []
    for quarter in quarters:
        # Counted, not numbered: a dealer who has fewer places than before keeps the visits of the others.
        if of is not None and len(taken[quarter]) >= of:
            raise AlreadyStored("every place of that time is taken")
        place = next(number for number in count() if number not in taken[quarter])
        rows.append(pool | {"quarter": quarter, "place": place, "appointment_id": appointment.appointment_id})
    for key, row in zip(keys, rows, strict=True):
        TAKE_PLACES.add(connection, row, key=key)


def _place_keys(rooftop: str, kind: str, since: datetime, until: datetime) -> list[bytes] | None:
    """Keys of the places in the quarters from `since` to before `until`; None where they are too many to look up."""
    if until - since > timedelta(days=1):
        return None
    first = since.replace(minute=since.minute // 15 * 15, second=0, microsecond=0)
    return [_place_key(rooftop, kind, first + QUARTER * number) for number in range(-((first - until) // QUARTER))]


def _place_key(rooftop: str, kind: str, quarter: datetime) -> bytes:
    return f"{microseconds(quarter)} {kind} {rooftop}".encode()


def record_appointment(connection: Connection, cipher: Cipher, appointment: AppointmentRecord) -> None:
    """Stores a visit of a lead that is recorded; a confirmed one's places are taken apart. Seals what was asked."""
    row = {name: getattr(appointment, name) for name in AppointmentRecord.__dataclass_fields__}
    if appointment.request is not None:
        row["request"] = cipher.seal(appointment.request, *_seal(appointment.dealer_id, appointment.appointment_id))
    ADD_APPOINTMENT.add(connection, row)


def end_appointments(
    connection: Connection,
    dealer_id: str,
    appointment_ids: Sequence[str],
    at: datetime,
    how: Literal["replaced", "cancelled"],
) -> int:
    """Ends visits that stand, and those that share them, and frees their places; how many ended."""
    if not appointment_ids:
        return 0
    chosen = {"in_dealer": dealer_id, "appointment_ids": list(appointment_ids)}
    connection.execute(FREE_PLACES, chosen)
    ended = chosen | {"how": how, "at": at}
    return sum(connection.execute(statement, ended).rowcount for statement in (END_APPOINTMENTS, END_SHARING))


def sharing(
    connection: Connection, cipher: Cipher, dealer_id: str, appointment_ids: Sequence[str]
) -> list[AppointmentRecord]:
    """The confirmed visits that use the places of any of these."""
    if not appointment_ids:
        return []
    sought = {"dealer_id": dealer_id, "appointment_ids": list(appointment_ids)}
    return [_opened(cipher, row) for row in connection.execute(READ_SHARING, sought)]


def hand_over(
    connection: Connection, dealer_id: str, appointment_ids: Sequence[str], lead_ids: Collection[str]
) -> None:
    """Has the confirmed visits of other leads than these go on without the visits whose places they use.

    Each keeps its time, and takes places of its own for it: one more than the rooftop has, if need be.
    """
    if not appointment_ids:
        return
    sought = {"dealer_id": dealer_id, "appointment_ids": list(appointment_ids)}
    for row in connection.execute(READ_SHARING, sought).all():
        if row.lead_id in lead_ids:
            continue
        # Nothing that is sealed is looked at: a lead can be erased whose neighbour does not open.
        values = row._asdict() | {"request": None, "shares": None}
        alone = AppointmentRecord(**{name: values[name] for name in AppointmentRecord.__dataclass_fields__})
        assert alone.starts_at is not None, "what shares a visit is confirmed"
        assert alone.ends_at is not None, "what shares a visit is confirmed"
        connection.execute(LEAVE_ALONE, {"in_dealer": dealer_id, "appointment": alone.appointment_id})
        take_places(connection, alone, quarters_of(Slot(alone.starts_at, alone.ends_at)), of=None)


def find_appointment(
    connection: Connection, cipher: Cipher, dealer_id: str, appointment_id: str
) -> AppointmentRecord | None:
    """One visit, though it has ended."""
    sought = {"dealer_id": dealer_id, "appointment_id": appointment_id}
    row = connection.execute(READ_APPOINTMENT, sought).one_or_none()
    return None if row is None else _opened(cipher, row)


def appointments_of(connection: Connection, cipher: Cipher, dealer_id: str, lead_id: str) -> list[AppointmentRecord]:
    """All visits that a lead ever asked for, those that ended too, oldest first."""
    return appointments_in(cipher, READ_APPOINTMENTS.read(connection, {"dealer_id": dealer_id, "lead_id": lead_id}))


def appointments_in(cipher: Cipher, rows: Iterable[Any]) -> list[AppointmentRecord]:
    """The visits in rows of READ_APPOINTMENTS."""
    return [_opened(cipher, row) for row in rows]


def booked_visits(
    connection: Connection, dealer_id: str, lead_ids: Iterable[str], kind: str, now: datetime
) -> list[Booked]:
    """The confirmed visits of a kind that these leads have and that are not over, in the order of time."""
    sought = {"dealer_id": dealer_id, "lead_ids": list(lead_ids), "kind": kind, "now": now}
    if not sought["lead_ids"]:
        return []
    found = (Booked(*row) for row in connection.execute(FIND_BOOKED, sought))
    return sorted(found, key=lambda booked: (booked.starts_at, booked.appointment_id))


def list_booked(connection: Connection, cipher: Cipher, dealer_id: str, since: datetime) -> list[ListedAppointment]:
    """The visits that were ever confirmed for a time from `since` on, cancelled ones too, in the order of time."""
    return [_listed(cipher, row) for row in connection.execute(LIST_BOOKED, {"dealer_id": dealer_id, "since": since})]


def list_shown(
    connection: Connection,
    cipher: Cipher,
    dealer_id: str,
    *,
    since: datetime,
    now: datetime,
    until: datetime,
    most: int,
) -> list[ListedAppointment]:
    """At most `most` of the visits that were ever confirmed for a time from `since` to before `until`, by time.

    Confirmed visits from `now` on come first, then those to come that were called off, then the latest that are over.
    """
    found: list[Row[Any]] = []
    for statement in LIST_SHOWN:
        if len(found) < most:
            sought = {"since": since, "now": now, "until": until, "most": most - len(found)}
            found += connection.execute(statement, sought | {"dealer_id": dealer_id})
    return [_listed(cipher, row) for row in sorted(found, key=lambda row: (row.starts_at, row.appointment_id))]


def list_waiting(connection: Connection, cipher: Cipher, dealer_id: str, since: datetime) -> list[ListedAppointment]:
    """The visits asked for since `since` that have no time yet: a person must arrange them. Oldest first."""
    return [_listed(cipher, row) for row in connection.execute(LIST_WAITING, {"dealer_id": dealer_id, "since": since})]


def _listed(cipher: Cipher, row: Row[Any]) -> ListedAppointment:
    appointment = _opened(cipher, row)
    customer = row.customer
    if customer is not None:
        customer = cipher.open(customer, "leads", "customer", appointment.dealer_id, appointment.lead_id)
    return ListedAppointment(appointment, customer, row.vehicle)


def _opened(cipher: Cipher, row: Any) -> AppointmentRecord:
    values = {name: getattr(row, name) for name in AppointmentRecord.__dataclass_fields__}
    if values["request"] is not None:
        values["request"] = cipher.open(values["request"], *_seal(row.dealer_id, row.appointment_id))
    return AppointmentRecord(**values)


def _seal(dealer_id: str, appointment_id: str) -> tuple[str, str, str, str]:
    return "appointments", "request", dealer_id, appointment_id
