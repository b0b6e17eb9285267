"""The text of a result and of an error: short, and readable for a model, or for a person at a terminal. Pure.

A line about a member begins with the member's name: requests and the JSON document have the same name.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from itertools import groupby
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dealer_agent.protocol.errors import ERRORS
from dealer_agent.protocol.skill import (
    DEALER_INFORMATION,
    INVENTORY_FACETS,
    INVENTORY_SEARCH,
    INVENTORY_VEHICLE,
    LEAD_STATUS,
    LEAD_SUBMIT,
    OFFER_HOLD,
    OFFER_QUOTE,
    OFFER_RELEASE,
    OFFER_STATUS,
    VISIT_CANCEL,
    VISIT_MOVE,
    Skill,
)
from dealer_agent.protocol.timestamps import in_zone, parse_timestamp, zone_abbreviation
from dealer_agent.protocol.vehicle import FIELDS

Json = dict[str, Any]

MOST_VALUES: Final = 12
"""The most values of a facet in the text. The structured result has all of them."""
MOST_ENTRIES: Final = 40
"""The most entries of a list of a vehicle or rooftop in the text."""
LONGEST: Final = 2_000
"""Characters of a value in the text."""


@dataclass(frozen=True)
class SkillData:
    """What a skill answered: `data` of the response, and its `message` for the buyer.

    `lines` are further lines of the text, which a dealer's own server knows: the price in lines.
    """

    data: Json
    message: str | None = None
    lines: Sequence[str] = ()


@dataclass(frozen=True)
class SkillError:
    """Why a skill did not answer: an error of the protocol (docs/protocol.md#errors). `error_id` is that of the log."""

    code: str
    message: str
    details: Mapping[str, Any] = field(default_factory=dict)
    error_id: str = ""


def error_text(error: SkillError) -> str:
    """Code, message, every problem with its pointer, and what to do."""
    problems = error.details.get("errors")
    problems = problems if isinstance(problems, list) else []
    # The message repeats the problems.
    lines = [f"{error.code}: The arguments are wrong." if problems else f"{error.code}: {error.message}"]
    for problem in problems:
        received = f" (received {_short(problem['received'])})" if "received" in problem else ""
        lines.append(f"- {problem.get('instancePath') or 'the arguments'}: {problem.get('message', '')}{received}")
    left_out = error.details.get("errors_left_out")
    if left_out:
        lines.append(f"- and {left_out} more problems")
    named = {name: value for name, value in error.details.items() if name not in _SAID}
    lines += [f"{name}: {_short(value)}" for name, value in named.items()]
    known = ERRORS.get(error.code)
    if problems:
        lines.append("What to do: repair every problem, then call again.")
    elif known is not None and known.action:
        lines.append(f"What to do: {known.action.replace('`', '')}")
    return "\n".join(lines)


_SAID = ("errors", "errors_left_out", "in", "instancePath", "received")
"""Members of the details that the problems repeat."""


def result_text(skill: Skill, answer: SkillData) -> str:
    """A short text about the result of a tool."""
    try:
        return "\n".join((_TEXTS[skill](answer.data, answer.message), *answer.lines))
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        # A foreign dealer agent. The reader of the structured result may still understand it.
        return (
            "The response of the dealer does not have the form that the protocol requires. Tell the person that it "
            "cannot be read."
        )


def _information(data: Json, _: str | None) -> str:
    """The text about the dealer: its rooftops with addresses, phones and hours."""
    lines = [_short(data["name"]), _short(data.get("welcome_message", ""))]
    for rooftop in data.get("rooftops", ()):
        address = rooftop.get("address", {})
        lines.append(f"Rooftop: {_joined([rooftop['name'], *(address.get(part) for part in _ADDRESS)])}")
        for kind in ("phones", "emails"):
            lines += [f"- {each['name']}: {each['value']}" for each in rooftop.get(kind, ())]
        for schedule in rooftop.get("schedules", ()):
            lines.append(f"- hours of {schedule['name']}: {', '.join(_hours(schedule['value']))}")
        lines += _members(rooftop, besides=("name", "address", "phones", "emails", "schedules", "geo"))
    return "\n".join(filter(None, lines))


_ADDRESS = ("address_line_1", "address_line_2", "city", "state", "zip")


def _hours(week: Json) -> Iterator[str]:
    """The hours of a week, such as `Mon-Fri 09:00-20:00` and `Sun closed`."""
    for hours, group in groupby(week.items(), key=lambda day: day[1]):
        names = [day[:3].capitalize() for day, _ in group]
        span = names[0] if len(names) == 1 else f"{names[0]}-{names[-1]}"
        yield f"{span} closed" if hours is None else f"{span} {hours['open']}-{hours['close']}"


def _facets(data: Json, _: str | None) -> str:
    lines = [f"{name}: {facet_text(facet, MOST_VALUES)}" for name, facet in data.items()]
    return "\n".join(lines) or "No vehicle matches. Leave a filter out."


def facet_text(facet: Any, most: int | None = None) -> str:
    """The values of a facet with their counts, at most so many, or the least and the greatest value."""
    if isinstance(facet, dict):
        return " to ".join(f"{facet[end]:,}" if facet[end] >= _WITH_SEPARATOR else str(facet[end]) for end in _ENDS)
    more = "" if most is None or len(facet) <= most else f" and {len(facet) - most} more"
    return ", ".join(f"{_short(each['value'])} ({each['count']:,})" for each in facet[:most]) + more


_ENDS = ("min", "max")
_WITH_SEPARATOR = 10_000
"""A smaller number may be a year, which has no thousands separator."""


def _page(data: Json, _: str | None) -> str:
    """The text about a page of vehicles, and how to get the next one."""
    vehicles, total, skip = data["vehicles"], data["total"], data["skip"]
    if not vehicles:
        return f"{total} vehicles match. None is on this page." if total else "No vehicle matches. Leave a filter out."
    lines = [f"{total} vehicles match. Here are {skip + 1} to {skip + len(vehicles)}:"]
    lines += [f"{number}. {_vehicle_words(vehicle)}" for number, vehicle in enumerate(vehicles, skip + 1)]
    if skip + len(vehicles) < total:
        lines.append(f"For more, call again with pagination.skip {skip + len(vehicles)}.")
    return "\n".join(lines)


def _vehicle(data: Json, _: str | None) -> str:
    lines = "\n".join([_vehicle_words(data), *_members(data, besides=_IN_FIRST_LINE)])
    return lines.replace("\n- fees: ", "\n- fees, inside the price: ")


_IN_FIRST_LINE = ("year", "make", "model", "trim", "condition", "price", "mileage", "rooftop", "stock", "vehicle_id")


def _members(data: Json, besides: Sequence[str]) -> list[str]:
    """A line for each other member."""
    return [f"- {name}: {_short(_value(name, value))}" for name, value in data.items() if name not in besides]


def _value(name: str, value: Any) -> str:
    """A member in words: money with a dollar sign, numbers with their unit. A list of objects has their values."""
    row = FIELDS.get(name)
    reader = row.feed.reader if row and row.feed else ""
    match value:
        case [first, *_] if reader == "photos":
            return f"{len(value)}, the first: {first}"
        case list() | tuple():
            more = f" and {len(value) - MOST_ENTRIES} more" if len(value) > MOST_ENTRIES else ""
            return ", ".join(_value("", each) for each in value[:MOST_ENTRIES]) + more
        case dict():
            return " ".join(_value(member, each) for member, each in value.items())
        case bool():
            return "yes" if value else "no"
        case int() if reader == "dollars" or name in ("offered_price", "amount"):
            return f"${value:,}"
        case int() | float():
            return f"{value:,}{row.lead_fact.unit if row and row.lead_fact else ''}"
    return str(value)


def _vehicle_words(vehicle: Json) -> str:
    """One line: what it is, its price and mileage, where it is, and how to name it in the next call."""
    name = " ".join(_short(vehicle[part]) for part in ("year", "make", "model", "trim") if part in vehicle)
    status = _short(vehicle.get("status", _FOR_SALE))
    price = f"${vehicle['price']:,}" if isinstance(vehicle.get("price"), int) else "price unknown"
    mileage = f"{vehicle['mileage']:,} miles" if isinstance(vehicle.get("mileage"), int) else None
    stock = f"stock {_short(vehicle['stock'])}" if "stock" in vehicle else None
    known = f"vehicle_id {vehicle['vehicle_id']}" if "vehicle_id" in vehicle else None
    kind = [vehicle.get("condition"), None if status == _FOR_SALE else status]
    return _joined([name or "vehicle", *kind, price, mileage, vehicle.get("rooftop"), stock, known])


_FOR_SALE = "available"


def vehicle_title(vehicle: Mapping[str, Any]) -> str:
    """A vehicle for a person, such as `2022 Ford Escape Platinum, used, $25,494, stock U26132`."""
    return _vehicle_words({name: vehicle[name] for name in _TITLE if name in vehicle})


_TITLE = ("year", "make", "model", "trim", "condition", "price", "stock")


def readable_time(text: str, zone: tzinfo | None = None) -> str:
    """A time as a person reads it: `Saturday, November 28, 2026, 10:00 AM`. With `zone`, in this zone, with its name.

    A time without an offset is one of `zone`. Anything else stays as it is.
    """
    moment = parse_timestamp(text)
    if moment is None:
        return _short(text)
    if zone is not None:
        moment = in_zone(moment, zone) if moment.tzinfo else moment.replace(tzinfo=zone)
    hour = f"{moment.hour % 12 or 12}:{moment:%M} {'AM' if moment.hour < _NOON else 'PM'}"
    name = f" {zone_abbreviation(moment)}" if zone is not None else ""
    return f"{moment:%A, %B} {moment.day}, {moment.year}, {hour}{name}"


_NOON = 12


def more_text(skill: Skill, data: Mapping[str, Any], arguments: Mapping[str, Any], now: datetime) -> str:
    """What a model needs beyond `result_text`: the local times of the rooftops, and what to do without a match."""
    if skill is DEALER_INFORMATION:
        return f"\n{_local_times(data, now)}"
    if (skill is INVENTORY_SEARCH and data["total"] == 0) or (skill is INVENTORY_FACETS and not data):
        return f" {_without_match(arguments.get('filters', {}))}"
    return ""


def _without_match(filters: Json) -> str:
    """What a model can do if no vehicle matches."""
    given = [name for name, value in filters.items() if value not in ([], None)]
    words = len(str(filters.get("query", "")).split())
    if words > MOST_QUERY_WORDS:
        return (
            f"`query` has {words} words, and a listing must have every one: leave one or two words of a listing there, "
            "and put prices, makes, fuels and bodies into their filters."
        )
    return (
        f"The filters are {', '.join(given)}: call inventory_facets with all but one of them to see which one finds "
        "nothing, and tell the person which wish the dealer cannot meet."
        if len(given) > 1
        else "Call inventory_facets without filters to see what the dealer has."
    )


MOST_QUERY_WORDS: Final = 3
"""A longer query is probably a sentence."""


def _local_times(data: Mapping[str, Any], now: datetime) -> str:
    """The time at each rooftop of `dealer.information`: a model seldom knows which day it is."""
    zones = {name for each in data["rooftops"] if isinstance(name := each.get("timezone"), str)}
    known = {name: zone for name in sorted(zones) if (zone := zone_named(name)) is not None}
    return "\n".join(f"Local time ({name}): {readable_time(now.isoformat(), zone)}" for name, zone in known.items())


def zone_named(name: str) -> tzinfo | None:
    """The IANA time zone of this name."""
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, ZoneInfoNotFoundError):
        return None


