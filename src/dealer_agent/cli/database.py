"""`dealer-agent database`: prepares a PostgreSQL database for the service."""

import secrets
from typing import Annotated

import typer
from sqlalchemy import URL

from dealer_agent.cli.open_dealer import wait_for_database
from dealer_agent.cli.terminal import err, out
from dealer_agent.storage.connections import database_url
from dealer_agent.storage.database_roles import Roles, prepare_database

app = typer.Typer(no_args_is_help=True)

URL_VARIABLE = "DATABASE_ADMIN_URL"


@app.callback()
def database() -> None:
    """A group with one command."""


@app.command("prepare")
def prepare(
    url: Annotated[
        str,
        typer.Option(
            envvar=URL_VARIABLE,
            show_envvar=True,
            help="The database, with a user that may create roles and owns the database, such as postgres.",
        ),
    ],
    owner: Annotated[str, typer.Option(help="The role that will own the tables.")] = "dealer_agent_owner",
    service: Annotated[str, typer.Option(help="The role that the service will log in as.")] = "dealer_agent_service",
    new_password: Annotated[
        bool,
        typer.Option("--new-password", help="Give the service role a new password, and show it in the DATABASE_URL."),
    ] = False,
) -> None:
    """Create the roles, create or upgrade the tables, and give the service role what it needs.

    The service role owns no table, so row-level security isolates the data of dealers. Type the command again after
    an upgrade. It changes only what is missing.
    """
    wait_for_database(url)
    password = secrets.token_urlsafe(32) if new_password else None
    found = prepare_database(url, Roles(owner, service), password)
    admin = database_url(url)
    # Made anew: `URL.set` would keep the administrator's password.
    shown = URL.create("postgresql", service, password, admin.host, admin.port, admin.database, admin.query)
    done = "The tables were made." if found is None else "The tables are up to date."
    err.print(f"{done} {owner} owns them, and {service} may use them.")
    if password is None:
        err.print(f"If {service} has no password yet, add --new-password. The address of the database for the service:")
    else:
        err.print("Keep this address now: it has the new password, which is shown this once.")
    out.print(f"DATABASE_URL={shown.render_as_string(hide_password=False)}", soft_wrap=True)
