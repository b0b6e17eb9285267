"""`docs/reference/commands.md`: each command with its arguments and options, as `--help` shows them."""

from collections.abc import Iterator
from typing import Any

import typer
from rich.markup import escape
from scripts.reference.markdown import code, page, table
from typer.core import TyperGroup

from dealer_agent.cli import app


def commands_page() -> str:
    """The page."""
    root = typer.main.get_command(app)
    introduction = (
        "Every command shows this text with `--help`. All commands end with code 0 when they succeed, "
        "and with code 1 when something is wrong. A wrong option ends with code 2. "
        "[JSON of commands](json.md) has the fields that `--json` prints."
    )
    return page("Commands", introduction, _sections("dealer-agent", root))


def _sections(name: str, command: Any, of_group: str = "") -> Iterator[str]:
    """The sections of a command or group. `of_group` has the arguments between the names of a group and its command."""
    if not isinstance(command, TyperGroup):
        yield "\n\n".join(_command(name, command, of_group))
        return
    if name != "dealer-agent":
        yield f"## {name}\n\n{command.help}"
    context: Any = None
    for inner in command.list_commands(context):
        yield from _sections(f"{name} {inner}", command.get_command(context, inner), _usage(command))


def _usage(command: Any) -> str:
    return " ".join(_placeholder(one) for one in command.params if not one.opts[0].startswith("-"))


def _command(name: str, command: Any, of_group: str) -> Iterator[str]:
    level = "##" if name.count(" ") == 1 else "###"
    group, _, own = name.rpartition(" ")
    words = [group, of_group, own, "[OPTIONS]", _usage(command)]
    yield f"{level} {name}"
    yield "    " + " ".join(word for word in words if word)
    yield "\n\n".join(" ".join(paragraph.split()) for paragraph in command.help.split("\n\n"))
    if command.epilog:
        yield command.epilog
    rows = [(", ".join(map(code, _names(one))), one.help or "", _default(one)) for one in command.params]
    for shown in (command.help, *(help_text for _, help_text, _ in rows)):
        if escape(shown) != shown:
            raise ValueError(f"{name}: a terminal does not show the brackets in {shown!r}")
    if rows:
        yield table(("Option", "Meaning", "Default"), rows)


def _names(parameter: Any) -> list[str]:
    if not parameter.opts[0].startswith("-"):
        return [_placeholder(parameter)]
    return [*parameter.opts, *parameter.secondary_opts]


def _placeholder(argument: Any) -> str:
    name = str(argument.metavar or argument.name).strip("[]").upper()
    return name if argument.required else f"[{name}]"


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    if parameter.default is None or parameter.default is False or callable(parameter.default):
        return "-"
    return code(parameter.default)
