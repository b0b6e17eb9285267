"""The content of a monthly report, from the counts in the database. It is also the JSON of `report --json`."""

from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import NamedTuple, get_args

from msgspec import UNSET, Struct

from dealer_agent.callers import token_caller
from dealer_agent.dealers.profile import Profile
from dealer_agent.inventory.listing import Unit
from dealer_agent.leads.us_formats import money
from dealer_agent.protocol.errors import ERRORS, AppointmentTimeUnavailable
from dealer_agent.protocol.requests import FILTERED, filter_members
from dealer_agent.protocol.skill import ALL_SKILLS, LEAD_SUBMIT
from dealer_agent.protocol.vehicle_field import Range
from dealer_agent.reports.month import Month
from dealer_agent.storage.daily_counts import (
    DUPLICATE,
    OK,
    OTHER,
    REPEATED,
    SearchCount,
    Subject,
    first_day,
    requests_by_day,
    sum_counts,
)
from dealer_agent.storage.leads.monthly_reports import LeadCounts, count_leads, first_import
from dealer_agent.storage.stock.reading import find_units
from dealer_agent.storage.tokens import list_tokens
from dealer_agent.storage.transaction import Transaction

_UNKNOWN = "Other"


def _filter_labels() -> dict[str, str]:
    """The label of each filter, such as `Price, at most`."""
    labels = {"query": "Words of a free text"}
    for row in FILTERED:
        for name in filter_members(row):
            ends = {f"{row.name}_min": "at least", f"{row.name}_max": "at most"}
            bound = f", {ends[name]}" if isinstance(row.filter, Range) else ""
            labels[name] = row.field.label + bound
    return labels


_FILTERS = _filter_labels()
_WORDS = {"suv": "SUV"}


def filter_label(name: str) -> str:
    """The label of a filter: `Price, at most`."""
    return _FILTERS.get(name, _UNKNOWN)


def plain_label(item: str) -> str:
    """The label of a make, a model or a body style. A model has its make before it: `Honda: Accord`."""
    if item == OTHER:
        return _UNKNOWN
    make, colon, model = item.partition(": ")
    if colon:
        return f"{make}, another model" if model == OTHER else f"{make} {model}"
    return _WORDS.get(item, item[:1].upper() + item[1:])


def error_label(code: str) -> str:
    """The meaning of an error code."""
    return ERRORS[code].meaning.replace("`", "") if code in ERRORS else code


def price_label(item: str) -> str:
    """The label of a price band: `Up to $20,000`."""
    words, _, limit = item.rpartition(" ")
    return f"{words[:1].upper()}{words[1:]} {money(int(limit))}" if words and limit.isdigit() else _UNKNOWN


def unit_label(vehicle_id: str, stock: str | None, unit: Unit | None) -> str:
    """`2024 Honda Accord EX, stock N-7`. A unit that is sold has only its stock number."""
    if vehicle_id == OTHER:
        return "Other vehicles"
    named = f"stock {stock}" if stock else vehicle_id
    if unit is None:
        return f"A vehicle that is no longer for sale, {named}"
    parts = (str(part) for part in (unit.year, unit.make, unit.model, unit.trim) if part is not UNSET)
    return f"{' '.join(parts) or 'A vehicle'}, {named}"


def agent_label(agent: str, tokens: Mapping[str, str]) -> str:
    """The name of an agent: that of its token, or one of the dealer's list."""
    return "Other agents" if agent == OTHER else tokens.get(agent, agent)


MOST_SHOWN = 10
"""The most lines of a list."""
_OF_UNITS: tuple[Subject, ...] = ("viewed", "no_price", "outside_price")
"""The subjects whose items are vehicle ids."""
SEARCH = "inventory.search"
VEHICLE = "inventory.vehicle"


class Facts(NamedTuple):
    """What the database has about a month. `days` are the requests of each day that has any."""

    counts: Mapping[Subject, Mapping[str, int]]
    leads: LeadCounts
    days: Mapping[date, int]


class Names(NamedTuple):
    """The names of what is counted by id: tokens, and the known units of the stock with their stock numbers."""

    tokens: Mapping[str, str]
    units: Mapping[str, tuple[str | None, Unit | None]]


class Figure(Struct, frozen=True):
    """A number of the month, and that of the month before."""

    number: int
    before: int


class ReportLine(Struct, frozen=True):
    """A number with a label, and that of the month before. `item` is the counted item."""

    item: str
    label: str
    number: int
    before: int


class Words(Struct, frozen=True):
    """Words of searches: the most frequent first."""

    make: list[ReportLine]
    model: list[ReportLine]
    body: list[ReportLine]
    price: list[ReportLine]


