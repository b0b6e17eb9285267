"""A replica that was stopped with SIGSTOP and goes on has old tokens, old states and a dealer that was removed.

Its requests wait in its sockets meanwhile. It answers them before it reads what has changed.
"""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import psycopg
import pytest
from tests.acceptance.asking import body, lead
from tests.acceptance.replicas import Platform, platform
from tests.acceptance.running import PATIENCE_SECONDS, Running, eventually, succeed_here
from tests.installation.marked_dealers import DEALER, MarkedDealer
from tests.storage.service_role import admin_of, prepared_schema

from dealer_agent.config.installation import Installation, load_installation
from dealer_agent.storage.installation.dealer_registry import count_rows, remove_dealer, set_state
from dealer_agent.storage.store import Store
from dealer_agent.storage.tokens import list_active_tokens, revoke_token

pytestmark = pytest.mark.outside_protocol("replicas of a service")


@pytest.fixture
def service(tmp_path: Path, postgresql_server: str) -> Iterator[Platform]:
    with prepared_schema(postgresql_server) as urls, platform(tmp_path, *urls) as made:
        yield made


def submit(replica: Running, dealer: MarkedDealer, number: int) -> httpx.Response:
    headers = {"Authorization": f"Bearer {dealer.token}"} if dealer.needs_token else {}
    url = f"{replica.url}/d/{dealer.dealer_id}/message:send"
    return httpx.post(url, json=body("lead.submit", **lead(number)), headers=headers, timeout=PATIENCE_SECONDS)


def test_a_replica_that_goes_on_stores_nothing_that_is_forbidden_by_now(service: Platform) -> None:
    installation = load_installation(service.folder, service.env)
    disabled, revoked, removed, other = service.dealers
    replica = service.add_replica()
    folder = replica.folder / "dealers" / removed.dealer_id
    with ExitStack() as stack:
        admin_url = admin_of(installation.database_url)
        store = stack.enter_context(Store.open(admin_url, installation.cipher, many_dealers=True))
        threads = stack.enter_context(ThreadPoolExecutor(len(service.dealers)))
        assert [submit(replica, dealer, 1).status_code for dealer in service.dealers] == [200] * 4
        assert folder.is_dir()
        before = service.stored_leads()
        os.killpg(replica.process.pid, signal.SIGSTOP)
        waiting = [threads.submit(submit, replica, dealer, 2) for dealer in service.dealers]
        with store.write(revoked.dealer_id) as tx:
            for token in list_active_tokens(tx):
                assert revoke_token(tx, token.token_id)
        with store.write(disabled.dealer_id) as tx:
            set_state(tx, enabled=False)
        remove_dealer(store, removed.dealer_id)
        os.killpg(replica.process.pid, signal.SIGCONT)
        statuses = [answer.result(PATIENCE_SECONDS).status_code for answer in waiting]
        assert statuses == [404, 401, 404, 200]
        added = service.stored_leads() - before
        assert {dealer_id for dealer_id, _ in added} == {other.dealer_id}
        eventually("the files are deleted", lambda: not folder.exists())
        with store.read(removed.dealer_id) as tx:
            assert not any(count_rows(tx).values())
        assert '"event":"fault"' not in replica.stderr()
        add_again(installation, removed, service.folder.parent)


def dealers(installation: Installation, *arguments: str | Path) -> str:
    """What a command that changes dealers says."""
    url, folder = installation.database_url, installation.folder
    return succeed_here("dealers", *arguments, "--dir", folder, DATABASE_URL=url, DATABASE_ADMIN_URL=admin_of(url))


def add_again(installation: Installation, dealer: MarkedDealer, folder: Path) -> None:
    """The id of a removed dealer can be used again."""
    file = folder / "again.toml"
    file.write_text(DEALER.format(id=dealer.dealer_id, marker=dealer.marker, mode="none"), "utf-8")
    dealers(installation, "add", file)


def test_a_removal_that_was_killed_is_finished_by_the_same_command(service: Platform) -> None:
    """Also what an earlier version left behind: rows that were written after the removal."""
    installation, (dealer, *_) = load_installation(service.folder, service.env), service.dealers
    with psycopg.connect(service.admin_url, autocommit=True) as connection:
        connection.execute("DELETE FROM registered_dealers WHERE dealer_id = %s", [dealer.dealer_id])
        connection.execute("DELETE FROM dealer_keys WHERE dealer_id = %s", [dealer.dealer_id])
    said = dealers(installation, "remove", dealer.dealer_id, "--yes")
    assert f"The dealer {dealer.dealer_id} is removed" in said
    add_again(installation, dealer, service.folder.parent)
