"""Looks at the database, the machine and the public address: which conditions are there now.

A condition that is missing in the result is unknown at the moment.
"""

import shlex
import shutil
import ssl
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx

from dealer_agent.alerts.conditions import LEAD_FAILED_QUIET
from dealer_agent.alerts.rules import Observation
from dealer_agent.config.alert_settings import AlertSettings
from dealer_agent.feeds.files.checks import FeedFinding
from dealer_agent.storage.alerts import CheckRecord, confirmed_copies, warned_imports
from dealer_agent.storage.clock import clock_problem, server_clock
from dealer_agent.storage.deliveries.outbox import UnsentDeliveries, unsent_deliveries
from dealer_agent.storage.installation.replicas import list_replicas
from dealer_agent.storage.privacy.keys import key_uses
from dealer_agent.storage.stock.feeds import FeedFile, FeedState, feed_states, list_files
from dealer_agent.storage.stock.reading import list_imports, list_refused_imports
from dealer_agent.storage.transaction import Transaction

Seen = Mapping[str, Sequence[Observation]]

ADDRESS_SECONDS = 15.0
"""The longest time for one request to the public address."""
MOST_BYTES = 1 << 20
"""The most bytes of its response that are read."""
MIB = 1 << 20
MOST_FILES = 20
"""The newest files of a feed that are looked at: some may wait."""
MOST_LINES = 20
LONGEST_LINE = 600
"""How much of a reason a message has."""


class PublicAddress(NamedTuple):
    """A URL that must answer with status 200 and a body that contains `expected`. `name` is for messages."""

    name: str
    url: str
    expected: str
    context: ssl.SSLContext | None = None


def observe_dealer(tx: Transaction, settings: AlertSettings, record: CheckRecord, folder: Path) -> Seen:
    """The conditions of one dealer: its feed, its deliveries and its leads. `folder` has the files of its feeds."""
    before = tx.now - timedelta(minutes=settings.deliveries_waiting_minutes)
    unsent = unsent_deliveries(tx, before)
    failed_at = record.lead_failed_at
    failed = failed_at is not None and abs(tx.now - failed_at) < LEAD_FAILED_QUIET
    return {
        **_observe_feeds(tx, settings, folder),
        "deliveries_failing": [_of_channel(each) for each in unsent if each.state == "waiting"],
        "deliveries_undeliverable": [_of_channel(each) for each in unsent if each.state == "undeliverable"],
        "lead_failed": [Observation(amount=record.failed_leads, since=failed_at)] if failed else [],
    }


def _observe_feeds(tx: Transaction, settings: AlertSettings, folder: Path) -> Seen:
    """Which feeds are late, refused, failing, or imported with warnings. `folder` has the refused files.

    They are the feeds of `[[feeds]]`. Without any, the imports by other ways are one feed.
    """
    feeds = feed_states(tx)
    if feeds:
        failing = [each for each in feeds if each.checked_at and each.checked_at != each.succeeded_at]
        return {
            "feed_late": [_of_feed(each, each.new_at or each.since) for each in feeds if each.is_late],
            "feed_refused": [
                Observation(f"feed {each.name}", since=file.finished_at, detail=_refusal(tx, file, folder))
                for each in feeds
                if (file := _refused_file(tx, each)) is not None
            ],
            "feed_failing": [_of_feed(each, each.succeeded_at or each.since, each.problem or "") for each in failing],
            "feed_warned": [*_new_warnings(tx, {each.name for each in feeds})],
        }
    imported = [each.at for each in list_imports(tx, 1)]
    late = [at for at in imported if at <= tx.now - timedelta(hours=settings.feed_late_hours)]
    newest = [each for each in list_refused_imports(tx, 1) if not imported or each.at > imported[0]]
    return {
        "feed_late": [Observation("inventory", since=at) for at in late],
        "feed_refused": [
            Observation(
                "inventory",
                since=each.at,
                detail=_refusal_with_commands(each.source, each.findings, shlex.quote(each.source)),
            )
            for each in newest
        ],
        "feed_failing": [],
        "feed_warned": [*_new_warnings(tx, set())],
    }


