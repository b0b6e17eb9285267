"""Files that hold customer data: for their owner alone, and there only when they are complete."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import typer


def ordinary_file(path: Path | None) -> Path | None:
    """An option's file. Raises BadParameter where no file can be, or something else than a file is."""
    if path is None:
        return None
    path = path.resolve()
    if path.exists() and not path.is_file():
        raise typer.BadParameter("that is no ordinary file")
    if not path.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {path.parent}")
    return path


@contextmanager
def private_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write for a block. With mode 0600 it takes the place of an older one at the block's end, in one step.

    A block that fails leaves what was there. Raises OSError.
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
