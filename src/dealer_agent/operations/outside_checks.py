"""Checks of `doctor`: what other machines see or offer (public address, mail server, channels, rate-limit store)."""

import asyncio
import os
import socket
import ssl
import time
from collections.abc import Generator, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec

from dealer_agent import __version__
from dealer_agent.alerts.observing import certificate_expiry
from dealer_agent.callers.access_token import read_keys
from dealer_agent.dealers.profile import HttpChannel, Profile
from dealer_agent.dealers.profile_checks import is_this_machine
from dealer_agent.dealers.routing import CUSTOMER
from dealer_agent.delivery.attempt import NotDelivered, lease_outside_queue
from dealer_agent.delivery.mail_server import MailServer
from dealer_agent.delivery.outlet import Outlet
from dealer_agent.delivery.outlets import outlets_of_dealer
from dealer_agent.known_keys.fetching import FetchFailed
from dealer_agent.known_keys.issuers import fetch_key_set
from dealer_agent.leads.lead_view import LeadView, rooftop_view
from dealer_agent.open_installation import OpenInstallation
from dealer_agent.operations.checks import DoctorFinding, Examined, local
from dealer_agent.operations.inside_checks import clock_finding
from dealer_agent.outgoing.addresses import AddressRefused, AddressRule
from dealer_agent.outgoing.connections import certificate_error, connect, http_client, trusted
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.protocol.requests import Customer, SourceAgent
from dealer_agent.protocol.well_known import ARD_PATH
from dealer_agent.server.service import RPC
from dealer_agent.storage.deliveries.outbox import DueDelivery, Receiver

ADDRESS_SECONDS = 20.0
MOST_BYTES = 2**20
"""The most bytes of a response that are read."""
CONNECT_SECONDS = 10.0
_PROXY_ADVICE = "check the service, the proxy and the name in DNS; dealer-agent serve shows what it listens on"


def check_address(examined: Examined) -> Iterator[DoctorFinding]:
    """The public address of a dealer answers with a card that has the URLs of the settings."""
    url, base = examined.dealer.card_url, examined.dealer.base_url("")
    if not url:
        yield DoctorFinding(
            "warning", "public_url is not set: only this machine can use the card", "set it under [service]"
        )
        return
    body = yield from _fetched(url, examined)
    if body is None:
        return
    expected = {base, base + RPC}
    card = _members(body)
    interfaces = card.get("supportedInterfaces", card.get("supported_interfaces", ()))
    named = (
        {each.get("url") for each in interfaces if isinstance(each, dict)} if isinstance(interfaces, list) else set()
    )
    if named != expected:
        shown = ", ".join(sorted(map(str, named)))[:200] or "no URL"
        yield DoctorFinding("problem", f"the card at {url} names {shown}", f"it must name {base}: restart the service")
    elif card.get("version") != __version__:
        yield DoctorFinding(
            "warning",
            f"the service at {url} runs version {str(card.get('version'))[:20]}, and {__version__} is installed here",
            "restart the service",
        )
    else:
        yield DoctorFinding("ok", f"the card at {url} has the URLs of the settings")


def check_issuers(examined: Examined) -> Iterator[DoctorFinding]:
    """The issuers of access tokens: their metadata, their keys, and the audience of their tokens."""
    auth, service = examined.dealer.auth, examined.dealer.service
    for issuer in auth.issuers:
        try:
            rules = examined.dealer.address_rule, service.address_rule
            keys = read_keys(asyncio.run(fetch_key_set(issuer.key_source, *rules)).body)
        except FetchFailed as error:
            yield DoctorFinding(
                "problem",
                f"the keys of {issuer.issuer} cannot be used: {error}",
                "check issuer and jwks_url under [[auth.issuers]]; until then its tokens are refused",
            )
            continue
        usable = keys.algorithms & set(issuer.algorithms)
        if not usable:
            has = ", ".join(sorted(keys.algorithms))
            yield DoctorFinding(
                "problem",
                f"no key of {issuer.issuer} is for an algorithm of the settings: its keys are for {has}",
                "write one of them into algorithms under [[auth.issuers]]",
            )
        elif not issuer.audience and not service.public_url:
            yield DoctorFinding(
                "warning",
                f"public_url is not set, so tokens of {issuer.issuer} must have an address of this machine as audience",
                "set public_url under [service], or audience under [[auth.issuers]]",
            )
        else:
            audience = issuer.audience or examined.dealer.base_url("")
            yield DoctorFinding("ok", f"{issuer.issuer}: {len(keys)} keys; the audience is {audience}")


def check_installation_address(examined: Examined) -> Iterator[DoctorFinding]:
    """The public address of an installation answers with its list of dealers."""
    url = examined.installation.public_url + ARD_PATH
    body = yield from _fetched(url, examined)
    if body is None:
        return
    if "entries" in _members(body):
        yield DoctorFinding("ok", f"{url} lists the dealers")
    else:
        yield DoctorFinding(
            "problem", f"{url} is not the list of dealers", "let the proxy forward all paths to the service"
        )


