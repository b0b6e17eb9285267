"""Shared by all commands: error messages, tables and other output."""

import errno
import json
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dealer_agent.config import SettingsError
from dealer_agent.encryption import EncryptionError
from dealer_agent.inventory.feeds.feed import FeedError
from dealer_agent.operations.errors import OperationError
from dealer_agent.storage.errors import StorageError

if TYPE_CHECKING:
    from rich.progress import Progress

_wide = not sys.stdout.isatty()
out = Console(highlight=False, markup=False, emoji=False, soft_wrap=_wide, width=200 if _wide else None)
"""Without a terminal, a wide row stays on one line, so that it can be searched."""
err = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)

_OS_ADVICE = {
    errno.EACCES: "permission denied; run the command as the user who owns it, or choose another place",
    errno.EPERM: "not permitted; run the command as the user who owns it, or choose another place",
    errno.ENOENT: "it does not exist and cannot be created there; choose another place",
    errno.EEXIST: "it exists and is no folder; choose another place",
    errno.ENOTDIR: "a part of this path is a file and no folder; choose another place",
    errno.EISDIR: "it is a folder; name a file",
    errno.EROFS: "this disk can only be read; choose another place",
    errno.ENOSPC: "the disk is full; make room, then repeat the command",
}
"""What happened to a file or folder, and what to do, by error number."""


@contextmanager
def report_errors() -> Iterator[None]:
    """Errors of settings, feeds, keys, files and the database end the command with exit code 1 and a message."""
    try:
        yield
    except (SettingsError, FeedError, StorageError, EncryptionError, OperationError) as error:
        fail(str(error))
    except KeyboardInterrupt:
        err.print("Stopped by Ctrl-C.")
        raise typer.Exit(128 + signal.SIGINT) from None
    except BrokenPipeError:
        raise  # A reader such as `head` has ended. Typer then ends the command without a message.
    except OSError as error:
        what = _OS_ADVICE.get(error.errno or 0) or error.strerror or str(error)
        fail(f"{error.filename or 'The system'}: {what}")


def fail(message: str) -> NoReturn:
    """Ends the command with exit code 1."""
    err.print(Text.assemble(("Error:", "bold red"), " ", plain(message)))
    raise typer.Exit(1)


_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """Untrusted text, such as a buyer's message, in which control characters are visible codes.

    Escape sequences would control the terminal, and marks of direction would reorder the text.
    """
    return _CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def progress() -> "Progress":
    """A progress bar for long work. It is shown only on a terminal."""
    # Imported here: most commands show no progress.
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=err, transient=True, disable=not err.is_terminal)


def moment(at: datetime) -> str:
    """A time in UTC, to the second."""
    return f"{at:%Y-%m-%d %H:%M:%S}"


def minute(at: datetime) -> str:
    """A time in UTC, to the minute."""
    return f"{at:%Y-%m-%d %H:%M}"


Cell = str | int | datetime | None
JsonOption = Annotated[bool, typer.Option("--json", help="Print the rows as JSON. Times have their offset from UTC.")]


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    empty: str = "",
    time: Callable[[datetime], str] = minute,
    as_json: bool = False,
) -> None:
    """Prints a table, or the text `empty` in place of a table without rows. `time` formats times.

    The column "Id" is never wrapped. Cells are no markup. JSON is an array of objects with a member for each column.
    """
    if as_json:
        names = [column.removesuffix(" (UTC)").replace(" ", "_").lower() for column in columns]
        entries = [dict(zip(names, row, strict=True)) for row in rows]
        typer.echo(json.dumps(entries, indent=2, default=datetime.isoformat))
        return
    if empty and not rows:
        out.print(empty)
        return
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold", show_edge=False)
    for column, first in zip_longest(columns, rows[0] if rows else ()):
        side: Literal["left", "right"] = "right" if isinstance(first, int) else "left"
        table.add_column(column, justify=side, overflow="fold", no_wrap=column == "Id")
    for row in rows:
        table.add_row(*(Text(plain(cell_text(cell, time))) for cell in row))
    out.print(table)


def cell_text(cell: Cell, time: Callable[[datetime], str] = minute) -> str:
    """The text of a cell: empty for None, and a number as `1,204`."""
    if isinstance(cell, datetime):
        return time(cell)
    return f"{cell:,}" if isinstance(cell, int) else cell or ""


def section(title: str, content: Any) -> None:
    """Prints a title, and the content below it. All its lines are indented, so that none looks like another title."""
    if not content:
        return
    out.print(Text(f"\n{title}", style="bold"))
    if isinstance(content, dict):
        for name, value in content.items():
            text = msgspec.json.encode(value).decode() if isinstance(value, dict | list) else str(value)
            out.print(f"  {_indented(name.replace('_', ' '))}: {_indented(text)}")
    else:
        out.print(f"  {_indented(str(content))}")


def _indented(text: str) -> str:
    return plain(text).replace("\n", "\n    ")


def counted(number: int, thing: str) -> str:
    """For example `1 lead` or `1,204 leads`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