class Searches(Struct, frozen=True):
    """Searches, and how many of them were read in detail. The other numbers are about those.

    For the `price_checked` searches, the units were counted that match but for the price.
    """

    all: Figure
    examined: Figure
    found_nothing: Figure
    with_price: Figure
    price_checked: Figure
    no_price_units: Figure
    outside_price_units: Figure


class Leads(Struct, frozen=True):
    """Leads and visits. `added` came from the sender of an earlier lead, `repeated` were sent twice by mistake."""

    accepted: Figure
    added: Figure
    repeated: Figure
    refused: list[ReportLine]
    visits: Figure
    confirmed: Figure
    cancelled: Figure


class Agent(Struct, frozen=True):
    """The answered requests of an agent."""

    agent: str
    label: str
    searches: Figure
    vehicles: Figure
    leads: Figure
    all: Figure


class Day(Struct, frozen=True):
    """The requests of a day."""

    day: date
    requests: int


class Report(Struct, frozen=True, kw_only=True):
    """A monthly report. `has_before`: there are counts of the month before."""

    dealer_id: str
    dealer: str
    month: str
    month_name: str
    before_name: str
    has_before: bool
    timezone: str
    requests: Figure
    vehicles: Figure
    answered: list[ReportLine]
    refused: list[ReportLine]
    searches: Searches
    asked: Words
    not_found: Words
    not_found_filters: list[ReportLine]
    no_price: list[ReportLine]
    outside_price: list[ReportLine]
    viewed: list[ReportLine]
    leads: Leads
    agents: list[Agent]
    days: list[Day]


def shown_units(facts: Facts) -> set[str]:
    """The vehicle ids that a report shows."""
    return {item for subject in _OF_UNITS for item in _most_frequent(facts.counts[subject])}


def make_report(profile: Profile, month: Month, facts: Facts, before: Facts, names: Names) -> Report:
    """The report of a month. `before` are the facts of the month before."""
    return _ReportMaker(facts, before, names).report(profile, month)


class _ReportMaker(NamedTuple):
    facts: Facts
    before: Facts
    names: Names

    def report(self, profile: Profile, month: Month) -> Report:
        """The report of a month."""
        return Report(
            dealer_id=profile.id,
            dealer=profile.name,
            month=str(month),
            month_name=month.name,
            before_name=month.previous.name,
            has_before=bool(self.before.days),
            timezone=profile.timezone,
            requests=self.figure(lambda facts: sum(facts.counts["requests"].values())),
            vehicles=self.requests(VEHICLE, OK),
            answered=self.answered(),
            refused=self.refused(lambda skill: skill != LEAD_SUBMIT.id),
            searches=self.searches(),
            asked=Words(
                make=self.words("make"),
                model=self.words("model"),
                body=self.words("body"),
                price=self.lines("price", price_label),
            ),
            not_found=Words(
                make=self.words("nothing_make"),
                model=self.words("nothing_model"),
                body=self.words("nothing_body"),
                price=self.lines("nothing_price", price_label),
            ),
            not_found_filters=self.lines("nothing_filter", filter_label),
            no_price=self.lines("no_price", self.unit),
            outside_price=self.lines("outside_price", self.unit),
            viewed=self.lines("viewed", self.unit),
            leads=self.leads(),
            agents=self.agents(),
            days=[Day(day, number) for day, number in sorted(self.facts.days.items())],
        )

    def figure(self, of: Callable[[Facts], int]) -> Figure:
        return Figure(of(self.facts), of(self.before))

    def lines(self, subject: Subject, label: Callable[[str], str]) -> list[ReportLine]:
        numbers, before = self.facts.counts[subject], self.before.counts[subject]
        return [ReportLine(item, label(item), numbers[item], before.get(item, 0)) for item in _most_frequent(numbers)]

    def words(self, subject: Subject) -> list[ReportLine]:
        return self.lines(subject, plain_label)

    def unit(self, vehicle_id: str) -> str:
        return unit_label(vehicle_id, *self.names.units.get(vehicle_id, (None, None)))

    def requests(self, skill: str, *outcomes: str) -> Figure:
        return self.figure(lambda facts: sum(facts.counts["requests"].get(f"{skill} {each}", 0) for each in outcomes))

    def answered(self) -> list[ReportLine]:
        found = [(skill, self.requests(skill.id, OK, DUPLICATE, REPEATED)) for skill in ALL_SKILLS]
        found = [(skill, each) for skill, each in found if not skill.is_extension or each.number or each.before]
        return [ReportLine(skill.id, skill.name, each.number, each.before) for skill, each in found]

    def refused(self, of: Callable[[str], bool]) -> list[ReportLine]:
        """The requests that were answered with an error, by its code, for the skills that `of` chooses."""
        now, before = (_by_code(facts, of) for facts in (self.facts, self.before))
        codes = sorted(now, key=lambda code: (-now[code], code))
        return [ReportLine(code, error_label(code), now[code], before.get(code, 0)) for code in codes]

    def searches(self) -> Searches:
        """The figures about searches."""

        def count(name: str) -> Figure:
            return self.figure(lambda facts: facts.counts["searches"].get(name, 0))

        return Searches(all=self.requests(SEARCH, OK), **{name: count(name) for name in get_args(SearchCount)})

    def leads(self) -> Leads:
        """The figures about leads and visits: stored, repeated and refused leads, and what became of visits."""
        return Leads(
            accepted=self.figure(lambda facts: facts.leads.leads),
            added=self.requests(LEAD_SUBMIT.id, DUPLICATE),
            repeated=self.requests(LEAD_SUBMIT.id, REPEATED),
            refused=[
                # With APPOINTMENT_TIME_UNAVAILABLE the lead is stored, only its visit has no time.
                line
                for line in self.refused(lambda skill: skill == LEAD_SUBMIT.id)
                if line.item != AppointmentTimeUnavailable.code
            ],
            visits=self.figure(lambda facts: facts.leads.visits),
            confirmed=self.figure(lambda facts: facts.leads.confirmed),
            cancelled=self.figure(lambda facts: facts.leads.cancelled),
        )

    def agents(self) -> list[Agent]:
        """The requests of each buyer agent."""
        now, before = (_by_agent(facts) for facts in (self.facts, self.before))

        def figure(agent: str, skill: str | None) -> Figure:
            return Figure(*(_of_skill(found.get(agent, {}), skill) for found in (now, before)))

        agents = [
            Agent(
                agent=agent,
                label=agent_label(agent, self.names.tokens),
                searches=figure(agent, SEARCH),
                vehicles=figure(agent, VEHICLE),
                leads=figure(agent, LEAD_SUBMIT.id),
                all=figure(agent, None),
            )
            for agent in now
        ]
        return sorted(agents, key=lambda each: (each.agent == OTHER, -each.all.number, each.agent))


