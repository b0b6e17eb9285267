"""Times, places and telephone numbers as people in the United States say them. Pure."""

from collections.abc import Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

import phonenumbers

from dealer_agent.protocol.formats import in_zone

_AMERICAN = {"E": "Eastern", "C": "Central", "M": "Mountain", "P": "Pacific", "AK": "Alaska", "H": "Hawaii"}
"""What stands before `ST` and `DT` in the abbreviations of American zones."""


def day_and_time(moment: datetime, zone: str, now: datetime) -> str:
    """`Thursday, March 12 at 10:30 AM` on the clock of the IANA zone; with the year where it is not the current one."""
    local, today = (instant.astimezone(ZoneInfo(zone)) for instant in (moment, now))
    year = "" if local.year == today.year else f", {local.year}"
    return f"{local:%A, %B} {local.day}{year} at {clock_time(moment, zone)}"


def clock_time(moment: datetime, zone: str) -> str:
    """`10:30 AM` on the clock of the IANA zone."""
    return f"{in_zone(moment, ZoneInfo(zone)):%I:%M %p}".lstrip("0")


def zone_name(zone: str, moment: datetime) -> str:
    """What the people there call the time of their clocks: `Central time`; elsewhere the zone's city, `Paris time`."""
    if zone == "America/Phoenix":
        # Mountain time the whole year: in summer the rest of the mountains is an hour ahead.
        return "Arizona time"
    shown = moment.astimezone(ZoneInfo(zone)).tzname() or ""
    region, _, city = zone.rpartition("/")
    if region.startswith(("America", "US")) or zone == "Pacific/Honolulu":
        name = _AMERICAN.get(shown.removesuffix("ST").removesuffix("DT"))
        if name and shown.endswith(("ST", "DT")):
            return f"{name} time"
    if not region or region == "Etc":
        return shown
    return f"{city.replace('_', ' ')} time"


def phone_number(e164: str) -> str:
    """`+1 202-555-0140` of a number as E.164."""
    number = phonenumbers.parse(e164, None)
    return phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.INTERNATIONAL)


def either(choices: Sequence[str]) -> str:
    """`a`, `a or b`, `a, b, or c`; at least one."""
    if len(choices) < 3:
        return " or ".join(choices)
    return f"{', '.join(choices[:-1])}, or {choices[-1]}"