def _lead(data: Json, message: str | None) -> str:
    """The text about a lead: its status, its visit and its id."""
    status = {"received": "The dealer has the lead.", "duplicate": "The dealer already had this lead."}
    lines = [status.get(data.get("status", ""), f"Status of the lead: {data.get('status')}."), message or ""]
    if visit := data.get("appointment"):
        windows = [visit.get("confirmed_window"), *visit.get("proposed_slots", ())]
        times = [
            visit.get("confirmed_at"),
            *visit.get("proposed_times", ()),
            *(each["start"] for each in windows if each),
        ]
        said = "; ".join(f"{readable_time(each)} ({each})" for each in times if each)
        lines.append(f"Visit: {visit['status']}{' ' + said if said else ''}.")
        if visit["status"] == "proposed":
            lines.append("Nothing is booked: ask the person which of these times suits, and send it as a new lead.")
    lines.append(f"Lead id: {data.get('lead_id')}.")
    return "\n".join([*filter(None, lines), *_members(data, besides=("status", "appointment", "lead_id", "message"))])


def _quote(data: Json, _: str | None) -> str:
    """The text about a quote: each line, the sums, and what they do not have."""
    money = _money_in(data["currency"])
    lines = [f"{_vehicle_words({**data['vehicle'], 'price': None})}:"]
    lines += [f"- {_short(each['label'])}: {money(each['amount'])}{_kind_of_line(each)}" for each in data["lines"]]
    lines.append(f"Price: {money(data['price'])}, firm until {readable_time(data['valid_until'])} UTC.")
    missing = "" if data["complete"] else f" without {', '.join(data['missing'])}, which this dealer does not state"
    lines += [f"Total: {money(data['total'])}{missing}.", _short(data["terms"]), f"quote_id {data['quote_id']}"]
    return "\n".join(lines)


