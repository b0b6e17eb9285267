"""Runs checks of `dealer-agent doctor` at once, in a bounded time. `doctor` has the table of them.

A check returns findings. If it raises an error, or takes too long, that is a finding too.
"""

import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo

from dealer_agent.config import Settings, SettingsError
from dealer_agent.config.installation import Installation
from dealer_agent.encryption import EncryptionError
from dealer_agent.storage.errors import StorageError
from dealer_agent.storage.isolation import ALL_DEALERS
from dealer_agent.storage.store import Store

CHECK_SECONDS = 60.0
"""How long checks that run at once may take together."""

Status = Literal["ok", "warning", "problem", "skipped"]


class DoctorFinding(NamedTuple):
    """What a check found: `says` is the state, `advice` what to do."""

    status: Status
    says: str
    advice: str = ""


class CheckResult(NamedTuple):
    """A finding, and the name of its check."""

    check: str
    status: Status
    says: str
    advice: str


class NoDatabase(Exception):  # noqa: N818 - it only ends a check
    """A check needs the database, which does not answer."""


@dataclass
class Examined:
    """What is checked. `settings` are those of one dealer, else the installation is checked as a whole.

    `send`: deliver a marked test lead to each channel. `now` is the time of this machine. `opened` is the open
    database, if it answers. `dealer_id` is ALL_DEALERS for an installation as a whole. Times are shown in `zone`.
    """

    env: Mapping[str, str]
    now: datetime
    installation: Installation
    settings: Settings | None = None
    send: bool = False
    opened: Store | None = None

    def __post_init__(self) -> None:
        """Derives the rest from the settings."""
        if self.settings is not None:
            self.folder, self.alerts = self.settings.folder, self.settings.alerts
            self.dealer_id, self.zone = self.settings.dealer.id, self.settings.dealer.rooftops[0].timezone
        else:
            self.folder, self.alerts = self.installation.folder, self.installation.file.installation.alerts
            self.dealer_id, self.zone = ALL_DEALERS, "UTC"

    @property
    def store(self) -> Store:
        """The database. Raises NoDatabase."""
        if self.opened is None:
            raise NoDatabase
        return self.opened

    @property
    def dealer(self) -> Settings:
        """The settings of the one dealer."""
        assert self.settings is not None, "this check is of a dealer"
        return self.settings


class DoctorCheck(NamedTuple):
    """A check. `run` blocks. Its own errors have advice, so StorageError and SettingsError become problems."""

    name: str
    run: Callable[[], Iterable[DoctorFinding]]


def run_checks(checks: Sequence[DoctorCheck], seconds: float) -> list[CheckResult]:
    """Runs all checks at once, and returns their findings in the order of the checks.

    A check that takes longer continues in its thread, which does not keep the process alive.
    """
    found: dict[int, list[DoctorFinding]] = {}

    def run(number: int, check: DoctorCheck) -> None:
        found[number] = _findings(check)

    threads = [
        threading.Thread(target=run, args=(number, check), name=f"check {check.name}", daemon=True)
        for number, check in enumerate(checks)
    ]
    for thread in threads:
        thread.start()
    ends = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, ends - time.monotonic()))
    advice = "run the command again; if it has no result again, look at what the check reads: disk, database, network"
    late = [DoctorFinding("problem", f"no result within {seconds:g} s", advice)]
    return [
        CheckResult(check.name, *finding) for number, check in enumerate(checks) for finding in found.get(number, late)
    ]


def _findings(check: DoctorCheck) -> list[DoctorFinding]:
    """Runs a check, and turns its exceptions into findings."""
    try:
        return list(check.run())
    except NoDatabase:
        return [DoctorFinding("skipped", "the database does not answer")]
    except SettingsError as error:
        return [
            DoctorFinding("problem", line, "correct it, and restart the service") for line in str(error).splitlines()
        ]
    except (StorageError, EncryptionError) as error:
        return [DoctorFinding("problem", *parts_of(str(error)))]
    except OSError as error:
        return [DoctorFinding("problem", f"{error.filename or 'the system'}: {error.strerror or type(error).__name__}")]
    except Exception as error:  # noqa: BLE001 - the boundary: one check must not hide the findings of others.
        # The message of another package's exception may contain a secret.
        return [DoctorFinding("problem", f"the check failed ({type(error).__qualname__})", "report this fault")]


def parts_of(message: str) -> tuple[str, str]:
    """What happened and what to do, which are the two parts of an error's message."""
    said, *advice = re.split("[;:] ", message, maxsplit=1)
    return said, "".join(advice)


def settings_check(error: Exception) -> DoctorCheck:
    """The check that reports why the settings cannot be loaded."""

    def run() -> Iterable[DoctorFinding]:
        raise error

    return DoctorCheck("settings", run)


def local(at: datetime, zone: str) -> str:
    """A time in a zone, to the minute, such as `2026-11-23 09:30 EST`."""
    return f"{at.astimezone(ZoneInfo(zone)):%Y-%m-%d %H:%M %Z}"


def age_words(seconds: float) -> str:
    """A duration in its largest unit, such as `3 days`."""
    for unit, size in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds >= 2 * size:
            return f"{int(seconds // size):,} {unit}s"
    return f"{int(seconds):,} s"
