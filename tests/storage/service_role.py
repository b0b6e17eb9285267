"""A PostgreSQL schema that `prepare_database` has prepared, and the URL of its service role."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql
from tests.storage.databases import fresh_schema

from dealer_agent.storage.connections import database_url
from dealer_agent.storage.database_roles import LOCK_ROLES, Roles, prepare_database


def roles_of(url: str) -> Roles:
    """Roles that no other test uses: a server has one set of roles for all its databases."""
    name = url.rpartition("test_")[2]
    return Roles(f"owner-{name}", f"service-{name}")


def as_role(url: str, role: str) -> str:
    """The URL with another user. The server of the tests asks for no password."""
    return database_url(url).set(drivername="postgresql", username=role).render_as_string(hide_password=False)


@contextmanager
def prepared_schema(server: str) -> Iterator[tuple[str, str]]:
    """The URLs of a prepared schema for a block: that of a superuser, and that of the service role."""
    with fresh_schema(server) as url:
        roles = roles_of(url)
        prepare_database(url, roles)
        yield url, as_role(url, roles.service)
        drop_roles(server, roles)


def drop_roles(server: str, roles: Roles) -> None:
    """Drops the roles, and all that they own. Waits while another test or command changes roles."""
    with psycopg.connect(server) as connection:
        connection.execute(LOCK_ROLES.text.encode())
        for role in map(sql.Identifier, roles):
            connection.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(role))
            connection.execute(sql.SQL("DROP ROLE {}").format(role))
