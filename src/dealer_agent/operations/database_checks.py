"""Checks of the database and of what it says: keys, clock, feeds, deliveries."""

import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median

from dealer_agent import __version__
from dealer_agent.config import Settings
from dealer_agent.config.alert_settings import AlertSettings
from dealer_agent.config.installation import Installation
from dealer_agent.config.keys import KEY_FILE_NAME
from dealer_agent.encryption import Cipher
from dealer_agent.encryption.file_permissions import is_open_to_others
from dealer_agent.operations.checks import Finding, Status, age_words, local, parts_of
from dealer_agent.server.replica_record import SEEN_WITHIN, settings_hash
from dealer_agent.storage.alerts import confirmed_copies
from dealer_agent.storage.clock import clock_problem, server_clock
from dealer_agent.storage.feeds import feed_states
from dealer_agent.storage.isolation import isolation_problem
from dealer_agent.storage.keys import check_keys, key_uses
from dealer_agent.storage.outbox import list_deliveries
from dealer_agent.storage.replicas import list_replicas
from dealer_agent.storage.schema import SCHEMA_REVISION
from dealer_agent.storage.stock import list_imports, read_stock
from dealer_agent.storage.store import Store
from dealer_agent.storage.withdrawals import RESTORE_COMMAND, compare_withdrawals

SLOW_SECONDS = 0.1
"""A database whose median answer takes longer gets a warning."""
CLOCK_PROBLEM = timedelta(minutes=5)
OLD_FEED = timedelta(days=7)
MOST_PARKED = 1000
"""Parked deliveries are counted up to this number."""

MOST_NAMED = 10
"""The most machines that are named."""


def check_database(store: Store, *, many_dealers: bool) -> Iterator[Finding]:
    """The database answers fast, and isolates dealers. `Store.open` has checked the schema."""
    seconds = []
    with store.installation() as tx:
        for _ in range(5):
            begun = time.perf_counter()
            tx.connection.exec_driver_sql("SELECT 1")
            seconds.append(time.perf_counter() - begun)
        kind = tx.connection.dialect.name
        problem = isolation_problem(tx.connection)
    answers = f"{kind}, schema {SCHEMA_REVISION}, answers in {1000 * median(seconds):.1f} ms"
    if median(seconds) > SLOW_SECONDS:
        yield Finding("warning", answers, "look at the load of the database server and at the network to it")
    else:
        yield Finding("ok", answers)
    if problem is not None:
        said, advice = parts_of(problem)
        yield Finding("problem" if many_dealers else "warning", said, advice)


def check_the_keys(
    store: Store,
    dealer_id: str,
    cipher: Cipher | None,
    directory: Path,
    rotate_days: int,
    zone: str,
    now: datetime,
    *,
    has_copy: bool = True,
) -> Iterator[Finding]:
    """The keys are there, belong to the database, are replaced in time, and a copy is known.

    `directory` may hold the key file. The keys of a dealer of an installation have no copy of their own: they are in
    the database.
    """
    if cipher is None:
        yield Finding("problem", "there are no keys: the service does not start", "dealer-agent keys create")
        return
    file = directory / KEY_FILE_NAME
    if file.exists() and is_open_to_others(file.stat().st_mode):
        yield Finding("problem", f"other users may read {file}", f"chmod 600 {file}")
    with store.read(dealer_id, now) as tx:
        if tx.given_cipher is None:
            yield Finding("skipped", "the dealer has no keys yet: they are made when it is first served")
            return
        check_keys(tx)
        uses, copies = key_uses(tx), confirmed_copies(tx)
    active = [(key_id, use.since) for key_id, use in uses.items() if use.state == "active"]
    missing = [(key_id, use.missing_on) for key_id, use in uses.items() if use.missing_on]
    for key_id, machine in missing:
        yield Finding("problem", f"{machine} lacks the next key {key_id}", "give all machines the same keys")
    if not active:
        yield Finding("ok", f"{cipher.keyring.active} is ready. It has encrypted nothing yet")
        return
    key_id, since = active[-1]
    if has_copy and key_id not in copies:
        yield Finding("warning", f"no copy of {key_id} is known", "keep a copy, then dealer-agent keys confirm-copy")
    age = now - since
    says = f"{key_id} encrypts since {local(since, zone)}"
    if rotate_days and age > timedelta(days=rotate_days + 2):
        advice = "dealer-agent keys rotate --forget-old, and read the log for `key not rotated`"
        yield Finding("warning", f"{says}: it is older than rotate_keys_days", advice)
    else:
        yield Finding("ok", says)


def check_clock(store: Store, dealer_id: str, alerts: AlertSettings, now: datetime) -> Iterator[Finding]:
    """The clock agrees with the one of the database server, and with the last time that the service ran."""
    with store.read(dealer_id, now) as tx:
        problem = clock_problem(tx)
        if problem is not None:
            said, advice = parts_of(problem)
            yield Finding("problem", said, advice)
            return
        begun = datetime.now(now.tzinfo)
        server = server_clock(tx)
        between = begun + (datetime.now(now.tzinfo) - begun) / 2
    if server is None:
        yield Finding("ok", "the clock agrees with the last time that the service ran")
    else:
        yield clock_finding(abs(server - between), "the database server", alerts)


