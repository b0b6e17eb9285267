"""Every request counts against its address, and documents cost little (docs/protocol.md#every-request-counts)."""

from datetime import UTC, datetime, timedelta

import pytest
from starlette.routing import Route
from tests.server.conftest import OpenDealership
from tests.server.dealership import NO_LIMITS, Dealership, error_of

from dealer_agent.inventory.catalogue import Catalogue
from dealer_agent.server.routes import HEALTH_PATHS, current_home

ONCE = NO_LIMITS.replace('address = ""', 'address = "1/hour"').replace('health = ""', 'health = "1/hour"')
BINDINGS = ("/message:send", "/rpc")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
PREFLIGHT = {"origin": "https://page.example", "access-control-request-method": "POST"}


def paths_of(opened: Dealership) -> list[str]:
    """A path for each route of a dealer, and some paths without a route."""
    found = []
    for route in opened.app.routes:
        assert isinstance(route, Route)
        found.append(route.path_format.format(secret="guess", token="guess", task="task-1", rest="/7", vehicle_id="V1"))
    return [*found, "/message:send", "/rpc", "/nosuch", "/static/nosuch.css", "//", "/healthz/", "/message:send/x"]


@pytest.mark.requirement("rate-limits-are-settings", "every-request-counts")
def test_every_route_unknown_path_and_wrong_method_counts_against_its_address(open_dealership: OpenDealership) -> None:
    opened = open_dealership(ONCE)
    asked: list[tuple[str, str, dict[str, str]]] = [
        (method, path, {}) for path in paths_of(opened) for method in METHODS
    ]
    asked += [("OPTIONS", path, PREFLIGHT) for path in paths_of(opened)]
    for number, (method, path, headers) in enumerate(asked):
        address = f"203.0.{number // 200}.{number % 200 + 1}"
        first = opened.request(method, path, headers=headers, address=address)
        assert first.status_code != 429, (method, path)
        if method == "POST" and path.rstrip("/") in BINDINGS:
            # The content type is checked first (docs/protocol.md#order). The next request shows that this one counts.
            assert first.status_code == 415
            method, path = "GET", "/docs"
        second = opened.request(method, path, headers=headers, address=address)
        assert second.status_code == 429, (method, path)
        assert int(second.headers["retry-after"]) > 0
        if method != "HEAD":
            assert error_of(second)["code"] == "RATE_LIMITED"


@pytest.mark.requirement("rate-limits-are-settings", "every-request-counts")
@pytest.mark.usefixtures("limits_kept")
def test_health_checks_count_separately_from_other_requests(open_dealership: OpenDealership) -> None:
    """A load balancer and the buyers behind it may have the same address."""
    opened = open_dealership(ONCE)
    assert opened.get("/docs").status_code == 200
    assert opened.get("/docs").status_code == 429
    assert opened.get("/readyz").status_code == 200
    assert {opened.get(path).status_code for path in HEALTH_PATHS} == {429}


@pytest.mark.parametrize("path", ["/", "/docs", "/static/style.css", "/openapi.json", "/schemas"])
@pytest.mark.requirement("card-caching")
def test_a_page_or_document_is_cached_by_its_etag(dealership: Dealership, path: str) -> None:
    first = dealership.get(path)
    assert first.status_code == 200
    assert "max-age" in first.headers["cache-control"]
    again = dealership.get(path, if_none_match=first.headers["etag"])
    assert (again.status_code, again.content) == (304, b"")
    assert dealership.get(path, if_none_match='"other"').content == first.content


def test_the_page_is_rendered_once_for_each_snapshot_and_minute(
    dealership: Dealership, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = dealership.service
    clock = datetime(2026, 11, 21, 12, 0, 1, tzinfo=UTC)
    counted = {"facets": 0}
    facets = Catalogue.facets

    class Clock(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            return clock

    def counting(catalogue: Catalogue, *filters: object) -> object:
        counted["facets"] += 1
        return facets(catalogue, *filters)  # type: ignore[arg-type]

    monkeypatch.setattr("dealer_agent.server.routes.datetime", Clock)
    monkeypatch.setattr(Catalogue, "facets", counting)
    first = current_home(service)
    clock += timedelta(seconds=58)
    assert current_home(service) is first
    assert counted["facets"] == 1
    clock += timedelta(seconds=2)
    assert current_home(service) is not first
    assert counted["facets"] == 2
    dealer = service.dealer
    service.dealer = dealer.with_stock(Catalogue.build([]), clock, 0)
    try:
        assert current_home(service).body != first.body
    finally:
        service.dealer = dealer
    assert counted["facets"] == 3
