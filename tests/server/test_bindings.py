"""The five skills over both bindings, in both vocabularies (docs/protocol.md)."""

import re
from pathlib import Path
from typing import Any

import pytest
from tests.protocol.bodies import STEMS, response_type
from tests.server.dealership import ACCORD, LOT, NO_LIMITS, SOLD, Dealership, error_of, message, run_dealership, set_up

ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
VENDORS = pytest.mark.parametrize("vendor", ["proto", "autoagent"])


def asked(skill: str, vendor: str = "proto") -> dict[str, Any]:
    return message(skill, vendor, **({"vin": ACCORD} if skill == "inventory.vehicle" else {}))


def spoken(answer: dict[str, Any], skill: str, vendor: str) -> None:
    """An agent's message in the documented form, and nothing else."""
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
            marks=pytest.mark.requirement("media-types-dealer-information", "types-dealer-information"),
        ),
        pytest.param(
            "inventory.facets",
            marks=pytest.mark.requirement("media-types-inventory-facets", "types-inventory-facets"),
        ),
        pytest.param(
            "inventory.search",
            marks=pytest.mark.requirement("media-types-inventory-search", "types-inventory-search"),
        ),
        pytest.param(
            "inventory.vehicle",
            marks=pytest.mark.requirement("media-types-inventory-vehicle", "types-inventory-vehicle"),
        ),
        pytest.param(
            "lead.submit",
            marks=pytest.mark.requirement("media-types-lead-submit", "types-lead-submit"),
        ),
    ],
)
@VENDORS
@pytest.mark.requirement(
    "five-skills",
    "one-request-one-response",
    "message-role",
    "one-data-part",
    "data-part-members",
    "reply-type-and-data",
    "message-send",
    "request-part",
    "reply-part",
    "http-path",
    "emits-v1-only",
    "both-vocabularies-accepted",
    "reply-vocabulary",
    "reply-message-id",
    "rpc-result",
    "one-set-of-interfaces",
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


@pytest.mark.requirement("reply-message-id")
def test_every_reply_has_a_new_id(dealership: Dealership) -> None:
    sent = asked("dealer.information")
    seen = {sent["message"]["messageId"]}
    for _ in range(5):
        reply_id = dealership.post(sent).json()["message"]["messageId"]
        assert reply_id not in seen
        seen.add(reply_id)
        sent["message"]["messageId"] = reply_id


@pytest.mark.requirement("same-payloads")
@pytest.mark.parametrize("skill", [skill for skill in STEMS if skill != "lead.submit"])
def test_both_vocabularies_and_bindings_give_the_same_data(dealership: Dealership, skill: str) -> None:
    bodies = [asked(skill, vendor) for vendor in ("proto", "autoagent")]
    replies = [dealership.post(each).json() for each in bodies]
    replies += [dealership.call_rpc(each).json()["result"] for each in bodies]
    data = [reply["message"]["parts"][0]["data"] for reply in replies]
    assert data[0] == data[1] == data[2] == data[3]


@pytest.mark.requirement("context-id")
def test_a_reply_repeats_the_context_id_on_both_bindings(dealership: Dealership) -> None:
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
    "failure-is-not-2xx",
    "error-key",
    "error-code-is-status",
    "error-vehicle-not-found",
    "error-vehicle-unavailable",
    "error-contact-consent-required",
    "error-invalid-consent",
    "vocabulary-json-rpc-form",
    "error-id",
    "rpc-http-status",
    "rpc-error-data",
    "rpc-every-other-code",
    "rpc-unsupported-skill",
)
@VENDORS
def test_a_skill_that_fails_answers_with_its_error_code(
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


@pytest.mark.requirement("default-vocabulary", "vocabulary-domain", "vocabulary-json-rpc-form")
def test_the_configured_vocabulary_is_used_for_requests_without_one(open_dealership: Any) -> None:
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


@pytest.mark.requirement("search-total", "search-skip", "search-limit", "search-vehicles", "no-facets-in-search")
def test_a_search_answers_with_total_skip_limit_and_vehicles(dealership: Dealership) -> None:
    page = dealership.ask("inventory.search", pagination={"skip": 3, "limit": 5})
    assert set(page) == {"total", "skip", "limit", "vehicles"}
    assert (page["total"], page["skip"], page["limit"], len(page["vehicles"])) == (len(LOT), 3, 5, 5)
    whole = dealership.ask("inventory.search", pagination={"limit": 100})
    assert page["vehicles"] == whole["vehicles"][3:8]


@pytest.mark.requirement("default-page", "paging-defaults", "default-limit")
def test_the_default_page_is_the_first_twenty(dealership: Dealership) -> None:
    page = dealership.ask("inventory.search")
    assert (page["skip"], page["limit"], len(page["vehicles"])) == (0, 20, 20)


@pytest.mark.parametrize(("asked_for", "applied"), [(1, 1), (99, 99), (100, 100), (101, 100), (1000, 100)])
@pytest.mark.requirement("page-cap-echoed", "page-cap")
def test_a_larger_limit_is_reduced_to_100(dealership: Dealership, asked_for: int, applied: int) -> None:
    page = dealership.ask("inventory.search", pagination={"limit": asked_for})
    assert (page["limit"], len(page["vehicles"])) == (applied, applied)


@pytest.mark.requirement("skip-past-end")
def test_a_page_past_the_end_is_empty_and_has_the_total(dealership: Dealership) -> None:
    page = dealership.ask("inventory.search", pagination={"skip": 10_000})
    assert (page["total"], page["skip"], page["vehicles"]) == (len(LOT), 10_000, [])


@pytest.mark.requirement("paging-defaults", "default-limit", "page-cap")
def test_the_dealer_sets_default_and_cap(open_dealership: Any) -> None:
    opened = open_dealership("[search]\ndefault_limit = 7\nlimit_cap = 9")
    assert opened.ask("inventory.search")["limit"] == 7
    assert opened.ask("inventory.search", pagination={"limit": 50})["limit"] == 9


@pytest.mark.requirement("listing-fields", "extras-passed-through", "absent-is-unknown")
def test_a_listing_has_the_values_of_the_feed_and_the_required_members(dealership: Dealership) -> None:
    (found,) = dealership.ask("inventory.search", filters={"vin": ACCORD})["vehicles"]
    sent = LOT[0]
    assert {name: found[name] for name in sent} == sent
    assert {"vehicle_id", "dealer_id", "status", "updated_at", "changed_at"} <= set(found)
    assert "msrp" not in found
    assert None not in found.values()
    assert dealership.ask("inventory.vehicle", vin=ACCORD.lower()) == found


@pytest.mark.requirement("integers-sent-plain")
def test_integers_are_sent_without_a_fraction(dealership: Dealership) -> None:
    raw = dealership.post(message("inventory.search", pagination={"limit": 100})).content
    assert re.search(rb'"(price|year|mileage|total|skip|limit)":\d+[.eE]', raw) is None
    raw = dealership.post(message("inventory.search", filters={"make": ["Nissan"]})).content
    assert b'"electric_range_mi":226.5' in raw
    raw = dealership.post(message("inventory.facets")).content
    assert re.search(rb'"(count|min|max)":\d+\.0', raw) is None


@pytest.mark.requirement("vehicle-reply-listing", "zip-repeated", "offered-price")
def test_a_reply_for_a_zip_code_repeats_it_and_has_the_offer_of_the_area(dealership: Dealership) -> None:
    plain = dealership.ask("inventory.vehicle", vin=ACCORD)
    assert dealership.ask("inventory.vehicle", vin=ACCORD, zip="37203") == {
        **plain,
        "zip": "37203",
        "offered_price": 28000,
    }
    assert dealership.ask("inventory.vehicle", vin=ACCORD, zip="90210") == {**plain, "zip": "90210"}


@pytest.mark.requirement("sold-not-shown", "sold-remembered", "vin-compared")
def test_a_sold_vehicle_is_not_listed_but_still_known(dealership: Dealership) -> None:
    assert dealership.ask("inventory.search", filters={"vin": SOLD})["total"] == 0
    assert "Ford" not in [each["value"] for each in dealership.ask("inventory.facets")["makes"]]
    assert error_of(dealership.post(message("inventory.vehicle", vin=SOLD.lower())))["code"] == "VEHICLE_UNAVAILABLE"
    assert error_of(dealership.post(message("inventory.vehicle", vin="X")))["code"] == "VEHICLE_NOT_FOUND"


@pytest.mark.requirement("listing-rooftop", "filter-rooftops")
def test_every_listings_rooftop_is_one_of_dealer_information(dealership: Dealership) -> None:
    names = {rooftop["name"] for rooftop in dealership.ask("dealer.information")["rooftops"]}
    shown = {each["rooftop"] for each in dealership.ask("inventory.search", pagination={"limit": 100})["vehicles"]}
    assert shown <= names
    for name in names:
        found = dealership.ask("inventory.search", filters={"rooftops": [name]})
        assert found["total"] == sum(unit["rooftop"] == name for unit in LOT)


@pytest.mark.requirement("reply-message")
def test_a_response_may_have_a_message(dealership: Dealership) -> None:
    payload = dealership.post(message("lead.submit")).json()["message"]["parts"][0]["data"]
    assert set(payload) == {"type", "data", "message"}
    assert isinstance(payload["message"], str)


@pytest.mark.requirement("skill-off")
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


@pytest.mark.requirement("lenient-configuration")
def test_a_setting_allows_messages_without_a_configuration(open_dealership: Any, dealership: Dealership) -> None:
    sent = {"message": asked("dealer.information")["message"]}
    assert dealership.post(sent).status_code == 422
    opened = open_dealership("[service]\nlenient_configuration = true")
    assert opened.post(sent).status_code == 200
    assert opened.post({**sent, "configuration": {}}).status_code == 200
    assert opened.call_rpc(sent).json()["result"]


@pytest.mark.requirement("sort-by-advertised-price", "sort-unpriced-last")
def test_price_sort_uses_the_advertised_price_with_mandatory_charges(tmp_path: Path, stocked: Path) -> None:
    set_up(tmp_path, stocked=stocked)
    file = tmp_path / "dealer.toml"
    south = 'name = "Test Motors South"\n'
    text = file.read_text().replace(south, south + 'fees = [{name = "Preparation", amount = 14000}]\n')
    file.write_text(text.replace('feed_price = "advertised"', 'feed_price = "before_fees"'))
    with run_dealership(tmp_path) as opened:
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
    "both-appointment-forms-everywhere",
    "appointment-windows-form",
    "appointment-at-form",
    "both-revisions",
)
def test_both_forms_of_appointment_work_on_every_interface(
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
