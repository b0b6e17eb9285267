"""Every command in the documents exists, with its options."""

import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from dealer_agent.cli import app

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@cache
def group(names: tuple[str, ...]) -> Any:
    """The command or group of these names."""
    context: Any = None
    command: Any = typer.main.get_command(app)
    for name in names:
        command = command.get_command(context, name) if hasattr(command, "get_command") else None
    return command


def problems(line: str) -> list[str]:
    """What is wrong with the words of a command line."""
    words = shlex.split(line)
    names: tuple[str, ...] = ()
    arguments = 0  # Those of a group, such as the URL of `ask`, before the name of its command.
    for word in words:
        if word.startswith("-") or not hasattr(group(names), "get_command"):
            break
        if arguments:
            arguments -= 1
            continue
        names = (*names, word)
        if group(names) is None:
            return [f"no command {' '.join(names)}"]
        arguments = sum(not each.opts[0].startswith("-") for each in group(names).params)
    known = {option for one in group(names).params for option in (*one.opts, *one.secondary_opts)} | {"--help"}
    given = [word.partition("=")[0] for word in words if word.startswith("--")]
    return [f"{' '.join(names)} has no {option}" for option in given if option not in known]


def commands_of(text: str) -> set[str]:
    """The command lines of the code in a document: code spans, and indented or fenced lines."""
    blocks = re.findall(r"^```sh[^\n]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    spans = re.findall(r"`(dealer-agent [^`]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))
    indented = re.findall(r"^ {4,}(dealer-agent [a-z].*)$", text, re.MULTILINE)
    fenced = [line for block in blocks for line in block.splitlines() if line.startswith("dealer-agent ")]
    found_lines = [*spans, *indented, *fenced]
    return {" ".join(found.split("#")[0].split()[1:]) for found in found_lines}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_of_a_document_exists(document: Path) -> None:
    found = {line: problems(line) for line in commands_of(document.read_text("utf-8"))}
    assert {line: wrong for line, wrong in found.items() if wrong} == {}


def test_a_wrong_command_and_a_wrong_option_are_found() -> None:
    assert problems("leads lost") == ["no command leads lost"]
    assert problems("leads list --nothing") == ["leads list has no --nothing"]
    assert problems("ask https://dealer.example serch") == ["no command ask serch"]
    assert problems("ask https://dealer.example search --colour red") == ["ask search has no --colour"]


def test_the_commands_of_a_document_are_in_code_spans_and_indented_lines() -> None:
    assert commands_of("`dealer-agent leads list`\n\n    dealer-agent serve  # runs") == {"leads list", "serve"}
