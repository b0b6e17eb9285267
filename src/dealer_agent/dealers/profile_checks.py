"""Checks the values of `dealer.toml`. Pure.

A reader returns a value in its normal form, or raises ValueError with advice for the dealer. A type names its reader
with `read_by`. A rule compares several values of a list or table, and yields a `Problem` for each value that breaks it.
A type names its rules with `must_satisfy`.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, date, datetime
from functools import cache
from importlib.resources import files
from ipaddress import ip_address
from typing import Annotated, Any, get_args
from urllib.parse import parse_qsl, unquote, urlsplit
from zoneinfo import ZoneInfo

from msgspec import Meta

from dealer_agent.protocol.did_you_mean import did_you_mean
from dealer_agent.protocol.formats import normal_phone
from dealer_agent.protocol.problems import Path, Problem
from dealer_agent.protocol.requests import VisitKind

HOME = frozenset({"US", "PR", "VI", "GU", "AS", "MP"})
"""The countries (ISO 3166) that an abbreviation is likely to mean: the United States and their territories."""
OWN_VARIABLES = frozenset({"DATABASE_URL", "DATABASE_ADMIN_URL", "DEALER_AGENT_KEYS", "RATE_LIMIT_URL"})
"""The environment variables of the service itself. No setting sends their values elsewhere."""
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
    """Advice for a name that is not an area; empty for an unknown name."""
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
        return "it is not an area; write the area whose clocks the store shows, such as America/New_York"
    return ""


def _listed(meant: list[str]) -> str:
    """Areas as a message lists them, those with daylight saving first."""
    with_saving = [area for area in meant if len(set(_names(area))) == 2]
    without = [area for area in meant if area not in with_saving]
    parts = [f"{area} (with daylight saving)" for area in with_saving[: _MOST - 1]]
    parts += [f"{area} (without daylight saving)" for area in without[: _MOST - len(parts)]]
    return ", ".join(parts)


def read_by(reader: Callable[[str], object]) -> Meta:
    """The annotation of a text that `reader` must accept."""
    return Meta(extra={"reader": reader})


def must_satisfy(*rules: Callable[[Any], Iterator[Problem]], min_length: int | None = None) -> Meta:
    """The annotation of a list or table that must satisfy rules. Its parts may be of a wrong type."""

    def all_rules(value: Any) -> Iterator[Problem]:
        for rule in rules:
            yield from rule(value)

    return Meta(min_length=min_length, extra={"agreement": all_rules})


def read_text(value: str) -> str:
    """Text that is not blank."""
    if not value.strip():
        raise ValueError("is empty; write something, or leave the key out")
    return value


Text = Annotated[str, read_by(read_text)]


def _matching(pattern: str, advice: str) -> Callable[[str], str]:
    """A function that reads a value of this pattern. `advice` says what the value must be."""

    def read(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(f"'{value}' must be {advice}")
        return value

    return read


read_slug = _matching(
    "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", "1 to 63 lower-case letters, digits and hyphens, such as 'my-store'"
)
read_country = _matching("[A-Z]{2}", "the country's two letters, such as 'US'")
read_store_code = _matching("[A-Z]{2,6}", "two to six capital letters, such as 'JHN'")
read_zip_prefix = _matching("[0-9]{1,5}", "the first one to five digits of a ZIP code, such as '372'")


def read_time_zone(value: str) -> str:
    """An area of the IANA time zone database. Only an area has the daylight saving rules of a location."""
    if value not in areas():
        advised = advice(value)
        known = f"; {advised}" if advised else did_you_mean(value, sorted(areas()))
        raise ValueError(f"'{value}' is not an IANA area{known}")
    return value


def read_phone(value: str) -> str:
    """A phone number in E.164 form. A number without a leading `+` is a US number."""
    number = normal_phone(value, "US")
    if number is None:
        raise ValueError(f"'{value}' is not a phone number; write it as '+1 202 555 0123'")
    return number


def read_email(value: str) -> str:
    """An e-mail address. Only the syntax is checked."""
    # Imported here, as in `protocol.formats`.
    from email_validator import EmailNotValidError, validate_email

    try:
        return validate_email(value, check_deliverability=False).normalized
    except EmailNotValidError as error:
        raise ValueError(f"'{value}' is not an e-mail address: {error}") from None


_AUTHORITY = re.compile(r"[\0-\x20]*[A-Za-z][A-Za-z0-9+.-]*://([^/?#]*)")
_PASSWORDS = ("password", "passwd", "pwd")


def read_web_address(value: str) -> str:
    """An absolute http or https URL, without a user name or a password."""
    if _has_login(value):
        raise ValueError("must hold no user name and no password; remove what is between '//' and '@'")
    with suppress(ValueError):
        parts = urlsplit(value)
        known = parts.scheme in ("http", "https") and bool(read_host(parts.hostname or "")) and parts.port != 0
        if known and not re.search(r"[\s\0-\x1f]", value):
            return value
    raise ValueError(f"{_shown(value)} is not a web address; write it in full, such as 'https://www.example.com'")


def read_channel_address(value: str) -> str:
    """The URL of a CRM, without a password in its query."""
    query = value.partition("#")[0].partition("?")[2]
    if _has_login(value) or any(name.casefold() in _PASSWORDS for name, _ in parse_qsl(query, keep_blank_values=True)):
        raise ValueError(
            "must hold no user name and no password; put the value of the Authorization header into an environment "
            "variable, and name the variable with authorization_env"
        )
    return read_web_address(value)


def _has_login(url: str) -> bool:
    authority = _AUTHORITY.match(url)
    return authority is not None and "@" in _decoded(authority[1])


def _decoded(text: str) -> str:
    return unicodedata.normalize("NFKC", unquote(text))


def _shown(value: str) -> str:
    """A wrong URL or e-mail address, quoted for an error message. A text with an `@` may contain a password, so it is
    not repeated.
    """
    return "the value" if "@" in _decoded(value) else f"'{value}'"


def read_file_path(value: str) -> str:
    """The path of a file."""
    if value.rpartition("/")[2] in ("", ".", ".."):
        raise ValueError(f"{_shown(value)} is not a file; write a file's name or path, such as 'consent-heads.log'")
    return value


def read_host(value: str) -> str:
    """A host name or an IP address, without a port."""
    with suppress(ValueError):
        return str(ip_address(value))
    with suppress(UnicodeError):
        value.encode("idna")
        if re.search(r"[\s:/@%]", value) is None:
            return value
    advice = "write it alone, without a port or a login, such as 'smtp.example.com'"
    raise ValueError(f"{_shown(value)} is not a host name; {advice}")


def read_date(value: str) -> date:
    """A date in the years 2000 to 2199, such as `2026-12-25`."""
    with suppress(ValueError):
        if re.fullmatch(r"2[01][0-9]{2}-[0-9]{2}-[0-9]{2}", value):
            return date.fromisoformat(value)
    raise ValueError(f"'{value}' is not a date from 2000 to 2199; write it in quotes as '2026-12-25'")


def read_environment_name(value: str) -> str:
    """The name of an environment variable that has a secret. Secrets are never in `dealer.toml`."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        raise ValueError("must be the name of an environment variable that holds the secret, such as 'CRM_SECRET'")
    if value in OWN_VARIABLES:
        raise ValueError(f"{value} is for the service itself, and is never sent; name another variable")
    return value


