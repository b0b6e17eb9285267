"""`dealer-agent tokens`: bearer tokens of buyer agents."""

from datetime import timedelta
from typing import Annotated, Any

import typer

from dealer_agent.cli.command import command
from dealer_agent.cli.open_dealer import DEALER
from dealer_agent.cli.tables import Columns, Table
from dealer_agent.cli.terminal import err, fail, local, out
from dealer_agent.open_installation import OpenDealer
from dealer_agent.protocol.did_you_mean import did_you_mean
from dealer_agent.protocol.skill import SCOPES
from dealer_agent.server.tokens import new_token
from dealer_agent.storage.tokens import create_token, list_tokens, revoke_token

app = typer.Typer(no_args_is_help=True)


_SCOPES = ", ".join(SCOPES)


def _scopes(scopes: list[str]) -> list[str]:
    for scope in scopes:
        if scope not in SCOPES:
            raise typer.BadParameter(f"'{scope}' must be one of {_SCOPES}{did_you_mean(scope, [*SCOPES])}")
    return sorted(set(scopes))


def _name(text: str) -> str:
    if not text.strip():
        raise typer.BadParameter("the name is empty; write whom the token is for")
    return text


@command(app, "create", DEALER)
def create(
    dealer: OpenDealer,
    name: Annotated[str, typer.Argument(callback=_name, help="The owner of the token, such as a buyer agent's name.")],
    days: Annotated[
        int | None, typer.Option(min=1, max=3650, help="After how many days it expires. Default: never.")
    ] = None,
    scope: Annotated[
        list[str],
        typer.Option(
            callback=_scopes,
            help=f"What it opens: {_SCOPES}. Repeat it for several. Default: all skills.",
        ),
    ] = [],  # noqa: B006 - Typer needs it.
) -> dict[str, Any]:
    """Create a token and show it once. The service stores only its hash."""
    token = new_token()
    with dealer.write() as tx:
        expires_at = None if days is None else tx.now + timedelta(days=days)
        token_id = create_token(tx, name, token.secret_hash, expires_at=expires_at, scopes=scope)
    ends = dealer.local(expires_at)
    lasts = "" if ends is None else f" It expires on {local(ends)}."
    err.print(f"Token {token_id} for {name}. Keep it now: it is shown this once.{lasts}")
    out.print(token.text(token_id), soft_wrap=True)
    if dealer.settings.auth.mode == "none":
        err.print('Nothing asks for a token yet: set mode = "bearer" under [auth] in dealer.toml.')
    return {"id": token_id, "name": name, "token": token.text(token_id), "expires": ends, "scopes": scope or None}


@command(app, "list", DEALER)
def list_(dealer: OpenDealer) -> Table:
    """List the tokens, revoked and expired ones too."""
    with dealer.read() as tx:
        tokens = list_tokens(tx)
    when = {"Created": "created_at", "Last used": "used_at", "Expires": "expires_at", "Revoked": "revoked_at"}
    columns: Columns = {"Id": "token_id", "Name": "name", "Opens": "purpose", "Scopes": "scopes", **when}
    return Table.of("Tokens", columns, tokens, dealer.local, empty="No tokens yet: dealer-agent tokens create NAME")


@command(app, "revoke", DEALER)
def revoke(
    dealer: OpenDealer, token_id: Annotated[str, typer.Argument(help="The id, from `tokens list`.")]
) -> dict[str, Any]:
    """Revoke a token for ever. A running service refuses it within two seconds."""
    with dealer.write() as tx:
        if not revoke_token(tx, token_id):
            fail(f"There is no active token {token_id}; see dealer-agent tokens list")
    out.print(f"Token {token_id} is revoked.")
    return {"id": token_id, "revoked": dealer.local(tx.now)}
