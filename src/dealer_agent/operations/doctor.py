"""`dealer-agent doctor`: the table of its checks, of a dealer and of an installation."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from dealer_agent.config import SettingsError
from dealer_agent.config.channels import channel_secrets
from dealer_agent.config.readiness import POINTS, missing_points
from dealer_agent.encryption import EncryptionError
from dealer_agent.open_installation import OpenInstallation
from dealer_agent.operations import inside_checks, outside_checks
from dealer_agent.operations.checks import (
    CHECK_SECONDS,
    CheckResult,
    DoctorCheck,
    DoctorFinding,
    Examined,
    local,
    run_checks,
)
from dealer_agent.storage.database_url import database_url, is_sqlite
from dealer_agent.storage.deliveries.outbox import list_deliveries
from dealer_agent.storage.errors import StorageError
from dealer_agent.storage.installation.dealer_registry import all_dealers
from dealer_agent.storage.stock.reading import list_imports
from dealer_agent.storage.store import Store

MOST_DEALERS = 1000
"""The most dealers of an installation that are checked."""
MOST_NAMED = 10
"""The most dealers with a problem that are named."""


class DoctorRow(NamedTuple):
    """A check, and whether it examines one dealer, an installation as a whole, or either."""

    name: str
    scope: Literal["dealer", "installation", "both"]
    run: Callable[[Examined], Iterable[DoctorFinding]]


def examine(examined: Examined, *, public: bool = False, seconds: float = CHECK_SECONDS) -> list[CheckResult]:
    """Runs all checks, or with `public` only those before going live.

    First the database is opened and checked, because many other checks read it. Then these run at once. Each of the two
    steps takes at most `seconds`.
    """
    installation = examined.installation
    with ExitStack() as closing:

        def open_store() -> Iterator[DoctorFinding]:
            """Opens the database for the checks after this one, and checks it. Does not make one."""
            url, many = installation.database_url, installation.only is None
            if is_sqlite(url) and not Path(str(database_url(url).database)).exists():
                yield DoctorFinding(
                    "problem",
                    "there is no database yet",
                    "import your stock, which makes it:\ndealer-agent inventory import FILE",
                )
                return
            examined.opened = Store.open(url, installation.cipher, many_dealers=many)
            closing.callback(examined.opened.close)
            yield from inside_checks.check_database(examined.opened, many_dealers=many)

        results = run_checks([DoctorCheck("database", open_store)], seconds)
        if results[0].status == "problem":
            examined.opened = None
        scopes = ("both", "installation" if examined.settings is None else "dealer")
        rows = PUBLIC_CHECKS if public else CHECKS
        checks = [DoctorCheck(row.name, partial(row.run, examined)) for row in rows if row.scope in scopes]
        return results + run_checks(checks, seconds)


def _check_dealers(examined: Examined) -> Iterator[DoctorFinding]:
    """The settings, feeds and deliveries of the first MOST_DEALERS enabled dealers, in one line for each problem."""
    with examined.store.installation() as tx:
        enabled = [dealer.dealer_id for dealer in all_dealers(tx) if dealer.enabled]
    wrong, warned = {}, []
    for dealer_id in enabled[:MOST_DEALERS]:
        problem, has_warnings = _problem_of(examined, dealer_id)
        if problem is not None:
            wrong[dealer_id] = problem
        elif has_warnings:
            warned.append(dealer_id)
    for dealer_id, problem in list(wrong.items())[:MOST_NAMED]:
        yield DoctorFinding("problem", f"{dealer_id}: {problem}"[:300], f"dealer-agent doctor --dealer {dealer_id}")
    if len(wrong) > MOST_NAMED:
        yield DoctorFinding("problem", f"{len(wrong) - MOST_NAMED:,} more dealers have problems", "correct these first")
    checked = min(len(enabled), MOST_DEALERS)
    if not enabled:
        yield DoctorFinding("warning", "no dealer is enabled", "dealer-agent dealers add FILE")
    elif len(enabled) > MOST_DEALERS:
        advice = "check each of the others: dealer-agent doctor --dealer ID"
        yield DoctorFinding(
            "warning", f"only the first {MOST_DEALERS:,} of {len(enabled):,} dealers were checked", advice
        )
    elif warned:
        says = f"{len(warned):,} of {checked:,} dealers have warnings about their newest file, the first is {warned[0]}"
        yield DoctorFinding("warning", says, f"dealer-agent inventory history --dealer {warned[0]}")
    elif not wrong:
        yield DoctorFinding("ok", f"{checked:,} enabled: settings, feeds and deliveries are in order")


def _check_open(examined: Examined) -> Iterator[DoctorFinding]:
    """What is missing before each of the first MOST_DEALERS enabled dealers is open."""
    with examined.store.installation() as tx:
        enabled = [dealer.dealer_id for dealer in all_dealers(tx) if dealer.enabled]
    waiting = 0
    for dealer_id in enabled[:MOST_DEALERS]:
        settings = OpenInstallation(examined.installation, examined.store).settings_of(dealer_id)
        names = [each.name for each in missing_points(settings)]
        waiting += bool(names)
        if names and waiting <= MOST_NAMED:
            says = f"{dealer_id}: {', '.join(names)} {'is' if len(names) == 1 else 'are'} missing"
            yield DoctorFinding("problem", says, f"dealer-agent doctor --public --dealer {dealer_id}")
    if waiting > MOST_NAMED:
        yield DoctorFinding("problem", f"{waiting - MOST_NAMED:,} more dealers are not ready", "correct these first")
    if not waiting:
        yield DoctorFinding("ok", f"nothing is missing for {min(len(enabled), MOST_DEALERS):,} enabled dealers")


def _problem_of(examined: Examined, dealer_id: str) -> tuple[str | None, bool]:
    """The first problem of one dealer in an installation, in short, and whether its newest file has warnings."""
    try:
        settings = OpenInstallation(examined.installation, examined.store).settings_of(dealer_id)
        # Called only because it raises SettingsError for wrong channels and missing environment variables.
        channel_secrets(settings, examined.env)
        with examined.store.read(dealer_id, examined.now) as tx:
            newest, undeliverable = list_imports(tx, 1), list_deliveries(tx, 1, state="undeliverable")
    except (SettingsError, StorageError, EncryptionError) as error:
        return str(error), False
    if not newest:
        return "no stock was ever imported", False
    if examined.now - newest[0].at > timedelta(hours=settings.alerts.feed_late_hours):
        return f"the newest import is of {local(newest[0].at, settings.dealer.rooftops[0].timezone)}", False
    return "deliveries are undeliverable" if undeliverable else None, bool(newest[0].findings)


CHECKS = (
    DoctorRow("dealers", "installation", _check_dealers),
    DoctorRow("settings", "dealer", inside_checks.check_settings),
    DoctorRow("time zones", "dealer", inside_checks.check_time_zones),
    DoctorRow("keys", "both", inside_checks.check_the_keys),
    DoctorRow("folder", "both", inside_checks.check_folder),
    DoctorRow("disk", "both", inside_checks.check_disk),
    DoctorRow("clock", "both", inside_checks.check_clock),
    DoctorRow("replicas", "both", inside_checks.check_replicas),
    DoctorRow("feeds", "dealer", inside_checks.check_feeds),
    DoctorRow("deliveries", "dealer", inside_checks.check_deliveries),
    DoctorRow("quarantine", "dealer", inside_checks.check_quarantine),
    DoctorRow("withdrawals", "dealer", inside_checks.check_withdrawals),
    DoctorRow("tokens", "dealer", inside_checks.check_tokens),
    DoctorRow("issuers", "dealer", outside_checks.check_issuers),
    DoctorRow("mail", "both", outside_checks.check_mail),
    DoctorRow("channels", "dealer", outside_checks.check_channels),
    DoctorRow("public address", "dealer", outside_checks.check_address),
    DoctorRow("public address", "installation", outside_checks.check_installation_address),
    DoctorRow("rate limits", "both", outside_checks.check_limit_store),
    DoctorRow("sftp server", "both", outside_checks.check_sftp_server),
    DoctorRow("metrics", "both", outside_checks.check_metrics),
    DoctorRow("proxy", "both", inside_checks.check_proxy),
)
"""All checks but that of the database, in the order of the report."""

PUBLIC_CHECKS = (
    DoctorRow("dealers", "installation", _check_open),
    *(DoctorRow(point.name, "dealer", partial(inside_checks.check_point, point)) for point in POINTS),
    DoctorRow("proxy seen", "both", inside_checks.check_proxy),
    DoctorRow("key copy", "both", inside_checks.check_key_copy),
    DoctorRow("public address", "dealer", outside_checks.check_address),
    DoctorRow("public address", "installation", outside_checks.check_installation_address),
)
"""The list before going live, with `--public`."""
