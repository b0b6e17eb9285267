"""The five skills over both bindings, in both vocabularies (specification 1, 2.1, 4; contract 1, 3)."""

import re
from pathlib import Path
from typing import Any

import pytest
from tests.protocol.bodies import STEMS, response_type
from tests.server.dealership import ACCORD, LOT, NO_LIMITS, SOLD, Dealership, error_of, message, on_the_air, set_up

ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
VENDORS = pytest.mark.parametrize("vendor", ["proto", "autoagent"])


def asked(skill: str, vendor: str = "proto") -> dict[str, Any]:
    return message(skill, vendor, **({"vin": ACCORD} if skill == "inventory.vehicle" else {}))


def spoken(answer: dict[str, Any], skill: str, vendor: str) -> None:
    """An agent's message of the specification's form, and nothing else in it."""
    assert set(answer) == {"message"}
    said = answer["message"]
    assert set(said) == {"messageId", "role", "parts"}
    assert said["role"] == "ROLE_AGENT"
    assert ULID.fullmatch(said["messageId"])
    (part,) = said["parts"]
    assert set(part) == {"data", "mediaType"}
    assert part["mediaType"] == response_type(skill, vendor)
    assert part["data"]["type"] == f"{skill}.response"
    assert isinstance(part["data"]["data"], dict)
    assert set(part["data"]) <= {"type", "data", "message"}


@pytest.mark.parametrize(
    "skill",
    [
        pytest.param(
            "dealer.information",
            marks=pytest.mark.requirement("spec-2.1-media-types-dealer-information", "spec-4-types-dealer-information"),
        ),
        pytest.param(
            "inventory.facets",
            marks=pytest.mark.requirement("spec-2.1-media-types-inventory-facets", "spec-4-types-inventory-facets"),
        ),
        pytest.param(
            "inventory.search",
            marks=pytest.mark.requirement("spec-2.1-media-types-inventory-search", "spec-4-types-inventory-search"),
        ),
        pytest.param(
            "inventory.vehicle",
            marks=pytest.mark.requirement("spec-2.1-media-types-inventory-vehicle", "spec-4-types-inventory-vehicle"),
        ),
        pytest.param(
            "lead.submit",
            marks=pytest.mark.requirement("spec-2.1-media-types-lead-submit", "spec-4-types-lead-submit"),
        ),
    ],
)
@VENDORS
@pytest.mark.requirement(
    "spec-1-five-skills",
    "spec-1-one-request-one-response",
    "spec-2.1-role",
    "spec-2.1-one-part",
    "spec-2.1-part-data",
    "spec-2.1-response-type-and-data",
    "spec-4-route",
    "spec-4-request-part",
    "spec-4-response-part",
    "spec-9-http-path",
    "spec-9-emits-v1-only",
    "contract-1-both-accepted-everywhere",
    "contract-1-reply-speaks-the-requests",
    "contract-2-reply-ulid",
    "contract-3-rpc-result",
    "contract-4-one-set-of-interfaces",
)
def test_a_skill_answers_over_both_bindings_in_the_requests_vocabulary(
    dealership: Dealership, skill: str, vendor: str
) -> None:
    answer = dealership.post(asked(skill, vendor))
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    spoken(answer.json(), skill, vendor)
    answer = dealership.call_rpc(asked(skill, vendor))
    assert answer.status_code == 200
    assert set(answer.json()) == {"jsonrpc", "id", "result"}
    assert (answer.json()["jsonrpc"], answer.json()["id"]) == ("2.0", 1)
    spoken(answer.json()["result"], skill, vendor)


@pytest.mark.requirement("spec-2.1-message-id-fresh", "contract-2-reply-ulid")
def test_every_reply_has_an_id_of_its_own_whatever_the_requests_was(dealership: Dealership) -> None:
    sent = asked("dealer.information")
    seen = {sent["message"]["messageId"]}
    for _ in range(5):
        reply_id = dealership.post(sent).json()["message"]["messageId"]
        assert reply_id not in seen
        seen.add(reply_id)
        sent["message"]["messageId"] = reply_id


