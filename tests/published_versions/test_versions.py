"""What differs in a published version, row by row (docs/protocol.md#published-versions)."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.published_versions.schemas import needs_schemas
from tests.published_versions.talking import (
    ACTIVATION,
    BAD_REQUEST,
    ERROR_INFO,
    EXTENSION,
    INTERFACES,
    RELEASED,
    VERSIONS,
    Buyer,
    body,
    data,
    error_payload,
    response_payload,
)
from tests.server.conftest import OpenDealership
from tests.server.dealership import ACCORD, LEAF, LOT, Dealership, error_of, message

from dealer_agent.protocol.published_versions import PUBLISHED_VERSIONS
from dealer_agent.server.dealer_opener import admitted_callers

pytestmark = needs_schemas
every_version = pytest.mark.parametrize("version", VERSIONS)
every_interface = pytest.mark.parametrize(("version", "interface"), INTERFACES)
SKILLS = ("dealer.information", "inventory.facets", "inventory.search", "inventory.vehicle", "lead.submit")


@pytest.fixture
def buyer(published: Dealership, version: str) -> Buyer:
    return Buyer(published, version)


@every_interface
@pytest.mark.parametrize("skill", SKILLS)
@pytest.mark.requirement("version-addresses", "version-replies")
def test_every_skill_answers_at_every_address(published: Dealership, version: str, interface: str, skill: str) -> None:
    assert Buyer(published, version, interface).ask(skill)


@every_version
@pytest.mark.requirement("version-addresses")
def test_only_1_0_has_http_json(published: Dealership, version: str) -> None:
    answer = published.post(body(data(version, "dealer.information")), f"/aap/{version}/message:send")
    assert answer.status_code == (200 if version == "1.0" else 404)


@pytest.mark.parametrize(
    ("served", "named"), [((), RELEASED), (("next",), ("next",)), (("1.1", "1.3"), ("1.1", "1.3")), ((None,), ())]
)
@pytest.mark.requirement("versions-served")
def test_a_setting_says_which_versions_have_addresses(
    open_dealership: OpenDealership, served: tuple[str | None, ...], named: tuple[str, ...]
) -> None:
    names = json.dumps([name for name in served if name])
    opened = open_dealership(f"[published_versions]\nserved = {names}\n" if served else "")
    for version in VERSIONS:
        expected = 200 if version in named else 404
        assert opened.get(f"/aap/{version}/.well-known/agent-card.json").status_code == expected
        sent = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": body(data(version, "dealer.information"))}
        assert opened.post(sent, f"/aap/{version}/rpc", headers=ACTIVATION).status_code == expected


@every_version
@pytest.mark.requirement("version-vocabulary")
def test_a_version_has_one_vocabulary(buyer: Buyer, version: str) -> None:
    sent = message("inventory.search", "proto")
    error = buyer.ask_raw(sent).json()["error"]
    assert error["code"] == (-32005 if version == "next" else -32602)


@pytest.mark.requirement("version-root-unchanged")
def test_the_root_accepts_what_it_accepted_before(published: Dealership) -> None:
    answer = published.ask("inventory.vehicle", "autoagent", vin=ACCORD.lower(), zip="37203")
    assert (answer["offered_price"], "changed_at" in answer) == (28000, True)
    filters = {"vehicle_type": ["trailer"]}
    assert published.ask("inventory.search", "autoagent", filters=filters)["total"] == 120
    assert "vehicle_types" in published.ask("inventory.facets", "autoagent")


NEW_FILTERS: dict[str, Any] = {
    "vehicle_type": ["motorcycle"],
    "displacement_cc_min": 1000,
    "displacement_cc_max": 2000,
    "electric_range_mi_min": 100,
    "electric_range_mi_max": 200,
    "dc_fast_charge": True,
    "charge_port": ["nacs"],
}
NEW_FACETS = {"vehicle_types", "dc_fast_charge", "charge_ports", "displacement_cc_range", "electric_range_mi_range"}


@every_version
@pytest.mark.parametrize("skill", ["inventory.search", "inventory.facets"])
@pytest.mark.requirement("version-requests")
def test_filters_of_vehicle_types_and_electric_cars_begin_with_1_2(buyer: Buyer, version: str, skill: str) -> None:
    if version not in ("1.0", "1.1"):
        buyer.ask(skill, filters=NEW_FILTERS)
        return
    error = buyer.refuse(data(version, skill, filters=NEW_FILTERS))
    assert error["code"] == "SCHEMA_VALIDATION_FAILED"
    found = {(entry["instanceLocation"], entry["keyword"]) for entry in error["details"]["errors"]}
    assert found == {(f"/filters/{name}", "additionalProperties") for name in NEW_FILTERS}


@every_version
@pytest.mark.requirement("version-replies")
def test_facets_and_members_of_later_versions_are_left_out(buyer: Buyer, version: str) -> None:
    assert set(buyer.ask("inventory.facets")) & NEW_FACETS == (set() if version in ("1.0", "1.1") else NEW_FACETS)
    listing = buyer.ask("inventory.vehicle", vin=LEAF)
    electric = {"dc_fast_charge", "charge_port"}
    assert electric & set(listing) == (set() if version in ("1.0", "1.1") else electric)
    # The first version has this member too.
    assert listing["electric_range_mi"] == 226.5


@every_version
@pytest.mark.requirement("version-replies")
def test_fees_begin_with_1_3(buyer: Buyer, version: str) -> None:
    has_fees = version in ("1.3", "next")
    north, south, *_ = buyer.ask("dealer.information")["rooftops"]
    assert ("fees" in north) is has_fees
    assert "fees" not in south
    listing = buyer.ask("inventory.vehicle", vin=ACCORD)
    assert listing.get("fees") == ([{"name": "Documentation fee", "amount": 399}] if has_fees else None)
    assert listing["price"] == 28500


@every_version
@pytest.mark.requirement("version-replies")
def test_a_value_that_the_version_does_not_allow_is_left_out(buyer: Buyer, version: str) -> None:
    listing = response_payload(buyer.ask_raw(body({"type": "inventory.vehicle.request", "stock": "O-1"})))["data"]
    assert listing["price"] == 90000
    assert not {"vin", "year", "vdp_url", "zip", "offered_price"} & set(listing)
    assert listing["photos"] == ["https://example.com/ok.jpg"]


@every_version
@pytest.mark.requirement("version-replies")
def test_a_reply_keeps_members_of_the_feed_that_the_schema_does_not_name(buyer: Buyer, version: str) -> None:
    assert buyer.ask("inventory.vehicle", vin=ACCORD)["lot_row"] == LOT[0]["lot_row"]


@every_version
@pytest.mark.parametrize("vin", [ACCORD.lower(), "1HGCY2F57RA00000", "1HGCY2F57RA0000O1", ""])
@pytest.mark.requirement("version-identifiers")
def test_a_vin_has_the_published_pattern(buyer: Buyer, version: str, vin: str) -> None:
    error = buyer.refuse(data(version, "inventory.vehicle", vin=vin))
    (entry,) = error["details"]["errors"]
    assert (entry["instanceLocation"], entry["keyword"]) == ("/vin", "pattern")


@every_version
@pytest.mark.parametrize("phone", ["+1 202 555 0123", "2025550123", "+02025550123", "+12025550123x", "+1-202-555-0123"])
@pytest.mark.requirement("version-identifiers")
def test_a_phone_number_has_the_published_pattern(buyer: Buyer, version: str, phone: str) -> None:
    person = {"first_name": "Robin", "last_name": "Example", "phone": phone}
    error = buyer.refuse(data(version, "lead.submit", customer=person))
    assert {"/customer/phone"} == {entry["instanceLocation"] for entry in error["details"]["errors"]}


@every_version
@pytest.mark.parametrize("member", ["vehicle_of_interest", "trade_in"])
@pytest.mark.requirement("version-identifiers")
def test_the_vin_of_a_lead_has_the_published_pattern(buyer: Buyer, version: str, member: str) -> None:
    error = buyer.refuse(data(version, "lead.submit", **{member: {"vin": "short"}}))
    assert error["details"]["errors"][0]["instanceLocation"] == f"/{member}/vin"


@every_version
@pytest.mark.requirement("version-area-prices")
def test_prices_of_an_area_are_only_in_1_0(buyer: Buyer, version: str) -> None:
    sent = data(version, "inventory.vehicle", vin=ACCORD, zip="37203")
    by_offer = data(version, "inventory.search", sort={"field": "offered_price", "order": "desc"})
    if version == "1.0":
        listing = response_payload(buyer.ask_raw(body(sent)))["data"]
        assert (listing["zip"], listing["offered_price"]) == ("37203", 28000)
        prices = [each["price"] for each in response_payload(buyer.ask_raw(body(by_offer)))["data"]["vehicles"]]
        assert prices == sorted(prices, reverse=True)
        assert "zip" not in buyer.ask("inventory.vehicle", vin=ACCORD, zip="near me")
        return
    assert buyer.refuse(sent)["details"]["instancePath"] == "/zip"
    assert buyer.refuse(by_offer)["details"]["instancePath"] == "/sort/field"


AGENT = {"name": "example-agent", "agent_card_url": "https://agent.example.com/card.json"}


@every_version
@pytest.mark.parametrize(
    ("agent", "is_text", "is_object"),
    [
        ("example-agent", True, False),
        (AGENT, False, True),
        ("", False, False),
        ({"url": "https://agent.example.com"}, False, False),
        (AGENT | {"version": "1"}, False, False),
        (AGENT | {"url": "not a URL"}, False, False),
        (None, False, False),
    ],
)
@pytest.mark.requirement("version-source-agent")
def test_the_agent_is_a_text_in_1_0_and_a_closed_object_later(
    buyer: Buyer, version: str, agent: object, is_text: bool, is_object: bool
) -> None:
    sent = data(version, "lead.submit", source_agent=agent)
    if is_text if version == "1.0" else is_object:
        assert response_payload(buyer.ask_raw(body(sent)))["data"]["lead_id"]
    else:
        assert buyer.refuse(sent)["details"]["instancePath"].startswith("/source_agent")


@every_version
@pytest.mark.parametrize(
    "scope", [None, [], ["newsletter"], ["lead_submission", "newsletter"], ["lead_submission"] * 2, "lead_submission"]
)
@pytest.mark.requirement("version-consent")
def test_the_scope_of_a_consent_is_exact(buyer: Buyer, version: str, scope: object) -> None:
    sent = data(version, "lead.submit")
    sent["consent"]["scope"] = scope
    if scope is None:
        del sent["consent"]["scope"]
    assert buyer.refuse(sent)["code"] == "INVALID_CONSENT"


@every_version
@pytest.mark.requirement("version-consent")
def test_the_agent_of_a_consent_is_required_in_1_0_and_forbidden_later(buyer: Buyer, version: str) -> None:
    sent = data(version, "lead.submit")
    if version == "1.0":
        del sent["consent"]["source_agent"]
    else:
        sent["consent"]["source_agent"] = "example-agent"
    error = buyer.refuse(sent)
    assert (error["code"], error["details"]["instancePath"]) == ("INVALID_CONSENT", "/consent/source_agent")


@every_version
@pytest.mark.requirement("version-consent")
def test_a_channel_of_a_consent_is_named_once(buyer: Buyer, version: str) -> None:
    sent = data(version, "lead.submit")
    sent["consent"]["allowed_channels"] = ["email", "email"]
    error = buyer.refuse(sent)
    assert (error["code"], error["details"]["instancePath"]) == ("INVALID_CONSENT", "/consent/allowed_channels")


@every_version
@pytest.mark.requirement("version-consent")
def test_a_lead_without_consent_asks_for_it(buyer: Buyer, version: str) -> None:
    sent = data(version, "lead.submit")
    del sent["consent"]
    assert buyer.refuse(sent)["code"] == "CONTACT_CONSENT_REQUIRED"


@every_interface
@pytest.mark.parametrize(
    ("member", "condition", "code"),
    [
        ("vehicle_of_interest", "good", "INVALID_CONDITION"),
        ("trade_in", "cpo", "INVALID_CONDITION"),
        ("vehicle_of_interest", "shiny", "SCHEMA_VALIDATION_FAILED"),
        ("trade_in", 5, "SCHEMA_VALIDATION_FAILED"),
    ],
)
@pytest.mark.requirement("version-condition")
def test_a_condition_of_the_wrong_list_has_a_code_of_its_own(
    published: Dealership, version: str, interface: str, member: str, condition: object, code: str
) -> None:
    answer = Buyer(published, version, interface).ask_raw(
        body(data(version, "lead.submit", **{member: {"condition": condition}}))
    )
    assert error_payload(answer)["code"] == code
    assert answer.json()["error"]["code"] == (-32602 if interface == "rpc" else 422)


@every_version
@pytest.mark.requirement("version-condition")
def test_a_wrong_condition_beside_another_defect_is_a_schema_defect(buyer: Buyer, version: str) -> None:
    sent = data(version, "lead.submit", vehicle_of_interest={"condition": "good"}, unheard_of=1)
    error = buyer.refuse(sent)
    assert error["code"] == "SCHEMA_VALIDATION_FAILED"
    places = [entry["instanceLocation"] for entry in error["details"]["errors"]]
    assert places == ["/unheard_of", "/vehicle_of_interest/condition"]


@every_version
@pytest.mark.parametrize(
    ("value", "place"),
    [
        ("a", None), (1.5, None), (True, None), ([1, 2.5], None), (["a", "b"], None), ([], None),
        (["a", 2], "/1"), ([2, "a", True], "/0"), ([[]], "/0"), ({}, ""), (["a"] * 101, ""), (["a" * 2001], "/0"),
    ],
)  # fmt: skip
@pytest.mark.requirement("version-requests")
def test_other_attributes_of_a_lead_may_be_arrays(buyer: Buyer, version: str, value: object, place: str | None) -> None:
    sent = data(version, "lead.submit", trade_in={"other_attributes": {"x": value}})
    if place is None:
        assert response_payload(buyer.ask_raw(body(sent)))["data"]["lead_id"]
    else:
        problem = buyer.refuse(sent)["details"]["errors"][0]
        assert problem["instanceLocation"] == f"/trade_in/other_attributes/x{place}"


@every_version
@pytest.mark.requirement("version-test-drive")
def test_a_test_drive_needs_a_vehicle(buyer: Buyer, version: str) -> None:
    error = buyer.refuse(data(version, "lead.submit", appointment={"appointment_type": "test_drive"}))
    assert error["code"] == "MISSING_REQUIRED_FIELD"
    assert error["details"]["errors"] == [
        {"instanceLocation": "/vehicle_of_interest", "keyword": "required", "error": "is required for a test drive"}
    ]


@every_version
@pytest.mark.parametrize(
    "appointment",
    [
        {"appointment_type": "showroom_visit"},
        {"appointment_type": "sales", "requested_windows": [{"start": "2030-01-01T10:00:00Z"}]},
        {"appointment_type": "sales", "timezone": "America/Chicago"},
    ],
)
@pytest.mark.requirement("version-appointments")
def test_an_appointment_has_one_form(buyer: Buyer, version: str, appointment: dict[str, Any]) -> None:
    assert buyer.refuse(data(version, "lead.submit", appointment=appointment))["code"] == "SCHEMA_VALIDATION_FAILED"


@every_version
@pytest.mark.parametrize("at", ["soon", "past", "none"])
@pytest.mark.requirement("version-appointments")
def test_an_appointment_of_a_reply_has_four_members(buyer: Buyer, version: str, at: str) -> None:
    day = datetime.now(UTC).replace(hour=18, minute=0, second=0, microsecond=0) + timedelta(days=3)
    times = {"soon": day.isoformat(), "past": "2020-01-01T10:00:00Z"}
    asked = {"appointment_type": "test_drive"} | ({"appointment_at": times[at]} if at in times else {})
    person = {"first_name": "Robin", "last_name": "Example", "email": f"robin-{version}-{at}@example.com"}
    # Each version has its own vehicle, because a test drive takes the vehicle.
    vehicle = {"stock": f"T-{100 + VERSIONS.index(version)}"}
    sent: dict[str, Any] = {"customer": person, "vehicle_of_interest": vehicle, "appointment": asked}
    found = buyer.ask("lead.submit", **sent)["appointment"]
    status, member = {
        "soon": ("confirmed", {"confirmed_at"}),
        "past": ("proposed", {"proposed_times"}),
        "none": ("requested", set()),
    }[at]
    assert found["status"] == status
    assert set(found) == {"appointment_id", "status"} | member


@every_interface
@pytest.mark.requirement("version-no-auth-required")
def test_a_missing_or_wrong_token_is_a_401(open_dealership: OpenDealership, version: str, interface: str) -> None:
    opened = open_dealership(f'[auth]\nmode = "bearer"\n[published_versions]\nserved = ["{version}"]\n')
    buyer = Buyer(opened, version, interface)
    for token in (None, "wrong"):
        answer = buyer.ask_raw(body(data(version, "dealer.information")), token=token)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert "token" in answer.text
    _, text = opened.new_token()
    # The running service learns of a new token a moment later.
    opened.service.tokens = opened.service.tokens if opened.service.tokens.owner(text) else _tokens_now(opened)
    assert buyer.ask("dealer.information", token=text)["name"] == "Test Motors"


def _tokens_now(opened: Dealership) -> Any:
    with opened.store() as store, store.read("test-motors") as tx:
        return admitted_callers(tx).tokens


@pytest.mark.parametrize("version", RELEASED)
@pytest.mark.requirement("version-errors")
def test_error_data_is_the_payload_with_all_problems(buyer: Buyer, version: str) -> None:
    sent = data(version, "inventory.search", filters={"year_min": "new", "colour": ["red"]}, pagination={"limit": 0})
    error = buyer.ask_raw(body(sent)).json()["error"]
    assert error["code"] == -32602
    assert set(error["data"]) == {"type", "error_id", "code", "message", "retryable", "details", "created_at"}
    assert error["data"]["type"] == "aap.error"
    assert [tuple(entry.values())[:2] for entry in error["data"]["details"]["errors"]] == [
        ("/filters/colour", "additionalProperties"),
        ("/filters/year_min", "type"),
        ("/pagination/limit", "minimum"),
    ]


@pytest.mark.requirement("version-errors")
def test_errors_of_http_json_have_the_closed_payload(published: Dealership) -> None:
    answer = Buyer(published, "1.0", "message:send").ask_raw(body(data("1.0", "inventory.vehicle", vin="x")))
    info, payload = answer.json()["error"]["details"]
    assert (info["@type"], info["domain"], "@type" in payload) == (ERROR_INFO, "autoagentprotocol.org", False)


@pytest.mark.requirement("version-next-errors")
def test_error_data_of_the_draft_is_an_array_of_typed_details(published: Dealership) -> None:
    sent = data("next", "inventory.search", filters={"year_min": "new", "make": [1]})
    info, bad, payload = Buyer(published, "next").ask_raw(body(sent)).json()["error"]["data"]
    assert (info["@type"], bad["@type"]) == (ERROR_INFO, BAD_REQUEST)
    assert payload["@type"] == "https://autoagentprotocol.org/extensions/aap/error"
    assert (
        info["metadata"].items()
        >= {
            "error_id": payload["error_id"],
            "retryable": "false",
            "created_at": payload["created_at"],
            "code": "SCHEMA_VALIDATION_FAILED",
        }.items()
    )
    assert bad["fieldViolations"] == [
        {"field": "filters.make[0]", "description": "must be a string"},
        {"field": "filters.year_min", "description": "must be an integer"},
    ]
    gone = data("next", "inventory.vehicle", vin="1HGCY2F57RA999999")
    info, payload = Buyer(published, "next").ask_raw(body(gone)).json()["error"]["data"]
    assert (info["reason"], payload["code"]) == ("VEHICLE_NOT_FOUND", "VEHICLE_NOT_FOUND")


METHODS = {
    "GetTask": -32004,
    "CancelTask": -32004,
    "ListTasks": -32004,
    "SubscribeToTask": -32004,
    "SendStreamingMessage": -32004,
    "GetExtendedAgentCard": -32004,
    "CreateTaskPushNotificationConfig": -32003,
    "message/send": -32601,
    "Sing": -32601,
}


@every_version
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.requirement("version-numbers")
def test_other_methods_have_the_numbers_of_the_version(buyer: Buyer, version: str, method: str) -> None:
    answer = buyer.send({"jsonrpc": "2.0", "id": 7, "method": method, "params": {"id": "task-1"}}).json()
    assert answer["id"] == 7
    assert answer["error"]["code"] == (METHODS[method] if version == "next" else -32601)


@every_version
@pytest.mark.requirement("version-numbers")
def test_an_unknown_skill_has_the_number_of_the_version(buyer: Buyer, version: str) -> None:
    sent = body(data(version, "inventory.search"))
    sent["message"]["parts"][0]["data"] = {"type": "lead.haiku.request"}
    error = buyer.ask_raw(sent)
    assert error_payload(error)["code"] == "UNSUPPORTED_SKILL"
    assert error.json()["error"]["code"] == (-32004 if version == "next" else -32601)


def _wrong_media(kind: str, version: str) -> dict[str, Any]:
    sent = body(data(version, "inventory.search"))
    part = sent["message"]["parts"][0]
    match kind:
        case "part":
            part["mediaType"] = "application/json"
        case "modes":
            sent["configuration"]["acceptedOutputModes"] = ["text/html"]
        case "parts":
            sent["message"]["parts"] = [{"text": "a car", "mediaType": "text/plain"}]
    return sent


@every_version
@pytest.mark.parametrize("kind", ["part", "modes", "parts"])
@pytest.mark.requirement("version-numbers")
def test_an_unsupported_media_type_has_the_number_of_the_version(buyer: Buyer, version: str, kind: str) -> None:
    answer = buyer.ask_raw(_wrong_media(kind, version))
    assert (answer.status_code, answer.json()["error"]["code"]) == (200, -32005 if version == "next" else -32602)


@pytest.mark.requirement("version-numbers")
def test_an_unsupported_media_type_over_http_json_is_a_schema_defect(published: Dealership) -> None:
    for kind in ("part", "modes", "parts"):
        answer = Buyer(published, "1.0", "message:send").ask_raw(_wrong_media(kind, "1.0"))
        assert (answer.status_code, error_payload(answer)["code"]) == (422, "SCHEMA_VALIDATION_FAILED")


@every_interface
@pytest.mark.requirement("version-numbers")
def test_too_many_requests_have_the_number_of_the_version(
    open_dealership: OpenDealership, version: str, interface: str
) -> None:
    opened = open_dealership(
        f'[rate_limits]\ninventory_search = "1/hour"\n[published_versions]\nserved = ["{version}"]'
    )
    buyer = Buyer(opened, version, interface)
    buyer.ask("inventory.search")
    answer = buyer.ask_raw(body(data(version, "inventory.search")))
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) > 0
    error = answer.json()["error"]["code"]
    assert error == (429 if interface != "rpc" else -32000 if version == "next" else -32002)
    assert error_payload(answer)["retryable"] is True


@pytest.mark.parametrize("version", RELEASED)
@pytest.mark.requirement("version-activation")
def test_a_released_version_needs_no_header(buyer: Buyer, version: str) -> None:
    sent = body(data(version, "dealer.information"))
    for headers in ({}, {"a2a-version": "1.0"}, {"a2a-extensions": "https://example.com/other"}):
        assert response_payload(buyer.ask_raw(sent, headers=headers))


@every_version
@pytest.mark.requirement("version-activation", "version-errors")
def test_another_version_of_a2a_is_refused(buyer: Buyer, version: str) -> None:
    answer = buyer.ask_raw(body(data(version, "dealer.information")), headers={"a2a-version": "0.3"})
    assert answer.json()["error"]["code"] == -32009


@pytest.mark.parametrize(
    ("headers", "number"),
    [
        ({}, -32009),
        ({"a2a-extensions": EXTENSION}, -32009),
        ({"a2a-version": ""}, -32009),
        ({"a2a-version": "1.0"}, -32008),
        ({"a2a-version": "1.0", "a2a-extensions": "https://example.com/other"}, -32008),
        ({"a2a-version": "1.0", "a2a-extensions": f"https://example.com/other, {EXTENSION}"}, None),
        (ACTIVATION, None),
    ],
)
@pytest.mark.requirement("version-activation")
def test_the_draft_needs_both_headers(published: Dealership, headers: dict[str, str], number: int | None) -> None:
    params = body(data("next", "dealer.information"))
    sent = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
    answer = published.post(sent, "/aap/next/rpc", headers=headers)
    if number is None:
        assert answer.json()["result"]
        assert answer.headers["a2a-extensions"] == EXTENSION
        return
    error = answer.json()["error"]
    assert error["code"] == number
    (info,) = error["data"]
    if number == -32008:
        assert EXTENSION in error["message"]
        assert "A2A-Extensions" in error["message"]
        assert info["reason"] == "EXTENSION_SUPPORT_REQUIRED"
        assert info["metadata"].items() >= {"extensionUri": EXTENSION, "requiredHeader": "A2A-Extensions"}.items()


@every_version
@pytest.mark.requirement("version-activation")
def test_a_reply_names_the_extension_of_the_version(buyer: Buyer, version: str) -> None:
    uris = [each.extension_uri for each in PUBLISHED_VERSIONS.values()]
    answer = buyer.ask_raw(body(data(version, "dealer.information")), headers={"a2a-extensions": ", ".join(uris)})
    assert answer.headers["a2a-extensions"] == PUBLISHED_VERSIONS[version].extension_uri  # type: ignore[index]


@every_version
@pytest.mark.requirement("version-errors")
def test_a_task_is_unknown_in_every_version(buyer: Buyer, version: str) -> None:
    sent = body(data(version, "dealer.information"))
    sent["message"]["taskId"] = "task-1"
    assert buyer.ask_raw(sent).json()["error"]["code"] == -32001


@every_version
@pytest.mark.requirement("version-errors")
def test_a_broken_call_has_the_numbers_of_json_rpc(buyer: Buyer, version: str) -> None:
    for content, number in ((b"{", -32700), (b"[]", -32600), (b'{"jsonrpc":"2.0","method":"SendMessage"}', -32600)):
        assert buyer.send(content).json()["error"]["code"] == number


@pytest.mark.requirement("no-extension-of-0-1-0")
def test_no_card_names_the_extension_of_public_v0_1(published: Dealership) -> None:
    paths = ["/cards/0.1.0.json", "/cards/1.0.0.json", *(f"/aap/{v}/.well-known/agent-card.json" for v in VERSIONS)]
    for path in paths:
        assert "autoagentprotocol.org/extensions/a2a-automotive-retail/v0" not in published.get(path).text
    extensions = published.get("/cards/0.1.0.json").json()["capabilities"]["extensions"]
    assert [each["uri"] for each in extensions] == ["https://proto.example/extensions/a2a-automotive-retail/v0.1"]


@pytest.mark.requirement("version-root-unchanged")
def test_the_error_of_the_root_is_still_that_of_the_root(published: Dealership) -> None:
    error = error_of(published.call_rpc(message("lead.submit", "autoagent", trade_in={"condition": "cpo"})))
    assert (error["code"], error["details"]["errors"][0]["instancePath"]) == (
        "SCHEMA_VALIDATION_FAILED",
        "/trade_in/condition",
    )
