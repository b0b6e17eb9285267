"""Checks of this machine: settings, time zones, folders, disk."""

import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from functools import cache
from importlib.resources import files
from pathlib import Path
from zoneinfo import ZoneInfo

from dealer_agent.config.alert_settings import AlertSettings
from dealer_agent.dealers.profile import Profile
from dealer_agent.encryption.file_permissions import is_open_to_others
from dealer_agent.operations.checks import Finding, local

ZONE_DAYS = 400
"""How far ahead the rules of a time zone are compared."""


def check_time_zones(dealer: Profile, now: datetime) -> Iterator[Finding]:
    """The zones of the rooftops have the same rules in the system's database and in the package `tzdata`."""
    zones = sorted({rooftop.timezone for rooftop in dealer.rooftops})
    different = [zone for zone in zones if not _rules_agree(zone, now)]
    for zone in different:
        yield Finding(
            "warning",
            f"{zone}: this system and the Python package tzdata have different rules",
            "update the system's package tzdata, so that visits have the right time",
        )
    if not different:
        yield Finding("ok", ", ".join(f"{zone} (now {local(now, zone)})" for zone in zones[:5]))


def _rules_agree(zone: str, now: datetime) -> bool:
    packaged = _packaged_zone(zone)
    system = ZoneInfo(zone)
    moments = (now + timedelta(days=day) for day in range(ZONE_DAYS))
    return packaged is None or all(
        moment.astimezone(system).utcoffset() == moment.astimezone(packaged).utcoffset() for moment in moments
    )


@cache
def _packaged_zone(zone: str) -> ZoneInfo | None:
    path = files("tzdata").joinpath("zoneinfo", *zone.split("/"))
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return ZoneInfo.from_file(file, zone)


def check_folder(directory: Path, channels: Mapping[str, Path]) -> Iterator[Finding]:
    """Only the user of the service has access to the folder, and can write. `channels` are folders for leads."""
    state = directory.stat()
    if is_open_to_others(state.st_mode):
        yield Finding("problem", f"other users have access to {directory}", f"chmod 700 {directory}")
    elif not os.access(directory, os.W_OK | os.X_OK):
        yield Finding("problem", f"this user may not write to {directory}", "run the service as the folder's owner")
    elif os.geteuid() not in (0, state.st_uid):
        yield Finding("warning", f"{directory} belongs to another user", "run this command as the service's user")
    else:
        yield Finding("ok", f"{directory} is private ({stat.S_IMODE(state.st_mode):o})")
    for name, path in channels.items():
        if path.is_dir() and is_open_to_others(path.stat().st_mode):
            yield Finding(
                "warning",
                f"other users have access to the folder of channel {name}",
                f"chmod 700 {path}, if the CRM's program runs as the same user",
            )


def check_disk(directory: Path, alerts: AlertSettings) -> Iterator[Finding]:
    """The disk has as much space as `disk_free_mib`. A tenth of it is a problem."""
    usage, least = shutil.disk_usage(directory), alerts.disk_free_mib * 2**20
    free = f"{usage.free / 2**30:,.1f} GiB free of {usage.total / 2**30:,.1f} GiB"
    if usage.free < least // 10:
        yield Finding("problem", free, "make room: without it no lead can be stored")
    elif usage.free < least:
        yield Finding("warning", free, "make room on the disk of this folder")
    else:
        yield Finding("ok", free)
