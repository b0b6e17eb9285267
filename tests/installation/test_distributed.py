"""The service runs on tables that PostgreSQL partitions by `dealer_id`, as a distributed engine does."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, event
from tests.installation.platform import DEALERS, add, make_installation, run_installation
from tests.installation.test_moves import FEED, LEADS, customer
from tests.server.dealership import message
from tests.storage.databases import fresh_schema
from tests.storage.service_role import drop_roles, prepare, roles_of

from dealer_agent.storage.isolation import INSTALLATION_TABLES
from dealer_agent.storage.schema import metadata

pytestmark = pytest.mark.outside_protocol("many dealers in one service")

PARTITIONS = 3
_CREATE_TABLE = re.compile(r"\s*CREATE TABLE (\w+) \(")


@contextmanager
def partitioned_tables() -> Iterator[None]:
    """All tables of dealers that are made within the block are partitioned by `dealer_id`."""

    def partition(_: Any, __: Any, statement: str, parameters: Any, *___: Any) -> tuple[str, Any]:
        made = _CREATE_TABLE.match(statement)
        by_dealer = " PARTITION BY HASH (dealer_id)" if made and made[1] != "alembic_version" else ""
        return statement.rstrip() + by_dealer, parameters

    def add_partitions(_: Any, cursor: Any, statement: str, *__: Any) -> None:
        made = _CREATE_TABLE.match(statement)
        if made and statement.endswith("PARTITION BY HASH (dealer_id)"):
            for part in range(PARTITIONS):
                bounds = f"FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {part})"
                cursor.execute(f"CREATE TABLE {made[1]}_part{part} PARTITION OF {made[1]} {bounds}")

    event.listen(Engine, "before_cursor_execute", partition, retval=True)
    event.listen(Engine, "after_cursor_execute", add_partitions)
    try:
        yield
    finally:
        event.remove(Engine, "before_cursor_execute", partition)
        event.remove(Engine, "after_cursor_execute", add_partitions)


def test_dealers_answer_from_tables_that_are_partitioned_by_dealer(tmp_path: Path, postgresql_server: str) -> None:
    with fresh_schema(postgresql_server) as owner:
        with partitioned_tables():
            service = prepare(owner, owner)
        installation = make_installation(tmp_path / "platform", env={"DATABASE_URL": service})
        for dealer_id in DEALERS:
            add(installation, dealer_id, FEED)
        with run_installation(installation) as running:
            for dealer_id in DEALERS:
                found = running.post(message("inventory.search"), f"/d/{dealer_id}/message:send").json()
                assert found["message"]["parts"][0]["data"]["data"]["total"] == 7, found
                for number in range(LEADS):
                    sent = message("lead.submit", idempotency_key=f"key-number-{number}", customer=customer(number))
                    assert running.post(sent, f"/d/{dealer_id}/message:send").status_code == 200
        with psycopg.connect(owner) as connection:
            # Tables of other tests have the same names, in other schemas.
            kind_of = "SELECT relkind::text FROM pg_class WHERE oid = to_regclass(%s)"
            tables = (*metadata.tables, *INSTALLATION_TABLES)
            assert {connection.execute(kind_of, [table]).fetchone() for table in tables} == {("p",)}
            counted = "SELECT dealer_id, count(*) FROM leads GROUP BY dealer_id"
            assert dict(connection.execute(counted).fetchall()) == dict.fromkeys(DEALERS, LEADS)
        drop_roles(postgresql_server, roles_of(owner))
