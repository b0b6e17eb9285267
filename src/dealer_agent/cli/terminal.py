"""Shared by all commands: error messages, times and other output."""

import errno
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from dealer_agent.correctable import CorrectableError
from dealer_agent.pasted_commands import Where
from dealer_agent.protocol.timestamps import zone_abbreviation

if TYPE_CHECKING:
    from rich.progress import Progress

Row = TypeVar("Row")

WIDE = 100_000
"""Characters in a line that is not for a terminal."""

_wide = not sys.stdout.isatty()
out = Console(highlight=False, markup=False, emoji=False, soft_wrap=_wide, width=WIDE if _wide else None)
"""Without a terminal, a wide row stays on one line, so that it can be searched."""
err = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)

_OS_ADVICE = {
    errno.EACCES: "permission denied; run the command as the user who owns it, or choose another place",
    errno.EPERM: "not permitted; run the command as the user who owns it, or choose another place",
    errno.ENOENT: "it does not exist and cannot be created there; choose another place",
    errno.EEXIST: "it exists and is not a folder; choose another place",
    errno.ENOTDIR: "a part of this path is a file, not a folder; choose another place",
    errno.EISDIR: "it is a folder; name a file",
    errno.EROFS: "this disk can only be read; choose another place",
    errno.ENOSPC: "the disk is full; make room, then repeat the command",
}
"""What happened to a file or folder, and what to do, by error number."""


@contextmanager
def report_errors() -> Iterator[None]:
    """Errors that a person can correct end the command with exit code 1 and a message."""
    try:
        yield
    except CorrectableError as error:
        fail(str(error))
    except KeyboardInterrupt:
        err.print("Stopped by Ctrl-C.")
        raise typer.Exit(128 + signal.SIGINT) from None
    except BrokenPipeError:
        raise  # A reader such as `head` has ended. Typer then ends the command without a message.
    except OSError as error:
        what = _OS_ADVICE.get(error.errno or 0) or error.strerror or str(error)
        fail(f"{error.filename or 'The system'}: {what}")


_where = Where()


def works_in(folder: Path | None, dealer_id: str | None) -> None:
    """Notes the folder and the dealer of the command that runs, for the commands in its messages."""
    global _where
    _where = Where(None if folder in (None, Path()) else folder, dealer_id)


def pasted(text: str) -> str:
    """A message in which the commands have the options `--dir` and `--dealer` of the command that runs."""
    return _where.complete(text)


def fail(message: str, code: int = 1) -> NoReturn:
    """Ends the command with an exit code."""
    err.print(Text.assemble(("Error:", "bold red"), " ", plain(pasted(message))))
    raise typer.Exit(code)


_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """Untrusted text, such as a buyer's message, in which control characters are visible codes.

    Escape sequences would control the terminal, and marks of direction would reorder the text.
    """
    return _CONTROLS.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


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


@contextmanager
def bar_of(title: str) -> Iterator[Callable[..., None]]:
    """A bar for a `with` block. Its function gets how much more is done, and of how much if that is known."""
    with progress() as bar:
        task = bar.add_task(title, total=None)
        yield lambda more, total=None: bar.update(task, advance=more, total=total)


def moment(at: datetime) -> str:
    """A time in its own zone, to the second."""
    return f"{at:%Y-%m-%d %H:%M:%S}"


def minute(at: datetime) -> str:
    """A time in its own zone, to the minute."""
    return f"{at:%Y-%m-%d %H:%M}"


def local(at: datetime) -> str:
    """A time in its own zone, to the second, with the abbreviation of the zone: `2026-03-02 09:30:05 CST`."""
    return f"{moment(at)} {zone_abbreviation(at)}"


Cell = str | int | datetime | None


def print_json(document: Any) -> None:
    """Prints a JSON document. A time becomes a text of ISO 8601 with its offset."""
    typer.echo(json.dumps(document, indent=2, default=datetime.isoformat))


def terminal_width() -> int | None:
    """The number of characters in a line of the terminal. None if the output is not a terminal."""
    if not sys.stdout.isatty():
        return None
    return int(os.environ.get("COLUMNS") or os.get_terminal_size(sys.stdout.fileno()).columns)


def cell_text(cell: Cell, time: Callable[[datetime], str] = minute) -> str:
    """The text of a cell: empty for None, a number as `1,204`, and a time with the abbreviation of its zone."""
    if isinstance(cell, datetime):
        return f"{time(cell)} {zone_abbreviation(cell)}"
    return f"{cell:,}" if isinstance(cell, int) else cell or ""


def limited(rows: list[Row], limit: int, rest: str = "give a higher --limit") -> list[Row]:
    """The first `limit` of the rows that were found. A message says if there are more: look for `limit + 1` rows.

    `rest` says how to get the others.
    """
    if len(rows) > limit:
        err.print(f"There are more than these {limit:,}: {rest}.")
    return rows[:limit]


def section(title: str, content: Any) -> None:
    """Prints a title, and the content below it. All its lines are indented, so that none looks like another title.

    A member of a dictionary that is None is left out.
    """
    if not content:
        return
    out.print(Text(f"\n{title}", style="bold"))
    if isinstance(content, dict):
        for name, value in content.items():
            if value is None:
                continue
            text = msgspec.json.encode(value).decode() if isinstance(value, dict | list) else _section_text(value)
            out.print(f"  {_indented(name.replace('_', ' '))}: {_indented(text)}")
    else:
        out.print(f"  {_indented(str(content))}")


def _section_text(value: object) -> str:
    return local(value) if isinstance(value, datetime) else str(value)


def _indented(text: str) -> str:
    return plain(text).replace("\n", "\n    ")


def counted(number: int, thing: str) -> str:
    """The number with the thing in singular or plural, such as `1 lead` or `1,204 leads`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
