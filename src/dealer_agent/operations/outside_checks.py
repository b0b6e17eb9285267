"""Checks of what other machines see or offer: the public address, the mail server, channels, the rate-limit store."""

import asyncio
import os
import socket
import ssl
import time
from collections.abc import Generator, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec

from dealer_agent import __version__
from dealer_agent.config import Settings
from dealer_agent.config.alert_settings import AlertSettings
from dealer_agent.config.settings import MailSettings, MetricsSettings
from dealer_agent.config.sftp import SftpSettings
from dealer_agent.dealers.profile import HttpChannel
from dealer_agent.dealers.profile_checks import is_this_machine
from dealer_agent.delivery.failures import NotDelivered
from dealer_agent.delivery.mail_server import MailServer
from dealer_agent.operations.checks import Finding, local
from dealer_agent.operations.database_checks import clock_finding
from dealer_agent.outgoing.addresses import AddressRefused, AddressRule
from dealer_agent.outgoing.connections import connect, trusted
from dealer_agent.protocol.well_known import ARD_PATH, CARD_PATH
from dealer_agent.server.service import RPC

ADDRESS_SECONDS = 20.0
MOST_BYTES = 2**20
"""The most bytes of a response that are read."""
CONNECT_SECONDS = 10.0
_PROXY_ADVICE = "check the service, the proxy and the name in DNS; dealer-agent serve shows what it listens on"


def check_address(settings: Settings, now: datetime) -> Iterator[Finding]:
    """The public address of a dealer answers with a card that has the URLs of the settings."""
    service = settings.service
    if not service.public_url:
        yield Finding("warning", "public_url is not set: only this machine can use the card", "set it under [service]")
        return
    # The card of a dealer with a folder of its own is at the root of its site.
    url = (service.public_url if settings.installation is None else settings.base_url("")) + CARD_PATH
    body = yield from _fetched(url, now, settings.dealer.rooftops[0].timezone, settings.alerts)
    if body is None:
        return
    base = settings.base_url("")
    expected = {base, base + RPC}
    card = _members(body)
    interfaces = card.get("supportedInterfaces", card.get("supported_interfaces", ()))
    named = (
        {each.get("url") for each in interfaces if isinstance(each, dict)} if isinstance(interfaces, list) else set()
    )
    if named != expected:
        shown = ", ".join(sorted(map(str, named)))[:200] or "no URL"
        yield Finding("problem", f"the card at {url} names {shown}", f"it must name {base}: restart the service")
    elif card.get("version") != __version__:
        yield Finding(
            "warning",
            f"the service at {url} runs version {str(card.get('version'))[:20]}, and {__version__} is installed here",
            "restart the service",
        )
    else:
        yield Finding("ok", f"the card at {url} has the URLs of the settings")


def check_installation_address(public_url: str, alerts: AlertSettings, now: datetime) -> Iterator[Finding]:
    """The public address of an installation answers with its list of dealers."""
    url = public_url + ARD_PATH
    body = yield from _fetched(url, now, "UTC", alerts)
    if body is None:
        return
    if "entries" in _members(body):
        yield Finding("ok", f"{url} lists the dealers")
    else:
        yield Finding("problem", f"{url} is not the list of dealers", "let the proxy forward all paths to the service")


def _members(body: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _fetched(url: str, now: datetime, zone: str, alerts: AlertSettings) -> Generator[Finding, None, bytes | None]:
    """Findings about the connection. Returns the body of the response, or None."""
    parts = urlsplit(url)
    begun, ends = datetime.now(UTC), time.monotonic() + ADDRESS_SECONDS
    body = b""
    try:
        with (
            httpx.Client(
                timeout=ADDRESS_SECONDS, headers={"User-Agent": f"dealer-agent-doctor/{__version__}"}
            ) as client,
            client.stream("GET", url) as response,
        ):
            answered = datetime.now(UTC)
            expires_at = _expiry(response)
            for part in response.iter_bytes():
                body += part
                if len(body) > MOST_BYTES or time.monotonic() > ends:
                    break
    except httpx.HTTPError as error:
        yield Finding("problem", f"{url}: {_words_of(error)}", _PROXY_ADVICE)
        return None
    if response.status_code != 200 or len(body) > MOST_BYTES:
        yield Finding("problem", f"{url} answers {response.status_code} with {len(body):,} bytes", _PROXY_ADVICE)
        return None
    if parts.scheme == "http" and not is_this_machine(parts.hostname or ""):
        yield Finding("problem", f"{url} is not encrypted", "use https: see the guide to production")
    if expires_at is not None:
        left, when = expires_at - now, f"the certificate of {parts.hostname} is valid until {local(expires_at, zone)}"
        if left < timedelta(days=alerts.certificate_days):
            yield Finding("warning", when, "renew it; most proxies do so by themselves, so read the proxy's log")
        else:
            yield Finding("ok", when)
    said = response.headers.get("Date")
    if said is not None:
        try:
            # The header has whole seconds.
            difference = abs(parsedate_to_datetime(said) - (begun + (answered - begun) / 2)) - timedelta(seconds=1)
        except (ValueError, TypeError):
            return body
        yield clock_finding(max(difference, timedelta()), "the public address", alerts)
    return body


def _expiry(response: httpx.Response) -> datetime | None:
    """When the certificate of the server of a response expires; None without TLS."""
    connection = response.extensions["network_stream"].get_extra_info("ssl_object")
    certificate = connection.getpeercert() if connection is not None else None
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(certificate["notAfter"]), UTC) if certificate else None


