"""The areas of the IANA time zone database, and advice for other names of time zones. Pure."""

import re
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from zoneinfo import ZoneInfo

HOME = frozenset({"US", "PR", "VI", "GU", "AS", "MP"})
"""The countries (ISO 3166) that an abbreviation is likely to mean: the United States and their territories."""
_MOST = 3
_WINTER, _SUMMER = datetime(2026, 1, 15, tzinfo=UTC), datetime(2026, 7, 15, tzinfo=UTC)


def _database(name: str) -> list[str]:
    return files("tzdata.zoneinfo").joinpath(name).read_text("utf-8").splitlines()


@cache
def areas() -> dict[str, str]:
    """The country of every area, such as `US` for `America/New_York`. A country's most populous areas come first."""
    rows = [line.split("\t") for line in _database("zone.tab") if not line.startswith("#")]
    return {row[2]: row[0] for row in rows}


@cache
def _links() -> dict[str, str]:
    """Each alias of a zone, such as `US/Eastern`, with the zone that it means."""
    return {link: zone for kind, zone, link in (line.split() for line in _database("tzdata.zi") if line[:2] == "L ")}


@cache
def _abbreviations() -> dict[str, list[str]]:
    """The areas that use an abbreviation such as `EST`: those in `HOME`, or all if there is none in `HOME`."""
    found: dict[str, list[str]] = {}
    for area in areas():
        for abbreviation in {name for name in _names(area) if name is not None and name.isalpha()}:
            found.setdefault(abbreviation, []).append(area)
    return {
        abbreviation: [area for area in meant if areas()[area] in HOME] or meant
        for abbreviation, meant in found.items()
    }


def _names(area: str) -> tuple[str | None, str | None]:
    zone = ZoneInfo(area)
    return _WINTER.astimezone(zone).tzname(), _SUMMER.astimezone(zone).tzname()


def advice(name: str) -> str:
    """Advice for a name that is no area; empty for an unknown name."""
    word = name.strip().removeprefix("posix/").removeprefix("right/")
    area = _links().get(word) or _links().get(f"US/{word.split(' ')[0].title()}")
    short = word.upper()
    if re.fullmatch("[A-Z]{3}[0-9][A-Z]{3}", short):
        short = short[:3]  # EST5EDT
    elif re.fullmatch("[A-Z]T", short):
        short = f"{short[0]}ST"  # ET means EST or EDT.
    meant = _abbreviations().get(short)
    if meant:
        return f"it is an abbreviation, and may mean {_listed(meant)}"
    area = word if word in areas() else area
    if area in areas():
        return f"write {area}"
    if short in ("UTC", "Z") or area is not None or word.startswith("Etc/"):
        return "it is no area; write the area whose clocks the store shows, such as America/New_York"
    return ""


def _listed(meant: list[str]) -> str:
    with_saving = [area for area in meant if len(set(_names(area))) == 2]
    without = [area for area in meant if area not in with_saving]
    parts = [f"{area} (with daylight saving)" for area in with_saving[: _MOST - 1]]
    parts += [f"{area} (without daylight saving)" for area in without[: _MOST - len(parts)]]
    return ", ".join(parts)