def _members(body: bytes) -> dict[str, Any]:
    try:
        document = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return {}
    return document if isinstance(document, dict) else {}


def _fetched(url: str, examined: Examined) -> Generator[DoctorFinding, None, bytes | None]:
    """Fetches a URL, and yields findings about the connection. Returns the body of a response with 200, else None."""
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
            expires_at = certificate_expiry(response)
            for part in response.iter_bytes():
                body += part
                if len(body) > MOST_BYTES or time.monotonic() > ends:
                    break
    except httpx.HTTPError as error:
        yield DoctorFinding("problem", f"{url}: {_reason_text(error)}", _PROXY_ADVICE)
        return None
    if response.status_code != 200 or len(body) > MOST_BYTES:
        yield DoctorFinding("problem", f"{url} answers {response.status_code} with {len(body):,} bytes", _PROXY_ADVICE)
        return None
    if parts.scheme == "http" and not is_this_machine(parts.hostname or ""):
        yield DoctorFinding("problem", f"{url} is not encrypted", "use https: see the guide to production")
    if expires_at is not None:
        when = f"the certificate of {parts.hostname} is valid until {local(expires_at, examined.zone)}"
        if expires_at - examined.now < timedelta(days=examined.alerts.certificate_days):
            yield DoctorFinding("warning", when, "renew it; most proxies do so by themselves, so read the proxy's log")
        else:
            yield DoctorFinding("ok", when)
    date = response.headers.get("Date")
    if date is not None:
        try:
            # The header has whole seconds.
            difference = abs(parsedate_to_datetime(date) - (begun + (answered - begun) / 2)) - timedelta(seconds=1)
        except (ValueError, TypeError):
            return body
        yield clock_finding(max(difference, timedelta()), "the public address", examined.alerts)
    return body


def _reason_text(error: BaseException) -> str:
    """Why there is no response, in words."""
    if (wrong := certificate_error(error)) is not None:
        return f"its certificate is not valid ({wrong.verify_message})"
    return "no response in time" if isinstance(error, httpx.TimeoutException) else "it cannot be reached"


def check_mail(examined: Examined) -> Iterator[DoctorFinding]:
    """The mail server accepts a connection, TLS and the login. No mail is sent."""
    mail, env = (examined.settings or examined.installation.file).mail, examined.env
    if not mail.host:
        yield DoctorFinding("skipped", "no mail server is set under [mail]")
        return
    server = MailServer.of(mail, "", env)
    try:
        asyncio.run(server.check())
    except NotDelivered as problem:
        yield DoctorFinding(
            "problem", f"{mail.host}:{mail.port}: {problem}", "check [mail], and the user and the password"
        )
    else:
        login = f"the login of {mail.user_env} works" if server.user else "without a login"
        yield DoctorFinding("ok", f"{mail.host}:{mail.port} accepts mail ({mail.security}), {login}")


def check_channels(examined: Examined) -> Iterator[DoctorFinding]:
    """The servers of HTTP channels accept connections, and folders can be written. With `send`, each gets a lead."""
    settings, has_channels = examined.dealer, False
    if examined.send:
        yield from asyncio.run(
            _send_all(OpenInstallation(examined.installation, examined.store), examined.dealer_id, examined.now)
        )
        return
    for rooftop in settings.dealer.rooftops:
        for name, channel in rooftop.deliver.channels.items():
            has_channels = True
            where = f"{rooftop.name}, {name}"
            if isinstance(channel, HttpChannel):
                yield _connection_to(channel.url, where, settings.address_rule)
            else:
                yield DoctorFinding("ok", f"{where}: its settings are complete; --send delivers a test lead")
    if not has_channels:
        yield DoctorFinding("skipped", "there are no channels")


def _connection_to(url: str, where: str, rule: AddressRule) -> DoctorFinding:
    """Connects to the URL of a channel, with TLS for https, and sends nothing."""
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
        return DoctorFinding("problem", f"{where}: no lead is sent", str(refused))
    except ssl.SSLError:
        return DoctorFinding(
            "problem", f"{where}: no safe connection to {address[0]}", "ask the CRM for its certificate"
        )
    except OSError as error:
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else "it cannot be reached"
        return DoctorFinding("problem", f"{where}: {address[0]}:{address[1]}: {why}", "check url of the channel")
    return DoctorFinding("ok", f"{where}: {address[0]} accepts connections; --send delivers a test lead")


def check_limit_store(examined: Examined) -> Iterator[DoctorFinding]:
    """Checks that the store of shared rate limits answers."""
    url = examined.installation.rate_limit_url
    if not url:
        yield DoctorFinding("skipped", "RATE_LIMIT_URL is not set: each machine has its own limits")
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
        yield DoctorFinding("problem", f"the store does not answer ({type(error).__name__})", advice)
    else:
        yield DoctorFinding("ok", f"the store answers in {1000 * (time.perf_counter() - begun):.1f} ms")
    finally:
        client.connection_pool.disconnect()


