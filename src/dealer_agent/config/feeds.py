"""The types of `[[feeds]]` in `dealer.toml`. Pure.

docs/reference/settings.md has the meaning of each key.
"""

import re
from collections.abc import Iterator
from datetime import datetime, time, timedelta
from itertools import pairwise
from typing import Annotated, Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from msgspec import UNSET, Meta, Struct, UnsetType, field

from dealer_agent.config.sftp import SftpSource, UploadAccount, has_login, has_password_or_key
from dealer_agent.dealers import profile_checks
from dealer_agent.dealers.profile_checks import Text, is_this_machine, must_satisfy, read_by
from dealer_agent.feeds.files.checks import FeedChecks, check_names_are_known
from dealer_agent.feeds.files.feed import MOST_FILE_MIB
from dealer_agent.feeds.files.layouts import CANONICAL, LAYOUT_NAMES, is_withheld
from dealer_agent.protocol.did_you_mean import did_you_mean
from dealer_agent.protocol.problems import Problem

SOURCES = ("folder", "url", "sftp", "upload")
"""The sections of a feed that say where its files come from. A feed has exactly one of them."""

MOST_FEEDS = 50
EnvironmentName = Annotated[str, read_by(profile_checks.read_environment_name)]
USUAL_MINUTES = {"folder": 1, "url": 60, "sftp": 60, "upload": 60}
"""`every_minutes` of a feed that sets neither `every_minutes` nor `at`."""


def read_layout(value: str) -> str:
    """The name of a layout of feeds."""
    if value not in LAYOUT_NAMES:
        raise ValueError(f"'{value}' must be one of {', '.join(LAYOUT_NAMES)}" + did_you_mean(value, LAYOUT_NAMES))
    return value


def read_member(value: str) -> str:
    """A column of the canonical layout."""
    known = tuple(CANONICAL.columns)
    if value not in known:
        raise ValueError(f"'{value}' must be one of {', '.join(known)}" + did_you_mean(value, known))
    return value


def read_time_of_day(value: str) -> str:
    """A time of day such as `06:00`."""
    if not re.fullmatch(r"([01][0-9]|2[0-3]):[0-5][0-9]", value):
        raise ValueError(f"'{value}' must be a time of day on the 24-hour clock, such as '06:00'")
    return value


def read_feed_address(value: str) -> str:
    """The URL of a feed: https, or http on this machine."""
    profile_checks.read_channel_address(value)
    parts = urlsplit(value)
    if parts.scheme == "http" and not is_this_machine(parts.hostname or ""):
        raise ValueError("is not encrypted; write https:// (http:// is for this machine only)")
    return value


def columns_may_be_read(columns: dict[str, Any]) -> Iterator[Problem]:
    """A column that shows what a unit cost is never read."""
    for name in columns:
        if is_withheld(name):
            yield Problem((name,), "looks like a cost, which is never read; remove this line")


def has_one_source(feeds: list[Any]) -> Iterator[Problem]:
    """A feed has one source. Names of feeds are unique."""
    seen: set[str] = set()
    for index, feed in enumerate(feeds):
        if not isinstance(feed, dict):
            continue
        given = [name for name in SOURCES if name in feed]
        if len(given) != 1:
            say = "has several sources" if given else "has no source"
            sections = ", ".join(f"[feeds.{name}]" for name in SOURCES)
            yield Problem((index,), f"{say}; write exactly one of {sections}")
        match feed.get("name"):
            case str(name) if name in seen:
                yield Problem((index, "name"), f"'{name}' is the name of another feed; give each its own")
            case str(name):
                seen.add(name)


def login_is_whole(url: dict[str, Any]) -> Iterator[Problem]:
    """A basic login has a user and a password, and a feed has at most one login."""
    basic = [key for key in ("user_env", "password_env") if key in url]
    if len(basic) == 1:
        yield Problem((basic[0],), "needs the other half of the login too; write both user_env and password_env")
    if basic and "token_env" in url:
        yield Problem(("token_env",), "is one login too many; write user_env and password_env, or token_env")


