"""The metrics of one application, which answers a collector of its own."""

import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from tests.acceptance.running import eventually, free_port
from tests.delivery.receivers import NOBODY
from tests.installation.platform import INSTALLATION_TOML, add, make_installation, run_installation
from tests.server.conftest import OpenDealership
from tests.server.dealership import ACCORD, LEAF, NO_LIMITS, Dealership, message

from dealer_agent.config.settings_problems import SettingsError
from dealer_agent.server import metrics_collector, worker_metrics
from dealer_agent.server.metrics import (
    BUCKETS,
    FAMILIES,
    FOLDER_VARIABLE,
    OTHER,
    WorkerMetrics,
    empty_histogram,
    observe,
)
from dealer_agent.server.metrics_collector import MetricsServer, WorkerCollector

pytestmark = pytest.mark.outside_protocol("metrics")

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "metrics.md"
Sample = tuple[str, frozenset[tuple[str, str]]]
Values = dict[Sample, float]


def sample(name: str, /, **labels: str) -> Sample:
    return name, frozenset(labels.items())


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the workers' sockets: a short path, as sockets need. Applications that start now count."""
    with tempfile.TemporaryDirectory() as made:
        monkeypatch.setenv(FOLDER_VARIABLE, made)
        yield Path(made)


Read = Callable[[], Values]


@pytest.fixture
def read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Read:
    # The application shares its processor with other tests, and may answer late.
    monkeypatch.setattr(metrics_collector, "WORKER_SECONDS", 60.0)
    return reading(WorkerCollector(folder, 50))


def reading(collector: WorkerCollector) -> Read:
    """Reads all values, by name and labels."""
    return lambda: {
        sample(each.name, **each.labels): each.value for metric in collector.collect() for each in metric.samples
    }


def test_every_request_counts_by_its_skill_and_its_outcome(open_dealership: OpenDealership, read: Read) -> None:
    dealership = open_dealership()
    for _ in range(3):
        dealership.ask("inventory.search")
    assert dealership.post(message("inventory.vehicle", vin="2HGCY2F57RA000009")).status_code == 404
    assert dealership.post(b"{").status_code == 422
    values = read()
    for skill, code, number in (
        ("inventory.search", "OK", 3),
        ("inventory.vehicle", "VEHICLE_NOT_FOUND", 1),
        ("unknown", "SCHEMA_VALIDATION_FAILED", 1),
    ):
        assert (
            values[
                sample("dealer_agent_requests_total", dealer="test-motors", skill=skill, code=code, caller="anonymous")
            ]
            == number
        )
        assert values[sample("dealer_agent_request_seconds_count", skill=skill)] == number
    assert values[sample("dealer_agent_request_seconds_sum", skill="inventory.search")] > 0
    last = values[sample("dealer_agent_request_seconds_bucket", skill="inventory.search", le="+Inf")]
    assert last == 3


@pytest.mark.parametrize(
    ("sent", "results"),
    [
        ([message("lead.submit")], {"accepted": 1}),
        ([message("lead.submit", message=words) for words in ("One.", "Two.")], {"accepted": 1, "duplicate": 1}),
        ([*[message("lead.submit", idempotency_key="a")] * 2], {"accepted": 1, "repeated": 1}),
        ([message("lead.submit", customer={"first_name": "Sam"})], {"refused": 1}),
        ([message("lead.submit", consent={})], {"refused": 1}),
    ],
)
def test_leads_count_by_result(
    open_dealership: OpenDealership, read: Read, sent: list[dict[str, object]], results: dict[str, int]
) -> None:
    dealership = open_dealership()
    for body in sent:
        dealership.post(body)
    values = read()
    counted = {
        result: values[sample("dealer_agent_leads_total", dealer="test-motors", result=result)]
        for result in ("accepted", "duplicate", "repeated", "refused", "failed")
    }
    assert {result: number for result, number in counted.items() if number} == results
    # A refusal is recorded in the background.
    waits = sample("dealer_agent_lead_writer_wait_seconds_count")
    eventually("each was a job of the writer", lambda: read()[waits] >= len(sent))


def test_a_request_that_a_rate_limit_refuses_counts_by_the_limit(open_dealership: OpenDealership, read: Read) -> None:
    dealership = open_dealership(NO_LIMITS.replace('inventory_facets = ""', 'inventory_facets = "1/day"'))
    for _ in range(3):
        dealership.post(message("inventory.facets"))
    values = read()
    assert values[sample("dealer_agent_rate_limited_requests_total", rule="inventory.facets")] == 2
    assert values[sample("dealer_agent_rate_limited_requests_total", rule="address")] == 0


CHANNEL = f"""
[[rooftops.deliver.http]]
name = "crm"
url = "http://127.0.0.1:{NOBODY}/"
"""


