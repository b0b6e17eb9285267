"""Checks of `doctor`: this machine and the database (settings, time zones, folders, disk, keys, clock, feeds)."""

import os
import shlex
import shutil
import stat
import time
from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from functools import cache
from importlib.resources import files
from statistics import median
from zoneinfo import ZoneInfo

from dealer_agent import __version__
from dealer_agent.alerts.watches import watch_of_dealer
from dealer_agent.config.alert_settings import AlertSettings
from dealer_agent.config.channels import channel_secrets
from dealer_agent.config.keys import KEY_FILE_NAME, KEYS_VARIABLE
from dealer_agent.config.readiness import ReadinessItem
from dealer_agent.encryption.private_files import is_open_to_others
from dealer_agent.open_installation import OpenInstallation, owner_of
from dealer_agent.operations.checks import DoctorFinding, Examined, Status, age_words, local, parts_of
from dealer_agent.server.replica_record import SEEN_WITHIN, settings_hash
from dealer_agent.storage.alerts import confirmed_copies, warned_imports
from dealer_agent.storage.clock import clock_problem, server_clock
from dealer_agent.storage.deliveries.outbox import list_deliveries
from dealer_agent.storage.installation.replicas import list_replicas
from dealer_agent.storage.isolation import isolation_problem
from dealer_agent.storage.leads.quarantine import waiting_by_caller
from dealer_agent.storage.privacy.keys import check_keys, key_uses
from dealer_agent.storage.privacy.reencryption import values_by_key
from dealer_agent.storage.privacy.withdrawals import RESTORE_COMMAND, compare_withdrawals
from dealer_agent.storage.schema import SCHEMA_VERSION
from dealer_agent.storage.stock.feeds import feed_states
from dealer_agent.storage.stock.reading import list_imports, read_stock
from dealer_agent.storage.store import Store
from dealer_agent.storage.tokens import list_tokens

EXPIRES_SOON = timedelta(days=14)
"""How long before its expiry a token is a warning."""
MOST_TOKENS = 10
"""The most tokens that are named."""
ZONE_DAYS = 400
"""How far ahead the rules of a time zone are compared."""


def check_settings(examined: Examined) -> Iterator[DoctorFinding]:
    """The channels have what they need, and leads have a receiver."""
    settings, dealer = examined.dealer, examined.dealer.dealer
    channel_secrets(settings, examined.env)
    watch_of_dealer(settings, examined.env)
    if settings.installation is None and not settings.alerts.has_receivers:
        yield DoctorFinding("warning", "nobody gets alerts", "write mail or webhook_url under [alerts]")
    without = [
        rooftop.name for rooftop in dealer.rooftops if not rooftop.deliver.channels and not rooftop.deliver.notify
    ]
    if without:
        yield DoctorFinding(
            "warning",
            f"nobody receives the leads of {without[0]}{f' and {len(without) - 1} more' if len(without) > 1 else ''}",
            "add a channel or notify under [rooftops.deliver]",
        )
    else:
        yield DoctorFinding("ok", f"{dealer.id}: the settings of {_counted(dealer.rooftops, 'rooftop')} are valid")


def _counted(things: Collection[object], name: str) -> str:
    return f"{len(things)} {name}{'' if len(things) == 1 else 's'}"


def check_time_zones(examined: Examined) -> Iterator[DoctorFinding]:
    """The zones of the rooftops have the same rules in the system's database and in the package `tzdata`."""
    zones = sorted({rooftop.timezone for rooftop in examined.dealer.dealer.rooftops})
    different = [zone for zone in zones if not _rules_agree(zone, examined.now)]
    for zone in different:
        yield DoctorFinding(
            "warning",
            f"{zone}: this system and the Python package tzdata have different rules",
            "update the system's package tzdata, so that visits have the right time",
        )
    if not different:
        yield DoctorFinding("ok", ", ".join(f"{zone} (now {local(examined.now, zone)})" for zone in zones[:5]))


def _rules_agree(zone: str, now: datetime) -> bool:
    """Whether the machine's rules of a time zone are those of the package `tzdata`, for the next ZONE_DAYS."""
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


