"""A dealer of an installation answers below /d/{dealer} and at its own hosts, with everything that one dealer has."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.installation.platform import DEALERS, PUBLIC_URL, add, make_installation, run_installation
from tests.server.dealership import Dealership, error_of, message

NORTH, SOUTH = DEALERS
HOST = "cars.north.example"
PAGES = (
    "/",
    "/docs",
    "/openapi.json",
    "/cards/1.0.0.json",
    "/cards/0.1.0.json",
    "/.well-known/agent-card.json",
    "/schemas",
    "/static/style.css",
    "/healthz",
    "/readyz",
)


def stock(dealer_id: str) -> bytes:
    units = [
        {"stock": f"{dealer_id}-{number}", "year": 2020, "make": "Honda", "model": "Civic", "condition": "used"}
        for number in range(3)
    ]
    return json.dumps(units).encode()


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dealership]:
    installation = make_installation(tmp_path_factory.mktemp("platform") / "installation")
    add(installation, NORTH, stock(NORTH), hosts=(HOST,))
    add(installation, SOUTH, stock(SOUTH))
    with run_installation(installation) as running:
        yield running


def search(platform: Dealership, path: str, host: str = "agents.example.com") -> dict[str, Any]:
    answer = platform.post(message("inventory.search"), path, headers={"host": host})
    assert answer.status_code == 200, answer.text
    data: dict[str, Any] = answer.json()["message"]["parts"][0]["data"]["data"]
    return data


def stock_numbers(data: dict[str, Any]) -> set[str]:
    return {vehicle["stock"] for vehicle in data["vehicles"]}


def get(platform: Dealership, path: str, host: str = "agents.example.com") -> httpx.Response:
    return platform.request("GET", path, headers={"host": host})


@pytest.mark.requirement("dealer-addresses")
@pytest.mark.parametrize("dealer_id", DEALERS)
def test_a_dealer_answers_from_its_own_stock(platform: Dealership, dealer_id: str) -> None:
    # The first request may open the dealer.
    for _ in range(2):
        found = stock_numbers(search(platform, f"/d/{dealer_id}/message:send"))
        assert found == {f"{dealer_id}-{number}" for number in range(3)}


@pytest.mark.requirement("dealer-addresses")
def test_a_dealers_host_answers_at_its_root(platform: Dealership) -> None:
    for host in (HOST, HOST.upper(), f"{HOST}:8443"):
        assert all(number.startswith(NORTH) for number in stock_numbers(search(platform, "/message:send", host)))


@pytest.mark.requirement("dealer-addresses")
@pytest.mark.parametrize("page", PAGES)
def test_a_dealer_has_all_pages(platform: Dealership, page: str) -> None:
    for path, host in ((f"/d/{SOUTH}{page}", "agents.example.com"), (page, HOST)):
        assert get(platform, path.rstrip("/"), host).status_code == 200


@pytest.mark.requirement("dealer-card")
def test_the_card_names_the_dealers_own_address(platform: Dealership) -> None:
    for dealer_id, root in ((NORTH, f"https://{HOST}"), (SOUTH, f"{PUBLIC_URL}/d/{SOUTH}")):
        card = get(platform, f"/d/{dealer_id}/.well-known/agent-card.json").json()
        assert {each["url"] for each in card["supportedInterfaces"]} == {root, f"{root}/rpc"}


@pytest.mark.requirement("unknown-dealer")
def test_an_unknown_and_a_disabled_dealer_get_the_same_answer(platform: Dealership) -> None:
    unknown = [get(platform, path) for path in ("/d/nosuch", "/d/nosuch/docs", "/nosuch", "/message:send", "/rpc")]
    posted = platform.post(message("inventory.search"), "/d/nosuch/message:send")
    assert {answer.status_code for answer in (*unknown, posted)} == {404}
    assert {error_of(answer)["message"] for answer in (*unknown, posted)} == {error_of(posted)["message"]}


@pytest.mark.requirement("dealer-addresses")
def test_a_dealers_host_never_answers_for_another_dealer(platform: Dealership) -> None:
    answer = platform.post(message("inventory.search"), f"/d/{SOUTH}/message:send", headers={"host": HOST})
    assert answer.status_code == 404


@pytest.mark.requirement("dealer-addresses")
@pytest.mark.parametrize("header", ["x-forwarded-host", "forwarded", "x-dealer", "x-tenant"])
def test_no_other_header_chooses_the_dealer(platform: Dealership, header: str) -> None:
    answer = platform.post(message("inventory.search"), headers={"host": "agents.example.com", header: HOST})
    assert answer.status_code == 404


@pytest.mark.requirement("tenant")
@pytest.mark.parametrize("path", ["message:send", "rpc"])
def test_a_tenant_must_be_the_dealer_at_the_address(platform: Dealership, path: str) -> None:
    for skill in ("inventory.search", "lead.submit"):
        for tenant, refused in ((NORTH, True), ("nosuch", True), (7, True), (SOUTH, False), ("", False)):
            body = message(skill) | {"tenant": tenant}
            sent = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": body} if path == "rpc" else body
            answer = platform.post(sent, f"/d/{SOUTH}/{path}")
            assert ("error" in answer.json()) is refused, answer.text
            if refused:
                error = error_of(answer)
                assert (error["code"], error["details"]["instancePath"]) == ("SCHEMA_VALIDATION_FAILED", "/tenant")
                assert NORTH not in answer.text.replace(str(tenant), "")


@pytest.mark.requirement("dealer-addresses")
def test_nothing_is_kept_of_hosts_and_dealers_that_do_not_exist(platform: Dealership) -> None:
    dealers = platform.app.dealers

    def kept() -> tuple[int, ...]:
        return len(dealers.opened), len(dealers._targets), len(dealers._roots), len(dealers.addresses.documents)

    assert get(platform, "/").status_code == 200
    before = kept()
    for number in range(100):
        for path in ("/", f"/?page={number}", f"/?page=0{number}", f"/d/stranger-{number}/rpc", f"/d/{NORTH}{number}"):
            assert get(platform, path, f"host-{number}.example").status_code in (200, 404)
    assert kept() == before