def _kind_of_line(line: Json) -> str:
    return "" if line["firm"] else " (estimate)"


def _money_in(currency: str) -> Callable[[int | float], str]:
    sign = "$" if currency == "USD" else f"{currency} "
    return lambda amount: f"{'-' if amount < 0 else ''}{sign}{abs(amount):,.2f}".removesuffix(".00")


def _hold(data: Json, _: str | None) -> str:
    """The text about a hold."""
    holds = data["status"] in ("active", "became_lead")
    state = f"held until {readable_time(data['expires_at'])} UTC" if holds else f"not held: {data['status']}"
    price = _money_in(data["currency"])(data["price"])
    return f"The vehicle is {state}, at {price}. {_short(data['terms'])}\nhold_id {data['hold_id']}"


def _lead_state(data: Json, _: str | None) -> str:
    """The text about a lead that was sent before, and its visits."""
    lines = [f"Status of the lead: {data['status']}."]
    for visit in filter(None, (data.get("visit"), *data.get("other_visits", ()))):
        at = f" {readable_time(visit['at'])} ({visit['at']})" if "at" in visit else ""
        lines.append(f"Visit: {visit['status']}{at}, {_short(visit['place']['name'])}, id {visit['appointment_id']}.")
        if times := visit.get("alternatives"):
            lines.append(f"Free times: {'; '.join(f'{readable_time(each)} ({each})' for each in times)}.")
    return "\n".join(lines)


_TEXTS: Final[Mapping[Skill, Callable[[Json, str | None], str]]] = {
    DEALER_INFORMATION: _information,
    INVENTORY_FACETS: _facets,
    INVENTORY_SEARCH: _page,
    INVENTORY_VEHICLE: _vehicle,
    LEAD_SUBMIT: _lead,
    OFFER_QUOTE: _quote,
    OFFER_HOLD: _hold,
    OFFER_RELEASE: _hold,
    OFFER_STATUS: _hold,
    LEAD_STATUS: _lead_state,
    VISIT_MOVE: _lead_state,
    VISIT_CANCEL: _lead_state,
}


def _joined(parts: Sequence[object]) -> str:
    return ", ".join(_short(part) for part in parts if part)


def _short(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
