"""Files with customer data: only their owner can read them, and an incomplete file never appears."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO

import typer


def ordinary_file(path: Path | None) -> Path | None:
    """The file of an option. Raises BadParameter if it is no ordinary file, or if its folder does not exist."""
    if path is None:
        return None
    path = path.resolve()
    if path.exists() and not path.is_file():
        raise typer.BadParameter("that is no ordinary file")
    if not path.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {path.parent}")
    return path


OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE",
        callback=ordinary_file,
        help="A file that only you can read (mode 0600). Without it, the output.",
    ),
]


@contextmanager
def private_file(path: Path) -> Iterator[BinaryIO]:
    """A file with mode 0600 to write in a `with` block. At the block's end it atomically replaces an older file.

    If the block fails, the older file stays. Raises OSError.
    """
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    made = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        made.replace(path)
    finally:
        made.unlink(missing_ok=True)
