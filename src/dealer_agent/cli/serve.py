"""`dealer-agent serve`: runs the service in the foreground."""

import os
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer
from msgspec import UNSET

from dealer_agent.cli.open_dealer import (
    DealerFolder,
    FolderOption,
    find_settings,
    is_installation,
    open_installation,
    opened,
    require_keys,
    wait_for_database,
)
from dealer_agent.cli.terminal import counted, err, out
from dealer_agent.config.channels import channel_secrets
from dealer_agent.config.settings import MetricsSettings, Settings
from dealer_agent.dealers.profile_checks import is_this_machine
from dealer_agent.protocol.well_known import CARD_PATH
from dealer_agent.storage.dealer_registry import all_dealers
from dealer_agent.storage.errors import NotIsolated
from dealer_agent.storage.isolation import ALL_DEALERS
from dealer_agent.storage.stock import read_revision

HostOption = Annotated[
    str | None, typer.Option(help="The IP address to listen on, by default 127.0.0.1. 0.0.0.0 means all interfaces.")
]
PortOption = Annotated[int | None, typer.Option(min=1, max=65535, help="The port to listen on, by default 8080.")]
WorkersOption = Annotated[
    int | None, typer.Option(min=1, max=64, help="Worker processes, by default 1, at most one for each core.")
]

LOOPBACK = "127.0.0.1"
PORT = 8080
SET_PUBLIC_URL = (
    'Set public_url under [service] in dealer.toml to your proxy\'s address, such as "https://agent.example.com".'
)
SET_INSTALLATIONS_URL = (
    "Set public_url under [installation] in installation.toml to your proxy's address, such as "
    '"https://agents.example.com".'
)


def serve(
    folder: FolderOption = Path(), host: HostOption = None, port: PortOption = None, workers: WorkersOption = None
) -> None:
    """Checks settings, keys and database, then serves in the foreground.

    It waits up to two minutes for a PostgreSQL server that is starting.

    With installation.toml in the folder, it serves all dealers of the installation. The section [installation] then has
    the defaults of --host, --port and --workers.
    """
    if is_installation(folder):
        serve_installation(folder, host, port, workers)
    else:
        _serve_dealer(folder, host or LOOPBACK, port or PORT, workers or 1)


def _serve_dealer(folder: Path, host: str, port: int, workers: int) -> None:
    # Imported here: the server takes a second, and `serve --help` does not need it.
    from dealer_agent.alerts.watches import watch_of_dealer
    from dealer_agent.bootstrap.traces import check_traces
    from dealer_agent.cli.upload_supervisor import receiving_uploads
    from dealer_agent.cli.uvicorn_server import listen, run

    settings = find_settings(DealerFolder(folder))
    check_traces(settings.traces)
    channel_secrets(settings, os.environ)  # Every channel has what it needs, or the service does not start.
    watch_of_dealer(settings)  # So do the alerts.
    wait_for_database(settings.database_url)
    with opened(settings, customers=True) as dealer, dealer.read() as tx:
        stocked = read_revision(tx).stock > 0
        not_isolated = dealer.store.isolation_problem()
    listener = listen(host, port)
    address = address_of(host, port)
    base = settings.base_url(address)
    out.print(f"{settings.dealer.name} answers at {base}/")
    out.print(f"Its card: {settings.service.public_url or address}{CARD_PATH}")
    problems = [problem_of_card(listener.getsockname()[0], settings.service.public_url or address)]
    if settings.mail.confirms_visits:
        problems.append(problem_of_links(base))
    _warn(*problems, _words_of(not_isolated))
    if not stocked:
        _warn(_without_stock(settings))
    if not settings.sftp.enabled and any(feed.upload is not UNSET for feed in settings.feeds):
        _warn("A feed waits for uploads, but the SFTP server is off: write enabled = true under [sftp] in dealer.toml.")
    with receiving_uploads(settings.directory, settings.database_url, settings.sftp):
        run(settings, settings.service, settings.metrics, listener, address, workers)


