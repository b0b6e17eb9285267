"""The size of a request, and how often it counts against a rate (docs/protocol.md#charged-by-size)."""

import json
from typing import Any, cast

import pytest
from starlette.types import Send
from tests.server.conftest import OpenDealership
from tests.server.dealership import NO_LIMITS, Dealership, error_of, message

LEAD_TYPE = "lead.submit.request"


def padded(skill: str, size: int, **members: Any) -> bytes:
    """A valid request with spaces at its end."""
    raw = json.dumps(message(skill, **members)).encode()
    return raw + b" " * (size - len(raw))


def over(path: str, raw: bytes) -> bytes:
    return raw if path != "/rpc" else b'{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":' + raw + b"}"


@pytest.mark.requirement("body-limits")
@pytest.mark.parametrize("path", ["/message:send", "/rpc"])
@pytest.mark.parametrize(("kib", "status"), [(31, 200), (33, 413), (255, 413), (257, 413)])
def test_a_reading_request_has_at_most_32_kib(dealership: Dealership, path: str, kib: int, status: int) -> None:
    answer = dealership.post(over(path, padded("inventory.search", kib * 1024)), path)
    assert answer.status_code == status


@pytest.mark.requirement("body-limits")
@pytest.mark.parametrize("path", ["/message:send", "/rpc"])
@pytest.mark.parametrize(("kib", "status"), [(33, 200), (255, 200), (257, 413)])
def test_a_lead_has_at_most_256_kib(dealership: Dealership, path: str, kib: int, status: int) -> None:
    answer = dealership.post(over(path, padded("lead.submit", kib * 1024)), path)
    assert answer.status_code == status


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body["message"].update(note=LEAD_TYPE),
        lambda body: body["message"]["parts"].append({"text": LEAD_TYPE, "type": LEAD_TYPE}),
        lambda body: body["message"]["parts"][0]["data"].update(filters={"type": LEAD_TYPE, "query": LEAD_TYPE}),
        lambda body: body.update(params=message("lead.submit"), data={"type": LEAD_TYPE}),
        lambda body: body["message"]["parts"][0].update(mediaType="application/vnd.proto.lead-submit-request+json"),
    ],
)
def test_only_the_type_of_the_data_makes_a_large_body_a_lead(dealership: Dealership, change: Any) -> None:
    body = message("inventory.search")
    change(body)
    answer = dealership.post(json.dumps(body).encode() + b" " * 40_000)
    assert answer.status_code == 413
    assert error_of(answer)["message"] == ("The body must have at most 32768 bytes; only a lead may have up to 262144.")


def test_without_lead_submit_no_body_may_exceed_the_reading_limit(open_dealership: OpenDealership) -> None:
    opened = open_dealership('[service]\nskills_off = ["lead.submit"]\n' + NO_LIMITS)
    assert opened.post(padded("lead.submit", 33 * 1024)).status_code == 413


async def _chunked(dealership: Dealership, body: bytes, address: str) -> int:
    """The status of the response to a body without a declared size."""
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/message:send",
        "query_string": b"",
        "client": (address, 1),
    }
    statuses: list[int] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(event: dict[str, Any]) -> None:
        statuses.append(event.get("status", 0))

    await dealership.app({**scope, "headers": [(b"content-type", b"application/json")]}, receive, cast(Send, send))
    return statuses[0]


@pytest.mark.requirement("charged-by-size")
@pytest.mark.usefixtures("limits_kept")
def test_a_request_counts_once_for_each_started_8_kib(open_dealership: OpenDealership) -> None:
    opened = open_dealership(NO_LIMITS.replace('address = ""', 'address = "12/hour"'))
    for kib, taken in ((7, 12), (9, 6), (31, 3)):
        body = padded("inventory.search", kib * 1024)
        one, other = f"198.51.100.{kib}", f"203.0.113.{kib}"
        for _ in range(taken):
            assert opened.post(body, address=one).status_code == 200, kib
            assert opened.portal.call(_chunked, opened, body, other) == 200, kib
        assert opened.post(body, address=one).status_code == 429, kib
        assert opened.portal.call(_chunked, opened, body, other) == 429, kib


@pytest.mark.requirement("charged-by-size")
@pytest.mark.usefixtures("limits_kept")
def test_a_large_body_is_counted_before_it_is_decoded(open_dealership: OpenDealership) -> None:
    opened = open_dealership(NO_LIMITS.replace('address = ""', 'address = "2/hour"'))
    assert [opened.post(b"{" * 5_000).status_code for _ in range(3)] == [422, 422, 429]


RATES = NO_LIMITS.replace('malformed_leads = ""', 'malformed_leads = "3/hour"')
RATES = RATES.replace('lead_submit = ""', 'lead_submit = "2/hour"')


@pytest.mark.requirement("malformed-leads-apart")
@pytest.mark.usefixtures("limits_kept")
def test_malformed_leads_do_not_use_up_the_rate_of_valid_ones(open_dealership: OpenDealership) -> None:
    opened = open_dealership(RATES)
    malformed = message("lead.submit", nickname="x")
    without_consent = message("lead.submit", consent={}, idempotency_key="k")
    late = message("lead.submit")
    late["message"]["parts"][0]["data"]["consent"]["expires_at"] = "2001-01-01T00:00:00Z"
    assert [opened.post(sent).status_code for sent in (malformed, without_consent, late)] == [422, 403, 403]
    # The rate of malformed leads is used up. The rate of valid leads is not.
    assert [opened.post(sent).status_code for sent in (malformed, without_consent)] == [429, 429]
    assert [opened.post(message("lead.submit", message=text)).status_code for text in "ab"] == [200, 200]
    # Now no lead is looked at.
    assert opened.post(message("lead.submit")).status_code == 429
    assert opened.post(malformed).status_code == 429


def test_only_the_first_extensions_of_a_long_list_are_read(dealership: Dealership) -> None:
    known = next(iter(dealership.service.vocabularies.extensions))
    asked = ",".join([known] * 99 + ["https://example.com/x"] * 3_000)
    answer = dealership.post(message("inventory.search"), headers={"a2a-extensions": asked})
    assert answer.headers["a2a-extensions"] == known
    far = ",".join(["https://example.com/x"] * 100 + [known])
    assert "a2a-extensions" not in dealership.post(message("inventory.search"), headers={"a2a-extensions": far}).headers


@pytest.mark.parametrize(
    ("query", "status"),
    [("A2A-Version=1.0", 200), ("x=1&A2A-Version=0.3", 400), ("A2A-Version=", 400), ("a=b&" * 10_000, 200)],
)
def test_the_version_parameter_is_found_in_a_query_of_any_length(
    dealership: Dealership, query: str, status: int
) -> None:
    assert dealership.post(message("inventory.search"), f"/message:send?{query}").status_code == status