def _refused_file(tx: Transaction, feed: FeedState) -> FeedFile | None:
    """The newest file of a feed, if it was refused or could not be read, and nobody has imported one since."""
    newest = next((file for file in list_files(tx, feed.name, MOST_FILES) if file.state != "waiting"), None)
    if newest is None or newest.finished_at is None or newest.state not in ("refused", "failed"):
        return None
    return None if feed.imported_at is not None and feed.imported_at > newest.finished_at else newest


def _new_warnings(tx: Transaction, feeds: Collection[str]) -> Iterator[Observation]:
    """The new warnings of the newest import of each feed, and of an import by a person after it."""
    for feed, record in warned_imports(tx, only_new=True).items():
        if feed is None or feed in feeds:
            subject = "inventory" if feed is None else f"feed {feed}"
            lines = [
                in_lines([f"File: {record.source}", *_sentences_of_findings(record.findings)]),
                *_advice_about_warnings(record.findings),
            ]
            yield Observation(subject, len(record.findings), record.at, "\n".join(lines))


def _advice_about_warnings(findings: Sequence[FeedFinding]) -> Iterator[str]:
    """What a person can do about warnings: commands for held units, and lines of dealer.toml that switch others off."""
    held = [row for finding in findings if finding.check == "units_held" for row in finding.rows]
    if held:
        unit = shlex.quote(held[0].partition(":")[0])
        yield "If what the feed says is right, publish it. For the first unit:"
        yield f"dealer-agent inventory release {unit}"
        yield "To show nothing of it, whatever the feed says:"
        yield f"dealer-agent inventory hide {unit}"
        yield "All units that are held back, and what buyers see of them:"
        yield "dealer-agent inventory held"
    # `units_held` has its commands above. `repairs` is found after the checks, so no setting switches it off.
    others = dict.fromkeys(finding.check for finding in findings if finding.check not in ("units_held", "repairs"))
    if others:
        yield "To switch off a warning that you do not need, add these lines at the end of dealer.toml. If [checks] is"
        yield "there already, add only the second line, below it:"
        yield "[checks]"
        yield "actions = { " + ", ".join(f'{check} = "off"' for check in others) + " }"


def _refusal(tx: Transaction, file: FeedFile, folder: Path) -> str:
    """Why a file of a feed was refused, and the command that imports it if it is right."""
    refused = [each for each in list_refused_imports(tx, MOST_FILES) if each.feed == file.feed]
    found = next((each.findings for each in refused if each.source == file.name), ())
    if file.state != "refused" or not found:
        return in_lines([f"File: {file.name}", file.problem or ""])
    kept = shlex.quote(str(folder / "feeds" / file.feed / "refused" / file.file_id)) + "*"
    return _refusal_with_commands(file.name, found, f"{kept} --feed {shlex.quote(file.feed)}")


def _refusal_with_commands(name: str, findings: Sequence[FeedFinding], arguments: str) -> str:
    """What the checks found in a refused file, the command that imports it all the same, and the one that undoes the
    import before it.

    `arguments` are those of `inventory import`, without the checks that are accepted.
    """
    said = in_lines([f"File: {name}", *_sentences_of_findings(findings)])
    accepted = " ".join(f"--accept {each.check}" for each in findings if each.action == "refuse")
    command = f"dealer-agent inventory import {arguments} {accepted}"
    if not accepted:
        return said
    undo = "If the import before it was wrong, take that one back before you import this file:"
    return "\n".join([said, "If the file is right, accept it:", command, undo, "dealer-agent inventory undo"])


def _sentences_of_findings(findings: Sequence[FeedFinding]) -> list[str]:
    """The sentences of findings, and those about their first units. The refusals are first, by the name of the check
    that a person can accept. A sentence ends where it would name the units that are in its rows."""
    ordered = sorted(findings, key=lambda finding: finding.action == "warn")
    return [
        line
        for each in ordered
        for line in (
            f"{each.check}: {each.sentence.partition(': ')[0] + '.' if each.rows else each.sentence}",
            *(f"- {row}" for row in each.rows),
        )
    ]


def in_lines(lines: Sequence[str]) -> str:
    """The lines of a reason, of which there are at most MOST_LINES."""
    more = len(lines) - MOST_LINES
    shown = [" ".join(line.split())[:LONGEST_LINE] for line in lines[:MOST_LINES]]
    return "\n".join([*shown, *([f"and {more} more"] if more > 0 else [])])


