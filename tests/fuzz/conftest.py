"""One real service with the stock of the demo for all hostile requests. It must survive them without a fault."""

from collections.abc import Iterator

import pytest
from tests.acceptance.running import Running, serving, succeed_here
from tests.fuzz.judging import CheckRun

from dealer_agent.config.keys import create_key_file
from dealer_agent.demo import demo_dealer_toml, demo_inventory

TRUSTED = 'open = true\ntrusted_proxies = ["127.0.0.1"]\n'
SETTINGS = """
[rate_limits]
dealer_information = ""
inventory_facets = ""
inventory_search = ""
inventory_vehicle = ""
lead_submit = ""
malformed_leads = ""
address = ""
bad_tokens = ""
"""
"""No rate limits, so that every request is examined. A trusted proxy as sender, so that X-Forwarded-For is read."""


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The service. `serving` fails if it ends with an error, or with a traceback or a fault in its log."""
    folder = tmp_path_factory.mktemp("fuzzed")
    settings = demo_dealer_toml().replace("open = true\n", TRUSTED) + SETTINGS
    (folder / "dealer.toml").write_text(settings, encoding="utf-8")
    create_key_file(folder)
    feed = folder / "inventory.csv"
    feed.write_bytes(demo_inventory())
    succeed_here("inventory", "import", feed, "--dir", folder)
    with serving(folder) as running:
        yield running


@pytest.fixture(scope="session")
def judge(service: Running) -> CheckRun:
    """Checks the form of answers of the service."""
    return CheckRun(service)
