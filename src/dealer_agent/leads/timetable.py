"""The dealer's hours and how visits are booked there, read from the profile once. Pure."""

from dataclasses import replace
from datetime import datetime, timedelta

from dealer_agent.dealers.opening import department_hours
from dealer_agent.dealers.profile import DealerRooftop, Profile, VisitRules
from dealer_agent.dealers.profile_checks import read_date, read_phone
from dealer_agent.inventory.vocabulary import fold
from dealer_agent.leads.opening_spans import current_or_next_span
from dealer_agent.leads.visit_times import VisitPlan
from dealer_agent.protocol.requests import VisitKind

DEPARTMENT = "sales"
"""The department that answers where nothing says which."""


class Timetable:
    """Who takes which visits, and when somebody is there."""

    def __init__(self, profile: Profile) -> None:
        self.first = profile.rooftops[0]
        self._rooftops = {rooftop.name: rooftop for rooftop in profile.rooftops}
        self._by_folded_name = {fold(rooftop.name): rooftop for rooftop in reversed(profile.rooftops)}
        self._hours = {rooftop.name: department_hours(rooftop) for rooftop in profile.rooftops}
        self._phones = {
            rooftop.name: {department: read_phone(number) for department, number in rooftop.phones.items()}
            for rooftop in profile.rooftops
        }
        self._plans = {
            (rooftop.name, kind): self._plan(rooftop, kind, rules)
            for rooftop in profile.rooftops
            for kind, rules in rooftop.visits.items()
        }

    def plan(self, rooftop: DealerRooftop, kind: VisitKind) -> VisitPlan | None:
        """How the rooftop books this kind of visit; None where people arrange it."""
        return self._plans.get((rooftop.name, kind))

    def rooftop(self, name: str | None) -> DealerRooftop | None:
        """The rooftop of this name, where there is one."""
        return self._rooftops.get(name) if name is not None else None

    def named(self, words: str) -> DealerRooftop | None:
        """The rooftop that a buyer names, compared as search compares rooftops."""
        return self.rooftop(words) or self._by_folded_name.get(fold(words))

    def taking(self, kind: VisitKind) -> DealerRooftop | None:
        """The dealer's first rooftop that books this kind of visit."""
        return next((rooftop for name, rooftop in self._rooftops.items() if (name, kind) in self._plans), None)

    def department(self, rooftop: DealerRooftop, kind: VisitKind | None) -> str:
        """Whose matter a lead is: that of the department whose hours count for the visit, else of sales."""
        rules = rooftop.visits.get(kind) if kind is not None else None
        if rules is not None:
            return rules.hours
        return "service" if kind == "service" else DEPARTMENT

    def phone(self, rooftop: DealerRooftop, department: str) -> str | None:
        """The department's number, as E.164: that of sales, or any, where it has none of its own."""
        phones = self._phones[rooftop.name]
        return phones.get(department) or phones.get(DEPARTMENT) or next(iter(phones.values()), None)

    def hours(self, rooftop: DealerRooftop, department: str, now: datetime) -> tuple[datetime, datetime] | None:
        """When the department is open: now, or next; None where that is not known."""
        known = self._hours[rooftop.name]
        hours = known.get(department) or known.get(DEPARTMENT)
        return current_or_next_span(hours.on, rooftop.timezone, now) if hours else None

    def _plan(self, rooftop: DealerRooftop, kind: VisitKind, rules: VisitRules) -> VisitPlan:
        hours = self._hours[rooftop.name][rules.hours]
        closed = {read_date(day): () for day in rules.closed_dates}
        return VisitPlan(
            kind=kind,
            zone=rooftop.timezone,
            hours=replace(hours, dates={**hours.dates, **closed}).on,
            duration=timedelta(minutes=rules.duration_minutes),
            allowed=tuple(timedelta(minutes=minutes) for minutes in rules.durations_allowed),
            places=rules.places,
            grid=timedelta(minutes=rules.grid_minutes),
            notice=timedelta(minutes=rules.notice_minutes),
            horizon=timedelta(days=rules.horizon_days),
        )