@pytest.mark.requirement("contract-1-same-payloads")
@pytest.mark.parametrize("skill", [skill for skill in STEMS if skill != "lead.submit"])
def test_the_same_payload_gets_the_same_data_in_both_vocabularies_and_bindings(
    dealership: Dealership, skill: str
) -> None:
    bodies = [asked(skill, vendor) for vendor in ("proto", "autoagent")]
    replies = [dealership.post(each).json() for each in bodies]
    replies += [dealership.call_rpc(each).json()["result"] for each in bodies]
    data = [reply["message"]["parts"][0]["data"] for reply in replies]
    assert data[0] == data[1] == data[2] == data[3]


@pytest.mark.requirement("contract-2-context-id-repeated")
def test_a_context_id_comes_back_on_both_bindings(dealership: Dealership) -> None:
    sent = asked("dealer.information")
    sent["message"]["contextId"] = "context-1"
    assert dealership.post(sent).json()["message"]["contextId"] == "context-1"
    assert dealership.call_rpc(sent).json()["result"]["message"]["contextId"] == "context-1"


REFUSED: list[tuple[str, dict[str, Any], str, int, int, int]] = [
    ("inventory.search", {"filters": {"year_min": 1}}, "SCHEMA_VALIDATION_FAILED", 422, -32602, -32602),
    ("inventory.search", {"sort": {}}, "MISSING_REQUIRED_FIELD", 422, -32602, -32602),
    ("inventory.search", {"type": "inventory.order.request"}, "UNSUPPORTED_SKILL", 404, -32004, -32601),
    ("inventory.vehicle", {"vin": "NONE"}, "VEHICLE_NOT_FOUND", 404, -32000, -32000),
    ("inventory.vehicle", {"vin": SOLD}, "VEHICLE_UNAVAILABLE", 409, -32000, -32000),
    ("lead.submit", {"consent": {}}, "CONTACT_CONSENT_REQUIRED", 403, -32000, -32000),
    ("lead.submit", {"consent": {"scope": ["lead_submission"]}}, "INVALID_CONSENT", 403, -32000, -32000),
]


@pytest.mark.parametrize(("skill", "members", "code", "http", "rpc", "rpc_autoagent"), REFUSED)
@pytest.mark.requirement(
    "spec-4-failure-is-non-2xx",
    "spec-7-error-key",
    "spec-7-error-code",
    "spec-7-vehicle-not-found",
    "spec-7-vehicle-unavailable",
    "spec-7-contact-consent-required",
    "spec-7-invalid-consent",
    "contract-1-json-rpc-form",
    "contract-3-error-id",
    "contract-3-rpc-http-status",
    "contract-3-rpc-data",
    "contract-3-rpc-every-other-code",
    "contract-3-rpc-unsupported-skill",
)
@VENDORS
def test_a_skill_that_cannot_be_fulfilled_answers_the_error_of_its_code(
    dealership: Dealership,
    skill: str,
    members: dict[str, Any],
    code: str,
    http: int,
    rpc: int,
    rpc_autoagent: int,
    vendor: str,
) -> None:
    sent = message(skill, vendor)
    sent["message"]["parts"][0]["data"] |= members
    name = "proto.error" if vendor == "proto" else "aap.error"
    domain = "proto.example" if vendor == "proto" else "autoagentprotocol.org"

    answer = dealership.post(sent)
    assert answer.status_code == http
    assert answer.headers["content-type"] == "application/json"
    payload = error_of(answer)
    assert payload["code"] == code
    assert payload["@type"] == f"type.googleapis.com/{name}"
    assert answer.json()["error"]["details"][0]["domain"] == domain
    assert ULID.fullmatch(payload["error_id"].removeprefix("err_"))
    assert answer.json()["error"]["details"][0]["metadata"]["error_id"] == payload["error_id"]

    answer = dealership.call_rpc(sent)
    assert answer.status_code == 200
    error = answer.json()["error"]
    assert set(error) == {"code", "message", "data"}
    assert error["code"] == (rpc if vendor == "proto" else rpc_autoagent)
    assert isinstance(error["data"], list if vendor == "proto" else dict)
    assert ("@type" in error_of(answer)) is (vendor == "proto")
    assert (error_of(answer)["code"], error_of(answer)["type"]) == (code, name)