def _words_of(error: BaseException) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not valid ({cause.verify_message})"
        cause = cause.__cause__ or cause.__context__
    return "no answer in time" if isinstance(error, httpx.TimeoutException) else "it cannot be reached"


def check_mail(mail: MailSettings, env: Mapping[str, str]) -> Iterator[Finding]:
    """The mail server accepts a connection, TLS and the login. No mail is sent."""
    if not mail.host:
        yield Finding("skipped", "no mail server is set under [mail]")
        return
    user, password = env.get(mail.user_env), env.get(mail.password_env)
    server = MailServer(mail, "", user or None, password or None)
    try:
        asyncio.run(server.check())
    except NotDelivered as problem:
        yield Finding("problem", f"{mail.host}:{mail.port}: {problem}", "check [mail], and the user and the password")
    else:
        login = f"the login of {mail.user_env} works" if user else "without a login"
        yield Finding("ok", f"{mail.host}:{mail.port} accepts mail ({mail.security}), {login}")


def check_channels(settings: Settings) -> Iterator[Finding]:
    """The servers of HTTP channels accept connections, and folders can be written. Nothing is sent."""
    found = False
    for rooftop in settings.dealer.rooftops:
        for name, channel in rooftop.deliver.channels.items():
            found = True
            where = f"{rooftop.name}, {name}"
            if isinstance(channel, HttpChannel):
                yield _connection_to(channel.url, where, settings.address_rule)
            else:
                yield Finding("ok", f"{where}: its settings are complete; --send delivers a test lead")
    if not found:
        yield Finding("skipped", "there are no channels")


def _connection_to(url: str, where: str, rule: AddressRule) -> Finding:
    parts = urlsplit(url)
    address = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)

    async def connected() -> socket.socket:
        async with asyncio.timeout(CONNECT_SECONDS):
            return await connect(*address, rule)

    try:
        with asyncio.run(connected()) as plain:
            plain.settimeout(CONNECT_SECONDS)
            if parts.scheme == "https":
                with trusted().wrap_socket(plain, server_hostname=address[0]):
                    pass
    except AddressRefused as refused:
        return Finding("problem", f"{where}: no lead is sent", str(refused))
    except ssl.SSLError:
        return Finding("problem", f"{where}: no safe connection to {address[0]}", "ask the CRM for its certificate")
    except OSError as error:
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else "it cannot be reached"
        return Finding("problem", f"{where}: {address[0]}:{address[1]}: {why}", "check url of the channel")
    return Finding("ok", f"{where}: {address[0]} accepts connections; --send delivers a test lead")


def check_limit_store(url: str) -> Iterator[Finding]:
    """The store of the rate limits that machines share answers."""
    if not url:
        yield Finding("skipped", "RATE_LIMIT_URL is not set: each machine has its own limits")
        return
    # Imported here: the client takes 0.2 s, and most services have no store.
    from valkey import Valkey, ValkeyError

    client = Valkey.from_url(url, socket_connect_timeout=CONNECT_SECONDS)
    client.connection_pool.connection_kwargs.setdefault("socket_timeout", CONNECT_SECONDS)
    begun = time.perf_counter()
    try:
        client.ping()
    except (ValkeyError, OSError) as error:
        advice = "check RATE_LIMIT_URL and the store; until then limits hold for each machine"
        yield Finding("problem", f"the store does not answer ({type(error).__name__})", advice)
    else:
        yield Finding("ok", f"the store answers in {1000 * (time.perf_counter() - begun):.1f} ms")
    finally:
        client.connection_pool.disconnect()


def check_sftp_server(sftp: SftpSettings) -> Iterator[Finding]:
    """Our SFTP server, which receives feeds, answers on this machine."""
    if not sftp.enabled:
        yield Finding("skipped", "no SFTP server is switched on under [sftp]")
        return
    try:
        with socket.create_connection((_address_of(sftp.host), sftp.port), CONNECT_SECONDS) as connection:
            greeting = connection.recv(255)
    except OSError:
        greeting = b""
    if greeting.startswith(b"SSH-2.0-"):
        yield Finding("ok", f"it answers on port {sftp.port}")
    else:
        yield Finding("problem", f"no SFTP server answers on port {sftp.port}", "start the service, and read its log")


def check_metrics(metrics: MetricsSettings) -> Iterator[Finding]:
    """The metrics can be read on this machine."""
    if not metrics.enabled:
        yield Finding("skipped", "no metrics are switched on under [metrics]")
        return
    host = _address_of(metrics.host)
    url = f"http://{f'[{host}]' if ':' in host else host}:{metrics.port}/metrics"
    try:
        with httpx.Client(timeout=ADDRESS_SECONDS) as client, client.stream("GET", url) as response:
            status = response.status_code
    except httpx.HTTPError as error:
        yield Finding("problem", f"{url}: {_words_of(error)}", "start the service, and read its log")
        return
    if status == 200:
        yield Finding("ok", f"{url} answers")
    else:
        yield Finding("problem", f"{url} answers {status}", "see whether another program uses this port")


def _address_of(host: str) -> str:
    """The address at which this machine reaches a server that listens on `host`."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
