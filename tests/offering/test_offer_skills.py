"""Quotes and holds over the wire (docs/protocol.md#offers)."""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import permutations
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.acceptance.running import eventually
from tests.offering.conftest import OFFERS, Offered, data_of
from tests.server.dealership import (
    ACCORD,
    LEAF,
    LOT,
    NO_LIMITS,
    SOLD,
    Dealership,
    error_of,
    message,
    run_dealership,
    set_up,
)
from tests.storage.calls import write_at

from dealer_agent.client import errors
from dealer_agent.client.quotes import verify_quote
from dealer_agent.config import load_settings
from dealer_agent.config.settings import OfferSettings
from dealer_agent.feeds.files.reader import read_feed
from dealer_agent.feeds.importing import import_feed
from dealer_agent.holds import end_hold, extend_hold
from dealer_agent.leads.adf import render_adf
from dealer_agent.leads.lead_json import render_json
from dealer_agent.leads.lead_view import lead_view
from dealer_agent.offering.desk import hold_rules
from dealer_agent.protocol.offers import OFFERS_EXTENSION
from dealer_agent.protocol.published_versions import PUBLISHED_VERSIONS
from dealer_agent.protocol.skill import EXTENSION_SKILLS
from dealer_agent.server.tokens import new_token
from dealer_agent.storage.leads.lead_record import lead_details
from dealer_agent.storage.offers import find_hold
from dealer_agent.storage.tokens import create_token

UNPRICED = "T-000"
NAMED = {"a2a-extensions": OFFERS_EXTENSION}


def extension_of(dealership: Dealership, path: str) -> Any:
    card = dealership.get(path).json()
    return next((each for each in card["capabilities"]["extensions"] if each["uri"] == OFFERS_EXTENSION), None)


@pytest.mark.requirement("offers-extension")
@pytest.mark.parametrize("path", ["/cards/1.0.0.json", "/cards/0.1.0.json"])
def test_the_cards_list_the_extension_and_its_skills(offering: Offered, path: str) -> None:
    dealership = offering().dealership
    extension = extension_of(dealership, path)
    assert extension["required"] is False
    params = extension["params"]
    assert (params["quote_seconds"], params["hold_seconds"]) == (1800, 7200)
    assert params["holders"] == ["token", "signed", "issued"]
    assert set(params["skills"]) == {skill.id for skill in EXTENSION_SKILLS}
    skills = {skill["id"] for skill in dealership.get(path).json()["skills"]}
    assert set(params["skills"]) < skills
    for urls in params["skills"].values():
        for url in urls.values():
            assert dealership.get(url.removeprefix("http://127.0.0.1:8080")).status_code == 200


@pytest.mark.requirement("offers-off")
def test_without_the_setting_there_is_no_offer(offering: Offered) -> None:
    dealership = offering("", agents=0).dealership
    refused = dealership.post(message("offer.quote", vin=ACCORD))
    assert (refused.status_code, error_of(refused)["code"]) == (404, "UNSUPPORTED_SKILL")
    assert extension_of(dealership, "/cards/1.0.0.json") is None
    assert '"offer.' not in dealership.get("/cards/1.0.0.json").text
    assert dealership.get("/.well-known/offer-keys.json").status_code == 404


@pytest.mark.requirement("offers-off")
def test_published_versions_have_no_offers(offering: Offered) -> None:
    dealership = offering().dealership
    for version in (PUBLISHED_VERSIONS["1.0"], PUBLISHED_VERSIONS["1.3"]):
        card = dealership.get(version.card_path)
        assert card.status_code == 200
        assert '"offer.' not in card.text
        assert OFFERS_EXTENSION not in card.text
    refused = dealership.post(
        {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message("offer.quote", "autoagent", vin=ACCORD)},
        PUBLISHED_VERSIONS["1.0"].path + "/rpc",
    )
    assert "UNSUPPORTED_SKILL" in refused.text


