"""The databases of an installation."""

from collections.abc import Iterator

import pytest
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import URL
from tests.patching import replace_in
from tests.servers.pgbouncer import PgBouncer
from tests.storage.service_role import drop_roles, prepare, prepared_schema, roles_of

from dealer_agent.jobs import loop
from dealer_agent.operations import dealer_moves
from dealer_agent.server import refresh


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A service of this process looks more often for changes and for jobs. The pauses that moves of dealers would make.

    While PostgreSQL announces changes, a service looks as seldom as always.
    """
    monkeypatch.setattr(refresh, "POLL_SECONDS", 0.1)
    monkeypatch.setattr(loop, "LOOK_SECONDS", 0.3)
    pauses: list[float] = []
    replace_in(monkeypatch, dealer_moves, "time", sleep=pauses.append)
    return pauses


@pytest.fixture
def postgresql_service(postgresql_server: str) -> Iterator[str]:
    """The URL of a prepared schema for its service role."""
    with prepared_schema(postgresql_server) as (_, service):
        yield service


@pytest.fixture
def pooled_service(pgbouncer_server: PgBouncer, postgresql_server: str) -> Iterator[str]:
    """The URL of a prepared database for its service role, through a pooler in transaction mode."""
    given = conninfo_to_dict(pgbouncer_server.direct_url)
    place = {"host": str(given["host"]), "port": str(given["port"])}
    direct = URL.create("postgresql", str(given["user"]), database=str(given["dbname"]), query=place)
    url = direct.render_as_string(hide_password=False)
    roles = roles_of(pgbouncer_server.url)
    service = prepare(pgbouncer_server.url, url)
    pgbouncer_server.log_in_as(roles.service)
    yield service
    pgbouncer_server.kill()
    drop_roles(url, roles)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.soak), "pgbouncer"])
def environment(request: pytest.FixtureRequest) -> dict[str, str]:
    """The environment of an installation on each kind of database. The pooler connects it with PostgreSQL, too."""
    fixtures = {"postgresql": "postgresql_service", "pgbouncer": "pooled_service"}
    if request.param not in fixtures:
        return {}
    return {"DATABASE_URL": request.getfixturevalue(fixtures[request.param])}