def check_sftp_server(examined: Examined) -> Iterator[DoctorFinding]:
    """Checks that our SFTP server, which receives feeds, answers on this machine."""
    sftp = examined.installation.file.sftp
    if not sftp.enabled:
        yield DoctorFinding("skipped", "no SFTP server is switched on under [sftp]")
        return
    try:
        with socket.create_connection((_address_of(sftp.host), sftp.port), CONNECT_SECONDS) as connection:
            greeting = connection.recv(255)
    except OSError:
        greeting = b""
    if greeting.startswith(b"SSH-2.0-"):
        yield DoctorFinding("ok", f"it answers on port {sftp.port}")
    else:
        yield DoctorFinding(
            "problem", f"no SFTP server answers on port {sftp.port}", "start the service, and read its log"
        )


def check_metrics(examined: Examined) -> Iterator[DoctorFinding]:
    """The metrics can be read on this machine."""
    metrics = examined.installation.file.metrics
    if not metrics.enabled:
        yield DoctorFinding("skipped", "no metrics are switched on under [metrics]")
        return
    host = _address_of(metrics.host)
    url = f"http://{f'[{host}]' if ':' in host else host}:{metrics.port}/metrics"
    try:
        with httpx.Client(timeout=ADDRESS_SECONDS) as client, client.stream("GET", url) as response:
            status = response.status_code
    except httpx.HTTPError as error:
        yield DoctorFinding("problem", f"{url}: {_reason_text(error)}", "start the service, and read its log")
        return
    if status == 200:
        yield DoctorFinding("ok", f"{url} answers")
    else:
        yield DoctorFinding("problem", f"{url} answers {status}", "see whether another program uses this port")


def _address_of(host: str) -> str:
    """The address at which this machine reaches a server that listens on `host`."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104


SEND_SECONDS = 40.0
"""How long one channel may take."""

MESSAGE = "TEST LEAD. Nobody wants a vehicle: dealer-agent doctor tests whether leads arrive. Please delete this lead."


def marked_lead(dealer: Profile, rooftop: str, lead_id: str, now: datetime) -> LeadView:
    """A lead of an invented customer. Its name, its message and its id say that it is a test."""
    return LeadView(
        lead_id=lead_id,
        dealer_id=dealer.id,
        dealer_name=dealer.name,
        rooftop=rooftop_view(dealer, rooftop),
        received_at=now,
        agent=SourceAgent("dealer-agent doctor"),
        customer=Customer("TEST", "Please Ignore", email="test@example.com"),
        channels=("email",),
        messages=(MESSAGE,),
    )


async def _send_all(opened: OpenInstallation, dealer_id: str, now: datetime) -> list[DoctorFinding]:
    """Sends the leads, and names the channels that accepted one. Customers get no mail. Raises SettingsError."""
    async with http_client(opened.installation.address_rule) as client:
        dealer, outlets, _ = outlets_of_dealer(opened, client, dealer_id)
        chosen = {receiver: outlet for receiver, outlet in outlets.items() if receiver[1] != CUSTOMER}
        sending = (_send_test_lead(dealer, receiver, outlet, now) for receiver, outlet in chosen.items())
        return list(await asyncio.gather(*sending)) or [DoctorFinding("skipped", "there are no channels")]


async def _send_test_lead(dealer: Profile, receiver: Receiver, outlet: Outlet, now: datetime) -> DoctorFinding:
    """Sends a test lead to one channel, past the queue."""
    rooftop, channel = receiver
    where = f"{rooftop}, {channel}"
    lead_id = f"TEST-{new_ulid()}"
    delivery = DueDelivery(lead_id, lead_id, None, "lead", rooftop, channel, now, 1, "", None)
    document = await asyncio.to_thread(outlet.render, delivery, marked_lead(dealer, rooftop, lead_id, now))
    try:
        async with asyncio.timeout(SEND_SECONDS):
            note = await outlet.send(delivery, document, lease_outside_queue(delivery))
    except NotDelivered as problem:
        return DoctorFinding("problem", f"{where}: {problem}", "correct the channel, then try again")
    except TimeoutError:
        return DoctorFinding("problem", f"{where}: no response within {SEND_SECONDS:g} s", "ask the receiver's support")
    except OSError as error:
        return DoctorFinding(
            "problem", f"{where}: {os.strerror(error.errno or 0)}", "correct the channel, then try again"
        )
    if note is not None:
        return DoctorFinding(
            "warning", f"{where}: the test lead {lead_id} has arrived, but {note}", "correct the addresses"
        )
    return DoctorFinding("ok", f"{where}: the test lead {lead_id} was accepted. Delete it there")
