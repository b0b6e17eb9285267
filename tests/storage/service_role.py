"""A PostgreSQL schema that `prepare_database` has prepared, and the URL of its service role."""

import atexit
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import NamedTuple

import psycopg
from psycopg import sql
from tests.storage.current import Schemas
from tests.storage.databases import drop_schema, make_schema, url_of

from dealer_agent.storage.database_roles import LOCK_ROLES, Roles, prepare_database
from dealer_agent.storage.database_url import database_url


def roles_of(url: str) -> Roles:
    """Roles that no other test uses: a server has one set of roles for all its databases."""
    name = url.rpartition("test_")[2]
    return Roles(f"owner-{name}", f"service-{name}", f"admin-{name}")


def as_role(url: str, role: str) -> str:
    """The URL with another user. The server of the tests asks for no password."""
    return database_url(url).set(drivername="postgresql", username=role).render_as_string(hide_password=False)


class Prepared(NamedTuple):
    """A prepared schema: its URLs, and the definitions of its tables."""

    url: str
    service: str
    definitions: list[tuple[int, str]]


_SPARE: dict[str, list[Prepared]] = defaultdict(list)
"""The empty prepared schemas of this process on each server."""


@cache
def _schemas(server: str) -> Schemas:
    atexit.register(_drop_spare, server)
    return Schemas(server)


def _drop_spare(server: str) -> None:
    """Drops what no test needs any more. A server that was started for the tests may be gone."""
    with suppress(psycopg.OperationalError):
        for spare in _SPARE.pop(server, []):
            _drop(server, spare.url)


def _drop(server: str, url: str) -> None:
    drop_schema(server, _name(url))
    drop_roles(server, roles_of(url))


def _name(url: str) -> str:
    return url.rpartition("search_path%3D")[2]


@contextmanager
def prepared_schema(server: str) -> Iterator[tuple[str, str]]:
    """The URLs of a prepared schema for a block: that of a superuser, and that of the service role.

    It is emptied and used again, unless its tables or the rights to them were changed.
    """
    schemas = _schemas(server)
    if _SPARE[server]:
        made = _SPARE[server].pop()
    else:
        url = url_of(server, make_schema(server))
        made = Prepared(url, prepare(url, url), schemas.read_definitions(_name(url)))
    yield made.url, made.service
    if schemas.read_definitions(_name(made.url)) == made.definitions and schemas.empty(_name(made.url)):
        _SPARE[server].append(made)
    else:
        _drop(server, made.url)


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
