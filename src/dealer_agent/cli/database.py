"""`dealer-agent database`: prepares a PostgreSQL database for the service."""

import secrets
from typing import Annotated

import typer
from sqlalchemy import URL

from dealer_agent.cli.command import command
from dealer_agent.cli.open_dealer import wait_for_database
from dealer_agent.cli.terminal import err, out
from dealer_agent.storage.database_roles import ADMIN_VARIABLE, Passwords, Roles, prepare_database
from dealer_agent.storage.database_url import database_url

app = typer.Typer(no_args_is_help=True)


@command(app, "prepare")
def prepare(
    url: Annotated[
        str,
        typer.Option(
            envvar=ADMIN_VARIABLE,
            show_envvar=True,
            help="The database, with a user that may create roles and owns the database, such as postgres.",
        ),
    ],
    owner: Annotated[str, typer.Option(help="The role that will own the tables.")] = "dealer_agent_owner",
    service: Annotated[str, typer.Option(help="The role that the service will log in as.")] = "dealer_agent_service",
    admin: Annotated[
        str, typer.Option(help="The role that commands about dealers, and backups, will log in as.")
    ] = "dealer_agent_admin",
    new_password: Annotated[
        bool,
        typer.Option("--new-password", help="Give both roles that log in new passwords, and show their addresses."),
    ] = False,
) -> None:
    """Create the roles, create or upgrade the tables, and give the service role what it needs.

    The service role owns no table, so row-level security isolates the data of dealers. It cannot change the settings of
    dealers: commands do that with the other address. Type the command again after an upgrade. It changes only what is
    missing, and takes away the rights that the service does not need.
    """
    wait_for_database(url)
    passwords = Passwords(secrets.token_urlsafe(32), secrets.token_urlsafe(32)) if new_password else None
    earlier_schema = prepare_database(url, Roles(owner, service, admin), passwords)
    done = "The tables were made." if earlier_schema is None else "The tables are up to date."
    err.print(f"{done} {owner} owns them, and {service} may use them.")
    if passwords is None:
        err.print("If the roles have no passwords yet, add --new-password. The addresses of the database:")
    else:
        err.print("Keep these addresses now: they have the new passwords, which are shown this once.")
    out.print(f"DATABASE_URL={_address(url, service, passwords and passwords.service)}", soft_wrap=True)
    err.print("For the commands `dealers` and `backup`. Never give it to the service:")
    out.print(f"{ADMIN_VARIABLE}={_address(url, admin, passwords and passwords.admin)}", soft_wrap=True)


def _address(url: str, role: str, password: str | None) -> str:
    parsed = database_url(url)
    # Made anew: `URL.set` would keep the administrator's password.
    shown = URL.create("postgresql", role, password, parsed.host, parsed.port, parsed.database, parsed.query)
    return shown.render_as_string(hide_password=False)
