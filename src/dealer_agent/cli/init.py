"""`dealer-agent init`: a new dealer's folder."""

from pathlib import Path
from typing import Annotated

import typer

from dealer_agent.cli.terminal import fail, failures_in_plain_words, out
from dealer_agent.config import write_dealer_toml


def init(
    directory: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder to make, such as my-store.")],
    name: Annotated[str | None, typer.Option(help="The dealer's name; made from the folder's without it.")] = None,
) -> None:
    """Write a commented dealer.toml: profile, rooftops, hours, fees, policies, and how the service behaves."""
    with failures_in_plain_words():
        try:
            path = write_dealer_toml(directory, name if name is not None else _name_of(directory))
        except FileExistsError:
            fail(f"{directory / 'dealer.toml'} is there already; edit it, or choose another folder")
        except ValueError as problem:
            fail(f"{problem}; give one with --name")
    out.print(f"Wrote {path}. Next:\n", markup=False)
    out.print(f"  1. Edit {path}: rooftops, hours, fees, what your feed's price means.", markup=False)
    out.print(f"  2. dealer-agent inventory import YOUR-EXPORT.csv --dir {directory}", markup=False)
    out.print(f"  3. dealer-agent serve --dir {directory}", markup=False)


def _name_of(directory: Path) -> str:
    return directory.resolve().name.replace("-", " ").replace("_", " ").title()
