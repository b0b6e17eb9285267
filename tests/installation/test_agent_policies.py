"""Policies of a dealer and of the installation reach every process, on each database (docs/protocol.md#policies)."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.acceptance.running import eventually
from tests.installation.platform import DEALERS, INSTALLATION_TOML, add, make_installation, run_installation
from tests.server.dealership import Dealership, message
from tests.soak import sqlite_first

from dealer_agent.callers import Policy
from dealer_agent.config.installation import Installation, load_installation
from dealer_agent.server.tokens import new_token
from dealer_agent.storage.agent_policies import set_policy
from dealer_agent.storage.isolation import ALL_DEALERS
from dealer_agent.storage.store import Store
from dealer_agent.storage.tokens import create_token

NORTH, SOUTH = DEALERS
TOML = INSTALLATION_TOML + "database_connections = 4\n"


@pytest.fixture(params=["sqlite", "postgresql"])
def installation(request: pytest.FixtureRequest, tmp_path: Path) -> Installation:
    env = {}
    if request.param == "postgresql":
        env["DATABASE_URL"] = request.getfixturevalue("postgresql_service")
    made = make_installation(tmp_path / "one", TOML, env)
    for dealer_id in DEALERS:
        add(made, dealer_id)
    return made


@pytest.fixture
def processes(installation: Installation) -> Iterator[list[Dealership]]:
    """Two services with the same database: two machines on PostgreSQL, else two processes of one machine."""
    with ExitStack() as stack:
        started = []
        for name in ("one", "two"):
            folder = installation.folder.with_name(name)
            if folder != installation.folder:
                shutil.copytree(installation.folder, folder)
            again = load_installation(folder, {"DATABASE_URL": installation.database_url})
            started.append(stack.enter_context(run_installation(again)))
        yield started


def give(installation: Installation, owner: str, agent: str, policy: Policy | None) -> None:
    """As the command does it, with the role of the service."""
    with (
        Store.open(installation.database_url, installation.cipher, many_dealers=True) as store,
        store.write(owner) as tx,
    ):
        set_policy(tx, agent, policy, actor="operator")


def token_of(installation: Installation, dealer_id: str) -> tuple[str, str]:
    fresh = new_token()
    with (
        Store.open(installation.database_url, installation.cipher, many_dealers=True) as store,
        store.write(dealer_id, datetime.now(UTC)) as tx,
    ):
        token_id = create_token(tx, "Buyer", fresh.secret_hash)
    return f"token:{token_id}", fresh.text(token_id)


def statuses(processes: list[Dealership], token: str | None = None) -> list[tuple[int, int]]:
    """The statuses of a search at each dealer, in each process."""
    sent = message("inventory.search")
    found = [
        [process.post(sent, f"/d/{dealer_id}/message:send", token=token).status_code for dealer_id in DEALERS]
        for process in processes
    ]
    return [(north, south) for north, south in found]


@pytest.mark.requirement("policy-changes", "policies")
def test_a_policy_of_the_installation_holds_for_all_dealers_in_every_process(
    installation: Installation, processes: list[Dealership]
) -> None:
    assert statuses(processes) == [(200, 200)] * 2
    give(installation, ALL_DEALERS, "anonymous", Policy("block"))
    eventually("all are blocked", lambda: statuses(processes) == [(401, 401)] * 2)
    give(installation, SOUTH, "anonymous", Policy("allow"))
    eventually("the dealer's own policy holds", lambda: statuses(processes) == [(401, 200)] * 2)
    give(installation, ALL_DEALERS, "anonymous", None)
    eventually("none is blocked", lambda: statuses(processes) == [(200, 200)] * 2)


@sqlite_first("installation")
@pytest.mark.requirement("policy-changes", "policies")
def test_a_policy_of_a_dealer_holds_for_it_alone_in_every_process(
    installation: Installation, processes: list[Dealership]
) -> None:
    identity, token = token_of(installation, NORTH)
    eventually("the token is known", lambda: statuses(processes, token) == [(200, 401)] * 2)
    give(installation, NORTH, identity, Policy("block"))
    eventually("the agent is blocked", lambda: statuses(processes, token) == [(403, 401)] * 2)
    assert statuses(processes) == [(200, 200)] * 2


@sqlite_first("installation")
@pytest.mark.requirement("policies")
def test_a_dealer_that_is_opened_later_has_the_policies_of_the_installation(installation: Installation) -> None:
    give(installation, ALL_DEALERS, "anonymous", Policy("block"))
    with run_installation(installation) as process:
        assert statuses([process]) == [(401, 401)]
        add(installation, "late-motors")
        path = "/d/late-motors/message:send"
        eventually("it is served", lambda: process.post(message("inventory.search"), path).status_code == 401)
