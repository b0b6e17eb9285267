"""The page at `/`: who the dealer is, what is in stock, and what an agent can ask."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import phonenumbers
from msgspec import UNSET, UnsetType

from dealer_agent.apidocs.skill_docs import SKILL_DOCS
from dealer_agent.dealers.opening import DAY, DepartmentHours, Spans
from dealer_agent.leads.us_formats import money
from dealer_agent.protocol.card import CardFacts
from dealer_agent.protocol.responses import Facets, IntRange, PostalAddress, Rooftop, TextCount
from dealer_agent.protocol.skill import DealerInformation
from dealer_agent.server.pages.site import render

BARS = 12
"""The number of makes that are always visible. The others are in a closed section below them."""

_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

_CONDITIONS = {"new": "New", "used": "Used", "cpo": "Certified pre-owned"}

_LABELS = {
    "suv": "SUV",
    "gas": "Gasoline",
    "hybrid": "Hybrid",
    "phev": "Plug-in hybrid",
    "bev": "Electric",
    "flex": "Flex fuel",
    "rv": "RV",
    "ev_charging": "EV charging",
}
"""Values whose English label is more than a capital letter."""


@dataclass(frozen=True)
class Bar:
    """A bar of a chart: label, count, and the width and start in percent."""

    label: str
    count: int
    width: float
    start: float = 0.0
    kind: str = ""


@dataclass(frozen=True)
class HoursRow:
    """Consecutive days with the same hours. `today`: today is one of them, and is not a special day."""

    days: str
    hours: str
    today: bool


def home_page(
    information: DealerInformation,
    facets: Facets,
    total: int,
    facts: CardFacts,
    *,
    opening: Mapping[str, Mapping[str, DepartmentHours]],
    updated_at: datetime | None,
    now: datetime,
) -> str:
    """The page about the dealer. `facets` and `total` are of the whole stock; `updated_at` is its last import.

    `opening` has the hours of the departments of each rooftop, by the rooftop's name. Each rooftop's own zone decides
    which day `now` is.
    """
    makes = _bars(facets.makes)
    return render(
        "home.html",
        facts,
        dealer=information.name,
        welcome=information.welcome_message or None,
        total=total,
        makes=makes[:BARS],
        more_makes=makes[BARS:],
        conditions=_split(facets.conditions, total),
        price_range=_range(facets.price_range, money),
        year_range=_range(facets.year_range),
        details=[
            (heading, [Bar(label_of(bar.label), bar.count, bar.width) for bar in _bars(found)[:6]])
            for heading, found in (("Body styles", facets.bodies), ("Fuel", facets.fuels))
            if found
        ],
        places=[
            _place(rooftop, opening.get(rooftop.name, {}), facets.rooftops, now) for rooftop in information.rooftops
        ],
        updated_at=_local(updated_at, information.rooftops[0].timezone if information.rooftops else UNSET),
        skills=[(skill, SKILL_DOCS[skill]) for skill in facts.skills],
    )


def label_of(word: str) -> str:
    """The English label of a value."""
    plain = word.replace("_", " ")
    return _LABELS.get(word) or plain[:1].upper() + plain[1:]


def _bars(counts: list[TextCount] | UnsetType) -> list[Bar]:
    most = max((entry.count for entry in counts or ()), default=0) or 1
    return [Bar(entry.value, entry.count, round(100 * entry.count / most, 2)) for entry in counts or ()]


def _split(counts: list[TextCount] | UnsetType, total: int) -> list[Bar]:
    known = [
        (_CONDITIONS[entry.value], entry.count, entry.value) for entry in counts or () if entry.value in _CONDITIONS
    ]
    rest = total - sum(count for _, count, _ in known)
    if rest > 0:
        known.append(("Not stated", rest, "unstated"))
    stretches: list[Bar] = []
    start = 0.0
    for label, count, kind in known:
        width = round(100 * count / max(total, 1), 2)
        stretches.append(Bar(label, count, width, round(start, 2), kind))
        start += width
    return stretches


def _range(found: IntRange | UnsetType, words: Callable[[int], str] = str) -> str | None:
    if not found:
        return None
    return " \u2013 ".join(map(words, dict.fromkeys((found.min, found.max))))


def _zone(name: str | UnsetType) -> ZoneInfo | None:
    try:
        return ZoneInfo(name) if name else None
    except (ZoneInfoNotFoundError, ValueError):
        return None


def _local(moment: datetime | None, zone: str | UnsetType) -> tuple[str, str] | None:
    """A time in ISO 8601 and in English, in the zone; in UTC if the zone is not known."""
    if moment is None:
        return None
    local = moment.astimezone(_zone(zone) or UTC)
    clock = f"{local:%I:%M %p}".lstrip("0")
    return local.isoformat(timespec="minutes"), f"{local:%B} {local.day}, {local.year}, {clock} {local:%Z}"


def _place(
    rooftop: Rooftop, opening: Mapping[str, DepartmentHours], stock: list[TextCount] | UnsetType, now: datetime
) -> dict[str, object]:
    """The values of a rooftop for the template."""
    zone = _zone(rooftop.timezone)
    today = now.astimezone(zone).date() if zone else None
    count = next((entry.count for entry in stock or () if entry.value == rooftop.name), None)
    return dict(  # noqa: C408 - the keys are names in the template
        rooftop=rooftop,
        website=rooftop.website if rooftop.website and _is_web_address(rooftop.website) else "",
        address=_address(rooftop.address),
        phones=[(label_of(named.name), *_phone(named.value)) for named in rooftop.phones or () if named.value],
        emails=[(label_of(named.name), named.value) for named in rooftop.emails or ()],
        today=_today(next(iter(opening.values()), None), today),
        hours=[(label_of(department), _hours(hours, today)) for department, hours in opening.items()],
        capabilities=[label_of(word) for word in rooftop.capabilities or () if word],
        fees=None if rooftop.fees is UNSET else [(fee.name, money(fee.amount)) for fee in rooftop.fees],
        in_stock=count,
    )


def _today(hours: DepartmentHours | None, today: date | None) -> str:
    if hours is None or today is None:
        return ""
    spans = hours.on(today)
    return f"Open today {_open(spans)}" if spans else "Closed today"


def _is_web_address(text: str) -> bool:
    """Whether a text may become a link. A `javascript:` URL must not."""
    try:
        return urlsplit(text).scheme in ("http", "https")
    except ValueError:
        return False


def _address(address: PostalAddress | UnsetType) -> list[str]:
    if not address:
        return []
    country = [address.country] if address.country != "US" else []
    lines = [address.address_line_1, address.address_line_2 or "", f"{address.city}, {address.state} {address.zip}"]
    return [line for line in (*lines, *country) if line]


def _phone(value: str) -> tuple[str, str]:
    """A phone number for people, and as E.164 for `tel:`; the latter is empty if the number is not valid."""
    try:
        number = phonenumbers.parse(value, "US")
    except phonenumbers.NumberParseException:
        return value, ""
    national = number.country_code == 1
    style = phonenumbers.PhoneNumberFormat.NATIONAL if national else phonenumbers.PhoneNumberFormat.INTERNATIONAL
    dialled = phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)
    return phonenumbers.format_number(number, style), dialled


def _hours(hours: DepartmentHours, today: date | None) -> list[HoursRow]:
    """The rows of the week. Consecutive days with the same hours share a row."""
    # If today is a special day, its hours are not those of any row.
    usual = today.weekday() if today is not None and hours.on(today) == hours.week[today.weekday()] else None
    rows: list[HoursRow] = []
    first = 0
    for index, spans in enumerate(hours.week):
        if hours.week[index + 1 : index + 2] == (spans,):
            continue
        days = _WEEKDAYS[first] if first == index else f"{_WEEKDAYS[first][:3]} \u2013 {_WEEKDAYS[index][:3]}"
        rows.append(HoursRow(days, _open(spans), usual is not None and first <= usual <= index))
        first = index + 1
    return rows


def _open(spans: Spans) -> str:
    if spans == ((0, DAY),):
        return "24 hours"
    return ", ".join(f"{_clock(opens)} \u2013 {_clock(closes)}" for opens, closes in spans) or "Closed"


def _clock(minute: int) -> str:
    hour, minute = divmod(minute, 60)
    return f"{hour % 12 or 12}{f':{minute:02}' if minute else ''} {'AM' if hour % 24 < 12 else 'PM'}"
