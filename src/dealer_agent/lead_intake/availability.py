"""How many of a rooftop's places are taken, read as far as somebody looks."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from dealer_agent.leads.visit_times import BusyQuarters, Slot, quarters_of
from dealer_agent.storage.appointments import AppointmentRecord, busy_quarters
from dealer_agent.storage.transaction import Transaction

FIRST_REACH = timedelta(hours=1)
"""How far from the first quarter that somebody looks at is read at first: mostly the time asked for is free."""
FURTHER = 24
"""By how much more, each time that somebody looks beyond what was read."""


class Availability:
    """The busy quarters of one kind of visit at a rooftop, inside `span`, as `leads.visits` asks for them."""

    def __init__(self, tx: Transaction, rooftop: str, kind: str, span: tuple[datetime, datetime]) -> None:
        self._tx, self._rooftop, self._kind = tx, rooftop, kind
        self._span = span
        self._reach = FIRST_REACH
        self._taken: Mapping[datetime, int] = {}
        self._since = self._until = span[0]

    def get(self, quarter: datetime, default: int) -> int:
        """How many visits touch the quarter of an hour that begins then."""
        if not self._since <= quarter < self._until:
            self._read_more(quarter)
        return self._taken.get(quarter, default)

    def _read_more(self, quarter: datetime) -> None:
        self._since, self._until = max(quarter - self._reach, self._span[0]), min(quarter + self._reach, self._span[1])
        self._reach *= FURTHER
        self._taken = busy_quarters(self._tx, self._rooftop, self._kind, self._since, self._until)


class Without:
    """What is busy once these visits have ended."""

    def __init__(self, busy: BusyQuarters, visits: Iterable[AppointmentRecord]) -> None:
        self._busy = busy
        self._ended = [
            quarter
            for visit in visits
            if visit.shares is None and visit.starts_at is not None and visit.ends_at is not None
            for quarter in quarters_of(Slot(visit.starts_at, visit.ends_at))
        ]

    def get(self, quarter: datetime, default: int) -> int:
        """How many visits touch the quarter, without those that ended."""
        return self._busy.get(quarter, default) - self._ended.count(quarter)
