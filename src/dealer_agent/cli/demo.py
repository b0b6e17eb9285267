"""`dealer-agent demo`: runs the service of an invented dealer with two rooftops, or of many invented dealers."""

import os
import shlex
import shutil
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from dealer_agent.apidocs.examples import curl_command
from dealer_agent.cli.open_dealer import PORT, open_installation, opened
from dealer_agent.cli.serve import LOOPBACK, HostOption, PortOption, address_of, serve_installation
from dealer_agent.cli.terminal import fail, out, progress
from dealer_agent.config import load_settings
from dealer_agent.config.installation import FILE_NAME as INSTALLATION_FILE
from dealer_agent.config.installation import installation_of, load_installation
from dealer_agent.config.keys import KEYS_VARIABLE, create_key_file
from dealer_agent.config.loading import FILE_NAME
from dealer_agent.config.new_dealer_file import installation_toml
from dealer_agent.config.settings import MetricsSettings
from dealer_agent.console.invitations import Members
from dealer_agent.demo import demo_dealer_toml, demo_inventory
from dealer_agent.demo.many import MOST_DEALERS, invented_dealers
from dealer_agent.feeds.files.checks import EVERY_CHECK
from dealer_agent.feeds.files.reader import read_feed
from dealer_agent.feeds.importing import import_feed
from dealer_agent.protocol.skill import INVENTORY_SEARCH, INVENTORY_VEHICLE, LEAD_SUBMIT
from dealer_agent.protocol.vocabulary import proto
from dealer_agent.protocol.well_known import CARD_PATH
from dealer_agent.server.served_dealers import CONSOLE
from dealer_agent.storage.installation.dealer_registry import add_dealer, all_dealers

DEMO_INSTALLATION = "# Invented dealers. `dealer-agent demo --dealers` writes this file again.\n"


def demo(
    folder: Annotated[
        Path | None,
        typer.Option("--dir", help="The folder to create. Default: demo-store, or demo-dealers with --dealers."),
    ] = None,
    host: HostOption = None,
    port: PortOption = None,
    dealers: Annotated[
        int | None,
        typer.Option("--dealers", min=1, max=MOST_DEALERS, help="Serve so many invented dealers in one service."),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Serve metrics for Prometheus at this port of 127.0.0.1, at /metrics."),
    ] = None,
) -> None:
    """Writes the invented dealer, imports its inventory, prints example requests, then serves."""
    # The invented dealers always use their own database and key, not those of the environment.
    os.environ.pop(KEYS_VARIABLE, None)
    os.environ.pop("DATABASE_URL", None)
    host, port = host or LOOPBACK, port or PORT
    metrics = MetricsSettings(enabled=metrics_port is not None, port=metrics_port or MetricsSettings().port)
    if dealers is None:
        _serve_dealer(folder or Path("demo-store"), host, port, metrics)
    else:
        folder = folder or Path("demo-dealers")
        _write_dealers(folder, address_of(host, port), dealers)
        serve_installation(load_installation(folder, {}), host, port, metrics)


def _serve_dealer(folder: Path, host: str, port: int, metrics: MetricsSettings) -> None:
    """Writes the invented dealer with its stock, prints examples, and serves it."""
    # Imported here, as in `serve`.
    from dealer_agent.cli.processes import listen, run

    listener = listen(host, port)
    _write_dealer(folder)
    settings = load_settings(folder, {})
    now = datetime.now(UTC)
    feed = read_feed(demo_inventory())
    with opened(settings) as dealer:
        import_feed(dealer.store, dealer.profile, feed, source="inventory.csv", at=now, accept=EVERY_CHECK)
    address = address_of(host, port)
    # The examples ask about a certified vehicle with a price.
    examples = (row.unit for row in feed.units if row.unit.condition == "cpo" and row.unit.selling_price)
    vin = next(unit.vin for unit in examples if unit.vin)
    out.print(
        f"\n[bold]{escape(settings.dealer.name)}[/] has {len(feed.units)} vehicles and answers at {address}/",
        markup=True,
    )
    out.print(f"Its agent card: {address}{CARD_PATH}\n")
    out.print("Ask it something, in another terminal:\n")
    for skill in (INVENTORY_SEARCH, INVENTORY_VEHICLE, LEAD_SUBMIT):
        command = curl_command(address, skill, proto(), now=now, vin=vin, compact=True)
        out.print(command + "\n", soft_wrap=True)
    listing = shlex.join([_program(), "leads", "list", "--dir", str(folder)])
    out.print(f"Each lead is written to {folder / 'leads'}. To list them: {listing}", soft_wrap=True)
    with opened(settings) as dealer:
        people = Members(dealer.store, settings.dealer.id, settings.dealer.id, by_operator=True)
        _, secret = people.invite("owner@demo.example", "owner", (), "dealer-agent demo")
    out.print("Its console, for the people of the dealership, opens with this link, once:")
    out.print(f"http://localhost:{port}{CONSOLE}/invitation/{secret}\n", soft_wrap=True)
    out.print("Ctrl-C stops it. Its log follows.")
    run(installation_of(settings, {}, address), metrics, listener, address)


def _program() -> str:
    """What to type for this command: its path, unless the shell finds it by name."""
    return "dealer-agent" if shutil.which("dealer-agent") else sys.argv[0]


def _write_dealer(folder: Path) -> None:
    """Writes the invented dealer.toml and a key file. It never overwrites another dealer."""
    path = folder / FILE_NAME
    text = demo_dealer_toml()
    if path.exists() and path.read_text(encoding="utf-8") != text:
        fail(f"{path} holds another dealer; choose an empty folder with --dir")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    with suppress(FileExistsError):
        create_key_file(folder)


def _write_dealers(folder: Path, address: str, count: int) -> None:
    """Writes an installation with invented dealers. It never overwrites another installation."""
    path = folder / INSTALLATION_FILE
    if path.exists() and not path.read_text(encoding="utf-8").startswith(DEMO_INSTALLATION):
        fail(f"{path} holds another installation; choose an empty folder with --dir")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_text(DEMO_INSTALLATION + installation_toml(address), encoding="utf-8")
    with suppress(FileExistsError):
        create_key_file(folder)
    with open_installation(folder, for_changes=True) as opened_installation, progress() as bar:
        installation, store = opened_installation.installation, opened_installation.store
        with store.installation() as tx:
            registered = {dealer.dealer_id for dealer in all_dealers(tx)}
        for dealer in bar.track(list(invented_dealers(count)), description="Inventing dealers"):
            if dealer.dealer_id not in registered:
                with store.registration(dealer.dealer_id) as tx:
                    add_dealer(tx, dealer.dealer_toml.encode(), actor="dealer-agent demo", listed=True)
                profile = installation.dealer_settings(dealer.dealer_toml).dealer
                feed = read_feed(dealer.inventory)
                import_feed(store, profile, feed, source="inventory.csv", at=datetime.now(UTC))
    out.print(f"\nThe page that lists the invented dealers: {address}/")
    out.print(f"The same list for programs: {address}/.well-known/ard.json")
    out.print("Ctrl-C stops it.\n")