def check_folder(examined: Examined) -> Iterator[DoctorFinding]:
    """Only the user of the service has access to the folder, and can write. Folders for leads are private, too."""
    folder = examined.folder
    state = folder.stat()
    if is_open_to_others(state.st_mode):
        yield DoctorFinding("problem", f"other users have access to {folder}", f"chmod 700 {folder}")
    elif not os.access(folder, os.W_OK | os.X_OK):
        yield DoctorFinding("problem", f"this user may not write to {folder}", "run the service as the folder's owner")
    elif os.geteuid() not in (0, state.st_uid):
        yield DoctorFinding("warning", f"{folder} belongs to another user", "run this command as the service's user")
    else:
        yield DoctorFinding("ok", f"{folder} is private ({stat.S_IMODE(state.st_mode):o})")
    rooftops = () if examined.settings is None else examined.settings.dealer.rooftops
    channels = [channel for rooftop in rooftops for channel in rooftop.deliver.directory]
    for name, path in {each.name: folder / each.path for each in channels}.items():
        if path.is_dir() and is_open_to_others(path.stat().st_mode):
            yield DoctorFinding(
                "warning",
                f"other users have access to the folder of channel {name}",
                f"chmod 700 {path}, if the CRM's program runs as the same user",
            )


def check_disk(examined: Examined) -> Iterator[DoctorFinding]:
    """The disk has as much space as `disk_free_mib`. A tenth of it is a problem."""
    usage, least = shutil.disk_usage(examined.folder), examined.alerts.disk_free_mib * 2**20
    free = f"{usage.free / 2**30:,.1f} GiB free of {usage.total / 2**30:,.1f} GiB"
    if usage.free < least // 10:
        yield DoctorFinding("problem", free, "make room: without it no lead can be stored")
    elif usage.free < least:
        yield DoctorFinding("warning", free, "make room on the disk of this folder")
    else:
        yield DoctorFinding("ok", free)


SLOW_SECONDS = 0.1
"""A database whose median answer takes longer gets a warning."""
CLOCK_PROBLEM = timedelta(minutes=5)
OLD_FEED = timedelta(days=7)
MOST_UNDELIVERABLE = 1000
"""Undeliverable deliveries are counted up to this number."""

MOST_NAMED = 10
"""The most machines that are named."""


def check_database(store: Store, *, many_dealers: bool) -> Iterator[DoctorFinding]:
    """The database answers fast, and isolates dealers. `Store.open` has checked the schema."""
    seconds = []
    with store.installation() as tx:
        for _ in range(5):
            begun = time.perf_counter()
            tx.connection.exec_driver_sql("SELECT 1")
            seconds.append(time.perf_counter() - begun)
        kind = tx.connection.dialect.name
        problem = isolation_problem(tx.connection)
    answers = f"{kind}, schema {SCHEMA_VERSION}, answers in {1000 * median(seconds):.1f} ms"
    if median(seconds) > SLOW_SECONDS:
        yield DoctorFinding("warning", answers, "look at the load of the database server and at the network to it")
    else:
        yield DoctorFinding("ok", answers)
    if problem is not None:
        said, advice = parts_of(problem)
        yield DoctorFinding("problem" if many_dealers else "warning", said, advice)


