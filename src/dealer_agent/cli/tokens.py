"""`dealer-agent tokens`: bearer tokens of buyer agents."""

from typing import Annotated

import typer

from dealer_agent.cli.open_dealer import HERE, DirOption, open_dealer
from dealer_agent.cli.terminal import JsonOption, err, fail, out, print_json, print_table
from dealer_agent.server.tokens import new_token
from dealer_agent.storage.tokens import create_token, list_tokens, revoke_token

app = typer.Typer(no_args_is_help=True)


@app.command("create")
def create(
    name: Annotated[str, typer.Argument(help="The owner of the token, such as a buyer agent's name.")],
    directory: DirOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Create a token and show it once. The service stores only its hash."""
    if not name.strip():
        raise typer.BadParameter("the name is empty; write whom the token is for")
    token = new_token()
    with open_dealer(directory) as dealer, dealer.write() as tx:
        token_id = create_token(tx, name, token.secret_hash)
    err.print(f"Token {token_id} for {name}. Keep it now: it is shown this once.")
    out.print(token.text(token_id), soft_wrap=True)
    if as_json:
        print_json({"id": token_id, "name": name, "token": token.text(token_id)})
    if dealer.settings.auth.mode == "none":
        err.print('Nothing asks for a token yet: set mode = "bearer" under [auth] in dealer.toml.')


@app.command("list")
def list_(directory: DirOption = HERE, as_json: JsonOption = False) -> None:
    """List the tokens, revoked ones too."""
    with open_dealer(directory) as dealer, dealer.read() as tx:
        tokens = list_tokens(tx)
    rows = [
        (each.token_id, each.name, each.purpose, dealer.local(each.created_at), dealer.local(each.revoked_at))
        for each in tokens
    ]
    columns = ("Id", "Name", "Opens", "Created", "Revoked")
    empty = "No tokens yet: dealer-agent tokens create NAME"
    print_table("Tokens", columns, rows, empty=empty, as_json=as_json)


@app.command("revoke")
def revoke(
    token_id: Annotated[str, typer.Argument(help="The id, from `tokens list`.")],
    directory: DirOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Revoke a token for ever. A running service refuses it within two seconds."""
    with open_dealer(directory) as dealer, dealer.write() as tx:
        if not revoke_token(tx, token_id):
            fail(f"There is no active token {token_id}; see dealer-agent tokens list")
        at = dealer.local(tx.now)
    out.print(f"Token {token_id} is revoked.")
    if as_json:
        print_json({"id": token_id, "revoked": at})