def visit_kinds_are_known(visits: dict[str, Any]) -> Iterator[Problem]:
    """The names of the sections of `visits` are kinds of visits."""
    known = get_args(VisitKind)
    for kind in visits:
        if kind not in known:
            yield Problem((kind,), f"must be one of {', '.join(known)}" + did_you_mean(kind, known))


def durations_are_multiples_of_15(rules: dict[str, Any]) -> Iterator[Problem]:
    """Visits are booked in quarters of an hour."""
    allowed = rules.get("durations_allowed", [])
    asked: list[tuple[Path, object]] = [(("duration_minutes",), rules.get("duration_minutes"))]
    if isinstance(allowed, list):
        asked += [(("durations_allowed", position), value) for position, value in enumerate(allowed)]
    for path, value in asked:
        if isinstance(value, int) and value % 15:
            yield Problem(path, f"{value} must be a multiple of 15 minutes")


RESERVED_CHANNELS = ("notify", "customer")
"""The channel names of deliveries to the rooftop's staff and to the customer."""


def channel_names_are_unique(deliver: dict[str, Any]) -> Iterator[Problem]:
    """Channel names are unique within a rooftop, because commands select deliveries by channel."""
    seen: set[str] = set()
    for kind, channels in deliver.items():
        for position, channel in enumerate(channels if isinstance(channels, list) else []):
            match channel:
                case {"name": str(name)}:
                    if name in seen or name in RESERVED_CHANNELS:
                        message = f"'{name}' is the name of another channel; give each its own"
                        yield Problem((kind, position, "name"), message)
                    seen.add(name)