def _most_frequent(numbers: Mapping[str, int]) -> list[str]:
    """The most frequent items, and then OTHER."""
    items = sorted(numbers.keys() - {OTHER}, key=lambda item: (-numbers[item], item))
    return items[:MOST_SHOWN] + [OTHER] * (OTHER in numbers)


def _by_code(facts: Facts, of: Callable[[str], bool]) -> dict[str, int]:
    """The number of requests with each error code, for the skills that `of` chooses."""
    found: dict[str, int] = {}
    for item, number in facts.counts["requests"].items():
        skill, _, outcome = item.partition(" ")
        if of(skill) and outcome not in (OK, DUPLICATE, REPEATED, ""):
            found[outcome] = found.get(outcome, 0) + number
    return found


def _by_agent(facts: Facts) -> dict[str, dict[str, int]]:
    """The answered requests by agent and skill."""
    found: dict[str, dict[str, int]] = {}
    for item, number in facts.counts["agents"].items():
        agent, _, skill = item.rpartition(" ")
        # OTHER alone is what was above the bound of the day.
        skills = found.setdefault(agent or OTHER, {})
        skills[skill] = skills.get(skill, 0) + number
    return found


def _of_skill(numbers: Mapping[str, int], skill: str | None) -> int:
    return sum(numbers.values()) if skill is None else numbers.get(skill, 0)


def read_report(tx: Transaction, profile: Profile, month: Month) -> Report:
    """The report of a month, up to now if the month is not over. Raises StorageError."""
    facts, before = _read_facts(tx, profile, month), _read_facts(tx, profile, month.previous)
    tokens = {token_caller(token.token_id).identity: token.name for token in list_tokens(tx)}
    return make_report(profile, month, facts, before, Names(tokens, find_units(tx, shown_units(facts))))


def default_month(tx: Transaction, profile: Profile, now: datetime) -> Month:
    """The last month that is over. In the first month of a service, it is this month. Raises StorageError."""
    current = Month.of(now, profile.timezone)
    started, counted = first_import(tx), first_day(tx)
    is_first = started is not None and started >= current.start(profile.timezone)
    is_first = is_first and (counted is None or counted > current.previous.last_day)
    return current if is_first else current.previous


def _read_facts(tx: Transaction, profile: Profile, month: Month) -> Facts:
    """The stored counts, leads and visits of a month."""
    return Facts(
        sum_counts(tx, month.first_day, month.last_day),
        count_leads(tx, month.start(profile.timezone), month.end(profile.timezone)),
        requests_by_day(tx, month.first_day, month.last_day),
    )
