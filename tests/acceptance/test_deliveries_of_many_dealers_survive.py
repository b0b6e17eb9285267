"""An answered lead of any dealer of an installation is delivered to this dealer, whatever is killed."""

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.acceptance.running import eventually
from tests.acceptance.test_delivery_survives import Buyers, Machine, by_delivery
from tests.delivery.receivers import HttpReceiver, always, at_random, receiving_http
from tests.installation.platform import INSTALLATION_TOML, LOCAL, add, make_installation
from tests.storage.calls import read, write
from tests.storage.service_role import prepared_schema

from dealer_agent.storage.deliveries.outbox import list_deliveries, retry_deliveries
from dealer_agent.storage.store import Store

DEALERS = ("north-motors", "south-motors", "west-motors")
CHANNEL = '[[rooftops.deliver.http]]\nname = "crm"\nurl = "{url}"\ntimeout_seconds = 2\n'
SETTINGS = """
[rate_limits]
lead_submit = ""
address = ""

[delivery]
first_retry_seconds = 1
breaker_seconds = 1
lease_seconds = 10
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def environment(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """The environment of a service on each database."""
    if request.param == "sqlite":
        yield {}
        return
    with prepared_schema(request.getfixturevalue("postgresql_server")) as (_, service):
        yield {"DATABASE_URL": service}


@pytest.mark.soak
@pytest.mark.requirement("durable-before-answer")
def test_every_answered_lead_reaches_its_own_dealer_though_processes_are_killed(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    seed = random.randrange(2**32)
    with ExitStack() as closing:
        receivers = {
            dealer_id: closing.enter_context(receiving_http(HttpReceiver(at_random(0.3, seed))))
            for dealer_id in DEALERS
        }
        installation = make_installation(tmp_path / "installation", INSTALLATION_TOML + SETTINGS + LOCAL, environment)
        for dealer_id, receiver in receivers.items():
            add(installation, dealer_id, more=CHANNEL.format(url=receiver.url))
        machine = Machine(installation.folder, environment, None)
        closing.callback(lambda: machine.running.kill_all())
        buyers = {dealer_id: Buyers(f"{machine.running.url}/d/{dealer_id}", seed) for dealer_id in DEALERS}
        for kill in (machine.kill_worker, machine.kill_service, machine.kill_worker):
            for each in buyers.values():
                machine.wait_for(each)
            kill()
            for dealer_id, each in buyers.items():
                each.url = f"{machine.running.url}/d/{dealer_id}"
        for each in buyers.values():
            machine.wait_for(each)
            each.stop()
        for receiver in receivers.values():
            receiver.behaviour = always("take")
        with Store.open(installation.database_url, installation.cipher, many_dealers=True) as store:

            def nothing_waits() -> bool:
                for dealer_id in DEALERS:
                    write(store, dealer_id, retry_deliveries)
                time.sleep(1)
                return not any(read(store, dealer_id, list_deliveries, 1, state="waiting") for dealer_id in DEALERS)

            eventually("everything is sent", nothing_waits, seconds=600)
            for dealer_id, receiver in receivers.items():
                rows = read(store, dealer_id, list_deliveries, 10**6)
                arrived, _ = by_delivery((taken.headers["x-delivery-id"], taken.body) for taken in receiver.taken)
                assert {row.state for row in rows} == {"sent"}
                assert {row.delivery_id: row.lead_id for row in rows} == arrived
                assert buyers[dealer_id].lead_ids <= set(arrived.values())
