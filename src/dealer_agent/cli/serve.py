"""`dealer-agent serve`: runs the service in the foreground."""

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer
from msgspec import UNSET

from dealer_agent.cli.command import FolderOption
from dealer_agent.cli.open_dealer import PORT, DealerFolder, find_served, open_served, require_keys
from dealer_agent.cli.terminal import counted, err, out, pasted
from dealer_agent.config import Settings
from dealer_agent.config.channels import channel_secrets
from dealer_agent.config.installation import Installation, is_installation
from dealer_agent.config.readiness import missing_points
from dealer_agent.config.settings import MetricsSettings
from dealer_agent.dealers.profile_checks import is_this_machine
from dealer_agent.protocol.well_known import CARD_PATH
from dealer_agent.storage.stock.reading import read_revision
from dealer_agent.storage.store import Store

if TYPE_CHECKING:
    from dealer_agent.cli.supervisor import SupervisorProcess

HostOption = Annotated[
    str | None, typer.Option(help="The IP address to listen on, by default 127.0.0.1. 0.0.0.0 means all interfaces.")
]
PortOption = Annotated[int | None, typer.Option(min=1, max=65535, help="The port to listen on, by default 8080.")]
WorkersOption = Annotated[
    int | None, typer.Option(min=1, max=64, help="Worker processes, by default 1, at most one for each core.")
]

LOOPBACK = "127.0.0.1"
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

    With installation.toml in the folder, it serves all dealers of the installation. Its section "installation" then has
    the defaults of --host, --port and --workers.
    """
    with _supervisor(folder, workers) as supervisor:
        served = find_served(DealerFolder(folder), address_of(host or LOOPBACK, port or PORT))
        serve_installation(served, host, port, served.file.metrics, supervisor, workers)


def _supervisor(folder: Path, workers: int | None) -> "AbstractContextManager[SupervisorProcess | None]":
    """The supervisor, if there may be several workers. Call it before any settings are read."""
    if workers == 1 or (workers is None and not is_installation(folder)):
        return nullcontext()
    # Imported here: the server takes most of a second, and `serve --help` does not need it.
    from dealer_agent.cli.supervisor import SupervisorProcess

    return SupervisorProcess()


def serve_installation(
    installation: Installation,
    host: str | None,
    port: int | None,
    metrics: MetricsSettings,
    supervisor: "SupervisorProcess | None" = None,
    workers: int | None = 1,
) -> None:
    """Serves an installation. An option that is None has the value of its settings.

    Several workers need a supervisor, made before the settings were read.
    """
    # Imported here, as above.
    from dealer_agent.alerts.watches import watch_of_machine
    from dealer_agent.bootstrap.composition import check_traces
    from dealer_agent.cli.processes import listen, receiving_uploads, run

    section, only = installation.file.installation, installation.only
    # Everything has what it needs, or the service does not start: traces, channels, alerts and keys.
    check_traces(installation.file.traces)
    if only is None:
        require_keys(installation)
    else:
        channel_secrets(only, os.environ)
    watch_of_machine(installation)
    with open_served(installation) as opened:
        opened.store.check_keys(opened.owner)
        opened.read_dealers()
        not_isolated = opened.store.isolation_problem()
        stocked = only is None or has_stock(opened.store, only.dealer.id)
    host, port = host or section.host, port or section.port
    listener = listen(host, port)
    address, listening = address_of(host, port), listener.getsockname()[0]
    for line in _address_lines(installation, address, opened.count()):
        out.print(line)
    problems = [*_problems(installation, address, listening), _isolation_warning(not_isolated)]
    if not opened.count():
        problems.append("No dealer is enabled. To add one, type: dealer-agent dealers add FILE")
    if only is not None and not stocked:
        problems.append(_without_stock(only.dealer.id, [feed.name for feed in only.feeds]))
    for problem in filter(None, problems):
        err.print(pasted(problem), style="yellow")
    with receiving_uploads(installation.folder, installation.database_url, installation.file.sftp):
        run(installation, metrics, listener, address, supervisor, workers or section.workers)


def has_stock(store: Store, dealer_id: str) -> bool:
    """Whether the dealer ever had a feed imported. Raises StorageError."""
    with store.read(dealer_id) as tx:
        return read_revision(tx).stock > 0


def _address_lines(installation: Installation, address: str, dealers: int) -> Iterator[str]:
    """What `serve` prints about the URLs of its dealers."""
    only = installation.only
    if only is None:
        yield f"{counted(dealers, 'dealer')}, listed at {installation.public_url}/"
        return
    yield f"{only.dealer.name} answers at {only.base_url(address)}/"
    yield f"Its card: {only.service.public_url or address}{CARD_PATH}"


def _problems(installation: Installation, address: str, listening: str) -> Iterator[str | None]:
    """What is wrong with addresses and uploads. `listening` is the IP address of the socket."""
    only = installation.only
    if only is None:
        yield problem_of_card(listening, installation.public_url, SET_INSTALLATIONS_URL)
        return
    yield problem_of_card(listening, only.service.public_url or address)
    if not is_this_machine(listening) or only.service.public_url:
        yield not_yet_open(only)
    if only.mail.confirms_visits:
        yield problem_of_links(only.base_url(address))
    if not only.sftp.enabled and any(feed.upload is not UNSET for feed in only.feeds):
        yield "A feed waits for uploads, but the SFTP server is off: write enabled = true under [sftp] in dealer.toml."


def not_yet_open(settings: Settings) -> str | None:
    """What is missing before a service on a public address is open; None if it is open."""
    missing = [] if settings.service.open else [point.name for point in missing_points(settings)]
    if not missing:
        return None
    names = ", ".join(missing)
    return (
        f"The service is not yet open, and its agent card says so. Missing: {names}. See dealer-agent doctor --public"
    )


def _without_stock(dealer_id: str, feeds: Sequence[str]) -> str:
    """What to do for the first stock of a dealer."""
    problem = f"No stock was ever imported for the dealer {dealer_id}"
    if not feeds:
        return f"{problem}. To import one, type: dealer-agent inventory import FILE"
    verb = "feed brings" if len(feeds) == 1 else "feeds bring"
    return f"{problem}. The {verb} the stock: {', '.join(feeds)}. See dealer-agent feeds list"


def _isolation_warning(not_isolated: str | None) -> str | None:
    if not_isolated is None:
        return None
    return f"{not_isolated[0].upper()}{not_isolated[1:]}. One dealer may be served like this."


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
