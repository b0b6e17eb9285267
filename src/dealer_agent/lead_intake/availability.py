"""The number of occupied places of a rooftop, read when it is needed."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from dealer_agent.leads.records import AppointmentRecord
from dealer_agent.leads.visit_decision import time_of
from dealer_agent.leads.visit_times import BusyQuarters, quarters_of
from dealer_agent.storage.appointments import busy_quarters
from dealer_agent.storage.transaction import Transaction

FIRST_REACH = timedelta(hours=1)
"""How far around the first quarter is read at first. Mostly the requested time is free."""
GROWTH = 24
"""The factor for each further read."""


class Availability:
    """The busy quarters of one kind of visit at a rooftop, within the `bookable_span`."""

    def __init__(self, tx: Transaction, rooftop: str, kind: str, span: tuple[datetime, datetime]) -> None:
        self._tx, self._rooftop, self._kind = tx, rooftop, kind
        self._span = span
        self._reach = FIRST_REACH
        self._busy: Mapping[datetime, int] = {}
        self._since = self._until = span[0]

    def get(self, quarter: datetime, default: int) -> int:
        """The number of visits in this quarter of an hour."""
        if not self._since <= quarter < self._until:
            self._since = max(quarter - self._reach, self._span[0])
            self._until = min(quarter + self._reach, self._span[1])
            self._reach *= GROWTH
            self._busy = busy_quarters(self._tx, self._rooftop, self._kind, self._since, self._until)
        return self._busy.get(quarter, default)


class Without:
    """Busy quarters without these visits."""

    def __init__(self, busy: BusyQuarters, visits: Iterable[AppointmentRecord]) -> None:
        self._busy = busy
        times = (time_of(visit) for visit in visits if visit.shares is None)
        self._freed = [quarter for time in times if time is not None for quarter in quarters_of(time)]

    def get(self, quarter: datetime, default: int) -> int:
        """The number of other visits in this quarter of an hour."""
        return self._busy.get(quarter, default) - self._freed.count(quarter)