@pytest.mark.requirement("offer-quote", "offer-quote-valid")
@pytest.mark.parametrize("binding", ["http+json", "json-rpc"])
@pytest.mark.parametrize("vendor", ["proto", "autoagent"])
def test_a_quote_has_the_price_of_the_listing_line_by_line(offering: Offered, binding: str, vendor: str) -> None:
    dealership = offering().dealership
    asked = message("offer.quote", vendor, vin=ACCORD, buyer_ref="session-1")
    if binding == "json-rpc":
        answer = dealership.call_rpc(asked).json()["result"]["message"]["parts"][0]
        assert answer["mediaType"] == f"application/vnd.{vendor}.offer-quote-response+json"
        quote = answer["data"]["data"]
    else:
        quote = data_of(dealership.post(asked))
    assert quote["price"] == 28500 == dealership.ask("inventory.vehicle", vin=ACCORD)["price"]
    assert [(line["kind"], line["payee"], line["amount"], line["firm"]) for line in quote["lines"]] == [
        ("vehicle_price", "dealer", 28101, True),
        ("doc", "dealer", 399, True),
    ]
    assert quote["total"] == 28500
    assert (quote["complete"], quote["missing"]) == (False, ["tax", "title", "registration"])
    assert quote["buyer_ref"] == "session-1"
    assert quote["vehicle"]["vin"] == ACCORD
    lasts = datetime.fromisoformat(quote["valid_until"]) - datetime.fromisoformat(quote["created_at"])
    assert lasts == timedelta(minutes=30)


LINES = """
[[pricing.lines]]
label = "State tax"
kind = "tax"
payee = "government"
rate = "0.0725"
base = "price"
"""


@pytest.mark.requirement("offer-quote")
def test_a_quote_has_the_tax_of_the_buyers_place_and_a_total_of_all_lines_to_the_cent(
    offering: Offered,
) -> None:
    quote = offering(OFFERS + LINES).stranger.quote(vin=ACCORD, zip="84115")
    (tax,) = (line for line in quote["lines"] if line["kind"] == "tax")
    assert (tax["amount"], tax["firm"]) == (2066.25, False)
    assert sum(Decimal(str(line["amount"])) for line in quote["lines"]) == Decimal(str(quote["total"]))
    assert quote["jurisdiction"] == {"of": "buyer", "state": "UT", "zip": "84115"}


@pytest.mark.requirement("offer-no-price", "offer-buyer-ref")
@pytest.mark.parametrize(
    ("members", "status", "code", "pointer"),
    [
        ({"stock": UNPRICED}, 422, "SCHEMA_VALIDATION_FAILED", "/stock"),
        ({"vin": ACCORD, "zip": "00000"}, 422, "SCHEMA_VALIDATION_FAILED", "/zip"),
        ({"vin": SOLD}, 409, "VEHICLE_UNAVAILABLE", None),
        ({"vin": "1HGCM82633A004352"}, 404, "VEHICLE_NOT_FOUND", None),
        ({"vin": ACCORD, "buyer_ref": "jordan@example.com"}, 422, "SCHEMA_VALIDATION_FAILED", "/buyer_ref"),
        ({"vin": ACCORD, "buyer_ref": "+1 (202) 555-0123"}, 422, "SCHEMA_VALIDATION_FAILED", "/buyer_ref"),
        ({"vin": ACCORD, "buyer_ref": "x" * 201}, 422, "SCHEMA_VALIDATION_FAILED", "/buyer_ref"),
        ({"vin": ACCORD, "price": 1}, 422, "SCHEMA_VALIDATION_FAILED", "/price"),
    ],
)
def test_what_has_no_quote(
    offering: Offered, members: dict[str, str], status: int, code: str, pointer: str | None
) -> None:
    asked = message("offer.quote")
    asked["message"]["parts"][0]["data"] = {"type": "offer.quote.request", **members}
    refused = offering(agents=0).dealership.post(asked)
    error = error_of(refused)
    assert (refused.status_code, error["code"]) == (status, code), error
    assert error["details"].get("instancePath") == pointer


@pytest.mark.requirement("offer-signature", "offer-keys")
def test_a_quote_is_proved_by_the_published_keys_without_the_service(offering: Offered) -> None:
    opened = offering()
    quote, keys = opened.stranger.quote(vin=LEAF), opened.dealership.get("/.well-known/offer-keys.json").json()
    (key,) = opened.dealership.get("/.well-known/jwks.json").json()["keys"]
    assert verify_quote(quote, keys) == key["kid"]


@pytest.mark.requirement("offer-keys")
def test_a_key_that_was_replaced_still_proves_the_quotes_of_its_day(offering: Offered) -> None:
    before = offering("[service]\ncard_key_number = 1\n" + OFFERS, agents=0)
    old = before.stranger.quote(vin=LEAF)
    folder = before.dealership.folder
    (folder / "dealer.toml").write_text((folder / "dealer.toml").read_text().replace("number = 1", "number = 3"))
    with run_dealership(folder) as after:
        keys = after.get("/.well-known/offer-keys.json").json()
        new = after.ask("offer.quote", vin=LEAF)
        cards = after.get("/.well-known/jwks.json").json()["keys"]
    assert len(keys["keys"]) == 3
    assert verify_quote(old, keys) != verify_quote(new, keys) == cards[0]["kid"]
    assert len(cards) == 1, "no card is signed with an older key"


