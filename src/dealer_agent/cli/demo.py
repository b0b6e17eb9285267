"""`dealer-agent demo`: runs the service of an invented dealer with two rooftops."""

import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from dealer_agent.apidocs.examples import curl_command
from dealer_agent.catalogue_loading.feed_import import import_feed
from dealer_agent.cli.open_dealer import opened
from dealer_agent.cli.serve import LOOPBACK, PORT, HostOption, PortOption, address_of
from dealer_agent.cli.terminal import fail, out
from dealer_agent.config import load_settings
from dealer_agent.config.keys import KEYS_VARIABLE, create_key_file
from dealer_agent.config.loading import FILE_NAME
from dealer_agent.demo import demo_dealer_toml, demo_inventory
from dealer_agent.inventory.feeds.reader import read_feed
from dealer_agent.protocol.skill import INVENTORY_SEARCH, INVENTORY_VEHICLE, LEAD_SUBMIT
from dealer_agent.protocol.vocabulary import proto


def demo(
    directory: Annotated[Path, typer.Option("--dir", help="The folder for the invented dealer.")] = Path("demo-store"),
    host: HostOption = None,
    port: PortOption = None,
) -> None:
    """Writes the invented dealer, imports its inventory, prints example requests, then serves."""
    # Imported here, as in `serve`.
    from dealer_agent.cli.uvicorn_server import listen, run

    host, port = host or LOOPBACK, port or PORT
    listener = listen(host, port)
    _write_dealer(directory)
    # The invented dealer always uses its own database and key, not those of the environment.
    os.environ.pop(KEYS_VARIABLE, None)
    settings = load_settings(directory, {})
    now = datetime.now(UTC)
    feed = read_feed(demo_inventory())
    with opened(settings) as dealer:
        import_feed(dealer.store, dealer.profile, feed, source="inventory.csv", at=now, allow_shrink=True)
    address = address_of(host, port)
    # The examples ask about a certified vehicle with a price.
    examples = (row.unit for row in feed.units if row.unit.condition == "cpo" and row.unit.selling_price)
    vin = next(unit.vin for unit in examples if unit.vin)
    out.print(
        f"\n[bold]{escape(settings.dealer.name)}[/] has {len(feed.units)} vehicles and answers at {address}/",
        markup=True,
    )
    out.print(f"Its agent card: {address}/.well-known/agent-card.json\n")
    out.print("Ask it something, in another terminal:\n")
    for skill in (INVENTORY_SEARCH, INVENTORY_VEHICLE, LEAD_SUBMIT):
        command = curl_command(address, skill, proto(), now=now, vin=vin, compact=True)
        out.print(command + "\n", soft_wrap=True)
    out.print(f"Each lead is written to {directory / 'leads'}. To list them: dealer-agent leads list --dir {directory}")
    out.print("Ctrl-C stops it.")
    run(settings, settings.service, listener, address, workers=1)


def _write_dealer(directory: Path) -> None:
    """Writes the invented dealer.toml and a key file. It never overwrites another dealer."""
    path = directory / FILE_NAME
    text = demo_dealer_toml()
    if path.exists() and path.read_text(encoding="utf-8") != text:
        fail(f"{path} holds another dealer; choose an empty folder with --dir")
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    with suppress(FileExistsError):
        create_key_file(directory)
