"""Times, money, lists and telephone numbers as people in the United States write them. Pure.

`zone` is always an IANA name.
"""

from collections.abc import Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from dealer_agent.leads.lead_view import VisitTime
from dealer_agent.protocol.timestamps import in_zone, zone_abbreviation

_US_ZONES = {"E": "Eastern", "C": "Central", "M": "Mountain", "P": "Pacific", "AK": "Alaska", "H": "Hawaii"}
"""By the abbreviation without `ST` or `DT`."""


def day_and_time(moment: datetime, zone: str, now: datetime) -> str:
    """`Thursday, March 12 at 10:30 AM`. The year is added if it is not the current one."""
    local, today = (instant.astimezone(ZoneInfo(zone)) for instant in (moment, now))
    year = "" if local.year == today.year else f", {local.year}"
    return f"{local:%A, %B} {local.day}{year} at {clock_time(moment, zone)}"


def clock_time(moment: datetime, zone: str) -> str:
    """`10:30 AM`."""
    return f"{in_zone(moment, ZoneInfo(zone)):%I:%M %p}".lstrip("0")


def day_words(moment: datetime, zone: str) -> str:
    """`Tuesday, March 3, 2026`."""
    local = in_zone(moment, ZoneInfo(zone))
    return f"{local:%A, %B} {local.day}, {local.year}"


def time_words(moment: datetime, zone: str) -> str:
    """`Tuesday, March 3, 2026, 10:00 AM CST`."""
    return f"{day_words(moment, zone)}, {clock_time(moment, zone)} {_abbreviation(moment, zone)}"


def period_words(time: VisitTime, zone: str) -> str:
    """`Tuesday, March 3, 2026, 10:00 AM to 11:00 AM CST`. Day and abbreviation are repeated if they differ."""
    start, end = time.start, time.end
    if end is None:
        return time_words(start, zone)
    day = day_words(start, zone)
    if day != day_words(end, zone):
        return f"{time_words(start, zone)} to {time_words(end, zone)}"
    before, after = _abbreviation(start, zone), _abbreviation(end, zone)
    begins = clock_time(start, zone) if before == after else f"{clock_time(start, zone)} {before}"
    return f"{day}, {begins} to {clock_time(end, zone)} {after}"


def _abbreviation(moment: datetime, zone: str) -> str:
    return zone_abbreviation(in_zone(moment, ZoneInfo(zone)))


def zone_name(zone: str, moment: datetime) -> str:
    """The common name of the zone: `Central time`. Outside the United States it is the city: `Paris time`."""
    if zone == "America/Phoenix":
        # Arizona has Mountain standard time all year. In summer the other Mountain states are an hour ahead.
        return "Arizona time"
    shown = moment.astimezone(ZoneInfo(zone)).tzname() or ""
    region, _, city = zone.rpartition("/")
    if region.startswith(("America", "US")) or zone == "Pacific/Honolulu":
        name = _US_ZONES.get(shown.removesuffix("ST").removesuffix("DT"))
        if name and shown.endswith(("ST", "DT")):
            return f"{name} time"
    if not region or region == "Etc":
        return shown
    return f"{city.replace('_', ' ')} time"


def phone_number(e164: str) -> str:
    """`+1 202-555-0140`, from a number in E.164 form."""
    # Imported here, as in `protocol.formats`.
    import phonenumbers

    number = phonenumbers.parse(e164, None)
    return phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.INTERNATIONAL)


def money(amount: int) -> str:
    """Whole US dollars."""
    return f"${amount:,}"


def join_words(words: Sequence[str], conjunction: str) -> str:
    """`a`, `a or b`, `a, b, or c`. `words` holds at least one word."""
    if len(words) < 3:
        return f" {conjunction} ".join(words)
    return f"{', '.join(words[:-1])}, {conjunction} {words[-1]}"