def quoted_over_two_years(folder: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Quotes of a dealer that gives its cards a new key each month, and the keys that it publishes at the end."""
    quotes, file, month = [], folder / "dealer.toml", 1
    for later in (1, 9, 17, 25):
        file.write_text(file.read_text("utf-8").replace(f"number = {month}\n", f"number = {later}\n"), "utf-8")
        month = later
        with run_dealership(folder) as running:
            quotes.append(running.ask("offer.quote", vin=LEAF))
            published: dict[str, Any] = running.get("/.well-known/offer-keys.json").json()
    return quotes, published


@pytest.mark.requirement("offer-keys")
def test_each_quote_of_two_years_is_proved_by_the_key_of_its_day_and_by_no_other_dealers(tmp_path: Path) -> None:
    of_dealers = []
    for name in ("one", "two"):
        set_up(tmp_path / name, NO_LIMITS + "[service]\ncard_key_number = 1\n" + OFFERS)
        of_dealers.append(quoted_over_two_years(tmp_path / name))
    for (quotes, keys), (_, of_the_other) in permutations(of_dealers):
        assert len({verify_quote(quote, keys) for quote in quotes}) == len(quotes) == 4
        for quote in quotes:
            with pytest.raises(errors.QuoteNotVerified):
                verify_quote(quote, of_the_other)


@pytest.mark.requirement("offer-hold")
def test_a_known_agent_holds_the_vehicle_of_a_quote(offering: Offered) -> None:
    agent = offering().agents[0]
    quote = agent.quote(vin=ACCORD)
    hold = data_of(agent.hold(quote["quote_id"], "one"))
    assert (hold["status"], hold["vehicle_id"], hold["price"]) == ("active", f"vin-{ACCORD}", 28500)
    lasts = datetime.fromisoformat(hold["expires_at"]) - datetime.fromisoformat(hold["created_at"])
    assert lasts == timedelta(hours=2)
    assert data_of(agent.ask("offer.status", hold_id=hold["hold_id"])) == hold


@pytest.mark.requirement("offer-known-callers", "error-caller-not-known")
@pytest.mark.parametrize(
    "members",
    [
        {"skill": "offer.hold", "quote_id": "Q", "idempotency_key": "one"},
        {"skill": "offer.release", "hold_id": "H"},
        {"skill": "offer.status", "hold_id": "H"},
    ],
)
def test_an_anonymous_agent_holds_nothing(offering: Offered, members: dict[str, str]) -> None:
    opened = offering(agents=0)
    refused = opened.stranger.ask(**members)
    error = error_of(refused)
    assert (refused.status_code, error["code"]) == (403, "CALLER_NOT_KNOWN")
    assert "sign the request" in error["message"]
    by_rpc = opened.dealership.call_rpc(message("offer.status", hold_id="H"))
    assert by_rpc.status_code == 403


@pytest.mark.requirement("offer-one-hold", "error-hold-conflict")
def test_a_vehicle_that_is_held_is_not_held_by_another(offering: Offered) -> None:
    one, two = offering().agents
    hold = data_of(one.hold(one.quote(vin=ACCORD)["quote_id"], "one"))
    refused = two.hold(two.quote(vin=ACCORD)["quote_id"], "one")
    error = error_of(refused)
    assert (refused.status_code, error["code"]) == (409, "HOLD_CONFLICT")
    assert error["details"] == {"until": hold["expires_at"]}
    again = error_of(one.hold(one.quote(vin=ACCORD)["quote_id"], "two"))
    assert (again["code"], again["details"]["hold_id"]) == ("HOLD_CONFLICT", hold["hold_id"])


@pytest.mark.requirement("offer-hold", "offer-owner", "error-quote-not-found", "error-hold-not-found")
def test_quotes_and_holds_of_another_agent_are_unknown(offering: Offered) -> None:
    opened = offering()
    one, two = opened.agents
    quote = one.quote(vin=ACCORD)
    assert error_of(two.hold(quote["quote_id"], "one"))["code"] == "QUOTE_NOT_FOUND"
    assert error_of(two.hold("01KE7ASD3R5T7V9X2Z4B6D8F1H", "one"))["code"] == "QUOTE_NOT_FOUND"
    hold = data_of(one.hold(quote["quote_id"], "one"))
    for skill in ("offer.status", "offer.release"):
        foreign, unknown = (two.ask(skill, hold_id=hold_id) for hold_id in (hold["hold_id"], "unknown"))
        assert error_of(foreign)["code"] == error_of(unknown)["code"] == "HOLD_NOT_FOUND"
        assert error_of(foreign)["message"] == error_of(unknown)["message"]
    of_nobody = opened.stranger.quote(vin=LEAF)
    assert data_of(two.hold(of_nobody["quote_id"], "two"))["status"] == "active"


@pytest.mark.requirement("offer-owner")
@pytest.mark.parametrize("hold_id", ["\0", "x\n", "x" * 65, "", "../x", "\u00e9"])
def test_an_id_that_is_none_is_refused_before_the_database(offering: Offered, hold_id: str) -> None:
    error = error_of(offering(agents=0).stranger.ask("offer.status", hold_id=hold_id))
    assert (error["code"], error["details"]["instancePath"]) == ("SCHEMA_VALIDATION_FAILED", "/hold_id")


@pytest.mark.requirement("offer-idempotency")
def test_a_repeated_request_gets_the_same_hold(offering: Offered) -> None:
    one, two = offering().agents
    quote_id = one.quote(vin=ACCORD)["quote_id"]
    hold = data_of(one.hold(quote_id, "one"))
    assert data_of(one.hold(quote_id, "one")) == hold
    assert error_of(one.hold(quote_id, "one", buyer_ref="other"))["code"] == "IDEMPOTENCY_CONFLICT"
    released = data_of(one.ask("offer.release", hold_id=hold["hold_id"]))
    assert data_of(one.hold(quote_id, "one")) == released
    # The key of another agent is another key.
    assert data_of(two.hold(two.quote(vin=ACCORD)["quote_id"], "one"))["hold_id"] != hold["hold_id"]


@pytest.mark.requirement("offer-release", "error-hold-ended")
def test_a_hold_is_released_once_or_again_and_not_after_its_end(offering: Offered) -> None:
    opened = offering()
    one, two = opened.agents
    hold_id = data_of(one.hold(one.quote(vin=ACCORD)["quote_id"], "one"))["hold_id"]
    for _ in range(2):
        assert data_of(one.ask("offer.release", hold_id=hold_id))["status"] == "released"
    other_id = data_of(two.hold(two.quote(vin=ACCORD)["quote_id"], "one"))["hold_id"]
    with opened.dealership.store() as store, store.write("test-motors") as tx:
        end_hold(tx, other_id, "sold at the auction")
    error = error_of(two.ask("offer.release", hold_id=other_id))
    assert (error["code"], error["details"]) == ("HOLD_ENDED", {"status": "ended_by_dealer"})
    assert "auction" not in json.dumps(data_of(two.ask("offer.status", hold_id=other_id)))


@pytest.mark.requirement("offer-hold-ends")
def test_staff_extend_a_hold(offering: Offered) -> None:
    opened = offering()
    agent = opened.agents[0]
    hold = data_of(agent.hold(agent.quote(vin=ACCORD)["quote_id"], "one"))
    with opened.dealership.store() as store, store.write("test-motors") as tx:
        extend_hold(tx, hold["hold_id"], tx.now + timedelta(days=2))
    after = data_of(agent.ask("offer.status", hold_id=hold["hold_id"]))
    assert after["expires_at"] > hold["expires_at"]


@pytest.mark.requirement("offer-most-held")
def test_a_quarter_of_the_stock_can_be_held_at_one_time_and_five_vehicles_in_any_case() -> None:
    for units, most in ((0, 5), (20, 5), (24, 6), (1_000, 250)):
        assert hold_rules(OfferSettings(), units).most_open == most
    assert hold_rules(OfferSettings(most_held_percent=100), 40).most_open == 40


@pytest.mark.requirement("offer-budget", "error-hold-limit")
def test_the_holds_of_a_day_are_bounded_and_one_quick_release_is_free(offering: Offered) -> None:
    agent = offering(OFFERS + "holds_a_day = 2\n").agents[0]

    def hold(vehicle: dict[str, str], key: str) -> httpx.Response:
        return agent.hold(agent.quote(**vehicle)["quote_id"], key)

    first = data_of(hold({"vin": ACCORD}, "one"))
    agent.ask("offer.release", hold_id=first["hold_id"])
    same = hold({"vin": ACCORD}, "two")
    assert error_of(same)["code"] == "HOLD_LIMIT", "the same vehicle again"
    assert 86_000 < int(same.headers["retry-after"]) <= 86_400
    for number, stock in enumerate(("T-001", "T-002")):
        second = data_of(hold({"stock": stock}, f"more-{number}"))
        agent.ask("offer.release", hold_id=second["hold_id"])
    refused = hold({"stock": "T-004"}, "last")
    assert (refused.status_code, error_of(refused)["code"]) == (429, "HOLD_LIMIT")
    assert error_of(refused)["details"]["retry_after_seconds"] == int(refused.headers["retry-after"])


@pytest.mark.requirement("offer-quote-valid", "offer-hold-ends", "error-quote-expired")
def test_a_quote_and_a_hold_end_by_the_clock(offering: Offered, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = offering()
    one, two = opened.agents
    quote = one.quote(vin=ACCORD)
    late = one.quote(vin=LEAF)
    hold = data_of(one.hold(quote["quote_id"], "one"))
    with opened.dealership.store() as store, store.write("test-motors") as tx:
        stored = find_hold(tx, hold["hold_id"])
        assert stored is not None
    shift_clock(monkeypatch, timedelta(minutes=31))
    error = error_of(one.hold(late["quote_id"], "late"))
    assert (error["code"], error["details"]["valid_until"]) == ("QUOTE_EXPIRED", late["valid_until"])
    assert error_of(two.hold(two.quote(vin=ACCORD)["quote_id"], "early"))["code"] == "HOLD_CONFLICT"
    shift_clock(monkeypatch, timedelta(minutes=121))
    assert data_of(one.ask("offer.status", hold_id=hold["hold_id"]))["status"] == "expired"
    assert data_of(two.hold(two.quote(vin=ACCORD)["quote_id"], "later"))["status"] == "active"
    assert data_of(one.ask("offer.status", hold_id=hold["hold_id"]))["status"] == "expired"


def shift_clock(monkeypatch: pytest.MonkeyPatch, by: timedelta) -> None:
    """Lets the requests come later."""
    from dealer_agent.server import request_pipeline

    class Later(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz) + by

    monkeypatch.setattr(request_pipeline, "datetime", Later)


@pytest.mark.requirement("offer-quote-valid", "offer-hold-ends")
@pytest.mark.usefixtures("looks_often")
def test_a_quoted_price_outlives_the_feed_and_not_the_vehicle(offering: Offered) -> None:
    opened = offering()
    agent, dealership = opened.agents[0], opened.dealership
    quotes = {vin: agent.quote(vin=vin) for vin in (ACCORD, LEAF)}
    held = data_of(agent.hold(quotes[LEAF]["quote_id"], "leaf"))
    changed = [{**unit, "price": 29_000} if unit.get("vin") == ACCORD else unit for unit in LOT]
    changed = [unit for unit in changed if unit.get("vin") != LEAF]
    settings = load_settings(dealership.folder, {})
    with dealership.store() as store:
        feed = read_feed(json.dumps(changed).encode())
        import_feed(store, settings.dealer, feed, source="lot.json", at=datetime.now(UTC))
    eventually("the new price", lambda: dealership.ask("inventory.vehicle", vin=ACCORD)["price"] == 29_000)
    assert data_of(agent.hold(quotes[ACCORD]["quote_id"], "accord"))["price"] == 28500
    assert data_of(agent.ask("offer.status", hold_id=held["hold_id"]))["status"] == "sold"
    other = opened.agents[1]
    assert error_of(other.hold(quotes[LEAF]["quote_id"], "leaf"))["code"] in ("QUOTE_NOT_FOUND", "VEHICLE_UNAVAILABLE")


@pytest.mark.requirement("offer-held")
def test_a_held_vehicle_says_so_to_those_that_name_the_extension(offering: Offered) -> None:
    opened = offering()
    agent, dealership = opened.agents[0], opened.dealership
    asked = message("inventory.vehicle", vin=ACCORD)
    before = dealership.post(asked, headers=NAMED)
    assert "held_until" not in data_of(before)
    assert before.headers["a2a-extensions"] == OFFERS_EXTENSION
    hold = data_of(agent.hold(agent.quote(vin=ACCORD)["quote_id"], "one"))
    held = data_of(dealership.post(asked, headers=NAMED))
    plain = data_of(dealership.post(asked))
    assert held == plain | {"held_until": hold["expires_at"]}
    agent.ask("offer.release", hold_id=hold["hold_id"])
    assert data_of(dealership.post(asked, headers=NAMED)) == plain


@pytest.mark.requirement("offer-lead")
@pytest.mark.parametrize("by", ["quote_id", "hold_id"])
def test_a_lead_keeps_the_price_of_its_quote_and_its_hold_waits_for_the_dealer(offering: Offered, by: str) -> None:
    opened = offering(OFFERS + LINES)
    agent = opened.agents[0]
    quote = agent.quote(vin=ACCORD, zip="84115")
    hold = data_of(agent.hold(quote["quote_id"], "one"))
    offer = {"quote_id": quote["quote_id"]} if by == "quote_id" else {"hold_id": hold["hold_id"], "price": 1}
    sent = opened.dealership.post(message("lead.submit", offer=offer), token=agent.token, headers=NAMED)
    lead_id = data_of(sent)["lead_id"]
    with opened.dealership.store() as store, store.read("test-motors") as tx:
        details = lead_details(tx, lead_id)
    assert details is not None
    view = lead_view(details, load_settings(opened.dealership.folder, {}).dealer)
    document = json.loads(render_json(view))["offer"]
    assert {name: document[name] for name in ("quote_id", "price", "total", "lines")} == {
        name: quote[name] for name in ("quote_id", "price", "total", "lines")
    }
    adf = render_adf(view).decode()
    assert "State tax: USD 2,066.25 (estimated)" in adf
    assert "The firm price is USD 28,500.00." in adf
    status = data_of(agent.ask("offer.status", hold_id=hold["hold_id"]))
    if by == "hold_id":
        assert status["status"] == "became_lead"
        lasts = datetime.fromisoformat(status["expires_at"]) - datetime.now(UTC)
        assert timedelta(hours=71) < lasts < timedelta(hours=73)
        assert document["hold_id"] == hold["hold_id"]
        assert f"hold {hold['hold_id']}" in adf
    else:
        assert status == hold
        assert "hold_id" not in document


@pytest.mark.requirement("offer-lead")
@pytest.mark.parametrize(
    ("offer", "headers", "code", "pointer"),
    [
        ({"quote_id": "unknown"}, NAMED, "QUOTE_NOT_FOUND", "/quote_id"),
        ({"hold_id": "unknown"}, NAMED, "HOLD_NOT_FOUND", "/hold_id"),
        ({}, NAMED, "MISSING_REQUIRED_FIELD", "/offer/quote_id"),
        ({"quote_id": "unknown"}, {}, "SCHEMA_VALIDATION_FAILED", "/offer"),
    ],
)
def test_a_lead_about_an_offer_that_is_not_there_is_refused(
    offering: Offered, offer: dict[str, str], headers: dict[str, str], code: str, pointer: str
) -> None:
    dealership = offering(agents=0).dealership
    error = error_of(dealership.post(message("lead.submit", offer=offer), headers=headers))
    assert (error["code"], error["details"]["instancePath"]) == (code, pointer)


@pytest.mark.requirement("offer-lead")
def test_without_the_setting_a_lead_has_no_offer(offering: Offered) -> None:
    dealership = offering("", agents=0).dealership
    error = error_of(dealership.post(message("lead.submit", offer={"quote_id": "one"}), headers=NAMED))
    assert (error["code"], error["details"]["instancePath"]) == ("SCHEMA_VALIDATION_FAILED", "/offer")


@pytest.mark.requirement("offer-scopes")
@pytest.mark.usefixtures("looks_often")
def test_a_token_needs_the_scope_of_the_skill(offering: Offered, tmp_path: Path) -> None:
    opened = offering(agents=0)
    dealership, fresh = opened.dealership, new_token()
    with dealership.store() as store:
        token_id = write_at(
            datetime.now(UTC), store, "test-motors", create_token, "Quotes", fresh.secret_hash, scopes=("quotes:write",)
        )
    token = fresh.text(token_id)
    asked = message("offer.quote", vin=ACCORD)
    eventually("the token is known", lambda: dealership.post(asked, token=token).status_code == 200)
    refused = dealership.post(message("offer.hold", quote_id="Q", idempotency_key="one"), token=token)
    assert (refused.status_code, error_of(refused)["code"]) == (403, "AUTH_REQUIRED")
    assert "holds:write" in refused.headers["www-authenticate"]
