"""Chooses the checks of `dealer-agent doctor`: for a dealer, and for an installation."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from dealer_agent.alerts.watches import watch_of_dealer
from dealer_agent.config import Settings, SettingsError
from dealer_agent.config.channels import channel_secrets
from dealer_agent.config.installation import Installation
from dealer_agent.encryption import EncryptionError
from dealer_agent.open_installation import OpenInstallation
from dealer_agent.operations.checks import CHECK_SECONDS, Check, CheckResult, Finding, local, run_checks
from dealer_agent.operations.database_checks import (
    check_clock,
    check_database,
    check_deliveries,
    check_feeds,
    check_replicas,
    check_the_keys,
    check_withdrawals,
)
from dealer_agent.operations.local_checks import check_disk, check_folder, check_time_zones
from dealer_agent.operations.marked_leads import send_marked_leads
from dealer_agent.operations.outside_checks import (
    check_address,
    check_channels,
    check_installation_address,
    check_limit_store,
    check_mail,
    check_metrics,
    check_sftp_server,
)
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

NEEDS_DATABASE = Finding("skipped", "the database does not answer")


@dataclass(frozen=True)
class Examined:
    """What is checked. `settings` are those of one dealer, else the summary of the installation is made.

    `send`: deliver a marked test lead to each channel. `now` is the time of this machine.
    """

    env: Mapping[str, str]
    now: datetime
    installation: Installation
    settings: Settings | None = None
    send: bool = False


def examine(examined: Examined) -> list[CheckResult]:
    """Runs all checks. The database is first, because many others need it."""
    settings, installation = examined.settings, examined.installation
    with ExitStack() as closing:
        stores: list[Store] = []

        def open_store() -> Iterator[Finding]:
            url, many = installation.database_url, installation.only is None
            if is_sqlite(url) and not Path(str(database_url(url).database)).exists():
                yield Finding("problem", "there is no database yet", "dealer-agent inventory import FILE makes it")
                return
            stores.append(Store.open(url, installation.cipher, many_dealers=many))
            closing.callback(stores[0].close)
            yield from check_database(stores[0], many_dealers=many)

        first = run_checks([Check("database", open_store)], CHECK_SECONDS)
        store = stores[0] if stores and first[0].status != "problem" else None
        if settings is not None:
            others = _of_dealer(examined, settings, store)
        else:
            others = _of_installation(examined, installation, store)
        return first + run_checks(others, CHECK_SECONDS)


def _of_dealer(examined: Examined, settings: Settings, store: Store | None) -> list[Check]:
    now, env, dealer, installation = examined.now, examined.env, settings.dealer, examined.installation
    base = settings.base_url("")
    zone, feeds = dealer.rooftops[0].timezone, [feed.name for feed in settings.feeds]
    folders = {
        channel.name: settings.directory / channel.path
        for rooftop in dealer.rooftops
        for channel in rooftop.deliver.directory
    }
    with_store = partial(_with_store, store)
    keys = (dealer.id, settings.cipher, settings.installation or settings.directory, dealer.privacy.rotate_keys_days)
    checks = [
        Check("settings", lambda: check_settings(settings, env)),
        Check("time zones", lambda: check_time_zones(dealer, now)),
        Check(
            "keys",
            with_store(lambda opened: check_the_keys(opened, *keys, zone, now, has_copy=settings.installation is None)),
        ),
        Check("folder", lambda: check_folder(settings.directory, folders)),
        Check("disk", lambda: check_disk(settings.directory, settings.alerts)),
        Check("clock", with_store(lambda opened: check_clock(opened, dealer.id, settings.alerts, now))),
        Check("replicas", with_store(lambda opened: check_replicas(OpenInstallation(installation, opened), now))),
        Check("feeds", with_store(lambda opened: check_feeds(opened, dealer, feeds, settings.alerts, now))),
        Check("deliveries", with_store(lambda opened: check_deliveries(opened, dealer.id, settings.alerts, zone, now))),
        Check("withdrawals", with_store(lambda opened: check_withdrawals(opened, dealer.id, now))),
        Check("mail", lambda: check_mail(settings.mail, env)),
        Check("channels", lambda: check_channels(dealer, settings.address_rule)),
        Check("public address", lambda: check_address(settings.card_url, base, zone, settings.alerts, now)),
        Check("rate limits", lambda: check_limit_store(installation.rate_limit_url)),
        Check("sftp server", lambda: check_sftp_server(installation.file.sftp)),
        Check("metrics", lambda: check_metrics(installation.file.metrics)),
    ]
    if examined.send:
        send = with_store(lambda opened: send_marked_leads(OpenInstallation(installation, opened), dealer.id, now))
        checks = [Check("channels", send) if check.name == "channels" else check for check in checks]
    return checks


def check_settings(settings: Settings, env: Mapping[str, str]) -> Iterator[Finding]:
    """The channels have what they need, and leads have a receiver."""
    channel_secrets(settings, env)
    watch_of_dealer(settings, env)
    dealer = settings.dealer
    if settings.installation is None and not settings.alerts.has_receivers:
        yield Finding("warning", "nobody gets alerts", "write mail or webhook_url under [alerts]")
    without = [
        rooftop.name for rooftop in dealer.rooftops if not rooftop.deliver.channels and not rooftop.deliver.notify
    ]
    if without:
        yield Finding(
            "warning",
            f"nobody receives the leads of {without[0]}{f' and {len(without) - 1} more' if len(without) > 1 else ''}",
            "add a channel or notify under [rooftops.deliver]",
        )
    else:
        yield Finding("ok", f"{dealer.id}: the settings of {_counted(dealer.rooftops, 'rooftop')} are valid")


def _counted(things: Collection[object], name: str) -> str:
    return f"{len(things)} {name}{'' if len(things) == 1 else 's'}"


def _of_installation(examined: Examined, installation: Installation, store: Store | None) -> list[Check]:
    now, section = examined.now, installation.file.installation
    with_store = partial(_with_store, store)
    keys = (ALL_DEALERS, installation.cipher, installation.directory, section.rotate_keys_days, "UTC", now)
    return [
        Check("dealers", with_store(lambda opened: _check_dealers(opened, installation, examined))),
        Check("keys", with_store(lambda opened: check_the_keys(opened, *keys))),
        Check("folder", lambda: check_folder(installation.directory, {})),
        Check("disk", lambda: check_disk(installation.directory, section.alerts)),
        Check("clock", with_store(lambda opened: check_clock(opened, ALL_DEALERS, section.alerts, now))),
        Check("replicas", with_store(lambda opened: check_replicas(OpenInstallation(installation, opened), now))),
        Check("mail", lambda: check_mail(installation.file.mail, examined.env)),
        Check("public address", lambda: check_installation_address(installation.public_url, section.alerts, now)),
        Check("rate limits", lambda: check_limit_store(installation.rate_limit_url)),
        Check("sftp server", lambda: check_sftp_server(installation.file.sftp)),
        Check("metrics", lambda: check_metrics(installation.file.metrics)),
    ]


def _with_store(store: Store | None, check: Callable[[Store], Iterable[Finding]]) -> Callable[[], Iterable[Finding]]:
    return lambda: [NEEDS_DATABASE] if store is None else check(store)


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
        settings = OpenInstallation(installation, store).settings_of(dealer_id)
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