def check_the_keys(examined: Examined) -> Iterator[DoctorFinding]:
    """The keys are there, belong to the database, are replaced in time, and a copy is known.

    The keys of a dealer of an installation have no copy of their own: they are in the database.
    """
    store, cipher, folder = examined.store, examined.installation.cipher, examined.installation.folder
    if examined.settings is None:
        rotate_days, has_copy = examined.installation.file.installation.rotate_keys_days, True
    else:
        rotate_days = examined.settings.dealer.privacy.rotate_keys_days
        has_copy = examined.settings.installation is None
    if cipher is None:
        yield DoctorFinding("problem", *_without_keys(examined))
        return
    file = folder / KEY_FILE_NAME
    if file.exists() and is_open_to_others(file.stat().st_mode):
        yield DoctorFinding("problem", f"other users may read {file}", f"chmod 600 {file}")
    with store.read(examined.dealer_id, examined.now) as tx:
        if tx.given_cipher is None:
            yield DoctorFinding("skipped", "the dealer has no keys yet: they are made when it is first served")
            return
        check_keys(tx)
        uses, copies = key_uses(tx), confirmed_copies(tx)
    active = [(key_id, use.since) for key_id, use in uses.items() if use.state == "active"]
    missing = [(key_id, use.missing_on) for key_id, use in uses.items() if use.missing_on]
    for key_id, machine in missing:
        yield DoctorFinding("problem", f"{machine} lacks the next key {key_id}", "give all machines the same keys")
    if not active:
        yield DoctorFinding("ok", f"{cipher.keyring.active} is ready. It has encrypted nothing yet")
        return
    key_id, since = active[-1]
    if has_copy and key_id not in copies:
        yield DoctorFinding(
            "warning", f"no copy of {key_id} is known", "keep a copy, then dealer-agent keys confirm-copy"
        )
    age = examined.now - since
    says = f"{key_id} encrypts since {local(since, examined.zone)}"
    if rotate_days and age > timedelta(days=rotate_days + 2):
        advice = "dealer-agent keys rotate --forget-old, and read the log for `key not rotated`"
        yield DoctorFinding("warning", f"{says}: it is older than rotate_keys_days", advice)
    else:
        yield DoctorFinding("ok", says)


def check_key_copy(examined: Examined) -> Iterator[DoctorFinding]:
    """A person has confirmed a copy of the active key of this service."""
    owner = owner_of(examined.installation)
    if examined.installation.cipher is None:
        yield DoctorFinding("problem", *_without_keys(examined))
        return
    with examined.store.read(owner, examined.now) as tx:
        uses, copies = key_uses(tx), confirmed_copies(tx)
    key_id = examined.installation.cipher.keyring.active
    if key_id in copies:
        yield DoctorFinding("ok", f"a copy of {key_id} is known")
    else:
        advice = "keep a copy away from the backups, then type dealer-agent keys confirm-copy"
        first = "" if key_id in uses else "start the service once, "
        yield DoctorFinding("problem", f"no copy of {key_id} is known", first + advice)


def _without_keys(examined: Examined) -> tuple[str, str]:
    """What is said without keys, and the advice. A new key cannot read what an older one has encrypted."""
    with examined.store.read(owner_of(examined.installation), examined.now) as tx:
        used = values_by_key(tx)
    if used:
        says = f"there are no keys, and customer data is encrypted with {', '.join(sorted(used))}"
        return says, f"put {KEY_FILE_NAME} back from your copy, or set {KEYS_VARIABLE}; a new key cannot read this data"
    return "there are no keys: the service does not start", "dealer-agent keys create"


def check_proxy(examined: Examined) -> Iterator[DoctorFinding]:
    """No machine gets requests through a proxy that the settings do not name."""
    with examined.store.read(owner_of(examined.installation), examined.now) as tx:
        seen = sorted({each.forwarded_by for each in list_replicas(tx) if each.forwarded_by})
    for proxy in seen:
        says = (
            f"requests come through {proxy}, which trusted_proxies does not name: all its buyers share one rate limit"
        )
        advice = f'if it is your proxy, write trusted_proxies = ["{proxy}"] under [service], and restart the service'
        yield DoctorFinding("problem", says, advice)
    if not seen:
        declared = examined.installation.file.service.trusted_proxies
        yield DoctorFinding("ok", f"declared: {', '.join(declared)}" if declared else "none was seen")


def check_point(point: ReadinessItem, examined: Examined) -> Iterator[DoctorFinding]:
    """A point of the list before going live is not missing."""
    missing = point.missing(examined.dealer)
    yield DoctorFinding("ok", point.stated) if missing is None else DoctorFinding("problem", missing, point.cure)


