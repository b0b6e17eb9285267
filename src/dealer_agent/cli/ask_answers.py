"""What `dealer-agent ask` prints of a response for people."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import msgspec
from msgspec import UNSET
from rich.text import Text

from dealer_agent.cli.tables import Table
from dealer_agent.cli.terminal import Cell, cell_text, counted, out, plain, section
from dealer_agent.client import SubmittedLead
from dealer_agent.protocol.responses import Facets, Rooftop, Week
from dealer_agent.protocol.skill import DealerInformation
from dealer_agent.protocol.vehicle import FIELDS, Vehicle

_COLUMNS = ("Vehicle", "Condition", "Price", "Miles", "Stock", "VIN", "Rooftop")


def print_vehicles(vehicles: Sequence[Vehicle], total: int, skip: int) -> None:
    """A table of search results. `total` counts all matching vehicles."""
    last = skip + len(vehicles)
    title = counted(total, "vehicle") if len(vehicles) == total else f"{skip + 1:,} to {last:,} of {total:,} vehicles"
    Table(title, _COLUMNS, [_row(vehicle) for vehicle in vehicles], empty="No vehicle matches.").show()


def _row(vehicle: Vehicle) -> tuple[Cell, ...]:
    name = " ".join(str(value) for value in (vehicle.year, vehicle.make, vehicle.model, vehicle.trim) if value)
    return (
        name,
        vehicle.condition or None,
        _dollars(vehicle.price),
        cell_text(vehicle.mileage) if vehicle.mileage is not UNSET else None,
        vehicle.stock or None,
        vehicle.vin or None,
        vehicle.rooftop,
    )


def _dollars(amount: Any) -> str | None:
    return f"${amount:,}" if isinstance(amount, int) else None


def print_vehicle(vehicle: Vehicle) -> None:
    """All members of one vehicle."""
    members = msgspec.to_builtins(vehicle)
    name = " ".join(str(members[each]) for each in ("year", "make", "model", "trim") if each in members)
    out.print(Text(plain(name or vehicle.vehicle_id), style="bold"))
    for member in [*(each for each in FIELDS if each in members), *members.keys() - FIELDS.keys()]:
        label = FIELDS[member].field.label if member in FIELDS else member.replace("_", " ").capitalize()
        out.print(f"  {label}: {_text(_value(member, members[member]))}")


def _value(member: str, value: Any) -> str:
    """A member of a listing in words: money with a dollar sign, other numbers with their unit, lists with commas."""
    row = FIELDS.get(member)
    reader = row.feed.reader if row and row.feed else ""
    if member == "fees":
        return _fees(value)
    if reader == "dollars" or member == "offered_price":
        return f"${value:,}"
    if reader == "photos":
        return f"{len(value)}, the first: {value[0]}" if value else "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_value('', each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_value("", each) for each in value)
    if reader == "miles":
        return f"{value:,} miles"
    number = f"{value:g}" if isinstance(value, float) else value
    return f"{number}{row.lead_fact.unit if row and row.lead_fact else ''}"


def _fees(fees: Sequence[Any]) -> str:
    return ", ".join(f"{fee['name']} ${fee['amount']:,}" for fee in fees) or "none"


def _text(text: str) -> str:
    return "\n    ".join(plain(text).splitlines())


def print_facets(facets: Facets) -> None:
    """A table with a row for each facet: the values with their counts, or the least and the greatest value."""
    rows = [(name.replace("_", " "), _facet(value)) for name, value in msgspec.to_builtins(facets).items()]
    Table("What is in stock", ("Facet", "Values"), rows, empty="No vehicle matches.").show()


def _facet(facet: Any) -> str:
    if isinstance(facet, dict):
        return f"{_number(facet['min'])} to {_number(facet['max'])}"
    return ", ".join(f"{each['value']} ({each['count']:,})" for each in facet)


def _number(number: float) -> str:
    """A year has no thousands separator."""
    return f"{number:,}" if number >= 10_000 else str(number)


def print_information(dealer: DealerInformation) -> None:
    """The dealer and each rooftop."""
    out.print(Text(plain(dealer.name), style="bold"))
    if dealer.welcome_message:
        out.print(plain(dealer.welcome_message))
    for rooftop in dealer.rooftops:
        section(plain(rooftop.name), dict(_rooftop(rooftop)))


def _rooftop(rooftop: Rooftop) -> Iterator[tuple[str, str]]:
    members = msgspec.to_builtins(rooftop)
    if address := members.get("address"):
        yield "address", ", ".join(str(value) for value in address.values())
    for kind in ("phones", "emails"):
        if members.get(kind):
            yield kind, ", ".join(f"{each['name']} {each['value']}" for each in members[kind])
    for schedule in rooftop.schedules or ():
        yield f"hours of {schedule.name}", hours_text(schedule.value)
    for kind in ("website", "timezone", "notes"):
        if members.get(kind):
            yield kind, members[kind]
    if members.get("capabilities"):
        yield "capabilities", ", ".join(members["capabilities"])
    if "fees" in members:
        yield "fees", _fees(members["fees"])


def hours_text(week: Week) -> str:
    """The hours of a week, for example `Mon-Fri 09:00-20:00, Sat 10:00-16:00, Sun closed`."""
    days = [(day[:3].capitalize(), getattr(week, day)) for day in week.__struct_fields__]
    texts = []
    for hours, group in groupby(days, key=lambda day: day[1]):
        names = [name for name, _ in group]
        span = names[0] if len(names) == 1 else f"{names[0]}-{names[-1]}"
        texts.append(f"{span} {f'{hours.open}-{hours.close}' if hours else 'closed'}")
    return ", ".join(texts)


def print_lead(lead: SubmittedLead) -> None:
    """What became of a lead."""
    out.print(Text(f"The dealer has the lead: {plain(lead.status)}", style="bold"))
    shown: dict[str, Any] = {"lead": lead.lead_id, "idempotency key": lead.idempotency_key}
    if lead.appointment:
        shown |= {
            f"appointment {name.removeprefix('appointment_')}": value
            for name, value in msgspec.to_builtins(lead.appointment).items()
        }
    if lead.dealer:
        shown |= {f"dealer {name}": value for name, value in msgspec.to_builtins(lead.dealer).items()}
    for name, value in shown.items():
        out.print(f"  {name.replace('_', ' ')}: {_text(_value('', value))}")
    if lead.message:
        out.print(plain(lead.message))
