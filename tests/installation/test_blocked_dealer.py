"""A transaction that stays open on one dealer's row: the other dealers of the installation take leads, and /readyz says
whether any lead can be stored."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.acceptance.running import eventually
from tests.installation.platform import DEALERS, add, make_installation, run_installation
from tests.server.dealership import Dealership, error_of, message
from tests.storage.service_role import prepared_schema

from dealer_agent.lead_intake import intake
from dealer_agent.server import refresh
from dealer_agent.storage.database_url import database_url

pytestmark = pytest.mark.requirement("readiness", "refused-in-time")

NORTH, SOUTH = DEALERS
PATIENCE_SECONDS = 300


@pytest.fixture
def admin(postgresql_server: str, tmp_path: Path) -> Iterator[tuple[psycopg.Connection[Any], str]]:
    with prepared_schema(postgresql_server) as (admin_url, service_url):
        plain = database_url(admin_url).set(drivername="postgresql").render_as_string(hide_password=False)
        with psycopg.connect(plain) as connection:
            yield connection, service_url


def leads_of(platform: Dealership, dealer_id: str) -> Any:
    return platform.post(message("lead.submit"), f"/d/{dealer_id}/message:send")


def until_ready_is(platform: Dealership, status: int) -> dict[str, Any]:
    def state() -> dict[str, Any] | None:
        found = platform.get("/readyz")
        return dict(found.json()) if found.status_code == status else None

    told: dict[str, Any] = eventually(f"the process answers {status}", state, seconds=PATIENCE_SECONDS)
    assert platform.get(f"/d/{NORTH}/readyz").status_code == status
    return told


def test_one_blocked_dealer_costs_the_others_nothing_and_only_a_lock_on_all_makes_the_process_not_ready(
    tmp_path: Path, admin: tuple[psycopg.Connection[Any], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refresh, "PROBE_SECONDS", 0.2)
    connection, service_url = admin
    installation = make_installation(tmp_path / "installation", env={"DATABASE_URL": service_url})
    for dealer_id in DEALERS:
        add(installation, dealer_id, json.dumps([{"stock": "A1", "year": 2020, "make": "Honda"}]).encode())
    with run_installation(installation) as platform:
        assert [leads_of(platform, dealer_id).status_code for dealer_id in DEALERS] == [200, 200]
        connection.execute("SELECT 1 FROM dealers WHERE dealer_id = %s FOR UPDATE", [NORTH])
        refused = leads_of(platform, NORTH)
        assert (refused.status_code, error_of(refused)["retryable"]) == (500, True)
        assert error_of(refused)["message"] == intake.NOT_STORED
        for _ in range(5):
            assert leads_of(platform, SOUTH).status_code == 200
        until_ready_is(platform, 200)
        # With the lock of a row, a stronger one could be a deadlock with the transactions that wait for this row.
        connection.rollback()
        connection.execute("LOCK TABLE dealers")
        state = until_ready_is(platform, 503)
        assert state["status"] == "leads cannot be stored"
        assert state["leads"].startswith("unavailable: the database is busy")
        assert platform.post(message("inventory.search"), f"/d/{SOUTH}/message:send").status_code == 200
        connection.rollback()
        assert until_ready_is(platform, 200) == {"status": "ready", "leads": "available", "dealers": 2}
        assert leads_of(platform, NORTH).status_code == 200