def check_clock(examined: Examined) -> Iterator[DoctorFinding]:
    """The clock agrees with the one of the database server, and with the last time that the service ran."""
    with examined.store.read(examined.dealer_id, examined.now) as tx:
        problem = clock_problem(tx)
        if problem is not None:
            said, advice = parts_of(problem)
            yield DoctorFinding("problem", said, advice)
            return
        begun = datetime.now(examined.now.tzinfo)
        server = server_clock(tx)
        between = begun + (datetime.now(examined.now.tzinfo) - begun) / 2
    if server is None:
        yield DoctorFinding("ok", "the clock agrees with the last time that the service ran")
    else:
        yield clock_finding(abs(server - between), "the database server", examined.alerts)


def clock_finding(difference: timedelta, other: str, alerts: AlertSettings) -> DoctorFinding:
    """The finding about a difference of two clocks. It is allowed up to `clock_seconds`."""
    says = f"this machine and {other} differ by {difference.total_seconds():.1f} s"
    if difference > CLOCK_PROBLEM:
        return DoctorFinding("problem", says, "synchronise the clocks with NTP")
    if difference > timedelta(seconds=alerts.clock_seconds):
        return DoctorFinding("warning", says, "synchronise the clocks with NTP")
    return DoctorFinding("ok", says)


def check_feeds(examined: Examined) -> Iterator[DoctorFinding]:
    """Automatic feeds arrive and are imported. Each rooftop's stock was confirmed by a recent import."""
    settings, now = examined.dealer, examined.now
    rooftops, names = settings.dealer.rooftops, [feed.name for feed in settings.feeds]
    late = timedelta(hours=settings.alerts.feed_late_hours)
    with examined.store.read(settings.dealer.id, now) as tx:
        newest = list_imports(tx, 1)
        confirmed = read_stock(tx, 0)
        states = [state for state in feed_states(tx) if state.name in names]
        warned = warned_imports(tx)
    wrong = [state for state in states if state.problem is not None or state.is_late]
    for state in wrong:
        zone = rooftops[0].timezone
        arrived = f"the newest file is of {local(state.new_at, zone)}" if state.new_at else "no file has arrived"
        says = f"{state.name}: {state.problem or arrived}"
        status: Status = "problem" if state.problem is not None else "warning"
        yield DoctorFinding(status, says, f"dealer-agent feeds show {state.name}")
    if not newest:
        yield DoctorFinding("problem", "no stock was ever imported", "dealer-agent inventory import FILE")
        return
    for feed, record in warned.items():
        said = f"{feed or 'inventory'}: the newest file, {record.source}, has {_counted(record.findings, 'warning')}"
        yield DoctorFinding("warning", f"{said}: {record.findings[0].sentence}", "dealer-agent inventory history")
    found = bool(wrong or warned)
    for rooftop in rooftops:
        at = confirmed.confirmed_at(rooftop.name)
        age = None if at is None else now - at
        if age is not None and age <= late:
            continue
        found = True
        when = "was never imported" if at is None else f"was last imported {local(at, rooftop.timezone)}"
        yield DoctorFinding(
            "problem" if age is None or age > OLD_FEED else "warning",
            f"{rooftop.name}: its whole stock {when}",
            "import a current file: dealer-agent inventory import FILE; see dealer-agent inventory history",
        )
    if not found:
        age = now - newest[0].at
        yield DoctorFinding(
            "ok", f"imported {local(newest[0].at, rooftops[0].timezone)}, {age_words(age.total_seconds())} ago"
        )


def check_replicas(examined: Examined) -> Iterator[DoctorFinding]:
    """The machines that serve now have the same settings and version, which are those of this folder."""
    served = OpenInstallation(examined.installation, examined.store)
    with examined.store.read(served.owner, examined.now) as tx:
        running = [replica for replica in list_replicas(tx) if examined.now - replica.seen_at <= SEEN_WITHIN]
    if not running:
        yield DoctorFinding("skipped", "no machine serves now: dealer-agent serve")
        return
    expected = settings_hash(examined.installation)
    different = [replica for replica in running if replica.settings != expected]
    for replica in different[:MOST_NAMED]:
        yield DoctorFinding(
            "warning",
            f"{replica.machine} runs with other settings than those in this folder",
            "restart it; if it is another machine, give it the same settings file",
        )
    versions = {replica.version for replica in running} | {__version__}
    if len(versions) > 1:
        shown = ", ".join(sorted(versions)[:MOST_NAMED])
        yield DoctorFinding("warning", f"several versions are in use: {shown}", "finish the upgrade on all machines")
    if not different and len(versions) == 1:
        words = "1 machine serves" if len(running) == 1 else f"{len(running)} machines serve"
        yield DoctorFinding("ok", f"{words} with these settings and version {__version__}")