@pytest.mark.requirement("contract-1-default-speaks", "contract-1-domain", "contract-1-json-rpc-form")
def test_the_configured_default_speaks_where_the_request_tells_no_vocabulary(open_dealership: Any) -> None:
    for settings, name, domain in (
        ('[service]\nvocabulary = "autoagent"', "aap.error", "autoagentprotocol.org"),
        ('[service]\nerror_domain = "dealer.example"', "proto.error", "dealer.example"),
    ):
        opened = open_dealership(settings)
        answer = opened.post(b"{")
        assert error_of(answer)["type"] == name
        assert answer.json()["error"]["details"][0]["domain"] == domain
        assert error_of(opened.get("/nowhere"))["type"] == name
        data = opened.post(b"{", "/rpc").json()["error"]["data"]
        assert isinstance(data, list if name == "proto.error" else dict)


@pytest.mark.requirement(
    "spec-2.5-total", "spec-2.5-skip", "spec-2.5-limit", "spec-2.5-vehicles", "contract-7-no-facets"
)
def test_a_search_tells_total_skip_limit_and_the_vehicles_of_the_page(dealership: Dealership) -> None:
    page = dealership.ask("inventory.search", pagination={"skip": 3, "limit": 5})
    assert set(page) == {"total", "skip", "limit", "vehicles"}
    assert (page["total"], page["skip"], page["limit"], len(page["vehicles"])) == (len(LOT), 3, 5, 5)
    whole = dealership.ask("inventory.search", pagination={"limit": 100})
    assert page["vehicles"] == whole["vehicles"][3:8]


@pytest.mark.requirement("contract-7-default-page", "spec-2.4-paging-defaults", "spec-8-default-limit")
def test_the_default_page_is_the_first_twenty(dealership: Dealership) -> None:
    page = dealership.ask("inventory.search")
    assert (page["skip"], page["limit"], len(page["vehicles"])) == (0, 20, 20)


@pytest.mark.parametrize(("asked_for", "applied"), [(1, 1), (99, 99), (100, 100), (101, 100), (1000, 100)])
@pytest.mark.requirement("contract-7-cap", "spec-8-limit-cap")
def test_a_larger_page_is_applied_as_a_hundred(dealership: Dealership, asked_for: int, applied: int) -> None:
    page = dealership.ask("inventory.search", pagination={"limit": asked_for})
    assert (page["limit"], len(page["vehicles"])) == (applied, applied)


@pytest.mark.requirement("contract-7-skip-past-end")
def test_a_page_past_the_end_is_empty_with_the_true_total(dealership: Dealership) -> None:
    page = dealership.ask("inventory.search", pagination={"skip": 10_000})
    assert (page["total"], page["skip"], page["vehicles"]) == (len(LOT), 10_000, [])


@pytest.mark.requirement("spec-2.4-paging-defaults", "spec-8-default-limit", "spec-8-limit-cap")
def test_the_dealer_sets_default_and_cap(open_dealership: Any) -> None:
    opened = open_dealership("[search]\ndefault_limit = 7\nlimit_cap = 9")
    assert opened.ask("inventory.search")["limit"] == 7
    assert opened.ask("inventory.search", pagination={"limit": 50})["limit"] == 9