def _of_feed(feed: FeedState, since: datetime | None, detail: str = "") -> Observation:
    return Observation(f"feed {feed.name}", since=since, detail=in_lines([detail] if detail else []))


def observe_proxy(tx: Transaction) -> Seen:
    """Whether a machine gets requests through a proxy that the settings do not name."""
    proxies = sorted({each.forwarded_by for each in list_replicas(tx) if each.forwarded_by})
    return {"proxy_undeclared": [Observation(proxy) for proxy in proxies]}


def observe_keys(tx: Transaction, settings: AlertSettings) -> Seen:
    """Whether an active key is older than `key_copy_days` and no copy of it was confirmed. False without keys."""
    confirmed, before = confirmed_copies(tx), tx.now - timedelta(days=settings.key_copy_days)
    active = [(key_id, use) for key_id, use in key_uses(tx).items() if use.state == "active"]
    found = [use.since for key_id, use in active if key_id not in confirmed and use.since <= before]
    return {"key_copy_unknown": [Observation(since=min(found))] if found else []}


def observe_clock(tx: Transaction, settings: AlertSettings) -> Seen:
    """Whether the time of the transaction, which is that of this machine, is plausible."""
    server = server_clock(tx)
    differs = server is not None and abs(server - tx.now) > timedelta(seconds=settings.clock_seconds)
    return {"clock_wrong": [Observation()] if differs or clock_problem(tx) else []}


def observe_speed(seconds: float, settings: AlertSettings) -> Seen:
    """Whether a small transaction of these seconds was slow."""
    slow = seconds > settings.database_seconds
    return {"database_slow": [Observation(amount=round(seconds))] if slow else []}


def free_mib(folder: Path) -> int | None:
    """The free space on the disk of a folder, in MiB; None if it cannot be found out."""
    try:
        return shutil.disk_usage(folder).free // MIB
    except OSError:
        return None


def observe_disk(folder: Path, settings: AlertSettings) -> Seen:
    """Whether the disk of a folder is nearly full."""
    free = free_mib(folder)
    if free is None:
        return {}
    return {"disk_low": [Observation(amount=free)] if free < settings.disk_free_mib else []}


def observe_address(address: PublicAddress, settings: AlertSettings, now: datetime) -> Seen:
    """Whether the public address answers, and how long its certificate is valid. Takes up to ADDRESS_SECONDS."""

    def failing(reason: str) -> Seen:
        return {"public_address_failing": [Observation(address.name, detail=reason)]}

    ends = time.monotonic() + ADDRESS_SECONDS
    body = b""
    try:
        with (
            httpx.Client(verify=address.context or True, timeout=ADDRESS_SECONDS) as client,
            client.stream("GET", address.url) as response,
        ):
            expires_at = certificate_expiry(response)
            for part in response.iter_bytes():
                body += part
                if len(body) > MOST_BYTES or time.monotonic() > ends:
                    return failing(f"{address.url} answered too slowly, or with too many bytes.")
    except (httpx.HTTPError, httpx.InvalidURL) as problem:
        return failing(f"{address.url} cannot be reached ({type(problem).__name__}).")
    if response.status_code != 200:
        return failing(f"{address.url} answered with status {response.status_code}.")
    if address.expected.encode() not in body:
        return failing(f"{address.url} answered, but not as this service: {address.expected} is not in the response.")
    soon = expires_at is not None and expires_at - now <= timedelta(days=settings.certificate_days)
    expiring = [Observation(urlsplit(address.url).hostname or "", since=expires_at)] if soon else []
    return {"public_address_failing": [], "certificate_expiring": expiring}


def certificate_expiry(response: httpx.Response) -> datetime | None:
    """When the certificate of the server of an open response expires; None without TLS."""
    connection = response.extensions["network_stream"].get_extra_info("ssl_object")
    certificate = connection.getpeercert() if connection is not None else None
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(certificate["notAfter"]), UTC) if certificate else None


def _of_channel(unsent: UnsentDeliveries) -> Observation:
    return Observation(
        " / ".join(unsent.receiver), unsent.number, unsent.oldest, in_lines([unsent.problem] if unsent.problem else [])
    )
