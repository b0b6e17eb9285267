"""Replicas that connect through a real PgBouncer in transaction mode."""

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.acceptance.replicas import loaded, platform
from tests.acceptance.running import PATIENCE_SECONDS
from tests.servers.haproxy import StartBalancer
from tests.servers.pgbouncer import PgBouncer
from tests.storage.service_role import drop_roles, prepare, roles_of

pytestmark = pytest.mark.outside_protocol("replicas of a service")


@pytest.fixture
def pooled_database(pgbouncer_server: PgBouncer) -> Iterator[tuple[str, str]]:
    """The same, and the service role connects through a pooler in transaction mode."""
    direct = conninfo_to_dict(pgbouncer_server.direct_url)
    address = urlencode({name: direct[name] for name in ("host", "port") if direct.get(name)})
    admin_url = f"postgresql://{direct['user']}@/{direct['dbname']}?{address}"
    service, roles = prepare(pgbouncer_server.url, admin_url), roles_of(pgbouncer_server.url)
    pgbouncer_server.log_in_as(roles.service)
    yield admin_url, service
    drop_roles(pgbouncer_server.direct_url, roles)


@pytest.mark.soak
def test_replicas_work_through_a_pooler(
    tmp_path: Path, pooled_database: tuple[str, str], load_balancer: StartBalancer
) -> None:
    """Each transaction may get another connection to the server than the one before."""
    with platform(tmp_path, *pooled_database) as service:
        replicas = [service.add_replica() for _ in range(2)]
        balancer = load_balancer([replica.port for replica in replicas])
        with loaded(balancer.url, service.dealers) as load:
            for _ in range(5):
                load.wait_for_answers()
        assert load.lost == []
        assert service.stored_leads() == Counter(load.leads.values())
        for replica in replicas:
            replica.signal(signal.SIGTERM)
            assert replica.process.wait(PATIENCE_SECONDS) == 0, replica.stderr()
            assert '"event":"fault"' not in replica.stderr()