@pytest.mark.requirement("spec-2.5-vehicle-fields", "contract-6-extras-passed-through", "contract-6-absent-is-unknown")
def test_a_listing_has_what_the_feed_said_and_what_is_always_there(dealership: Dealership) -> None:
    (found,) = dealership.ask("inventory.search", filters={"vin": ACCORD})["vehicles"]
    sent = LOT[0]
    assert {name: found[name] for name in sent} == sent
    assert {"vehicle_id", "dealer_id", "status", "updated_at", "changed_at"} <= set(found)
    assert "msrp" not in found
    assert None not in found.values()
    assert dealership.ask("inventory.vehicle", vin=ACCORD.lower()) == found


@pytest.mark.requirement("contract-2-integers-sent-plain")
def test_integers_are_sent_without_a_fraction(dealership: Dealership) -> None:
    raw = dealership.post(message("inventory.search", pagination={"limit": 100})).content
    assert re.search(rb'"(price|year|mileage|total|skip|limit)":\d+[.eE]', raw) is None
    raw = dealership.post(message("inventory.search", filters={"make": ["Nissan"]})).content
    assert b'"electric_range_mi":226.5' in raw
    raw = dealership.post(message("inventory.facets")).content
    assert re.search(rb'"(count|min|max)":\d+\.0', raw) is None


@pytest.mark.requirement("contract-9-data-is-listing", "contract-9-zip-repeated", "contract-9-offered-price")
def test_with_a_zip_the_reply_repeats_it_and_has_the_areas_offer(dealership: Dealership) -> None:
    plain = dealership.ask("inventory.vehicle", vin=ACCORD)
    assert dealership.ask("inventory.vehicle", vin=ACCORD, zip="37203") == {
        **plain,
        "zip": "37203",
        "offered_price": 28000,
    }
    assert dealership.ask("inventory.vehicle", vin=ACCORD, zip="90210") == {**plain, "zip": "90210"}


@pytest.mark.requirement("contract-6-sold-not-shown", "contract-6-sold-remembered", "contract-9-vin-compared")
def test_a_sold_unit_is_not_shown_but_remembered(dealership: Dealership) -> None:
    assert dealership.ask("inventory.search", filters={"vin": SOLD})["total"] == 0
    assert "Ford" not in [each["value"] for each in dealership.ask("inventory.facets")["makes"]]
    assert error_of(dealership.post(message("inventory.vehicle", vin=SOLD.lower())))["code"] == "VEHICLE_UNAVAILABLE"
    assert error_of(dealership.post(message("inventory.vehicle", vin="X")))["code"] == "VEHICLE_NOT_FOUND"


@pytest.mark.requirement("contract-6-rooftop", "spec-2.4-filter-rooftops")
def test_every_listings_rooftop_is_one_of_dealer_information(dealership: Dealership) -> None:
    names = {rooftop["name"] for rooftop in dealership.ask("dealer.information")["rooftops"]}
    shown = {each["rooftop"] for each in dealership.ask("inventory.search", pagination={"limit": 100})["vehicles"]}
    assert shown <= names
    for name in names:
        found = dealership.ask("inventory.search", filters={"rooftops": [name]})
        assert found["total"] == sum(unit["rooftop"] == name for unit in LOT)


@pytest.mark.requirement("contract-5-payload-message")
def test_a_message_may_stand_beside_type_and_data(dealership: Dealership) -> None:
    payload = dealership.post(message("lead.submit")).json()["message"]["parts"][0]["data"]
    assert set(payload) == {"type", "data", "message"}
    assert isinstance(payload["message"], str)


@pytest.mark.requirement("contract-2-skill-off")
def test_a_skill_that_is_switched_off_is_unsupported_and_not_on_the_cards(open_dealership: Any) -> None:
    opened = open_dealership('[service]\nskills_off = ["lead.submit", "inventory.facets"]')
    for skill in STEMS:
        answer = opened.post(asked(skill))
        if skill in ("lead.submit", "inventory.facets"):
            assert (answer.status_code, error_of(answer)["code"]) == (404, "UNSUPPORTED_SKILL")
        else:
            assert answer.status_code == 200
    for path in ("/cards/1.0.0.json", "/cards/0.1.0.json", "/.well-known/agent-card.json"):
        card = opened.get(path).json()
        assert [each["id"] for each in card["skills"]] == [
            "dealer.information",
            "inventory.search",
            "inventory.vehicle",
        ]
        assert "lead-submit" not in opened.get(path).text
        assert "lead.submit" not in opened.get(path).text


