"""All versions are one service: one store of leads, the same guards, limits, tokens, counts and logs
(docs/protocol.md#version-same-service)."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.installation.platform import DEALERS, PUBLIC_URL, add, make_installation, run_installation
from tests.published_versions.conftest import SERVED, open_published
from tests.published_versions.schemas import needs_schemas
from tests.published_versions.talking import (
    ACTIVATION,
    INTERFACES,
    VERSIONS,
    Buyer,
    body,
    data,
    error_payload,
    response_payload,
)
from tests.server.conftest import OpenDealership
from tests.server.dealership import ACCORD, NO_LIMITS, Dealership, message, run_dealership
from tests.storage.calls import read

from dealer_agent.server.log import BufferedLines, configure_logs
from dealer_agent.storage.leads.stored_leads import get_lead

pytestmark = needs_schemas
every_interface = pytest.mark.parametrize(("version", "interface"), INTERFACES)
every_version = pytest.mark.parametrize("version", VERSIONS)


def customer(name: str) -> dict[str, Any]:
    return {"first_name": "Robin", "last_name": "Example", "email": f"{name}@example.com"}


def stored_lead(opened: Dealership, lead_id: str) -> dict[str, Any]:
    with opened.store() as store:
        found = read(store, "test-motors", get_lead, lead_id)
    assert found is not None
    assert found.lead.payload is not None
    payload: dict[str, Any] = json.loads(found.lead.payload)
    return payload


@every_interface
@pytest.mark.requirement("version-same-service")
def test_a_lead_is_stored_as_the_same_request_at_the_root(published: Dealership, version: str, interface: str) -> None:
    wanted = {"vin": ACCORD, "condition": "used", "rooftop": None, "charge_port": None, "own": {"kept": None}}
    traded = {"make": "Honda", "other_attributes": {"seats": [2, 3], "colours": ["red", "blue"], "abs": True}}
    sent = data(version, "lead.submit", customer=customer(f"stored-{version}-{interface[:3]}"))
    sent |= {"vehicle_of_interest": wanted, "trade_in": traded}
    answer = Buyer(published, version, interface).ask_raw(body(sent))
    stored = stored_lead(published, response_payload(answer)["data"]["lead_id"])
    assert stored["vehicle_of_interest"] == {"vin": ACCORD, "condition": "used", "own": {"kept": None}}
    attributes = {"seats": "2, 3", "colours": "red, blue", "abs": True}
    assert stored["trade_in"] == {"make": "Honda", "other_attributes": attributes}
    at_root = published.ask("lead.submit", "autoagent", **{name: stored[name] for name in stored if name != "type"})
    assert at_root["status"] == "duplicate"


@every_interface
@pytest.mark.requirement("version-idempotency")
def test_a_key_is_one_key_at_all_addresses(published: Dealership, version: str, interface: str) -> None:
    buyer = Buyer(published, version, interface)
    sent = data(version, "lead.submit", customer=customer(f"key-{version}-{interface[:3]}"), idempotency_key="key-1")
    sent["vehicle_of_interest"] = {"vin": ACCORD, "rooftop": None}
    first = response_payload(buyer.ask_raw(body(sent)))
    assert response_payload(buyer.ask_raw(body(sent))) == first
    # At the root, the absent member is left out.
    at_root = {**sent, "vehicle_of_interest": {"vin": ACCORD}}
    content = body(at_root)
    assert published.post(content).json()["message"]["parts"][0]["data"] == first
    changed = {**at_root, "message": "Another wish"}
    assert published.post(body(changed)).json()["error"]["details"][1]["code"] == "IDEMPOTENCY_CONFLICT"
    assert error_payload(buyer.ask_raw(body(changed)))["code"] == "IDEMPOTENCY_CONFLICT"


@every_interface
@pytest.mark.requirement("version-same-service")
def test_the_access_log_names_the_version(tmp_path: Path, version: str, interface: str) -> None:
    open_published(tmp_path / "dealer")
    output = (tmp_path / "log").open("w+b")
    with run_dealership(tmp_path / "dealer") as opened:
        lines = configure_logs("info", BufferedLines(output))
        Buyer(opened, version, interface).ask("dealer.information")
        opened.ask("dealer.information")
        lines.flush()
    output.seek(0)
    logged = [each for each in map(json.loads, output) if each["event"] == "request"]
    binding = "json-rpc" if interface == "rpc" else "http+json"
    assert [(each["binding"], each.get("version"), each["skill"]) for each in logged] == [
        (binding, version, "dealer.information"),
        ("http+json", None, "dealer.information"),
    ]


@every_interface
@pytest.mark.requirement("version-same-service")
def test_bodies_have_the_same_limits(published: Dealership, version: str, interface: str) -> None:
    buyer = Buyer(published, version, interface)
    large = data(version, "inventory.search", filters={"query": "x" * 40_000})
    assert buyer.ask_raw(body(large)).status_code == 413
    lead = data(version, "lead.submit", trade_in={"description": "x" * 20_000, "notes": "x" * 20_000})
    assert buyer.ask_raw(body(lead)).status_code == 200
    assert buyer.send(b"{}", headers={"content-type": "text/plain"}).status_code == 415


@every_interface
@pytest.mark.requirement("version-same-service")
def test_requests_count_for_the_address_and_the_skill_at_all_addresses(
    open_dealership: OpenDealership, version: str, interface: str
) -> None:
    limits = '[rate_limits]\ninventory_search = "3/hour"\naddress = "5/hour"\n'
    opened = open_dealership(f'{limits}[published_versions]\nserved = ["{version}"]\n')
    buyer = Buyer(opened, version, interface)
    for _ in range(2):
        buyer.ask("inventory.search")
    assert opened.post(message("inventory.search")).status_code == 200
    assert buyer.ask_raw(body(data(version, "inventory.search"))).status_code == 429
    assert buyer.ask_raw(body(data(version, "dealer.information"))).status_code == 200
    assert opened.post(message("dealer.information")).status_code == 429


@every_version
@pytest.mark.requirement("version-same-service")
def test_a_switched_off_skill_is_off_in_every_version(open_dealership: OpenDealership, version: str) -> None:
    opened = open_dealership(f'[service]\nskills_off = ["inventory.facets"]\n{NO_LIMITS}{SERVED}')
    assert Buyer(opened, version).refuse(data(version, "inventory.facets"))["code"] == "UNSUPPORTED_SKILL"


@pytest.mark.requirement("version-same-service", "version-addresses")
def test_each_dealer_of_an_installation_has_the_versions(tmp_path: Path) -> None:
    north, south = DEALERS
    installation = make_installation(tmp_path / "installation")
    units = {
        dealer: json.dumps([{"stock": dealer, "year": 2020, "make": "Honda", "model": "Civic"}]).encode()
        for dealer in DEALERS
    }
    add(installation, north, units[north], hosts=("cars.north.example",), more=SERVED)
    add(installation, south, units[south], more='\n[published_versions]\nserved = ["1.3"]\n')
    with run_installation(installation) as platform:
        for host, root, dealer in (
            ("agents.example.com", f"/d/{north}", north),
            ("cars.north.example", "", north),
            ("agents.example.com", f"/d/{south}", south),
        ):
            for version in VERSIONS:
                is_served = dealer == north or version == "1.3"
                card = platform.request(
                    "GET", f"{root}/aap/{version}/.well-known/agent-card.json", headers={"host": host}
                )
                assert card.status_code == (200 if is_served else 404)
                for tenant, is_theirs in ((None, True), (dealer, True), ("another", False)):
                    params = body(data(version, "inventory.search")) | ({"tenant": tenant} if tenant else {})
                    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
                    answer = platform.post(call, f"{root}/aap/{version}/rpc", headers={"host": host, **ACTIVATION})
                    if not is_served:
                        assert answer.status_code == 404
                    elif is_theirs:
                        assert response_payload(answer)["data"]["vehicles"][0]["stock"] == dealer
                    else:
                        assert error_payload(answer)["details"]["instancePath"] == "/tenant"
                if is_served:
                    address = "https://cars.north.example" if dealer == north else f"{PUBLIC_URL}/d/{south}"
                    interfaces = card.json()["supportedInterfaces"]
                    assert interfaces[0]["url"] == f"{address}/aap/{version}/rpc"
