"""The command `dealer-agent`. Each command, and each group of commands, is a module with its name."""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from dealer_agent import __version__
from dealer_agent.core_dumps import forbid_core_dumps

COMMANDS = {
    "init": "Write a commented dealer.toml: profile, rooftops, hours, fees, policies, and how the service behaves.",
    "serve": "Answer buyer agents until Ctrl-C or SIGTERM. Requests in progress are answered first.",
    "demo": "Serve an invented dealer with more than 300 vehicles, and show example requests.",
    "doctor": "Check settings, database, keys, clock, feeds, mail, channels and the public address. Changes nothing.",
    "check": "Check any dealer agent against the protocol, from outside, and write reports.",
    "backup": "Write settings, database, stock and recorded heads into one file, while the service runs.",
    "restore": "Restore a backup into a new folder.",
    "report": "Show what agents asked in a month, and what they did not find. Counts only.",
    "mcp": "Give an AI assistant the tools of a dealer agent, over stdio.",
    "help": "Show a page of the reference: settings, commands, feeds, fields, errors and others.",
}
GROUPS = {
    "inventory": "Import the inventory, and see what it contains.",
    "feeds": "See and run the feeds that are imported without a person.",
    "keys": "Create, list and replace the keys to customer data.",
    "leads": "See, export and erase the leads that buyers sent.",
    "appointments": "See, arrange, change and subscribe to the visits of customers.",
    "deliveries": "See whether leads arrived at their CRMs, and send them again.",
    "alerts": "See what is wrong, and test who gets a message about it.",
    "consent": "See, revoke, prove and verify the consent of customers.",
    "accesses": "See who looked at customer data.",
    "dealers": "Add, change and remove the dealers of a service of many dealers.",
    "database": "Prepare a PostgreSQL database.",
    "tokens": "Create, list and revoke bearer tokens for buyer agents.",
    "ask": "Ask any dealer agent: who it is, what is in stock, for one vehicle, or to take a lead.",
}
HELP = COMMANDS | GROUPS
EXTRAS = dict.fromkeys(HELP, "server") | {"help": "", "ask": "", "check": "check", "mcp": "mcp"}
"""The extra of the distribution that has the packages of a command. Without an extra, pip installs only what a buyer's
commands need."""
IMPORTED_LATE = {"check": "jsonschema_rs", "mcp": "mcp"}
"""A package of the command's extra, for commands that import it only when they run."""
OF_ONE_DEALER = {"report"}
"""The commands outside groups that are about one dealer. All commands of groups that have the option --dir are."""


class _LazyCommands(TyperGroup):
    """Imports the module of a command only to run it: the imports of all commands take more than a second."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - as the base has it
        """The names, in the order of the help."""
        return list(HELP)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """The command or group of this name, imported; None for an unknown name."""
        if cmd_name not in HELP:
            return None
        module = _module(cmd_name)
        if cmd_name in GROUPS:
            command: Any = get_group(module.app)
            if EXTRAS[cmd_name] == "server":
                from dealer_agent.cli.open_dealer import add_dealer_option

                for each in command.commands.values():
                    add_dealer_option(each)
        else:
            single = typer.Typer(add_completion=False)
            single.command(epilog=getattr(module, "EXIT_CODES", None))(getattr(module, cmd_name))
            command = get_command(single)
            if cmd_name in OF_ONE_DEALER:
                from dealer_agent.cli.open_dealer import add_dealer_option

                add_dealer_option(command)
        command.name, command.help = cmd_name, HELP[cmd_name]
        _join_lines(command)
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command of these words. An unknown command ends with a message that names similar ones."""
        if args and args[0] not in HELP:
            from dealer_agent.protocol.did_you_mean import did_you_mean

            ctx.fail(f"No such command '{args[0]}'{did_you_mean(args[0], [*HELP])}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Runs a command. Errors that a person can correct end it with a message."""
        # Imported here: `--help` does not need it.
        from dealer_agent.cli.terminal import report_errors

        with report_errors():
            return super().invoke(ctx)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Shows the commands without importing them."""
        commands = [TyperCommand(name, help=text) for name, text in HELP.items()]
        shown = TyperGroup(help=self.help, epilog=self.epilog, params=self.params, commands=commands)
        shown.format_help(ctx, formatter)


def _module(command: str) -> ModuleType:
    """The module of a command. If a package of its extra is missing, the program ends with the pip command to run."""
    extra, late = EXTRAS[command], IMPORTED_LATE.get(command)
    try:
        if late is None or find_spec(late) is not None:
            return import_module(f"{__name__}.{command}")
    except ModuleNotFoundError as error:
        if not extra or (error.name or "").partition(".")[0] == __name__.partition(".")[0]:
            raise
    from dealer_agent.cli.terminal import fail

    return fail(f"dealer-agent {command} needs more packages: pip install 'dealer-agent[{extra}]'")


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
    app()
