"""The frame of every command: what is opened for it, the option `--json`, and the one printer of its result.

A command is a function. What it returns is a `Table`, or the document that `--json` prints. What it prints meanwhile
with `out` is for people, and is left out with `--json`.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from dealer_agent.cli.tables import Table
from dealer_agent.cli.terminal import out, plain, print_json, works_in

Given = TypeVar("Given")
Checked = TypeVar("Checked")

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document. Times have their offset from UTC.")]
FolderOption = Annotated[
    Path,
    typer.Option(
        "--dir",
        help="The folder that holds dealer.toml or installation.toml and, unless DATABASE_URL is set, the SQLite "
        "database.",
    ),
]

YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def newest(most: int) -> Any:
    """The option `--limit` of a list, at most `most`. `terminal.limited` then leaves out the records above it."""
    return typer.Option(min=1, max=most, help="How many, newest first.")


@contextmanager
def wrong_use(
    option: str | None = None, error: type[Exception] | tuple[type[Exception], ...] = ValueError
) -> Iterator[None]:
    """An error of this type in the block is a wrong use of the command, or of the option. Its message says why."""
    try:
        yield
    except error as problem:
        raise typer.BadParameter(plain(str(problem)), param_hint=option) from None


def checked_by(reader: Callable[[Given], Checked]) -> Callable[[Given], Checked]:
    """A callback of an option: the value as `reader` returns it. Its ValueError is a wrong use of the option."""

    def check(value: Given) -> Checked:
        with wrong_use():
            return reader(value)

    return check


@dataclass(frozen=True)
class CommandTarget:
    """What a command works on: the options that choose it, and what opens it for the function's first parameter.

    `options` has the annotation and the default of each option by its name.
    """

    options: Mapping[str, tuple[Any, Any]]
    open: Callable[..., AbstractContextManager[Any]]


def command(group: typer.Typer, name: str, opening: CommandTarget | None = None, **settings: Any) -> Callable[..., Any]:
    """Adds a function to a group of commands. `settings` are those of `typer.Typer.command`."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        group.command(name, **settings)(as_typer_command(function, opening))
        return function

    return add


def as_typer_command(function: Callable[..., Any], opening: CommandTarget | None = None) -> Callable[..., None]:
    """A Typer command that opens the dealer, calls the function, and prints what it returns.

    It has the options of `opening`, such as `--dir`. It also has `--json`, unless the function is annotated `-> None`:
    such a function returns nothing to print. A function that has a parameter `as_json` prints its result itself.
    """
    signature = inspect.signature(function)
    own = list(signature.parameters.values())[0 if opening is None else 1 :]
    added = {} if opening is None else dict(opening.options)
    prints = signature.return_annotation is not None
    options = [*added.items(), *([("as_json", (JsonOption, False))] if prints else [])]

    @wraps(function)
    def run(**values: Any) -> None:
        """Opens what the command works on, calls its function, and shows what it returns."""
        folder = values.get("folder", values.get("path"))
        # For the commands in messages: a person can paste them as they are.
        works_in(folder if isinstance(folder, Path) else None, values.get("dealer_id", values.get("dealer")))
        as_json = prints and values.pop("as_json")
        with ExitStack() as closing:
            if as_json:
                out.quiet = True
                closing.callback(setattr, out, "quiet", False)
            of_opening = {name: values.pop(name) for name in added}
            opened = () if opening is None else (closing.enter_context(opening.open(**of_opening)),)
            _show(function(*opened, **values), as_json=as_json)

    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [each.replace(kind=keyword) for each in own]
    parameters += [
        inspect.Parameter(name, keyword, annotation=kind, default=default) for name, (kind, default) in options
    ]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _show(result: Any, *, as_json: bool) -> None:
    if as_json:
        print_json(result.document if isinstance(result, Table) else result)
    elif isinstance(result, Table):
        result.show()
