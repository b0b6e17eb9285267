"""Of two defects, the response names the one that is checked first (docs/protocol.md#order-of-checks)."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.server.conftest import EACH_BINDING, OpenDealership
from tests.server.dealership import NO_LIMITS, Dealership, error_of, lead, message, run_dealership

BINDINGS = pytest.mark.parametrize("path", ["/message:send", "/rpc"])
TEXT = {"content-type": "text/plain"}

ALL_BEARER = '[auth]\nmode = "bearer"\n'
TIGHT = NO_LIMITS.replace('address = ""', 'address = "1/hour"')


def on(path: str, document: Any) -> bytes:
    wrapped = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": document}
    return json.dumps(wrapped if path == "/rpc" else document).encode()


@BINDINGS
@pytest.mark.requirement("order-size-media-type")
def test_the_size_is_checked_before_the_media_type(dealership: Dealership, path: str) -> None:
    answer = dealership.request("POST", path, content=b"x" * (256 * 1024 + 1), headers=TEXT)
    assert answer.status_code == 413
    assert dealership.request("POST", path, content=b"x", headers=TEXT).status_code == 415


@EACH_BINDING
@pytest.mark.requirement("order-media-type-rate")
@pytest.mark.usefixtures("limits_kept")
def test_media_type_before_the_rate_of_the_address(open_dealership: OpenDealership, path: str) -> None:
    """The response is the same below and above the rate. The request counts in both cases."""
    opened = open_dealership(TIGHT)
    for _ in range(3):
        assert opened.request("POST", path, content=b"x", headers=TEXT).status_code == 415
    assert opened.post(on(path, message("inventory.search")), path).status_code == 429


@EACH_BINDING
@pytest.mark.requirement("order-rate-token", "order-token-json")
@pytest.mark.usefixtures("limits_kept")
def test_the_rate_of_the_address_before_the_token_before_json(open_dealership: OpenDealership, path: str) -> None:
    opened = open_dealership(ALL_BEARER + TIGHT)
    assert error_of(opened.post(b"not json", path))["code"] == "AUTH_REQUIRED"
    assert error_of(opened.post(b"not json", path))["code"] == "RATE_LIMITED"
    assert error_of(opened.post(b"not json", path, token="wrong"))["code"] == "RATE_LIMITED"


@BINDINGS
@pytest.mark.requirement("order-json-envelope")
def test_json_is_checked_before_the_envelope(dealership: Dealership, path: str) -> None:
    error = error_of(dealership.post(b'{"message": {"role": "user"}', path))
    assert error["code"] == "SCHEMA_VALIDATION_FAILED"
    assert "JSON" in error["message"]


@BINDINGS
@pytest.mark.requirement("order-envelope-skill")
def test_the_envelope_is_checked_before_the_skill(dealership: Dealership, path: str) -> None:
    sent = message("inventory.search", type="no.such.request")
    assert error_of(dealership.post(on(path, sent), path))["code"] == "UNSUPPORTED_SKILL"
    del sent["message"]["messageId"]
    error = error_of(dealership.post(on(path, sent), path))
    assert (error["code"], error["details"]["in"]) == ("MISSING_REQUIRED_FIELD", "envelope")


@BINDINGS
@pytest.mark.requirement("order-skill-token")
def test_the_skill_is_checked_before_its_token(open_dealership: OpenDealership, path: str) -> None:
    skills = '[service]\nskills_off = ["inventory.facets"]\n[auth]\nmode = "bearer"\n'
    opened = open_dealership(skills + 'skills = ["lead.submit", "inventory.facets"]\n' + NO_LIMITS)
    for sent, code in (
        (message("inventory.search", type="no.such.request"), "UNSUPPORTED_SKILL"),
        (message("inventory.facets"), "UNSUPPORTED_SKILL"),
        (message("lead.submit"), "AUTH_REQUIRED"),
    ):
        assert error_of(opened.post(on(path, sent), path))["code"] == code


@EACH_BINDING
@pytest.mark.requirement("order-token-rate-of-skill")
@pytest.mark.usefixtures("limits_kept")
def test_the_token_and_the_rate_of_the_skill_before_the_payload(open_dealership: OpenDealership, path: str) -> None:
    rates = NO_LIMITS.replace('lead_submit = ""', 'lead_submit = "1/hour"')
    opened = open_dealership('[auth]\nmode = "bearer"\nskills = ["lead.submit"]\n' + rates)
    _, token = opened.new_token()
    bad = message("lead.submit", nickname="x")
    assert error_of(opened.post(on(path, bad), path))["code"] == "AUTH_REQUIRED"
    # A service reads the tokens at its start. A running service reads new ones within two seconds.
    with run_dealership(opened.folder) as again:
        assert error_of(again.post(on(path, bad), path, token=token))["code"] == "SCHEMA_VALIDATION_FAILED"
        assert again.post(on(path, message("lead.submit")), path, token=token).status_code == 200
        assert error_of(again.post(on(path, bad), path, token=token))["code"] == "RATE_LIMITED"


@BINDINGS
@pytest.mark.requirement("order-payload-consent", "order-consent-business")
def test_the_payload_before_consent_before_business_rules(dealership: Dealership, path: str) -> None:
    visit = (datetime.now(UTC) + timedelta(days=3)).isoformat()
    wish = {
        "vehicle_of_interest": {"vin": "NO SUCH VEHICLE"},
        "appointment": {"appointment_type": "test_drive", "appointment_at": visit},
    }
    sent = message("lead.submit")

    def code(**members: Any) -> str:
        sent["message"]["parts"][0]["data"] = {**lead(), **wish, **members}
        return str(error_of(dealership.post(on(path, sent), path))["code"])

    assert code() == "VEHICLE_NOT_FOUND"
    assert code(consent={}) == "CONTACT_CONSENT_REQUIRED"
    assert code(consent={}, nickname="x") == "SCHEMA_VALIDATION_FAILED"
