"""`dealer-agent serve`: runs the service in the foreground."""

import os
from typing import Annotated
from urllib.parse import urlsplit

import typer

from dealer_agent.cli.open_dealer import HERE, DirOption, find_settings, opened
from dealer_agent.cli.terminal import err, out
from dealer_agent.config.channels import channel_secrets, is_this_machine
from dealer_agent.storage.stock import read_revision

HostOption = Annotated[str, typer.Option(help="The IP address to listen on. 0.0.0.0 means all interfaces.")]
PortOption = Annotated[int, typer.Option(min=1, max=65535, help="The port to listen on.")]
WorkersOption = Annotated[int, typer.Option(min=1, max=64, help="Worker processes, at most one for each core.")]

LOOPBACK = "127.0.0.1"
SET_PUBLIC_URL = (
    'Set public_url under [service] in dealer.toml to your proxy\'s address, such as "https://agent.example.com".'
)


def serve(
    directory: DirOption = HERE, host: HostOption = LOOPBACK, port: PortOption = 8080, workers: WorkersOption = 1
) -> None:
    """Checks settings, keys and database, then serves in the foreground."""
    # Imported here: the server takes a second, and `serve --help` does not need it.
    from dealer_agent.cli.uvicorn_server import listen, run

    settings = find_settings(directory)
    channel_secrets(settings, os.environ)  # Every channel has what it needs, or the service does not start.
    with opened(settings, customers=True) as dealer, dealer.read() as tx:
        stocked = read_revision(tx).stock > 0
        not_isolated = dealer.store.isolation_problem()
    listener = listen(host, port)
    address = address_of(host, port)
    base = settings.base_url(address)
    out.print(f"{settings.dealer.name} answers at {base}/")
    out.print(f"Its card: {settings.service.public_url or address}/.well-known/agent-card.json")
    problems = [problem_of_card(listener.getsockname()[0], settings.service.public_url or address)]
    if settings.mail.confirms_visits:
        problems.append(problem_of_links(base))
    if not_isolated is not None:
        problems.append(f"{not_isolated[0].upper()}{not_isolated[1:]}. One dealer may be served like this.")
    for problem in filter(None, problems):
        err.print(problem, style="yellow")
    if not stocked:
        words = f"No stock was ever imported for the dealer {settings.dealer.id}: dealer-agent inventory import FILE"
        err.print(words, style="yellow")
    run(settings, listener, address, workers)


def address_of(host: str, port: int) -> str:
    """The URL at which a person on this machine reaches a service that listens on the host and port."""
    shown = {"0.0.0.0": LOOPBACK, "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    return f"http://{shown}:{port}"


def problem_of_card(listening: str, named: str) -> str | None:
    """Why buyers on other machines cannot use the URL in the agent card; None if they can.

    `listening` is the IP address of the socket. A service on a loopback address has no such problem.
    """
    if is_this_machine(listening):
        return None
    unreachable = (
        f"The service listens on {listening}, but its agent card names {named}: no other machine can reach it."
    )
    unencrypted = f"The agent card names {named}: customers' data would travel without encryption."
    return _problem_of(named, unreachable, unencrypted)


def problem_of_links(begin: str) -> str | None:
    """Why customers cannot safely use the links in their mails; None if they can. The links begin with `begin`."""
    links = f"The links in mails to customers begin with {begin}"
    unencrypted = f"{links}: they would travel without encryption."
    return _problem_of(begin, f"{links}: they work on this machine only.", unencrypted)


def _problem_of(address: str, unreachable: str, unencrypted: str) -> str | None:
    parts = urlsplit(address)
    if is_this_machine(parts.hostname or ""):
        return f"{unreachable} {SET_PUBLIC_URL}"
    return f"{unencrypted} {SET_PUBLIC_URL}" if parts.scheme == "http" else None
