"""`dealer-agent tokens`: who may call, where the service asks for a token."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from dealer_agent.cli.terminal import (
    HERE,
    DirOption,
    add_row,
    err,
    fail,
    failures_in_plain_words,
    out,
    settings_in,
    store_of,
    table,
)
from dealer_agent.server.tokens import new_token

app = typer.Typer(no_args_is_help=True)


@app.command("create")
def create(
    name: Annotated[str, typer.Argument(help="Whom it is for, such as a buyer agent's name.")],
    directory: DirOption = HERE,
) -> None:
    """Make a token and show it once: only its hash is kept."""
    if not name.strip():
        raise typer.BadParameter("the name is empty; write whom the token is for")
    with failures_in_plain_words():
        settings = settings_in(directory)
        token = new_token()
        with store_of(settings) as store:
            token_id = store.create_token(settings.dealer.id, name, token.secret_hash, datetime.now(UTC))
    err.print(f"Token {token_id} for {name}. Keep it now: it is shown this once.", markup=False)
    out.print(token.text(token_id), markup=False, soft_wrap=True)
    if settings.auth.mode == "none":
        err.print('Nothing asks for a token yet: set mode = "bearer" under [auth] in dealer.toml.', markup=False)


@app.command("list")
def list_(directory: DirOption = HERE) -> None:
    """List the tokens, revoked ones too."""
    with failures_in_plain_words():
        settings = settings_in(directory)
        with store_of(settings) as store:
            tokens = store.list_tokens(settings.dealer.id)
    made = table("Tokens", "Id", "Name", "Opens", "Created", "Revoked")
    for token in tokens:
        revoked = f"{token.revoked_at:%Y-%m-%d %H:%M}" if token.revoked_at else ""
        add_row(made, token.token_id, token.name, token.purpose, f"{token.created_at:%Y-%m-%d %H:%M}", revoked)
    out.print(made if tokens else "No tokens yet: dealer-agent tokens create NAME")


@app.command("revoke")
def revoke(
    token_id: Annotated[str, typer.Argument(help="The id, from `tokens list`.")], directory: DirOption = HERE
) -> None:
    """End a token for ever; a running service refuses it within two seconds."""
    with failures_in_plain_words():
        settings = settings_in(directory)
        with store_of(settings) as store:
            revoked = store.revoke_token(settings.dealer.id, token_id, datetime.now(UTC))
        if not revoked:
            fail(f"There is no active token {token_id}; see dealer-agent tokens list")
    out.print(f"Token {token_id} is revoked.")
