"""Replicas hold no state: each sees what the others store, on PostgreSQL and through a pooler."""

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from tests.acceptance.running import eventually
from tests.installation.platform import (
    DEALERS,
    INSTALLATION_TOML,
    add,
    dealer_toml,
    make_installation,
    run_installation,
)
from tests.server.dealership import Dealership, message
from tests.storage.service_role import admin_of

from dealer_agent.config.installation import Installation, load_installation
from dealer_agent.feeds.files.reader import read_feed
from dealer_agent.feeds.importing import import_feed
from dealer_agent.storage.installation.dealer_registry import set_state
from dealer_agent.storage.store import Store

pytestmark = pytest.mark.outside_protocol("several machines")

NORTH, SOUTH = DEALERS
TOML = INSTALLATION_TOML + "database_connections = 4\n"
MOST = 4


def feed(*numbers: str) -> bytes:
    units = [{"stock": number, "year": 2020, "make": "Honda", "condition": "used"} for number in numbers]
    return json.dumps(units).encode()


@pytest.fixture(params=["postgresql_service", "pooled_service"])
def url(request: pytest.FixtureRequest) -> str:
    """A database for several machines."""
    url: str = request.getfixturevalue(request.param)
    return url


@pytest.fixture
def installation(tmp_path: Path, url: str) -> Installation:
    made = make_installation(tmp_path / "one", TOML, {"DATABASE_URL": url})
    for dealer_id in DEALERS:
        add(made, dealer_id, feed("A1"))
    return made


@pytest.fixture
def replicas(installation: Installation, url: str) -> Iterator[list[Dealership]]:
    """Three machines, each with its own folder and the same keys."""
    with ExitStack() as stack:
        started = []
        for name in ("one", "two", "three"):
            folder = installation.folder.with_name(name)
            if folder != installation.folder:
                shutil.copytree(installation.folder, folder)
            again = load_installation(
                folder, {"DATABASE_URL": f"{url}{'&' if '?' in url else '?'}application_name={name}"}
            )
            started.append(stack.enter_context(run_installation(again)))
        yield started


def vehicles(replica: Dealership, dealer_id: str) -> int:
    found: int = replica.get(f"/d/{dealer_id}/readyz").json()["vehicles"]
    return found


def test_every_replica_sees_a_change(replicas: list[Dealership], installation: Installation) -> None:
    assert [vehicles(replica, NORTH) for replica in replicas] == [1, 1, 1]
    profile = installation.dealer_settings(dealer_toml(NORTH)).dealer
    with Store.open(admin_of(installation.database_url), installation.cipher, many_dealers=True) as store:
        import_feed(store, profile, read_feed(feed("A1", "A2")), source="new.csv", at=datetime.now(UTC))
        eventually("all have the stock", lambda: [vehicles(replica, NORTH) for replica in replicas] == [2, 2, 2])
        with store.write(NORTH) as tx:
            set_state(tx, enabled=False)
    eventually(
        "all have disabled the dealer",
        lambda: [replica.get(f"/d/{NORTH}/docs").status_code for replica in replicas] == [404, 404, 404],
    )
    assert [vehicles(replica, SOUTH) for replica in replicas] == [1, 1, 1]


def test_a_lead_exists_once_on_all_replicas(replicas: list[Dealership]) -> None:
    sent = message("lead.submit")
    answers = [replica.post(sent, f"/d/{NORTH}/message:send") for replica in replicas]
    assert {answer.status_code for answer in answers} == {200}
    leads = [answer.json()["message"]["parts"][0]["data"]["data"]["lead_id"] for answer in answers]
    assert len(set(leads)) == 1


def test_a_process_has_at_most_its_number_of_connections(
    replicas: list[Dealership], postgresql_server: str, url: str
) -> None:
    """All requests open a dealer or read the database. The announcements have one connection of their own."""
    with ExitStack() as stack:
        for replica in replicas:
            for _ in range(20):
                for dealer_id in DEALERS:
                    stack.callback(
                        replica.portal.start_task_soon(
                            replica._request, "GET", f"/d/{dealer_id}/calendar/{'x' * 43}.ics", None, None, "192.0.2.1"
                        ).result
                    )
    with psycopg.connect(make_conninfo(postgresql_server), autocommit=True) as connection:
        rows = connection.execute(
            "SELECT application_name, count(*) FROM pg_stat_activity WHERE application_name = ANY(%s) GROUP BY 1",
            [["one", "two", "three"]],
        ).fetchall()
    assert all(count <= MOST for _, count in rows), rows
