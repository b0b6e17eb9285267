"""The command `dealer-agent`: one file for each of its subjects."""

import typer

from dealer_agent import __version__
from dealer_agent.cli import (
    accesses,
    appointments,
    consent,
    consent_check,
    consent_proof,
    deliveries,
    demo,
    erasure,
    export,
    init,
    inventory,
    keys,
    leads,
    serve,
    tokens,
)
from dealer_agent.encryption.core_dumps import forbid_core_dumps

app = typer.Typer(
    name="dealer-agent",
    help="Puts a dealership's inventory in front of AI shopping agents, and takes their leads.",
    epilog="Start with `dealer-agent demo` to see it work, or `dealer-agent init my-store` for your own.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dealer-agent {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
) -> None:
    """The options before any command."""


leads.app.command("erase")(erasure.erase)
leads.app.command("export")(export.export)
leads.app.command("dispose")(erasure.dispose)

consent.app.command("prove")(consent_proof.prove)
consent.app.command("export")(consent_proof.export)
consent.app.command("verify")(consent_check.verify)
consent.app.command("head")(consent_check.head)

app.command("init")(init.init)
app.command("serve")(serve.serve)
app.command("demo")(demo.demo)
app.add_typer(inventory.app, name="inventory")
app.add_typer(keys.app, name="keys")
app.add_typer(leads.app, name="leads")
app.add_typer(appointments.app, name="appointments")
app.add_typer(deliveries.app, name="deliveries")
app.add_typer(consent.app, name="consent")
app.add_typer(accesses.app, name="accesses")
app.add_typer(tokens.app, name="tokens")


def main() -> None:
    """The entry point."""
    forbid_core_dumps()
    app()
