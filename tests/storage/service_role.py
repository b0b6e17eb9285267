"""A PostgreSQL schema that `prepare_database` has prepared, and the URL of its service role."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql
from tests.storage.databases import fresh_schema

from dealer_agent.storage.database_roles import LOCK_ROLES, Roles, prepare_database
from dealer_agent.storage.database_url import database_url


def roles_of(url: str) -> Roles:
    """Roles that no other test uses: a server has one set of roles for all its databases."""
    name = url.rpartition("test_")[2]
    return Roles(f"owner-{name}", f"service-{name}", f"admin-{name}")


def as_role(url: str, role: str) -> str:
    """The URL with another user. The server of the tests asks for no password."""
    return database_url(url).set(drivername="postgresql", username=role).render_as_string(hide_password=False)


@contextmanager
def prepared_schema(server: str) -> Iterator[tuple[str, str]]:
    """The URLs of a prepared schema for a block: that of a superuser, and that of the service role."""
    with fresh_schema(server) as url:
        yield url, prepare(url, url)
        drop_roles(server, roles_of(url))


def prepare(url: str, direct_url: str, roles: Roles | None = None) -> str:
    """Prepares a database. Returns its URL for the service's role. `direct_url` is for the other roles."""
    roles = roles or roles_of(url)
    prepare_database(direct_url, roles)
    service = as_role(url, roles.service) if url == direct_url else url
    _ADMIN_URLS[service] = as_role(direct_url, roles.admin)
    return service


_ADMIN_URLS: dict[str, str] = {}


def admin_of(url: str) -> str:
    """The URL of a prepared database for commands about dealers. That of another database is the same for all."""
    return _ADMIN_URLS.get(url, url)


def drop_roles(server: str, roles: Roles) -> None:
    """Drops the roles, and all that they own. Waits while another test or command changes roles."""
    with psycopg.connect(server) as connection:
        connection.execute(LOCK_ROLES.text.encode())
        for role in map(sql.Identifier, roles):
            connection.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(role))
            connection.execute(sql.SQL("DROP ROLE {}").format(role))