def serve_installation(
    folder: Path, host: str | None, port: int | None, workers: int | None, metrics: MetricsSettings | None = None
) -> None:
    """Serves all dealers of an installation. An option that is None has the value of `installation.toml`."""
    from dealer_agent.alerts.watches import watch_of_operator
    from dealer_agent.bootstrap.traces import check_traces
    from dealer_agent.cli.upload_supervisor import receiving_uploads
    from dealer_agent.cli.uvicorn_server import listen, run

    with open_installation(folder, waits=True) as opened_installation:
        installation, store = opened_installation.installation, opened_installation.store
        check_traces(installation.file.traces)
        require_keys(installation)
        watch_of_operator(installation)  # The alerts have what they need, or the service does not start.
        store.check_keys(ALL_DEALERS)
        with store.installation() as tx:
            dealers = sum(dealer.enabled for dealer in all_dealers(tx))
        not_isolated = store.isolation_problem()
    if not_isolated is not None and dealers > 1:
        raise NotIsolated(not_isolated)
    section = installation.file.installation
    host, port = host or section.host, port or section.port
    listener = listen(host, port)
    out.print(f"{counted(dealers, 'dealer')}, listed at {installation.public_url}/")
    _warn(
        _words_of(not_isolated),
        problem_of_card(listener.getsockname()[0], installation.public_url, SET_INSTALLATIONS_URL),
    )
    if not dealers:
        _warn(f"No dealer is enabled: dealer-agent dealers add FILE --dir {folder}")
    settings = installation.file
    with receiving_uploads(installation.directory, installation.database_url, settings.sftp):
        run(
            installation,
            settings.service,
            metrics or settings.metrics,
            listener,
            address_of(host, port),
            workers or section.workers,
        )


def _without_stock(settings: Settings) -> str:
    """What to do for the first stock of a dealer."""
    said = f"No stock was ever imported for the dealer {settings.dealer.id}"
    if not settings.feeds:
        return f"{said}: dealer-agent inventory import FILE"
    named = ", ".join(feed.name for feed in settings.feeds)
    verb = "feed brings" if len(settings.feeds) == 1 else "feeds bring"
    return f"{said}. The {verb} it: {named}. See dealer-agent feeds list"


def _words_of(not_isolated: str | None) -> str | None:
    if not_isolated is None:
        return None
    return f"{not_isolated[0].upper()}{not_isolated[1:]}. One dealer may be served like this."


def _warn(*problems: str | None) -> None:
    for problem in filter(None, problems):
        err.print(problem, style="yellow")


def address_of(host: str, port: int) -> str:
    """The URL at which a person on this machine reaches a service that listens on the host and port."""
    shown = {"0.0.0.0": LOOPBACK, "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    return f"http://{shown}:{port}"


def problem_of_card(listening: str, named: str, advice: str = SET_PUBLIC_URL) -> str | None:
    """Why buyers on other machines cannot use the URL in the agent card, and the advice; None if they can.

    `listening` is the IP address of the socket. A service on a loopback address has no such problem.
    """
    if is_this_machine(listening):
        return None
    unreachable = (
        f"The service listens on {listening}, but its agent card names {named}: no other machine can reach it."
    )
    unencrypted = f"The agent card names {named}: customers' data would travel without encryption."
    return _problem_of(named, unreachable, unencrypted, advice)


def problem_of_links(begin: str) -> str | None:
    """Why customers cannot safely use the links in their mails; None if they can. The links begin with `begin`."""
    links = f"The links in mails to customers begin with {begin}"
    unencrypted = f"{links}: they would travel without encryption."
    return _problem_of(begin, f"{links}: they work on this machine only.", unencrypted, SET_PUBLIC_URL)


def _problem_of(address: str, unreachable: str, unencrypted: str, advice: str) -> str | None:
    parts = urlsplit(address)
    if is_this_machine(parts.hostname or ""):
        return f"{unreachable} {advice}"
    return f"{unencrypted} {advice}" if parts.scheme == "http" else None
