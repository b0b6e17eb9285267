"""Makes the page at `/`: who the dealer is, what is in stock, and what an agent can ask."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, datetime
from zoneinfo import ZoneInfo

from msgspec import UnsetType

from dealer_agent.apidocs.examples import SKILL_DOCS
from dealer_agent.dealers.information import dealer_information
from dealer_agent.dealers.opening import DAY, DepartmentHours, Spans, department_hours
from dealer_agent.dealers.profile import DealerRooftop, Profile
from dealer_agent.leads.us_formats import clock_time, money
from dealer_agent.protocol.card import CardFacts
from dealer_agent.protocol.responses import Facets, IntRange, Rooftop, TextCount
from dealer_agent.server.pages.site import label_of, render
from dealer_agent.server.pages.structured_data import structured_data
from dealer_agent.server.pages.vehicles import CONDITIONS as _CONDITIONS
from dealer_agent.server.pages.vehicles import VEHICLES_PATH

BARS = 12
"""The number of makes that are always visible. The others are in a closed section below them."""

_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True)
class ChartBar:
    """A bar of a chart: label, count, and the width and start in percent."""

    label: str
    count: int
    width: float
    start: float = 0.0
    kind: str = ""


def home_page(
    profile: Profile,
    facets: Facets,
    total: int,
    facts: CardFacts,
    *,
    updated_at: datetime | None,
    now: datetime,
    has_vehicle_pages: bool = False,
) -> str:
    """The page about the dealer. `facets` and `total` are of the whole stock; `updated_at` is its last import.

    Each rooftop's own zone decides which day `now` is.
    """
    information = dealer_information(profile)
    makes = _bars(facets.makes)
    return render(
        "home.html",
        facts,
        dealer=information.name,
        welcome=information.welcome_message or None,
        total=total,
        vehicles_path=VEHICLES_PATH if has_vehicle_pages and total else None,
        makes=makes[:BARS],
        more_makes=makes[BARS:],
        conditions=_condition_bar(facets.conditions, total),
        price_range=_range(facets.price_range, money),
        year_range=_range(facets.year_range),
        details=[
            (heading, [replace(bar, label=label_of(bar.label)) for bar in _bars(found)[:6]])
            for heading, found in (("Body styles", facets.bodies), ("Fuel", facets.fuels))
            if found
        ],
        places=[
            _place(public, rooftop, facets.rooftops, now)
            for public, rooftop in zip(information.rooftops, profile.rooftops, strict=True)
        ],
        # A guessed time zone is not published.
        updated_at=updated_at and _local(updated_at, information.rooftops[0].timezone or "UTC"),
        skills=[(skill, SKILL_DOCS[skill]) for skill in facts.skills],
        structured_data=structured_data(information, profile.rooftops, facets, total, now),
    )


def _bars(counts: list[TextCount] | UnsetType) -> list[ChartBar]:
    most = max((entry.count for entry in counts or ()), default=0) or 1
    return [ChartBar(entry.value, entry.count, round(100 * entry.count / most, 2)) for entry in counts or ()]


def _condition_bar(counts: list[TextCount] | UnsetType, total: int) -> list[ChartBar]:
    """A bar with a stretch for each condition, and one for vehicles without a condition."""
    conditions = [
        (_CONDITIONS[entry.value], entry.count, entry.value) for entry in counts or () if entry.value in _CONDITIONS
    ]
    rest = total - sum(count for _, count, _ in conditions)
    if rest > 0:
        conditions.append(("Not stated", rest, "unstated"))
    stretches: list[ChartBar] = []
    start = 0.0
    for label, count, kind in conditions:
        width = round(100 * count / max(total, 1), 2)
        stretches.append(ChartBar(label, count, width, round(start, 2), kind))
        start += width
    return stretches


def _range(bounds: IntRange | UnsetType, words: Callable[[int], str] = str) -> str | None:
    if not bounds:
        return None
    return " \u2013 ".join(map(words, dict.fromkeys((bounds.min, bounds.max))))


def _local(moment: datetime, zone: str) -> tuple[str, str]:
    """A time in ISO 8601 and in English, in the zone."""
    local = moment.astimezone(ZoneInfo(zone))
    words = f"{local:%B} {local.day}, {local.year}, {clock_time(moment, zone)} {local:%Z}"
    return local.isoformat(timespec="minutes"), words


def _place(
    public: Rooftop, rooftop: DealerRooftop, stock: list[TextCount] | UnsetType, now: datetime
) -> dict[str, object]:
    """The values of a rooftop for the template."""
    today = now.astimezone(ZoneInfo(rooftop.timezone)).date()
    opening = department_hours(rooftop)
    return {
        "rooftop": public,
        "today": next((_today(hours.on(today)) for hours in opening.values()), ""),
        "hours": [(label_of(department), _hours(hours, today)) for department, hours in opening.items()],
        "in_stock": next((entry.count for entry in stock or () if entry.value == rooftop.name), None),
    }


def _today(spans: Spans) -> str:
    return f"Open today {_open(spans)}" if spans else "Closed today"


def _hours(hours: DepartmentHours, today: date) -> list[tuple[str, str, bool]]:
    """The rows of the week: days, hours, and whether today is one of the days. Consecutive days with the same hours
    share a row."""
    # If today is a special day, its hours are not those of any row.
    usual = today.weekday() if hours.on(today) == hours.week[today.weekday()] else None
    rows = []
    first = 0
    for index, spans in enumerate(hours.week):
        if hours.week[index + 1 : index + 2] == (spans,):
            continue
        days = _WEEKDAYS[first] if first == index else f"{_WEEKDAYS[first][:3]} \u2013 {_WEEKDAYS[index][:3]}"
        rows.append((days, _open(spans), usual is not None and first <= usual <= index))
        first = index + 1
    return rows


def _open(spans: Spans) -> str:
    if spans == ((0, DAY),):
        return "24 hours"
    return ", ".join(f"{_clock(opens)} \u2013 {_clock(closes)}" for opens, closes in spans) or "Closed"


def _clock(minute: int) -> str:
    hour, minute = divmod(minute, 60)
    return f"{hour % 12 or 12}{f':{minute:02}' if minute else ''} {'AM' if hour % 24 < 12 else 'PM'}"
