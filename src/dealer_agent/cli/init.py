"""`dealer-agent init`: creates the folder of a new dealer, or of a new installation."""

import os
from pathlib import Path
from typing import Annotated

import typer

from dealer_agent.cli.terminal import fail, out
from dealer_agent.config.keys import KEY_FILE_NAME, KEYS_VARIABLE, create_key_file, from_environment
from dealer_agent.config.new_dealer_file import name_of_folder, write_dealer_toml, write_installation_toml


def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder to create, such as my-store.")],
    name: Annotated[str | None, typer.Option(help="The dealer's name. Default: the folder's name.")] = None,
    installation: Annotated[
        bool, typer.Option("--installation", help="Write installation.toml, for a service of many dealers.")
    ] = False,
    public_url: Annotated[
        str, typer.Option(help="With --installation: the public address of the service.")
    ] = "http://127.0.0.1:8080",
) -> None:
    """Writes `dealer.toml` or `installation.toml`, and the key file if there is none."""
    try:
        if installation:
            path = write_installation_toml(folder, public_url)
        elif name is not None:
            path = write_dealer_toml(folder, name)
        elif (guessed := name_of_folder(folder)) is not None:
            path = write_dealer_toml(folder, guessed, "name")
        else:
            fail(f"The dealer's name cannot be guessed from the folder {folder}; give it with --name")
    except FileExistsError as problem:
        if not folder.is_dir():
            raise
        fail(f"{problem.filename} exists already; edit it, or choose another folder")
    except ValueError as problem:
        fail(f"{problem}; give one with {'--public-url' if installation else '--name'}")
    keys = _keys_of(folder)
    out.print(f"Wrote {path}.\n{keys}\nNext:\n")
    if installation:
        out.print(f"  1. Edit {path}: the public address, the mail server, limits. For PostgreSQL, set DATABASE_URL.")
        out.print(f"  2. dealer-agent dealers add DEALER.toml --listed --dir {folder}")
    else:
        out.print(f"  1. Edit {path}: what your feed's price means, time zone, address, hours, fees.")
        out.print(f"  2. dealer-agent inventory import YOUR-EXPORT.csv --dir {folder}")
    out.print(f"  3. dealer-agent serve --dir {folder}")
    if not installation:
        out.print(f"  4. dealer-agent doctor --public --dir {folder}   (what is missing before you go live)")


def _keys_of(folder: Path) -> str:
    """Creates the key file if there are no keys. Returns what the owner must know about the key."""
    if from_environment(os.environ):
        return f"The keys to customer data come from {KEYS_VARIABLE}: keep a copy of it in a safe place."
    try:
        path, state = create_key_file(folder), "is in"
    except FileExistsError:
        path, state = folder / KEY_FILE_NAME, "was there already, in"
    return (
        f"The key to customer data {state} {path}. Back this file up, separately from the database:\n"
        "without it nobody can read your leads again, and the service does not start."
    )
