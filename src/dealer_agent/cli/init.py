"""`dealer-agent init`: creates the folder of a new dealer."""

import os
from pathlib import Path
from typing import Annotated

import typer

from dealer_agent.cli.terminal import fail, out
from dealer_agent.config import write_dealer_toml
from dealer_agent.config.keys import KEY_FILE_NAME, KEYS_VARIABLE, create_key_file, from_environment


def init(
    directory: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder to create, such as my-store.")],
    name: Annotated[str | None, typer.Option(help="The dealer's name. Default: the folder's name.")] = None,
) -> None:
    """Writes `dealer.toml`, and the key file if there is none."""
    default = directory.resolve().name.replace("-", " ").replace("_", " ").title()
    try:
        path = write_dealer_toml(directory, default if name is None else name)
    except FileExistsError:
        if not directory.is_dir():
            raise
        fail(f"{directory / 'dealer.toml'} is there already; edit it, or choose another folder")
    except ValueError as problem:
        fail(f"{problem}; give one with --name")
    keys = _keys_of(directory)
    out.print(f"Wrote {path}.\n{keys}\nNext:\n")
    out.print(f"  1. Edit {path}: rooftops, hours, fees, what your feed's price means.")
    out.print(f"  2. dealer-agent inventory import YOUR-EXPORT.csv --dir {directory}")
    out.print(f"  3. dealer-agent serve --dir {directory}")


def _keys_of(directory: Path) -> str:
    """Creates the key file if there are no keys. Returns what the owner must know about the key."""
    if from_environment(os.environ):
        return f"The keys to customer data come from {KEYS_VARIABLE}: keep a copy of it in a safe place."
    try:
        path, made = create_key_file(directory), "is in"
    except FileExistsError:
        path, made = directory / KEY_FILE_NAME, "was there already, in"
    return (
        f"The key to customer data {made} {path}. Back this file up, separately from the database:\n"
        "without it nobody can read your leads again, and the service does not start."
    )
