"""The opening hours and the bookable visits of all rooftops, computed once for a profile. Pure."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from dealer_agent.dealers.opening import DepartmentHours, department_hours
from dealer_agent.dealers.profile import DealerRooftop, Profile, VisitRules
from dealer_agent.dealers.profile_checks import read_date, read_phone
from dealer_agent.inventory.canonical_words.text import fold
from dealer_agent.leads.local_time import Hours, Span, current_or_next_span
from dealer_agent.leads.visit_times import VisitPlan
from dealer_agent.protocol.requests import VisitKind

DEFAULT_DEPARTMENT = "sales"


@dataclass(frozen=True, slots=True, kw_only=True)
class Department:
    """The department that answers. `phone` is in E.164 form, `hours` is the `current_or_next_span`."""

    rooftop: str
    zone: str
    phone: str | None = None
    hours: Span | None = None


class Timetable:
    """Which rooftop books which visits, and when its departments are open. `first` is the dealer's first rooftop."""

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
            (rooftop.name, kind): self._plan(rooftop, rules)
            for rooftop in profile.rooftops
            for kind, rules in rooftop.visits.items()
        }

    def plan(self, rooftop: DealerRooftop, kind: VisitKind) -> VisitPlan | None:
        """How the rooftop books this kind of visit. None if staff arrange it."""
        return self._plans.get((rooftop.name, kind))

    def rooftop(self, name: str) -> DealerRooftop | None:
        """The rooftop of this name."""
        return self._rooftops.get(name)

    def named(self, words: str) -> DealerRooftop | None:
        """The rooftop that a buyer names, compared as in a search."""
        return self.rooftop(words) or self._by_folded_name.get(fold(words))

    def booking(self, kind: VisitKind) -> DealerRooftop | None:
        """The first rooftop that books this kind of visit."""
        return next((rooftop for name, rooftop in self._rooftops.items() if (name, kind) in self._plans), None)

    def department(self, rooftop: DealerRooftop, kind: VisitKind | None, now: datetime) -> Department:
        """The department that answers a lead: the one whose hours apply to the visit, else sales.

        A department without its own phone number or hours has those of sales.
        """
        name, phones = self._department(rooftop, kind), self._phones[rooftop.name]
        hours = self._opening(rooftop, name)
        return Department(
            rooftop=rooftop.name,
            zone=rooftop.timezone,
            phone=phones.get(name) or phones.get(DEFAULT_DEPARTMENT) or next(iter(phones.values()), None),
            hours=current_or_next_span(hours.on, rooftop.timezone, now) if hours else None,
        )

    def hours(self, rooftop: DealerRooftop, kind: VisitKind) -> Hours | None:
        """The opening hours for a kind of visit, also for one that staff arrange. None if dealer.toml has none."""
        if (plan := self.plan(rooftop, kind)) is not None:
            return plan.hours
        known = self._opening(rooftop, self._department(rooftop, kind))
        return None if known is None else known.on

    def _department(self, rooftop: DealerRooftop, kind: VisitKind | None) -> str:
        rules = rooftop.visits.get(kind) if kind is not None else None
        return rules.hours if rules is not None else "service" if kind == "service" else DEFAULT_DEPARTMENT

    def _opening(self, rooftop: DealerRooftop, department: str) -> DepartmentHours | None:
        known = self._hours[rooftop.name]
        return known.get(department) or known.get(DEFAULT_DEPARTMENT)

    def _plan(self, rooftop: DealerRooftop, rules: VisitRules) -> VisitPlan:
        """The plan of one kind of visit: the rules of the settings, and the department's hours without closed dates."""
        hours = self._hours[rooftop.name][rules.hours]
        closed = {read_date(day): () for day in rules.closed_dates}
        return VisitPlan(
            zone=rooftop.timezone,
            hours=replace(hours, dates={**hours.dates, **closed}).on,
            duration=timedelta(minutes=rules.duration_minutes),
            allowed=tuple(timedelta(minutes=minutes) for minutes in rules.durations_allowed),
            places=rules.places,
            grid=timedelta(minutes=rules.grid_minutes),
            notice=timedelta(minutes=rules.notice_minutes),
            horizon=timedelta(days=rules.horizon_days),
        )