@pytest.mark.requirement("contract-2-lenient-configuration")
def test_a_setting_takes_messages_without_a_configuration(open_dealership: Any, dealership: Dealership) -> None:
    sent = {"message": asked("dealer.information")["message"]}
    assert dealership.post(sent).status_code == 422
    opened = open_dealership("[service]\nlenient_configuration = true")
    assert opened.post(sent).status_code == 200
    assert opened.post({**sent, "configuration": {}}).status_code == 200
    assert opened.call_rpc(sent).json()["result"]


@pytest.mark.requirement("spec-2.4-sort-by-advertised-price", "spec-2.4-sort-unpriced-last")
def test_a_sort_by_price_goes_by_the_advertised_price_with_the_mandatory_charges_in_it(
    tmp_path: Path, stocked: Path
) -> None:
    set_up(tmp_path, stocked=stocked)
    file = tmp_path / "dealer.toml"
    south = 'name = "Test Motors South"\n'
    text = file.read_text().replace(south, south + 'fees = [{name = "Preparation", amount = 14000}]\n')
    file.write_text(text.replace('feed_price = "advertised"', 'feed_price = "before_fees"'))
    with on_the_air(tmp_path) as opened:
        for order, makes in (("asc", ["Honda", "Nissan"]), ("desc", ["Nissan", "Honda"])):
            page = opened.ask(
                "inventory.search", filters={"vehicle_type": ["car"]}, sort={"field": "price", "order": order}
            )
            assert [each["make"] for each in page["vehicles"]] == makes
            assert {each["make"]: (each["list_price"], each["price"]) for each in page["vehicles"]} == {
                "Honda": (28500, 28899),
                "Nissan": (15900, 29900),
            }
            last = opened.ask(
                "inventory.search",
                pagination={"skip": len(LOT) - 30},
                sort={"field": "price", "order": order},
            )
            assert all("price" not in each for each in last["vehicles"])
            assert last["vehicles"]


APPOINTMENTS: list[dict[str, Any]] = [
    {"requested_windows": [{"start": "2027-03-04T15:00:00-06:00", "end": "2027-03-04T17:00:00-06:00"}]},
    {"requested_windows": [{"start": "2027-03-04T15:00:00"}], "timezone": "America/Chicago"},
    {"appointment_at": "2027-03-04T15:00:00-06:00"},
    {"appointment_at": "2027-03-04T15:00:00Z", "timezone": "America/Chicago"},
]


@pytest.mark.parametrize("appointment", APPOINTMENTS)
@pytest.mark.parametrize("revision", ["1.0.0", "0.1.0"])
@pytest.mark.requirement(
    "contract-4-both-appointments-on-every-interface",
    "spec-2.7-appointment-0.1.0",
    "spec-2.7-appointment-1.0.0",
    "spec-9-both-revisions",
)
def test_both_forms_of_appointment_are_understood_on_every_interface(
    open_dealership: Any, appointment: dict[str, Any], revision: str
) -> None:
    opened = open_dealership(f'[service]\nrevision = "{revision}"\n' + NO_LIMITS)
    for vendor in ("proto", "autoagent"):
        sent = message(
            "lead.submit", vendor, appointment={"appointment_type": "sales", "duration_minutes": 30, **appointment}
        )
        replies = [opened.post(sent).json()["message"], opened.call_rpc(sent).json()["result"]["message"]]
        for reply in replies:
            assert reply["parts"][0]["data"]["data"]["appointment"]["status"] == "requested"
