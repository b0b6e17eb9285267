"""The options of commands that sign their requests: `--sign KEY --as ORIGIN`."""

from pathlib import Path
from typing import Annotated

import typer

from dealer_agent.cli.command import wrong_use
from dealer_agent.client.errors import InvalidRequest
from dealer_agent.client.signing import Signer

SignOption = Annotated[
    Path | None,
    typer.Option(
        "--sign",
        metavar="KEY",
        help="Sign the requests with the private key in this file: PEM or JWK. dealer-agent keys directory makes one.",
    ),
]
AsOption = Annotated[
    str | None,
    typer.Option("--as", metavar="ORIGIN", help="Who signs: where the key directory is, such as https://agent.example"),
]


def read_signer(key: Path | None, origin: str | None) -> Signer | None:
    """The signer of these two options; None without both. Raises BadParameter."""
    if key is None and origin is None:
        return None
    if key is None or origin is None:
        raise typer.BadParameter("--sign KEY and --as ORIGIN go together.")
    with wrong_use(error=InvalidRequest):
        return Signer.from_file(key, origin)