def visits_have_hours(rooftops: list[Any]) -> Iterator[Problem]:
    """Each kind of visit follows the hours of a department. This department must have hours."""
    for index, rooftop in enumerate(rooftops):
        match rooftop:
            case {"visits": dict(visits), **rest}:
                hours = rest.get("hours", {})
                departments = list(hours) if isinstance(hours, dict) else []
                for kind, rules in visits.items():
                    if not isinstance(rules, dict):
                        continue
                    department = rules.get("hours", "sales")
                    if isinstance(department, str) and department not in departments:
                        advice = f"there is no [rooftops.hours.{department}]; write one, or name another department"
                        yield Problem((index, "visits", kind, "hours"), advice)


def hours_have_a_zone(file: Any) -> Iterator[Problem]:
    """Opening hours need a time zone that somebody has checked."""
    match file:
        case {"guesses": list(guesses), "rooftops": list(rooftops)} if "timezone" in guesses:
            for index, rooftop in enumerate(rooftops):
                if isinstance(rooftop, dict) and rooftop.get("hours"):
                    advice = 'is a guess of `init`; set it, then delete "timezone" from guesses, because hours need it'
                    yield Problem(("rooftops", index, "timezone"), advice)


def rooftop_names_are_unique(rooftops: list[Any]) -> Iterator[Problem]:
    """Names and feed ids of rooftops are unique and case-insensitive."""
    owners: dict[str, int] = {}
    tables = [(index, rooftop) for index, rooftop in enumerate(rooftops) if isinstance(rooftop, dict)]
    for index, rooftop in tables:
        match rooftop.get("name"):
            case str(name) if owners.setdefault(name.casefold(), index) != index:
                yield Problem((index, "name"), f"'{name}' is the name of another rooftop; give each its own")
    for index, rooftop in tables:
        match rooftop.get("feed_ids"):
            case list(feed_ids):
                for position, feed_id in enumerate(feed_ids):
                    if isinstance(feed_id, str) and owners.setdefault(feed_id.casefold(), index) != index:
                        message = f"'{feed_id}' is the name or a feed id of another rooftop; give each its own"
                        yield Problem((index, "feed_ids", position), message)


def zip_fits_country(address: dict[str, Any]) -> Iterator[Problem]:
    """A US ZIP code has five digits, or nine with a hyphen. Codes of other countries are not checked."""
    match address:
        case {"zip": str(code), **rest} if rest.get("country", "US") == "US":
            if not re.fullmatch(r"[0-9]{5}(-[0-9]{4})?", code):
                yield Problem(("zip",), f"'{code}' is not a ZIP code; write '37203', or '37203-1234'")


MOST_CHARACTERS = 253

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PORT = re.compile(r":[0-9]{1,5}$")


def canonical_host(host: str) -> str:
    """A host name in lower case, with IDNA labels, without a port and without a dot at its end.

    Raises ValueError with a sentence for people: for an IP address, a wildcard, or another text that is not a host
    name.
    """
    name = _PORT.sub("", host.strip()).removesuffix(".")
    if "*" in name:
        raise ValueError(f"{host!r} has a wildcard: add each host name by itself")
    if name.startswith("[") or name.count(":") > 1:
        raise ValueError(f"{host!r} is an IP address: a dealer needs a host name")
    try:
        ascii_name = name.encode("idna").decode("ascii").lower()
    except UnicodeError:
        raise ValueError(f"{host!r} is not a host name") from None
    labels = ascii_name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        raise ValueError(f"{host!r} is an IP address: a dealer needs a host name")
    if len(ascii_name) > MOST_CHARACTERS or not all(map(_LABEL.fullmatch, labels)):
        raise ValueError(f"{host!r} is not a host name")
    return ascii_name


def is_this_machine(host: str) -> bool:
    """Whether a host name or IP address always means this machine. Other names are not resolved."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"