def clock_finding(difference: timedelta, other: str, alerts: AlertSettings) -> Finding:
    """The finding about a difference of two clocks. It is allowed up to `clock_seconds`."""
    says = f"this machine and {other} differ by {difference.total_seconds():.1f} s"
    if difference > CLOCK_PROBLEM:
        return Finding("problem", says, "synchronise the clocks with NTP")
    if difference > timedelta(seconds=alerts.clock_seconds):
        return Finding("warning", says, "synchronise the clocks with NTP")
    return Finding("ok", says)


def check_feeds(store: Store, settings: Settings, now: datetime) -> Iterator[Finding]:
    """Automatic feeds arrive and are imported. Each rooftop's stock was confirmed by a recent import."""
    rooftops, names = settings.dealer.rooftops, [feed.name for feed in settings.feeds]
    late = timedelta(hours=settings.alerts.feed_late_hours)
    with store.read(settings.dealer.id, now) as tx:
        newest = list_imports(tx, 1)
        confirmed = read_stock(tx, 0)
        states = [state for state in feed_states(tx) if state.name in names]
    wrong = [state for state in states if state.problem is not None or state.is_late]
    for state in wrong:
        arrived = "no file has arrived" if state.new_at is None else _newest(state.new_at, rooftops[0].timezone)
        says = f"{state.name}: {state.problem or arrived}"
        status: Status = "problem" if state.problem is not None else "warning"
        yield Finding(status, says, f"dealer-agent feeds show {state.name}")
    if not newest:
        yield Finding("problem", "no stock was ever imported", "dealer-agent inventory import FILE")
        return
    found = bool(wrong)
    for rooftop in rooftops:
        at = confirmed.confirmed_at(rooftop.name)
        age = None if at is None else now - at
        if age is not None and age <= late:
            continue
        found = True
        since = "never" if at is None else f"last {local(at, rooftop.timezone)}"
        yield Finding(
            "problem" if age is None or age > OLD_FEED else "warning",
            f"{rooftop.name}: its whole stock was {since} confirmed by a feed",
            "import a current file: dealer-agent inventory import FILE; see dealer-agent inventory history",
        )
    if not found:
        age = now - newest[0].at
        yield Finding(
            "ok", f"imported {local(newest[0].at, rooftops[0].timezone)}, {age_words(age.total_seconds())} ago"
        )


def _newest(at: datetime, zone: str) -> str:
    return f"the newest file is of {local(at, zone)}"


def check_replicas(store: Store, dealer_id: str, served: Settings | Installation, now: datetime) -> Iterator[Finding]:
    """The machines that serve now have the same settings and version, which are those of this folder."""
    with store.read(dealer_id, now) as tx:
        running = [replica for replica in list_replicas(tx) if now - replica.seen_at <= SEEN_WITHIN]
    if not running:
        yield Finding("skipped", "no machine serves now: dealer-agent serve")
        return
    expected = settings_hash(served)
    different = [replica for replica in running if replica.settings != expected]
    for replica in different[:MOST_NAMED]:
        yield Finding(
            "warning",
            f"{replica.machine} runs with other settings than those in this folder",
            "restart it; if it is another machine, give it the same settings file",
        )
    versions = {replica.version for replica in running} | {__version__}
    if len(versions) > 1:
        shown = ", ".join(sorted(versions)[:MOST_NAMED])
        yield Finding("warning", f"several versions are in use: {shown}", "finish the upgrade on all machines")
    if not different and len(versions) == 1:
        words = "1 machine serves" if len(running) == 1 else f"{len(running)} machines serve"
        yield Finding("ok", f"{words} with these settings and version {__version__}")


def check_deliveries(
    store: Store, dealer_id: str, alerts: AlertSettings, zone: str, now: datetime
) -> Iterator[Finding]:
    """No delivery is parked or waits for long."""
    with store.read(dealer_id, now) as tx:
        parked = len(list_deliveries(tx, MOST_PARKED, state="parked"))
        waiting = list_deliveries(tx, MOST_PARKED, state="waiting")
    oldest = min((each.created_at for each in waiting), default=now)
    if parked:
        many = f"{parked:,}{' or more' if parked == MOST_PARKED else ''}"
        yield Finding("problem", f"{many} deliveries are parked", "dealer-agent deliveries list --state parked")
    if now - oldest > timedelta(minutes=alerts.deliveries_waiting_minutes):
        yield Finding(
            "warning", f"a delivery waits since {local(oldest, zone)}", "dealer-agent deliveries list --state waiting"
        )
    elif not parked:
        yield Finding("ok", f"{len(waiting):,} waiting, none is parked")


def check_withdrawals(store: Store, dealer_id: str, now: datetime) -> Iterator[Finding]:
    """The table of withdrawals, which decides about new leads, agrees with the consent record."""
    with store.read(dealer_id, now) as tx:
        if tx.given_cipher is None:
            yield Finding("skipped", "there are no keys yet")
            return
        different = compare_withdrawals(tx).words
    if different is None:
        yield Finding("ok", "the table agrees with the consent record")
    else:
        yield Finding("problem", different, RESTORE_COMMAND)
