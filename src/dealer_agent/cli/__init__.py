"""The command `dealer-agent`. COMMANDS is the table of its commands and groups."""

import gc
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from dealer_agent import __version__
from dealer_agent.core_dumps import forbid_core_dumps


class CommandRow(NamedTuple):
    """A command, or a group of commands. Its module, which is imported only when it is needed, has its name.

    `extra` is that of the distribution that has the packages of the command. Without an extra, pip installs only what a
    buyer's commands need.
    """

    help: str
    extra: str = "server"
    module: str = ""
    group: str = ""


COMMANDS = {
    "init": CommandRow(
        "Write a commented dealer.toml: profile, rooftops, hours, fees, policies, and how the service behaves."
    ),
    "serve": CommandRow("Answer buyer agents until Ctrl-C or SIGTERM. Requests in progress are answered first."),
    "demo": CommandRow("Serve an invented dealer with more than 300 vehicles, and show example requests."),
    "doctor": CommandRow(
        "Check settings, database, keys, clock, feeds, mail, channels and the public address. Changes nothing."
    ),
    "check": CommandRow("Check any dealer agent against the protocol, from outside, and write reports.", "check"),
    "backup": CommandRow("Write settings, database, stock and recorded heads into one file, while the service runs."),
    "restore": CommandRow("Restore a backup into a new folder.", module="backup"),
    "report": CommandRow("Show what agents asked in a month, and what they did not find. Counts only."),
    "mcp": CommandRow("Give an AI assistant the tools of a dealer agent, over stdio.", "mcp"),
    "help": CommandRow("Show a page of the reference: settings, commands, feeds, fields, errors and others.", ""),
    "inventory": CommandRow("Import the inventory, and see what it contains.", group="app"),
    "price": CommandRow("Show what a buyer pays in all for a vehicle, line by line."),
    "record": CommandRow(
        "Show what agents were answered about a unit at a past time, and how the unit changed.", group="app"
    ),
    "feeds": CommandRow("See and run the feeds that are imported without a person.", group="app"),
    "keys": CommandRow("Create, list and replace the keys to customer data.", group="app"),
    "keys directory": CommandRow(
        "For buyer agents: make the key that signs requests, and publish and test its key directory (Web Bot Auth).",
        "signatures",
        module="key_directory",
    ),
    "leads": CommandRow("See, export and erase the leads that buyers sent.", group="app"),
    "appointments": CommandRow("See, arrange, change and subscribe to the visits of customers.", group="app"),
    "offers": CommandRow("See, extend and end the holds of agents, and verify quotes.", group="app"),
    "deliveries": CommandRow("See whether leads arrived at their CRMs, and send them again.", group="app"),
    "alerts": CommandRow("See what is wrong, and test who gets a message about it.", group="app"),
    "consent": CommandRow("See, revoke, prove and verify the consent of customers.", group="app"),
    "accesses": CommandRow("See who looked at customer data.", module="customer_data", group="accesses"),
    "dealers": CommandRow("Add, change and remove the dealers of a service of many dealers.", group="app"),
    "database": CommandRow("Prepare a PostgreSQL database.", group="app"),
    "tokens": CommandRow("Create, list and revoke bearer tokens for buyer agents.", group="app"),
    "agents": CommandRow("See which agents call, and allow, limit, quarantine or block them.", group="app"),
    "console": CommandRow("Invite people to the console, the pages for the people of a dealership.", group="app"),
    "ask": CommandRow(
        "Ask any dealer agent: who it is, what is in stock, for one vehicle, or to take a lead.", "", group="app"
    ),
}
"""The commands in the order of the help. `group` names the commands of a group in its module.

A name of two words is a command of a group that needs another extra than its group.
"""
COLLECTION_THRESHOLD = 50_000
"""The objects after which a garbage collection begins."""
PACKAGES = {"server": "sqlalchemy", "check": "jsonschema_rs", "mcp": "mcp", "signatures": "cryptography"}
"""A package of each extra, which shows whether the extra is installed."""


class _LazyCommands(TyperGroup):
    """Imports the module of a command only to run it: the imports of all commands take more than a second."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - as the base has it
        """The names, in the order of the help. The group has those of two words."""
        return [name for name in COMMANDS if " " not in name]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """The command or group of this name, imported; None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        row, module = COMMANDS[cmd_name], _module(cmd_name)
        if row.group:
            command: Any = get_group(getattr(module, row.group))
        else:
            # Imported here: `--help` does not need it.
            from dealer_agent.cli.command import as_typer_command

            single = typer.Typer(add_completion=False)
            function = as_typer_command(getattr(module, cmd_name.split()[-1]), getattr(module, "OPENING", None))
            single.command(epilog=getattr(module, "EXIT_CODES", None))(function)
            command = get_command(single)
            # A line of the list says what the command does better than the first sentence of its function.
            row = row._replace(help="\n\n".join((row.help, *(command.help or "").split("\n\n")[1:])))
        command.name, command.help = cmd_name, row.help
        _join_lines(command)
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command of these words. An unknown command ends with a message that names similar ones."""
        if args and args[0] not in COMMANDS:
            from dealer_agent.protocol.did_you_mean import did_you_mean

            ctx.fail(f"No such command '{args[0]}'{did_you_mean(args[0], [*COMMANDS])}")
        if " ".join(args[:2]) in COMMANDS:
            args = [" ".join(args[:2]), *args[2:]]
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Runs a command. Errors that a person can correct end it with a message."""
        # Imported here: `--help` does not need it.
        from dealer_agent.cli.terminal import report_errors

        with report_errors():
            return super().invoke(ctx)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Shows the commands without importing them."""
        commands = [TyperCommand(name, help=row.help) for name, row in COMMANDS.items()]
        shown = TyperGroup(help=self.help, epilog=self.epilog, params=self.params, commands=commands)
        shown.format_help(ctx, formatter)


def _module(command: str) -> ModuleType:
    """The module of a command. If a package of its extra is missing, the program ends with the pip command to run."""
    row = COMMANDS[command]
    try:
        if not row.extra or find_spec(PACKAGES[row.extra]) is not None:
            return import_module(f"{__name__}.{row.module or command}")
    except ModuleNotFoundError as error:
        # A module of this package is missing, not one of the extra: that is a fault of the program.
        if not row.extra or (error.name or "").partition(".")[0] == __name__.partition(".")[0]:
            raise
    from dealer_agent.cli.terminal import fail

    return fail(f"dealer-agent {command} needs more packages: pip install 'dealer-agent[{row.extra}]'")


def _join_lines(command: Any) -> None:
    """Joins the lines of each paragraph of a help text: a terminal breaks lines at its own width."""
    paragraphs = (command.help or "").split("\n\n")
    command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    for each in command.commands.values() if isinstance(command, TyperGroup) else ():
        _join_lines(each)


app = typer.Typer(
    name="dealer-agent",
    cls=_LazyCommands,
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
    """The options that come before the name of a command."""


def main() -> None:
    """The entry point."""
    forbid_core_dumps()
    # Imports make many objects that live as long as the process. With Python's threshold of 700, garbage collections
    # scan them again and again. The service sets thresholds of its own.
    gc.set_threshold(COLLECTION_THRESHOLD)
    app()
