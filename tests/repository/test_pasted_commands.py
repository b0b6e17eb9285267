"""Messages name commands that exist, and complete them so that they work where they are pasted."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from typer.main import get_command

import dealer_agent
from dealer_agent.cli import app
from dealer_agent.pasted_commands import ALONE, GROUPS, WITHOUT_DEALER, WITHOUT_FOLDER, Where

pytestmark = pytest.mark.outside_protocol("commands in messages")

SOURCE = Path(dealer_agent.__file__).parent
FOLDER = Path("/srv/my store")
HERE = Where(FOLDER, "my-store")
PROSE = {"consent record"}
"""Words after the name of the program that are no command. No message to a person has them."""


def commands(group: Any, *above: str) -> Iterator[tuple[str, Any]]:
    """The commands below a group by name, such as `serve`, `feeds list` and `dealers host add`."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if hasattr(found, "list_commands"):
            yield from commands(found, *above, name)
        else:
            yield " ".join((*above, name)), found


COMMANDS = dict(commands(get_command(app)))


def named_commands() -> Iterator[tuple[str, str]]:
    """The file and the text of each string of the program that names a command."""
    for path in sorted(SOURCE.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)) if "dealer-" in source else ():
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and "dealer-agent " in node.value:
                yield str(path.relative_to(SOURCE)), node.value


def options_of(command: Any) -> set[str]:
    return {name for parameter in command.params for name in parameter.opts}


def test_the_tables_have_the_commands_and_which_options_each_has() -> None:
    assert {name for name in COMMANDS if " " not in name} == set(ALONE)
    assert {name.rpartition(" ")[0] for name in COMMANDS if " " in name} == set(GROUPS)
    for name, command in COMMANDS.items():
        options, names = options_of(command), {name, name.rpartition(" ")[0]}
        has_folder = not names & WITHOUT_FOLDER
        assert has_folder == ("--dir" in options), name
        if has_folder:
            assert bool(names & WITHOUT_DEALER) == ("--dealer" not in options), name


def test_every_message_names_commands_and_options_that_exist() -> None:
    group = re.compile(rf"dealer-agent (({'|'.join(GROUPS)}) [a-z][a-z-]*|(?:{'|'.join(ALONE)})\b)([^.;:`\n]*)")
    texts = list(named_commands())
    assert len(texts) > 60
    checked = 0
    for file, text in texts:
        for name, _, rest in group.findall(text):
            if name in PROSE:
                continue
            assert name in COMMANDS, (file, name)
            known = options_of(COMMANDS[name]) | {"--help"}
            for option in re.findall(r"(?<=\s)--[a-z][a-z-]*", rest.partition(", then dealer-agent")[0]):
                assert option in known, (file, name, option)
            checked += 1
    assert checked > 60


@pytest.mark.parametrize("name", COMMANDS)
def test_a_completed_command_has_the_options_that_it_knows(name: str) -> None:
    completed = HERE.complete(f"See: dealer-agent {name} NAME.")
    expected = [f"--dir '{FOLDER}'"] if "--dir" in options_of(COMMANDS[name]) else []
    expected += ["--dealer my-store"] if "--dealer" in options_of(COMMANDS[name]) else []
    assert completed == f"See: {' '.join(['dealer-agent', name, *expected])} NAME."


@pytest.mark.parametrize(
    ("text", "completed"),
    [
        ("dealer-agent serve shows it", "dealer-agent serve --dir '/srv/my store' shows it"),
        ("dealer-agent dealers add FILE --dir /x", "dealer-agent dealers add FILE --dir /x"),
        ("the dealer-agent service", "the dealer-agent service"),
        ("`dealer-agent init`", "`dealer-agent init`"),
        (
            "dealer-agent feeds list, or dealer-agent doctor",
            "dealer-agent feeds list --dir '/srv/my store' --dealer my-store, or dealer-agent doctor --dir "
            "'/srv/my store' --dealer my-store",
        ),
    ],
)
def test_only_commands_are_completed(text: str, completed: str) -> None:
    assert HERE.complete(text) == completed
    assert Where().complete(text) == text
