"""`deploy/prometheus` and `deploy/grafana`, with a real Prometheus that reads the metrics of a running demo."""

import json
import math
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.acceptance.asking import ask, lead
from tests.acceptance.running import COMMAND, PATIENCE_SECONDS, environment, eventually, free_port
from tests.servers.programs import installed_program
from tests.servers.prometheus import Prometheus, StartPrometheus

from dealer_agent.server.metrics import FAMILIES
from dealer_agent.server.worker_metrics import READ_SECONDS

pytestmark = pytest.mark.outside_protocol("deployment")

DEPLOY = Path(__file__).parents[2] / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text("utf-8"))
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
VARIABLES = {"$__rate_interval": "1m", "$instance": ".*", "$dealer": ".*", "$job": "dealer-agent"}


def expressions() -> dict[str, str]:
    """Each query of the dashboard by its panel and its letter, with values for the variables."""
    found = {}
    for panel in PANELS:
        for target in panel["targets"]:
            expression = target["expr"]
            for name, value in VARIABLES.items():
                expression = expression.replace(name, value)
            assert "$" not in expression, expression
            found[f"{panel['title']} {target['refId']}"] = expression
    return found


@contextmanager
def running_demo(folder: Path) -> Iterator[tuple[str, int]]:
    """The URL of a demo, and the port of its metrics."""
    port, metrics_port = free_port(), free_port()
    log = folder / "demo.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [COMMAND, "demo", "--dir", folder / "demo", "--port", str(port), "--metrics-port", str(metrics_port)],
            env=environment(),
            stdout=output,
            stderr=output,
        )
    url = f"http://127.0.0.1:{port}"

    def ready() -> bool:
        assert process.poll() is None, log.read_text()
        return httpx.get(f"{url}/readyz", timeout=5, verify=False).status_code == 200

    try:
        eventually("the demo is ready", ready)
        yield url, metrics_port
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()


def send_some(url: str) -> None:
    """A request for each skill, a request that fails, and a lead."""
    for skill in ("dealer.information", "inventory.facets", "inventory.search"):
        assert ask(url, skill).status_code == 200
    assert ask(url, "inventory.vehicle", vin="2HGCY2F57RA000009").status_code == 404
    assert ask(url, "lead.submit", **lead()).status_code == 200


@pytest.mark.soak
def test_every_query_of_the_dashboard_has_data_and_every_rule_is_loaded(
    tmp_path: Path, start_prometheus: StartPrometheus
) -> None:
    with running_demo(tmp_path) as (url, metrics_port):
        send_some(url)
        prometheus = start_prometheus([metrics_port], ALERTS)
        eventually("it has read the first values", lambda: prometheus.query("dealer_agent_requests_total"))
        send_some(url)
        for panel, expression in expressions().items():
            eventually(panel, partial(_has_data, prometheus, expression))
        for name in FAMILIES:
            series = f"{name}_count" if FAMILIES[name].kind == "histogram" else name
            eventually(name, partial(prometheus.query, series), seconds=PATIENCE_SECONDS + READ_SECONDS)
        groups = prometheus.get("rules")["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        assert len(rules) == len(re.findall("- alert:", ALERTS.read_text("utf-8")))
        eventually("all rules were evaluated", lambda: _all_healthy(prometheus))


def _has_data(prometheus: Prometheus, expression: str) -> bool:
    return any(not math.isnan(float(series["value"][1])) for series in prometheus.query(expression))


def _all_healthy(prometheus: Prometheus) -> bool:
    rules = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
    assert [rule for rule in rules if rule["health"] == "err"] == []
    return all(rule["health"] == "ok" for rule in rules)


def test_each_alert_fires_when_it_should_and_not_before() -> None:
    program = installed_program("promtool", "prometheus")
    done = subprocess.run(
        [program, "test", "rules", Path(__file__).with_name("alerts_test.yml")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_dashboard_and_the_rules_use_only_metrics_that_exist() -> None:
    text = ALERTS.read_text("utf-8") + "\n".join(expressions().values())
    used = {re.sub("_(bucket|count|sum)$", "", name) for name in re.findall(r"\b(?:dealer_agent|process)_\w+", text)}
    assert used <= FAMILIES.keys()


def test_the_panels_of_the_dashboard_do_not_overlap() -> None:
    cells: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        own = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & own, panel["title"]
        assert place["x"] + place["w"] <= 24
        cells |= own
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(numbers) == len(set(numbers))
