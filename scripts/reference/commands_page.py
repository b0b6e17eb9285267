"""`docs/reference/commands.md`: each command with its arguments and options, as `--help` shows them."""

from collections.abc import Iterator
from typing import Any

import typer
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


def _sections(name: str, command: Any) -> Iterator[str]:
    if not isinstance(command, TyperGroup):
        yield "\n\n".join(_command(name, command))
        return
    if name != "dealer-agent":
        yield f"## {name}\n\n{command.help}"
    context: Any = None
    for inner in command.list_commands(context):
        yield from _sections(f"{name} {inner}", command.get_command(context, inner))


def _command(name: str, command: Any) -> Iterator[str]:
    level = "##" if name.count(" ") == 1 else "###"
    arguments = [one for one in command.params if not one.opts[0].startswith("-")]
    usage = " ".join(_placeholder(one) for one in arguments)
    yield f"{level} {name}"
    yield f"    {name} [OPTIONS] {usage}".rstrip()
    yield "\n\n".join(" ".join(paragraph.split()) for paragraph in command.help.split("\n\n"))
    rows = [(", ".join(map(code, _names(one))), one.help or "", _default(one)) for one in command.params]
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
