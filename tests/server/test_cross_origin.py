"""Agents in browsers: CORS on every response of the skills, without credentials (docs/protocol.md#cross-origin)."""

import pytest
from tests.server.conftest import OpenDealership
from tests.server.dealership import NO_LIMITS, Dealership, message
from tests.server.test_order_of_checks import on

PAGE = {"origin": "https://page.example"}
ASKS = PAGE | {
    "access-control-request-method": "POST",
    "access-control-request-headers": "content-type,authorization,a2a-version,a2a-extensions",
    "access-control-request-private-network": "true",
}
BINDINGS = pytest.mark.parametrize("path", ["/message:send", "/rpc", "/message:send/"])


def listed(value: str) -> set[str]:
    return {each.strip().lower() for each in value.split(",")}


@BINDINGS
@pytest.mark.requirement("cross-origin")
def test_a_preflight_allows_what_an_agent_sends_and_no_credentials(dealership: Dealership, path: str) -> None:
    answer = dealership.request("OPTIONS", path, headers=ASKS)
    assert (answer.status_code, answer.content) == (204, b"")
    assert answer.headers["access-control-allow-origin"] == "*"
    assert "POST" in answer.headers["access-control-allow-methods"]
    allowed = listed(answer.headers["access-control-allow-headers"])
    mcp = {"mcp-protocol-version", "mcp-method", "mcp-name", "mcp-session-id", "last-event-id"}
    assert allowed == {"content-type", "authorization", "a2a-version", "a2a-extensions"} | mcp
    assert int(answer.headers["access-control-max-age"]) > 0
    assert "access-control-allow-credentials" not in answer.headers
    assert "access-control-allow-private-network" not in answer.headers


@BINDINGS
@pytest.mark.requirement("cross-origin")
def test_a_page_may_read_every_answer_and_error(open_dealership: OpenDealership, path: str) -> None:
    limits = NO_LIMITS.replace('inventory_facets = ""', 'inventory_facets = "1/hour"')
    opened = open_dealership(
        '[service]\nbody_limit_kib = 4\n[auth]\nmode = "bearer"\nskills = ["lead.submit"]\n' + limits
    )
    search, facets = (on(path, message(f"inventory.{skill}")) for skill in ("search", "facets"))
    plain = {"content-type": "text/plain"}
    answers = {
        200: opened.post(search, path, headers=PAGE),
        401: opened.post(search, path, headers=PAGE, token="wrong"),
        413: opened.post(b" " * 5000, path, headers=PAGE),
        415: opened.post(search, path, headers=PAGE | plain),
        429: [opened.post(facets, path, headers=PAGE) for _ in range(2)][1],
        404: opened.request("GET", "/nosuch", headers=PAGE),
        405: opened.request("GET", path, headers=PAGE),
    }
    assert {status: answer.status_code for status, answer in answers.items()} == {status: status for status in answers}
    refused = [opened.post(b"{", path, headers=PAGE), opened.get("/tasks/1", **PAGE)]
    for answer in [*answers.values(), *refused]:
        assert answer.headers["access-control-allow-origin"] == "*"
        exposed = listed(answer.headers["access-control-expose-headers"])
        assert exposed == {"x-request-id", "retry-after", "a2a-extensions", "www-authenticate"}
        assert "access-control-allow-credentials" not in answer.headers


@pytest.mark.requirement("cross-origin")
def test_pages_health_and_the_calendar_have_no_cors_headers(dealership: Dealership) -> None:
    for path in ("/", "/docs", "/healthz", "/readyz"):
        assert "access-control-allow-origin" not in dealership.get(path, **PAGE).headers
