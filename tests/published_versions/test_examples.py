"""The examples that the public protocol publishes: its requests are accepted, and its responses are valid."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.published_versions.schemas import defects, examples, needs_schemas
from tests.published_versions.talking import INTERFACES, Buyer, body, error_payload
from tests.server.dealership import Dealership

pytestmark = needs_schemas

STANDS_FOR_STOCK = {"VEHICLE_NOT_FOUND"}
"""The code of a valid request for a vehicle of another dealer's stock."""


def requests() -> list[tuple[str, str, str]]:
    """Version, binding and name of each published request."""
    return [
        (version, interface, name)
        for version, interface in INTERFACES
        if version != "next"
        for name, content in examples(version, "request")
        if _fits(content, interface)
    ]


def _fits(content: dict[str, Any], interface: str) -> bool:
    """Whether an example is a payload, or a body of this binding."""
    return "type" in content or ("jsonrpc" in content) is (interface == "rpc")


@pytest.mark.parametrize(("version", "interface", "name"), requests())
@pytest.mark.requirement("version-requests")
def test_a_published_request_is_accepted(published: Dealership, version: str, interface: str, name: str) -> None:
    content = dict(examples(version, "request"))[name]
    buyer = Buyer(published, version, interface)
    answer = buyer.ask_raw(body(_now(content))) if "type" in content else buyer.send(content)
    if "error" in answer.json():
        assert error_payload(answer)["code"] in STANDS_FOR_STOCK, answer.text


def _now(payload: dict[str, Any]) -> dict[str, Any]:
    """An example as of today: a consent may have expired since it was published."""
    if "consent" in payload:
        payload["consent"]["granted_at"] = (datetime.now(UTC) - timedelta(minutes=1)).isoformat()
        payload["consent"].pop("expires_at", None)
        # The key came with another time before.
        payload.pop("idempotency_key", None)
    return payload


def replies() -> list[tuple[str, str]]:
    """Version and name of each published response, error and card."""
    return [
        (version, name)
        for version in ("1.0", "1.1", "1.2", "1.3")
        for kind in ("response", "error", "agent-card")
        for name, _ in examples(version, kind)
    ]


@pytest.mark.parametrize(("version", "name"), replies())
@pytest.mark.outside_protocol("the published examples themselves")
def test_a_published_reply_is_valid_by_its_own_schema(version: str, name: str) -> None:
    kind = name.partition(".")[0]
    content = next(content for found, content in examples(version, kind) if found == name)
    content = content.get("result", content)
    content = (
        content["message"]["parts"][0]["data"] if "message" in content and "parts" in content["message"] else content
    )
    assert not defects(version, kind, content)