def test_stock_feed_and_deliveries_come_from_the_snapshot_and_the_database(
    open_dealership: OpenDealership, read: Read
) -> None:
    dealership = open_dealership()
    values = eventually("the database is read", lambda: _with_database(read()))
    assert values[sample("dealer_agent_snapshot_units", dealer="test-motors")] == 122
    assert values[sample("dealer_agent_snapshot_revision", dealer="test-motors")] == 2
    assert values[sample("dealer_agent_stock_revision", dealer="test-motors")] == 2
    feed = values[sample("dealer_agent_feed_imported_timestamp_seconds", dealer="test-motors")]
    assert feed == values[sample("dealer_agent_snapshot_confirmed_timestamp_seconds", dealer="test-motors")]
    assert feed == dealership.service.dealer.stock_at.timestamp()  # type: ignore[union-attr]
    assert values[sample("dealer_agent_oldest_waiting_delivery_seconds", dealer="test-motors")] == 0


def _with_database(values: Values) -> Values | None:
    return values if sample("dealer_agent_database_read_timestamp_seconds") in values else None


def test_a_delivery_that_waits_is_seen_with_its_age_and_its_channel(
    open_dealership: OpenDealership, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_metrics, "READ_SECONDS", 0.0)
    dealership = open_dealership(CHANNEL + NO_LIMITS)
    dealership.ask("lead.submit", vehicle_of_interest={"vin": LEAF})
    failed = sample("dealer_agent_delivery_results_total", channel="http", result="failed")
    eventually("an attempt has failed", lambda: read()[failed] > 0)
    waiting = sample("dealer_agent_unsent_deliveries", dealer="test-motors", channel="http", state="waiting")
    eventually("the database is read", lambda: read().get(waiting) == 1)
    assert read()[sample("dealer_agent_oldest_waiting_delivery_seconds", dealer="test-motors")] > 0


def test_only_as_many_dealers_as_allowed_have_a_label(tmp_path: Path, folder: Path) -> None:
    installation = make_installation(tmp_path / "agents", INSTALLATION_TOML + "[metrics]\ndealers = 2\n")
    dealers = ("north-motors", "south-motors", "west-motors", "east-motors")
    for dealer_id in dealers:
        add(installation, dealer_id)
    with run_installation(installation) as running:
        for dealer_id in dealers:
            assert running.post(message("inventory.search"), f"/d/{dealer_id}/message:send").status_code == 200
        for most, labels in ((2, {"north-motors", "south-motors", OTHER}), (1, {"north-motors", OTHER})):
            values = reading(WorkerCollector(folder, most))()
            found = {
                dict(labels)["dealer"]: value
                for (name, labels), value in values.items()
                if name == "dealer_agent_requests_total"
            }
            assert set(found) == labels
            assert sum(found.values()) == 4


def test_without_labels_all_dealers_share_a_series() -> None:
    metrics = WorkerMetrics(most_dealers=0)
    assert metrics.of_dealer("a") is metrics.of_dealer("b")
    assert metrics.label_of("a") == ""


def test_a_dealer_of_an_installation_cannot_set_the_metrics(tmp_path: Path) -> None:
    installation = make_installation(tmp_path / "agents")
    with pytest.raises(SettingsError, match=r"metrics\.enabled: belongs to installation\.toml"):
        add(installation, "north-motors", more="\n[metrics]\nenabled = true\n")


def test_nothing_is_counted_while_metrics_are_off(dealership: Dealership) -> None:
    dealership.ask("inventory.vehicle", vin=ACCORD)
    assert dealership.service.response_counts is None


def test_a_duration_counts_in_the_first_bucket_that_is_not_below_it() -> None:
    histogram = empty_histogram()
    durations = (0.0, BUCKETS[0], BUCKETS[0] * 1.01, BUCKETS[-1] * 2)
    for seconds in durations:
        observe(histogram, seconds)
    first, second, *_, above_all_buckets, total = histogram
    assert (first, second, above_all_buckets) == (2, 1, 1)
    assert total == pytest.approx(sum(durations))


def test_the_how_to_lists_every_metric_with_its_labels() -> None:
    text = HOW_TO.read_text("utf-8")
    for name, family in FAMILIES.items():
        row = next((line for line in text.splitlines() if line.startswith(f"| `{name}` |")), None)
        assert row is not None, name
        assert row.split("|")[2].strip() == (", ".join(f"`{label}`" for label in family.labels) or "-"), name
        assert row.split("|")[3].strip() == family.kind, name


def test_the_address_answers_only_the_path_of_the_metrics(folder: Path) -> None:
    port = free_port()
    with MetricsServer("127.0.0.1", port, folder, 50) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        answered = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=60)
        assert answered.status_code == 200
        assert "dealer_agent_workers 0.0" in answered.text
        assert httpx.get(f"http://127.0.0.1:{port}/", timeout=60).status_code == 404
        with closing(socket.create_connection(("127.0.0.1", port))):
            assert httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=60).status_code == 200
        server.shutdown()
