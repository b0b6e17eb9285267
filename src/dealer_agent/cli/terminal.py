"""What every command shares: the dealer's folder, error messages, tables."""

import errno
import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, NoReturn

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from dealer_agent.config import Settings, SettingsError, load_settings
from dealer_agent.config.loading import FILE_NAME
from dealer_agent.encryption import EncryptionError
from dealer_agent.inventory.feeds import FeedError
from dealer_agent.storage.errors import StorageError
from dealer_agent.storage.migrate import migrate
from dealer_agent.storage.store import Store

_PIPE_COLUMNS = 200
"""A file or a pipe has no width of its own; rows that are not folded can be searched."""

out = Console(highlight=False, soft_wrap=not sys.stdout.isatty(), width=None if sys.stdout.isatty() else _PIPE_COLUMNS)
err = Console(stderr=True, highlight=False, soft_wrap=True)

DirOption = Annotated[
    Path, typer.Option("--dir", help="The folder that holds dealer.toml and, unless DATABASE_URL is set, the database.")
]
HERE = Path()


_OS_ADVICE = {
    errno.EACCES: "permission denied; run the command as the user who owns it, or choose another place",
    errno.EPERM: "not permitted; run the command as the user who owns it, or choose another place",
    errno.ENOENT: "it does not exist and cannot be made there; choose another place",
    errno.EEXIST: "it exists and is no folder; choose another place",
    errno.ENOTDIR: "a part of this path is a file and no folder; choose another place",
    errno.EISDIR: "it is a folder; name a file",
    errno.EROFS: "this disk can only be read; choose another place",
    errno.ENOSPC: "the disk is full; make room, then repeat the command",
}
"""What happened to a file or folder, and what to do."""


@contextmanager
def failures_in_plain_words() -> Iterator[None]:
    """What can go wrong with a dealer's files, keys and database ends the command with exit code 1 and one message."""
    try:
        yield
    except (SettingsError, FeedError, StorageError, EncryptionError) as problem:
        fail(str(problem))
    except KeyboardInterrupt:
        err.print("Stopped by Ctrl-C.")
        raise typer.Exit(128 + signal.SIGINT) from None
    except OSError as problem:
        what = _OS_ADVICE.get(problem.errno or 0) or problem.strerror or str(problem)
        fail(f"{problem.filename or 'The system'}: {what}")


def fail(message: str) -> NoReturn:
    """Ends the command with exit code 1."""
    err.print(Text.assemble(("Error:", "bold red"), " ", plain(message)))
    raise typer.Exit(1)


_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """Text of anybody's, such as a buyer's message, without what would steer the terminal: escape sequences and marks
    that turn the direction of writing. They are shown, not hidden."""
    return _CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def settings_in(directory: Path) -> Settings:
    """The dealer in a folder or, where it holds none, in its only subfolder that does. Raises SettingsError."""
    if not (directory / FILE_NAME).exists():
        below = sorted(directory.glob(f"*/{FILE_NAME}"))
        if len(below) == 1:
            directory = below[0].parent
            err.print(f"Using the dealer in {directory}", style="dim")
    return load_settings(directory, os.environ)


@contextmanager
def store_of(settings: Settings) -> Iterator[Store]:
    """The dealer's store, brought up to date first. Raises StorageError."""
    migrate(settings.database_url)
    with Store.open(settings.database_url, settings.cipher) as store:
        yield store


@contextmanager
def customer_store(settings: Settings) -> Iterator[Store]:
    """The same for what reads or writes customer data: its keys are checked first. Raises KeyMissing and WrongKey."""
    with store_of(settings) as store:
        store.check_keys(settings.dealer.id)
        yield store


def progress() -> Progress:
    """A bar for long work; nothing where nobody watches."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=err, transient=True, disable=not err.is_terminal)


def table(title: str, *columns: str) -> Table:
    """A table as all of ours look. A column whose name ends with # holds numbers, one with "Id" is never broken."""
    made = Table(title=title, title_justify="left", title_style="bold", header_style="bold", show_edge=False)
    for column in columns:
        made.add_column(
            column.removesuffix(" #"),
            justify="right" if column.endswith("#") else "left",
            overflow="fold",
            no_wrap=column == "Id",
        )
    return made


def add_row(made: Table, *cells: str) -> None:
    """Adds a row of texts, which are shown as they are."""
    made.add_row(*(Text(plain(cell)) for cell in cells))


def section(title: str, content: Any) -> None:
    """A title and what belongs to it, indented to the last line: nothing in it looks like another section."""
    if not content:
        return
    out.print(Text(f"\n{title}", style="bold"))
    if isinstance(content, dict):
        for name, value in content.items():
            told = msgspec.json.encode(value).decode() if isinstance(value, dict | list) else str(value)
            out.print(f"  {_indented(name.replace('_', ' '))}: {_indented(told)}", markup=False)
    else:
        out.print(f"  {_indented(str(content))}", markup=False)


def _indented(text: str) -> str:
    return plain(text).replace("\n", "\n    ")


def counted(number: int, thing: str) -> str:
    """Such as `1 lead` and `1,204 leads`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def moment(at: datetime) -> str:
    """A time in UTC, to the second."""
    return f"{at:%Y-%m-%d %H:%M:%S}"
