"""`dealer-agent doctor`: the table of its checks, of a dealer and of an installation."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from dealer_agent.config import Settings, SettingsError
from dealer_agent.config.channels import channel_secrets
from dealer_agent.config.installation import Installation
from dealer_agent.config.settings import Sections
from dealer_agent.encryption import EncryptionError
from dealer_agent.operations.checks import CHECK_SECONDS, Check, CheckResult, Finding, NoDatabase, local, run_checks
from dealer_agent.operations.inside_checks import (
    check_clock,
    check_database,
    check_deliveries,
    check_disk,
    check_feeds,
    check_folder,
    check_replicas,
    check_settings,
    check_the_keys,
    check_time_zones,
    check_withdrawals,
)
from dealer_agent.operations.outside_checks import (
    check_address,
    check_channels,
    check_installation_address,
    check_limit_store,
    check_mail,
    check_metrics,
    check_sftp_server,
    send_marked_leads,
)
from dealer_agent.server.dealer_settings import load_dealer_settings
from dealer_agent.storage.database_url import database_url, is_sqlite
from dealer_agent.storage.dealer_registry import all_dealers
from dealer_agent.storage.errors import StorageError
from dealer_agent.storage.isolation import ALL_DEALERS
from dealer_agent.storage.outbox import list_deliveries
from dealer_agent.storage.stock import list_imports
from dealer_agent.storage.store import Store

MOST_DEALERS = 1000
"""The most dealers of an installation that are checked."""
MOST_NAMED = 10
"""The most dealers with a problem that are named."""


@dataclass
class Examined:
    """What is checked. `settings` are those of one dealer, else the installation is checked as a whole.

    `send`: deliver a marked test lead to each channel. `now` is the time of this machine. `opened` is the database, if
    it answers. `owner` has the database, the keys and the folder. `machine` has the sections about the machine, and
    `service` is what one service serves. `dealer_id` is ALL_DEALERS for an installation. Times are shown in `zone`.
    """

    env: Mapping[str, str]
    now: datetime
    settings: Settings | None = None
    installation: Installation | None = None
    send: bool = False
    opened: Store | None = None

    def __post_init__(self) -> None:
        """Derives the rest from the settings."""
        self.owner: Settings | Installation
        self.service: Settings | Installation
        self.machine: Sections
        if self.settings is not None:
            self.owner = self.service = self.machine = self.settings
            self.dealer_id = self.serving = self.settings.dealer.id
            self.zone, self.alerts = self.settings.dealer.rooftops[0].timezone, self.settings.alerts
        if self.installation is not None:
            self.service, self.machine, self.serving = self.installation, self.installation.file, ALL_DEALERS
            if self.settings is None:
                self.owner, self.dealer_id, self.zone = self.installation, ALL_DEALERS, "UTC"
                self.alerts = self.installation.file.installation.alerts

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

    @property
    def whole(self) -> Installation:
        """The installation that is checked as a whole."""
        assert self.installation is not None, "this check is of an installation"
        return self.installation


class Row(NamedTuple):
    """A check, and whether it is one of a dealer, of an installation, or of both."""

    name: str
    of: Literal["dealer", "installation", "both"]
    run: Callable[[Examined], Iterable[Finding]]


def _check_keys(of: Examined) -> Iterator[Finding]:
    if of.settings is None:
        folder, days, has_copy = of.whole.directory, of.whole.file.installation.rotate_keys_days, True
    else:
        folder, days = of.settings.installation or of.settings.directory, of.settings.dealer.privacy.rotate_keys_days
        has_copy = of.settings.installation is None
    cipher = of.owner.cipher
    return check_the_keys(of.store, of.dealer_id, cipher, folder, days, of.zone, of.now, has_copy=has_copy)


def _check_folder(of: Examined) -> Iterator[Finding]:
    rooftops = () if of.settings is None else of.settings.dealer.rooftops
    channels = [channel for rooftop in rooftops for channel in rooftop.deliver.directory]
    return check_folder(of.owner.directory, {each.name: of.owner.directory / each.path for each in channels})


def _check_channels(of: Examined) -> Iterator[Finding]:
    if not of.send:
        return check_channels(of.dealer)
    return send_marked_leads(of.dealer, of.store.check_keys(of.dealer_id), of.now)


CHECKS = (
    Row("dealers", "installation", lambda of: _check_dealers(of.store, of.whole, of)),
    Row("settings", "dealer", lambda of: check_settings(of.dealer, of.env)),
    Row("time zones", "dealer", lambda of: check_time_zones(of.dealer, of.now)),
    Row("keys", "both", _check_keys),
    Row("folder", "both", _check_folder),
    Row("disk", "both", lambda of: check_disk(of.owner.directory, of.alerts)),
    Row("clock", "both", lambda of: check_clock(of.store, of.dealer_id, of.alerts, of.now)),
    Row("replicas", "both", lambda of: check_replicas(of.store, of.serving, of.service, of.now)),
    Row("feeds", "dealer", lambda of: check_feeds(of.store, of.dealer, of.now)),
    Row("deliveries", "dealer", lambda of: check_deliveries(of.store, of.dealer_id, of.alerts, of.zone, of.now)),
    Row("withdrawals", "dealer", lambda of: check_withdrawals(of.store, of.dealer_id, of.now)),
    Row("mail", "both", lambda of: check_mail((of.settings or of.machine).mail, of.env)),
    Row("channels", "dealer", _check_channels),
    Row("public address", "dealer", lambda of: check_address(of.dealer, of.now)),
    Row(
        "public address",
        "installation",
        lambda of: check_installation_address(of.whole.public_url, of.alerts, of.now),
    ),
    Row("rate limits", "both", lambda of: check_limit_store(of.service.rate_limit_url)),
    Row("sftp server", "both", lambda of: check_sftp_server(of.machine.sftp)),
    Row("metrics", "both", lambda of: check_metrics(of.machine.metrics)),
)
"""All checks but that of the database, in the order of the report."""


def examine(examined: Examined) -> list[CheckResult]:
    """Runs all checks. The database is first, because many others need it."""
    owner, many = examined.owner, examined.installation is not None
    with ExitStack() as closing:

        def open_store() -> Iterator[Finding]:
            url = owner.database_url
            if is_sqlite(url) and not Path(str(database_url(url).database)).exists():
                yield Finding("problem", "there is no database yet", "dealer-agent inventory import FILE makes it")
                return
            examined.opened = Store.open(url, owner.cipher, many_dealers=many)
            closing.callback(examined.opened.close)
            yield from check_database(examined.opened, many_dealers=many)

        found = run_checks([Check("database", open_store)], CHECK_SECONDS)
        if found[0].status == "problem":
            examined.opened = None
        kinds = ("both", "installation" if examined.settings is None else "dealer")
        checks = [Check(row.name, partial(row.run, examined)) for row in CHECKS if row.of in kinds]
        return found + run_checks(checks, CHECK_SECONDS)


def _check_dealers(store: Store, installation: Installation, examined: Examined) -> Iterator[Finding]:
    """The settings, feeds and deliveries of the first MOST_DEALERS enabled dealers, in one line for each problem."""
    with store.installation() as tx:
        enabled = [dealer.dealer_id for dealer in all_dealers(tx) if dealer.enabled]
    wrong = {}
    for dealer_id in enabled[:MOST_DEALERS]:
        problem = _problem_of(store, installation, dealer_id, examined)
        if problem is not None:
            wrong[dealer_id] = problem
    for dealer_id, problem in list(wrong.items())[:MOST_NAMED]:
        yield Finding("problem", f"{dealer_id}: {problem}"[:300], f"dealer-agent doctor --dealer {dealer_id}")
    if len(wrong) > MOST_NAMED:
        yield Finding("problem", f"{len(wrong) - MOST_NAMED:,} more dealers have problems", "correct these first")
    checked = min(len(enabled), MOST_DEALERS)
    if not enabled:
        yield Finding("warning", "no dealer is enabled", "dealer-agent dealers add FILE")
    elif len(enabled) > MOST_DEALERS:
        advice = "check the others with --dealer"
        yield Finding("warning", f"only the first {MOST_DEALERS:,} of {len(enabled):,} dealers were checked", advice)
    elif not wrong:
        yield Finding("ok", f"{checked:,} enabled: settings, feeds and deliveries are in order")


def _problem_of(store: Store, installation: Installation, dealer_id: str, examined: Examined) -> str | None:
    try:
        settings = load_dealer_settings(installation, store, dealer_id)
        channel_secrets(settings, examined.env)
        with store.read(dealer_id, examined.now) as tx:
            newest, parked = list_imports(tx, 1), list_deliveries(tx, 1, state="parked")
    except (SettingsError, StorageError, EncryptionError) as error:
        return str(error)
    if not newest:
        return "no stock was ever imported"
    if examined.now - newest[0].at > timedelta(hours=settings.alerts.feed_late_hours):
        return f"the newest import is of {local(newest[0].at, settings.dealer.rooftops[0].timezone)}"
    return "deliveries are parked" if parked else None
