"""The pages of holds: what agents hold, the price as the agent got it, and how staff extend and end a hold."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from tests.console.browsers import DEALER, ROOT
from tests.console.conftest import SERVICE, SignedIn
from tests.console.filled import HOSTILE, NORTH, SOUTH, page, send_lead
from tests.console.test_stock_pages import Tags
from tests.offering.conftest import OFFERS, Agent, data_of
from tests.server.dealership import ACCORD, LEAF, NO_LIMITS, Dealership, message, run_dealership, set_up
from tests.storage.calls import read

from dealer_agent.console.rendering import moment
from dealer_agent.holds import LONGEST_HOLD
from dealer_agent.protocol.offers import OFFERS_EXTENSION
from dealer_agent.storage.offers import StoredHold, StoredQuote, add_hold, add_quote, find_hold
from dealer_agent.storage.privacy.accesses import list_accesses

pytestmark = pytest.mark.outside_protocol("console")

HOLDS = f"{ROOT}/holds"
HOSTILE_AGENT = f"https://agent.example#{HOSTILE}"


@pytest.fixture
def prepared(tmp_path: Path, stocked: Path) -> tuple[Path, str]:
    """The folder of a dealership that makes offers, and the token of an agent."""
    folder = tmp_path / "dealer"
    set_up(folder, SERVICE + NO_LIMITS + OFFERS, stocked=stocked)
    # A token that is there before the start is known at once.
    return folder, Dealership(folder, None, None).new_token()[1]  # type: ignore[arg-type]


@pytest.fixture
def console(prepared: tuple[Path, str]) -> Iterator[Dealership]:
    """A dealership that makes offers."""
    with run_dealership(prepared[0]) as opened:
        yield opened


@pytest.fixture
def agent(console: Dealership, prepared: tuple[Path, str]) -> Agent:
    return Agent(console, prepared[1])


def held_by(agent: Agent, vin: str = ACCORD) -> dict[str, Any]:
    """A hold of a vehicle."""
    return data_of(agent.hold(agent.quote(vin=vin)["quote_id"], f"hold {vin}"))


def stored(console: Dealership, hold_id: str) -> StoredHold:
    with console.store() as store:
        found = read(store, DEALER, find_hold, hold_id)
    assert found is not None
    return found


def store_hostile(console: Dealership, caller: str | None = HOSTILE_AGENT) -> str:
    """A hold whose agent, vehicle and lines have the text of a stranger. Returns its id."""
    now = datetime.now(UTC)
    document = {
        "quote_id": "Q1",
        "price": 1,
        "lines": [{"label": HOSTILE, "amount": 1, "firm": False}],
        "total": 1.5,
        "currency": "USD",
        "valid_until": "2027-01-01T00:00:00Z",
        "vehicle": {"vehicle_id": "gone", "make": HOSTILE, "model": HOSTILE},
        "missing": [HOSTILE],
    }
    quote = StoredQuote("Q1", "gone", caller, now, now, msgspec.json.encode(document))
    hold = StoredHold("H1", "Q1", "gone", HOSTILE_AGENT, b"1", b"1", now, now + timedelta(hours=1), "active")
    with console.store() as store, store.lock(DEALER) as tx:
        add_quote(tx, quote)
        add_hold(tx, hold)
    return hold.hold_id


def test_a_viewer_sees_who_holds_what_and_until_when(agent: Agent, signed_in: SignedIn) -> None:
    viewer = signed_in("viewer")
    assert "No agent holds a vehicle." in page(viewer, "holds")
    hold = held_by(agent)
    shown = page(viewer, "holds")
    assert f'href="{ROOT}/stock/unit?id=vin-{ACCORD}">2024 Honda Accord N-7</a>' in shown
    assert "proved by a token" in shown
    assert "token for <bdi>Buyer</bdi>" in shown
    assert f'href="{ROOT}/agents/agent?id=token%3A' in shown
    assert "$28,500.00" in shown
    assert "No hold has ended." in page(viewer, "holds", query="?show=ended")
    opened = page(viewer, "holds", hold["hold_id"])
    assert "<strong>Active</strong>" in opened
    assert "Extend the hold" not in opened


def test_a_quote_without_a_hold_has_a_page(agent: Agent, signed_in: SignedIn) -> None:
    quote = agent.quote(vin=ACCORD)
    shown = page(signed_in("viewer"), "holds", quote["quote_id"])
    assert "<h1>Quote of 2024 Honda Accord N-7</h1>" in shown
    for line in quote["lines"]:
        assert f"<bdi>{line['label']}</bdi>" in shown
    anonymous = Agent(agent.dealership, None).quote(vin=LEAF)
    assert "an anonymous agent" in page(signed_in("viewer"), "holds", anonymous["quote_id"])


def test_a_salesperson_extends_and_ends_a_hold(console: Dealership, agent: Agent, signed_in: SignedIn) -> None:
    sam, hold_id = signed_in("sales", email="sam@example.com"), held_by(agent)["hold_id"]
    extended = sam.post(f"{HOLDS}/{hold_id}/extend", {"hours": "10"})
    assert extended.headers["location"] == f"{HOLDS}/{hold_id}?said=hold-extended"
    assert stored(console, hold_id).expires_at - datetime.now(UTC) > timedelta(hours=9)
    ended = sam.post(f"{HOLDS}/{hold_id}/end", {"reason": HOSTILE})
    assert ended.headers["location"] == f"{HOLDS}/{hold_id}?said=hold-ended"
    assert (stored(console, hold_id).status, stored(console, hold_id).ended_why) == ("ended_by_dealer", HOSTILE)
    assert data_of(agent.ask("offer.status", hold_id=hold_id))["status"] == "ended_by_dealer"
    assert "No agent holds a vehicle." in page(sam, "holds")
    for shown in (page(sam, "holds", query="?show=ended"), page(sam, "holds", hold_id)):
        assert "&lt;script&gt;alert(1)" in shown
        assert "<script>" not in shown
    assert "End the hold" not in page(sam, "holds", hold_id)
    with console.store() as store:
        actions = [(each.actor, each.action) for each in read(store, DEALER, list_accesses, 10)]
    assert actions == [
        ("sam@example.com", f"console: hold {hold_id} ended"),
        ("sam@example.com", f"console: hold {hold_id} extended"),
    ]


def test_what_cannot_be_changed_is_refused_and_changes_nothing(
    console: Dealership, agent: Agent, signed_in: SignedIn
) -> None:
    manager, hold_id = signed_in("manager"), held_by(agent)["hold_id"]
    before = stored(console, hold_id)
    for hours in ("", "0", "-1", "1.5", "ten", "²", str(LONGEST_HOLD.days * 24 + 1)):
        assert manager.post(f"{HOLDS}/{hold_id}/extend", {"hours": hours}).status_code == 422, hours
    assert manager.post(f"{HOLDS}/{hold_id}/end").status_code == 422
    assert manager.post(f"{HOLDS}/{hold_id}/end", {"reason": "a" * 201}).status_code == 422
    assert stored(console, hold_id) == before
    assert manager.post(f"{HOLDS}/{hold_id}/end", {"reason": "Sold to somebody else"}).status_code == 303
    again = manager.post(f"{HOLDS}/{hold_id}/extend", {"hours": "1"})
    assert again.status_code == 422
    assert "has ended already" in again.text


def test_nobody_changes_a_hold_without_the_role_or_the_rooftop(
    console: Dealership, agent: Agent, signed_in: SignedIn
) -> None:
    hold_id = held_by(agent)["hold_id"]
    viewer, sam, kim = signed_in("viewer"), signed_in("sales", rooftops=(SOUTH,)), signed_in("sales", rooftops=(SOUTH,))
    for act, form in {"extend": {"hours": "1"}, "end": {"reason": "Mine"}}.items():
        assert viewer.post(f"{HOLDS}/{hold_id}/{act}", form).status_code == 403
        assert sam.post(f"{HOLDS}/{hold_id}/{act}", form).status_code == 403
    assert "End the hold" not in page(kim, "holds", hold_id)
    assert stored(console, hold_id).status == "active"
    north = signed_in("sales", email="north@example.com", rooftops=(NORTH,))
    assert north.post(f"{HOLDS}/{hold_id}/end", {"reason": "Mine"}).status_code == 303


def test_an_unknown_hold_is_not_found(signed_in: SignedIn, agent: Agent) -> None:
    manager, quote_id = signed_in("manager"), agent.quote(vin=ACCORD)["quote_id"]
    assert manager.get(f"{HOLDS}/nothing").status_code == 404
    for hold_id in ("nothing", quote_id):
        assert manager.post(f"{HOLDS}/{hold_id}/extend", {"hours": "1"}).status_code == 404
        assert manager.post(f"{HOLDS}/{hold_id}/end", {"reason": "Gone"}).status_code == 404


def test_no_text_of_a_stranger_becomes_markup(console: Dealership, signed_in: SignedIn) -> None:
    owner, hold_id = signed_in(), store_hostile(console)
    shown = [page(owner, "holds"), page(owner, "holds", hold_id), page(owner, "holds", "Q1")]
    for text in shown:
        tags = Tags()
        tags.feed(text)
        assert tags.scripts == 2, text
        assert not tags.unsafe
        assert "<img" not in text
        assert "&lt;script&gt;alert(1)" in text
    assert "not in stock any more" in shown[0]
    assert "sold" in shown[0]


def test_no_text_of_a_quote_becomes_markup_on_the_page_of_a_lead(
    console: Dealership, agent: Agent, signed_in: SignedIn
) -> None:
    store_hostile(console, caller=None)
    shown = page(signed_in("sales"), "leads", send_lead_about(agent, quote_id="Q1"))
    tags = Tags()
    tags.feed(shown)
    assert tags.scripts == 2, shown
    assert not tags.unsafe
    assert "<bdi>&lt;script&gt;alert(1)" in shown


def test_the_menu_has_holds_if_the_dealer_makes_offers(signed_in: SignedIn) -> None:
    assert re.search(rf'href="{HOLDS}"[^>]*>Holds</a>', page(signed_in("viewer")))


def test_today_says_how_many_vehicles_are_held_and_when_the_next_hold_ends(agent: Agent, signed_in: SignedIn) -> None:
    viewer = signed_in("viewer")
    assert "Held by agents" not in page(viewer)
    first = held_by(agent)
    assert "1 vehicle is held. The next hold ends" in page(viewer)
    held_by(agent, LEAF)
    until = datetime.fromisoformat(first["expires_at"]).astimezone(ZoneInfo("America/Chicago"))
    assert f"2 vehicles are held. The next hold ends {moment(until)}" in page(viewer)


def test_the_stock_marks_a_unit_that_an_agent_holds(agent: Agent, signed_in: SignedIn) -> None:
    viewer = signed_in("viewer")
    assert "held until" not in page(viewer, "stock", query="?q=accord")
    hold = held_by(agent)
    assert page(viewer, "stock", query="?q=honda").count("held until") == 1
    assert "held until" not in page(viewer, "stock", query="?q=leaf")
    unit = page(viewer, "stock", "unit", query=f"?id=vin-{ACCORD}")
    assert "An agent holds it until" in unit
    assert f'href="{HOLDS}/{hold["hold_id"]}"' in unit


def send_lead_about(agent: Agent, **offer: str) -> str:
    """A lead about a quote or a hold. Returns its id."""
    named = {"a2a-extensions": OFFERS_EXTENSION}
    sent = agent.dealership.post(message("lead.submit", offer=offer), token=agent.token, headers=named)
    return str(data_of(sent)["lead_id"])


def test_a_lead_about_a_hold_shows_its_price_and_staff_change_the_hold_there(
    console: Dealership, agent: Agent, signed_in: SignedIn
) -> None:
    quote = agent.quote(vin=ACCORD)
    hold_id = data_of(agent.hold(quote["quote_id"], "one"))["hold_id"]
    lead_id, sam = send_lead_about(agent, hold_id=hold_id), signed_in("sales")
    shown = page(sam, "leads", lead_id)
    assert "The firm price is $28,500.00, valid until" in shown
    for line in quote["lines"]:
        assert f"<bdi>{line['label']}</bdi>" in shown
    assert "<strong>Became lead</strong>" in shown
    assert f'name="lead" value="{lead_id}"' in shown
    done = sam.post(f"{HOLDS}/{hold_id}/end", {"reason": "The customer bought another one", "lead": lead_id})
    assert done.headers["location"] == f"{ROOT}/leads/{lead_id}?said=hold-ended"
    assert stored(console, hold_id).status == "ended_by_dealer"
    after = page(sam, "leads", lead_id)
    assert "The customer bought another one" in after
    assert "End the hold" not in after


def test_a_lead_about_a_quote_shows_its_price_and_one_about_none_shows_none(agent: Agent, signed_in: SignedIn) -> None:
    quote_id, sam = agent.quote(vin=ACCORD)["quote_id"], signed_in("sales")
    shown = page(sam, "leads", send_lead_about(agent, quote_id=quote_id))
    assert f'href="{HOLDS}/{quote_id}"' in shown
    assert "End the hold" not in shown
    assert "The price that you quoted" not in page(sam, "leads", send_lead(agent.dealership, first_name="Pat"))


def test_an_erased_lead_has_no_price(agent: Agent, signed_in: SignedIn) -> None:
    lead_id, manager = send_lead_about(agent, hold_id=held_by(agent)["hold_id"]), signed_in("manager")
    erased = manager.post(f"{ROOT}/leads/{lead_id}/erase", {"sure": "yes"})
    assert erased.status_code in (200, 303), erased.text
    shown = page(manager, "leads", lead_id)
    assert "The customer was erased" in shown
    assert "The price that you quoted" not in shown