class FolderSource(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A folder that files are taken from. `settle_seconds`: a file is complete if it did not change for this long."""

    path: Text
    pattern: Text = "*"
    settle_seconds: Annotated[int, Meta(ge=1, le=600)] = 5


class UrlSource(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A URL that a file is fetched from. The environment variables have the login: basic, or a bearer token."""

    address: Annotated[str, read_by(read_feed_address)]
    user_env: EnvironmentName | UnsetType = UNSET
    password_env: EnvironmentName | UnsetType = UNSET
    token_env: EnvironmentName | UnsetType = UNSET
    timeout_seconds: Annotated[int, Meta(ge=1, le=3600)] = 300


class FeedSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A feed that is imported without a person (docs/reference/feeds.md#automatic-feeds).

    `columns` has columns that no layout knows, each with the member of the canonical layout that it gives. `rooftops`
    is the scope: empty means all rooftops. `checks` replace those of the dealer.
    """

    name: Annotated[str, read_by(profile_checks.read_slug)]
    folder: FolderSource | UnsetType = UNSET
    url: Annotated[UrlSource, must_satisfy(login_is_whole)] | UnsetType = UNSET
    sftp: Annotated[SftpSource, must_satisfy(has_login)] | UnsetType = UNSET
    upload: Annotated[UploadAccount, must_satisfy(has_password_or_key)] | UnsetType = UNSET
    layout: Annotated[str, read_by(read_layout)] | UnsetType = UNSET
    rooftops: tuple[Text, ...] = ()
    columns: Annotated[dict[str, Annotated[str, read_by(read_member)]], must_satisfy(columns_may_be_read)] = field(
        default_factory=dict
    )
    every_minutes: Annotated[int, Meta(ge=1, le=10080)] | UnsetType = UNSET
    at: Annotated[tuple[Annotated[str, read_by(read_time_of_day)], ...], Meta(max_length=48)] = ()
    checks: Annotated[FeedChecks, must_satisfy(check_names_are_known)] | UnsetType = UNSET
    keep_days: Annotated[int, Meta(ge=0, le=3650)] = 30
    late_after_hours: Annotated[int, Meta(ge=1, le=8760)] = 48
    max_mib: Annotated[int, Meta(ge=1, le=MOST_FILE_MIB)] = 256

    @property
    def source(self) -> str:
        """Which of SOURCES the feed has."""
        return next(name for name in SOURCES if getattr(self, name, UNSET) is not UNSET)

    @property
    def most_bytes(self) -> int:
        """The most bytes of a file, packed and unpacked."""
        return self.max_mib << 20

    @property
    def longest_pause(self) -> timedelta:
        """The longest time between two collections."""
        if minutes := self._minutes:
            return timedelta(minutes=minutes)
        times = sorted(time.fromisoformat(text) for text in self.at)
        seconds = [each.hour * 3600 + each.minute * 60 for each in times]
        day = 86_400
        return timedelta(seconds=max((end - begin) % day or day for begin, end in pairwise([*seconds, seconds[0]])))

    @property
    def _minutes(self) -> int:
        """The minutes between two collections; 0 if only the times of `at` count."""
        if self.every_minutes is not UNSET:
            return self.every_minutes
        return 0 if self.at else USUAL_MINUTES[self.source]

    def next_after(self, now: datetime, zone: ZoneInfo) -> datetime:
        """When files are fetched next after `now`, an aware time. `at` counts in the zone."""
        found = []
        if self._minutes:
            found.append(now + timedelta(minutes=self._minutes))
        local = now.astimezone(zone)
        for text in self.at:
            at = time.fromisoformat(text)
            for days in range(3):
                day = local.date() + timedelta(days=days)
                moment = datetime.combine(day, at, zone)
                if moment.timestamp() > now.timestamp():
                    found.append(moment.astimezone(now.tzinfo))
                    break
        return min(found)


class FeedFileSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much of a machine's disk the files of feeds may take. `kept_mib` is for each feed, `dealer_mib` for a dealer.

    Files that were refused or cannot be read are kept for `refused_days`. `least_free_mib` is left for leads.
    """

    kept_mib: Annotated[int, Meta(ge=0, le=1_048_576)] = 256
    refused_days: Annotated[int, Meta(ge=0, le=30)] = 3
    dealer_mib: Annotated[int, Meta(ge=16, le=1_048_576)] = 4096
    least_free_mib: Annotated[int, Meta(ge=0, le=1_048_576)] = 512


Feeds = Annotated[tuple[FeedSettings, ...], must_satisfy(has_one_source), Meta(max_length=MOST_FEEDS)]


def feeds_name_rooftops(file: dict[str, Any]) -> Iterator[Problem]:
    """The scope of a feed names rooftops of the dealer."""
    rooftops = file.get("rooftops")
    feeds = file.get("feeds")
    tables = rooftops if isinstance(rooftops, list) else []
    known = [table["name"] for table in tables if isinstance(table, dict) and isinstance(table.get("name"), str)]
    for index, feed in enumerate(feeds if isinstance(feeds, list) else []):
        named = feed.get("rooftops", []) if isinstance(feed, dict) else []
        for position, name in enumerate(named if isinstance(named, list) else []):
            if isinstance(name, str) and name not in known:
                message = f"'{name}' is not a rooftop; name one of {', '.join(known)}" + did_you_mean(name, known)
                yield Problem(("feeds", index, "rooftops", position), message)
