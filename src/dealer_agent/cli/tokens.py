"""`dealer-agent tokens`: bearer tokens of buyer agents."""

from typing import Annotated, Any

import typer

from dealer_agent.cli.command import checked_by, command
from dealer_agent.cli.open_dealer import DEALER
from dealer_agent.cli.tables import Columns, Table
from dealer_agent.cli.terminal import err, local, out
from dealer_agent.open_installation import OpenDealer
from dealer_agent.operations.tokens import MOST_DAYS, end_token, make_token, read_scopes, read_token_name
from dealer_agent.protocol.skill import SCOPES
from dealer_agent.storage.tokens import list_tokens

app = typer.Typer(no_args_is_help=True)

_SCOPES = ", ".join(SCOPES)


@command(app, "create", DEALER)
def create(
    dealer: OpenDealer,
    name: Annotated[
        str,
        typer.Argument(
            callback=checked_by(read_token_name), help="The owner of the token, such as a buyer agent's name."
        ),
    ],
    days: Annotated[
        int | None, typer.Option(min=1, max=MOST_DAYS, help="After how many days it expires. Default: never.")
    ] = None,
    scope: Annotated[
        list[str],
        typer.Option(
            callback=checked_by(read_scopes),
            help=f"A scope of the token: {_SCOPES}. Repeat it for several. Default: all skills.",
        ),
    ] = [],  # noqa: B006 - Typer needs it.
) -> dict[str, Any]:
    """Create a token and show it once. The service stores only its hash."""
    created = make_token(dealer, name, days, scope)
    ends = dealer.local(created.expires_at)
    lasts = "" if ends is None else f" It expires on {local(ends)}."
    err.print(f"Token {created.token_id} for {name}. Keep it now: it is shown this once.{lasts}")
    out.print(created.text, soft_wrap=True)
    if dealer.settings.auth.mode == "none":
        err.print('No skill requires a token yet: set mode = "bearer" under [auth] in dealer.toml.')
    return {"id": created.token_id, "name": name, "token": created.text, "expires": ends, "scopes": scope or None}


@command(app, "list", DEALER)
def list_(dealer: OpenDealer) -> Table:
    """List the tokens, revoked and expired ones too."""
    with dealer.read() as tx:
        tokens = list_tokens(tx)
    when = {"Created": "created_at", "Last used": "used_at", "Expires": "expires_at", "Revoked": "revoked_at"}
    columns: Columns = {"Id": "token_id", "Name": "name", "Opens": "purpose", "Scopes": "scopes", **when}
    return Table.of(
        "Tokens",
        columns,
        tokens,
        dealer.local,
        empty="No tokens yet. To create one, type: dealer-agent tokens create NAME",
    )


@command(app, "revoke", DEALER)
def revoke(
    dealer: OpenDealer, token_id: Annotated[str, typer.Argument(help="The id, from `tokens list`.")]
) -> dict[str, Any]:
    """Revoke a token for ever. A running service refuses it within two seconds."""
    revoked_at = end_token(dealer, token_id)
    out.print(f"Token {token_id} is revoked.")
    return {"id": token_id, "revoked": dealer.local(revoked_at)}
