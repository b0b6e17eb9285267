"""The metrics of an installation that come from its database, for more dealers than are read at once."""

import tempfile
from pathlib import Path

import pytest
from tests.acceptance.running import eventually
from tests.delivery.receivers import NOBODY
from tests.installation.platform import add, make_installation, run_installation
from tests.server.dealership import message

from dealer_agent.server import worker_metrics
from dealer_agent.server.metrics import FOLDER_VARIABLE
from dealer_agent.server.metrics_collector import WorkerCollector

pytestmark = pytest.mark.outside_protocol("metrics")

DEALERS = ("north-motors", "south-motors", "west-motors", "east-motors", "middle-motors")
CHANNEL = f'[[rooftops.deliver.http]]\nname = "crm"\nurl = "http://127.0.0.1:{NOBODY}/"\n'
FEED = b"vin,make,model,year,price,condition\n1HGCY2F57RA000001,Honda,Accord,2024,28500,used\n"


def test_the_feeds_of_all_dealers_are_read_in_turn_and_waiting_deliveries_first(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_metrics, "READ_SECONDS", 0.0)
    monkeypatch.setattr(worker_metrics, "DEALERS_AT_ONCE", 2)
    installation = make_installation(tmp_path / "agents", env=environment)
    for dealer_id in DEALERS:
        add(installation, dealer_id, FEED, more=CHANNEL)
    with tempfile.TemporaryDirectory() as sockets:
        monkeypatch.setenv(FOLDER_VARIABLE, sockets)
        with run_installation(installation) as running:
            for dealer_id in DEALERS:
                path = f"/d/{dealer_id}/message:send"
                assert running.post(message("inventory.search"), path).status_code == 200
            assert running.post(message("lead.submit"), f"/d/{DEALERS[-1]}/message:send").status_code == 200
            collector = WorkerCollector(Path(sockets), 50)

            def found(name: str) -> dict[str, float]:
                metric = next(each for each in collector.collect() if each.name == name)
                return {each.labels["dealer"]: each.value for each in metric.samples if each.value}

            eventually("all are read", lambda: set(found("dealer_agent_stock_revision")) == set(DEALERS))
            eventually("it waits", lambda: set(found("dealer_agent_oldest_waiting_delivery_seconds")) == {DEALERS[-1]})
            unsent = found("dealer_agent_unsent_deliveries")
            assert unsent == {DEALERS[-1]: 1}