def check_deliveries(examined: Examined) -> Iterator[DoctorFinding]:
    """No delivery is undeliverable or waits for long."""
    with examined.store.read(examined.dealer_id, examined.now) as tx:
        undeliverable = len(list_deliveries(tx, MOST_UNDELIVERABLE, state="undeliverable"))
        waiting = list_deliveries(tx, MOST_UNDELIVERABLE, state="waiting")
    oldest = min((each.created_at for each in waiting), default=examined.now)
    if undeliverable:
        many = f"{undeliverable:,}{' or more' if undeliverable == MOST_UNDELIVERABLE else ''}"
        yield DoctorFinding(
            "problem", f"{many} deliveries are undeliverable", "dealer-agent deliveries list --state undeliverable"
        )
    if examined.now - oldest > timedelta(minutes=examined.alerts.deliveries_waiting_minutes):
        yield DoctorFinding(
            "warning",
            f"a delivery waits since {local(oldest, examined.zone)}",
            "dealer-agent deliveries list --state waiting",
        )
    elif not undeliverable:
        yield DoctorFinding("ok", f"{len(waiting):,} waiting, none is undeliverable")


def check_tokens(examined: Examined) -> Iterator[DoctorFinding]:
    """No token of a buyer agent has expired, or expires soon."""
    with examined.store.read(examined.dealer_id, examined.now) as tx:
        active = [token for token in list_tokens(tx) if token.purpose == "skills" and token.revoked_at is None]
    soon = examined.now + EXPIRES_SOON
    ending = [(token, token.expires_at) for token in active if token.expires_at and token.expires_at <= soon]
    for token, expires_at in ending[:MOST_TOKENS]:
        verb = "expired" if expires_at <= examined.now else "expires"
        yield DoctorFinding(
            "warning",
            f"the token {token.token_id} of {token.name} {verb} on {local(expires_at, examined.zone)}",
            f"give its owner a new one:\ndealer-agent tokens create --days 365 {shlex.quote(token.name)}\n"
            f"Then end this one:\ndealer-agent tokens revoke {token.token_id}",
        )
    if not active:
        yield DoctorFinding("skipped", "there are no tokens")
    elif len(ending) > MOST_TOKENS:
        yield DoctorFinding("warning", f"{len(ending) - MOST_TOKENS:,} more expire soon", "dealer-agent tokens list")
    elif not ending:
        yield DoctorFinding("ok", f"{_counted(active, 'token')}, none expires within {EXPIRES_SOON.days} days")


def check_quarantine(examined: Examined) -> Iterator[DoctorFinding]:
    """No lead waits in quarantine."""
    with examined.store.read(examined.dealer_id, examined.now) as tx:
        waiting = waiting_by_caller(tx)
    if not waiting:
        yield DoctorFinding("ok", "no lead waits")
        return
    number = sum(each.number for each in waiting)
    verb = "lead waits" if number == 1 else "leads wait"
    says = f"{number:,} {verb}, the oldest since {local(waiting[0].oldest, examined.zone)}: nobody gets them"
    yield DoctorFinding("warning", says, "decide about them:\ndealer-agent leads quarantined")


def check_withdrawals(examined: Examined) -> Iterator[DoctorFinding]:
    """The table of withdrawals, which decides about new leads, agrees with the consent record."""
    with examined.store.read(examined.dealer_id, examined.now) as tx:
        if tx.given_cipher is None:
            yield DoctorFinding("skipped", "there are no keys yet")
            return
        different = compare_withdrawals(tx).words
    if different is None:
        yield DoctorFinding("ok", "the table agrees with the consent record")
    else:
        yield DoctorFinding("problem", different, RESTORE_COMMAND)
