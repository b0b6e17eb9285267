"""The offers extension in the client library, against a real dealership in the same process."""

import copy
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from tests.client.test_quotes import QUOTE, SIGNER
from tests.offering.conftest import OFFERS, Offered, Offering
from tests.server.dealership import ACCORD, LEAF, LOT, lead
from tests.server.test_customer_pages import EAST, LATER, NOON

from dealer_agent.client import DealerAgent, HttpExchange, SyncDealerAgent, errors, verify_quote
from dealer_agent.client.card import Binding
from dealer_agent.protocol.offers import OFFERS_EXTENSION

pytestmark = pytest.mark.outside_protocol("the client library")

# The address in the dealer's own cards, and so that of its keys.
URL = "http://127.0.0.1:8080"
UNKNOWN = "01KE7AQ2N0V5X3J8R6T4Y9W1ZX"


def call(
    offering: Offering, asked: Callable[[DealerAgent], Awaitable[Any]], token: str | None = None, **options: Any
) -> Any:
    """What a function gets from the client of this dealership."""

    async def connected() -> Any:
        async with DealerAgent.discover(URL, app=offering.dealership.app, token=token, **options) as agent:
            return await asked(agent)

    return offering.dealership.portal.call(connected)


def tokens(offering: Offering) -> list[str | None]:
    return [agent.token for agent in offering.agents]


def members(**more: Any) -> dict[str, Any]:
    """The arguments of a lead."""
    return {name: value for name, value in lead(**more).items() if name != "type"}


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
def test_a_quote_is_typed_and_keeps_the_document_that_was_signed(offering: Offered, binding: Binding) -> None:
    opened = offering(agents=0)
    keys = opened.dealership.get("/.well-known/offer-keys.json").json()

    async def ask(agent: DealerAgent) -> None:
        assert agent.card.makes_offers
        quote = await agent.quote(vin=ACCORD, zip="84115", buyer_ref="session-1")
        assert (quote.price, quote.vehicle.vin, quote.buyer_ref) == (28500, ACCORD, "session-1")
        assert [(line.kind, line.firm) for line in quote.lines] == [("vehicle_price", True), ("doc", True)]
        assert quote.missing == ("tax", "title", "registration")
        kid = await agent.verify_quote(quote)
        assert await agent.verify_quote(quote.document) == kid
        assert verify_quote(quote.document, keys) == kid
        changed = copy.deepcopy(quote.document) | {"price": 1}
        with pytest.raises(errors.QuoteNotVerified, match="not the one that was signed"):
            await agent.verify_quote(changed)

    call(opened, ask, binding=binding)


@pytest.mark.parametrize("elsewhere", ["https://other.example/keys.json", "http://127.0.0.1:8080/other/keys.json", ""])
def test_the_keys_of_a_quote_must_be_above_the_card(offering: Offered, elsewhere: str) -> None:
    """Somebody can sign a quote with keys of his own, at an address of his own."""
    forged = QUOTE | {"signature": SIGNER.signature_of(QUOTE, elsewhere)}

    async def ask(agent: DealerAgent) -> None:
        with pytest.raises(errors.QuoteNotVerified, match="in a folder above it"):
            await agent.verify_quote(forged)

    call(offering(agents=0), ask)


def test_a_quote_with_a_key_that_the_dealer_does_not_publish_is_refused(offering: Offered) -> None:
    forged = QUOTE | {"signature": SIGNER.signature_of(QUOTE, f"{URL}/.well-known/offer-keys.json")}
    missing = QUOTE | {"signature": SIGNER.signature_of(QUOTE, f"{URL}/no-keys.json")}

    async def ask(agent: DealerAgent) -> None:
        with pytest.raises(errors.QuoteNotVerified, match="No key of the dealer has the id"):
            await agent.verify_quote(forged)
        with pytest.raises(errors.QuoteNotVerified, match="its key set answered 404"):
            await agent.verify_quote(missing)

    call(offering(agents=0), ask)


def test_a_hold_begins_is_asked_for_and_ends(offering: Offered) -> None:
    opened = offering()
    first, second = tokens(opened)

    async def hold(agent: DealerAgent) -> None:
        quote = await agent.quote(vin=ACCORD)
        held = await agent.hold(quote.quote_id, buyer_ref="session-1", idempotency_key="one")
        assert (held.status, held.price, held.vehicle_id) == ("active", quote.price, quote.vehicle.vehicle_id)
        assert await agent.hold(quote.quote_id, buyer_ref="session-1", idempotency_key="one") == held
        assert await agent.hold_status(held.hold_id) == held

    async def refused(agent: DealerAgent) -> None:
        quote = await agent.quote(vin=ACCORD)
        with pytest.raises(errors.HoldConflict) as caught:
            await agent.hold(quote.quote_id)
        assert caught.value.details["until"]
        assert caught.value.idempotency_key
        assert not caught.value.may_have_arrived
        with pytest.raises(errors.QuoteNotFound):
            await agent.hold(UNKNOWN)
        with pytest.raises(errors.HoldNotFound):
            await agent.hold_status(UNKNOWN)

    async def released(agent: DealerAgent) -> None:
        quote = await agent.quote(vin=LEAF)
        held = await agent.hold(quote.quote_id)
        assert (await agent.release(held.hold_id)).status == "released"
        assert (await agent.release(held.hold_id)).status == "released"

    async def anonymous(agent: DealerAgent) -> None:
        quote = await agent.quote(vin=ACCORD)
        with pytest.raises(errors.CallerNotKnown):
            await agent.hold(quote.quote_id)

    call(opened, hold, first)
    call(opened, refused, second)
    call(opened, released, second)
    call(opened, anonymous)


def test_a_lead_names_the_extension_and_its_offer(offering: Offered) -> None:
    opened = offering(agents=1)
    seen: list[HttpExchange] = []

    async def ask(agent: DealerAgent) -> None:
        quote = await agent.quote(vin=ACCORD)
        held = await agent.hold(quote.quote_id)
        with pytest.raises(errors.HoldNotFound):
            await agent.submit_lead(**members(), offer={"hold_id": UNKNOWN})
        receipt = await agent.submit_lead(**members(), offer={"quote_id": quote.quote_id, "hold_id": held.hold_id})
        assert receipt.status == "received"
        assert (await agent.hold_status(held.hold_id)).status == "became_lead"
        await agent.search(limit=1)

    call(opened, ask, tokens(opened)[0], on_exchange=seen.append)
    named = [each.request_headers.get("a2a-extensions", "").split(", ")[1:] for each in seen if each.method == "POST"]
    assert named[:-1] == [[OFFERS_EXTENSION]] * (len(named) - 1)
    assert named[-1] == [], "a search is not of the extension"


def test_an_offer_for_a_dealer_without_offers_is_not_sent(offering: Offered) -> None:
    opened = offering("", agents=0)

    async def ask(agent: DealerAgent) -> None:
        assert not agent.card.makes_offers
        with pytest.raises(errors.InvalidRequest, match="makes no quotes and holds"):
            await agent.submit_lead(**members(), offer={"quote_id": UNKNOWN})
        with pytest.raises(errors.UnsupportedSkill):
            await agent.quote(vin=ACCORD)
        assert (await agent.submit_lead(**members())).lead_secret is None

    call(opened, ask)


def test_an_anonymous_sender_sees_moves_and_cancels_its_visit(offering: Offered) -> None:
    opened = offering(OFFERS + EAST, agents=0)

    async def ask(agent: DealerAgent) -> None:
        visit = {"appointment_type": "test_drive", "appointment_at": NOON}
        receipt = await agent.submit_lead(**members(appointment=visit))
        lead_id, secret = receipt.lead_id, receipt.lead_secret
        assert secret
        state = await agent.lead_status(lead_id, secret=secret)
        assert state.visit is not None
        assert (state.status, state.visit.status) == ("received", "confirmed")
        moved = await agent.move_visit(lead_id, LATER, secret=secret, idempotency_key="one")
        assert moved.visit is not None
        assert moved.visit.appointment_id != state.visit.appointment_id
        assert await agent.move_visit(lead_id, LATER, secret=secret, idempotency_key="one") == moved
        ended = await agent.cancel_visit(lead_id, reason="The buyer is ill.", secret=secret)
        assert ended.visit is not None
        assert ended.visit.status == "cancelled"
        with pytest.raises(errors.VisitEnded) as caught:
            await agent.cancel_visit(lead_id, secret=secret, idempotency_key="two")
        assert caught.value.idempotency_key == "two"
        with pytest.raises(errors.LeadNotFound):
            await agent.lead_status(lead_id, secret="A" * 32)

    call(opened, ask)


def test_the_changes_come_page_by_page_until_there_are_no_more(offering: Offered) -> None:
    opened = offering(agents=0)

    async def ask(agent: DealerAgent) -> None:
        pages = [page async for page in agent.changes_all(limit=50)]
        assert [page.more for page in pages] == [True] * (len(pages) - 1) + [False]
        changes = [change for page in pages for change in page.changes]
        assert len(changes) == len(LOT)
        assert {change.change for change in changes} == {"added"}
        assert all(change.vehicle is not None for change in changes)
        assert (await agent.changes(cursor=pages[-1].cursor)).changes == ()

    call(opened, ask)


@pytest.fixture
def synchronous(offering: Offered) -> Iterator[SyncDealerAgent]:
    opened = offering(agents=1)
    with SyncDealerAgent.discover(URL, app=opened.dealership.app, token=tokens(opened)[0]) as agent:
        yield agent


def test_a_program_without_an_event_loop_makes_the_same_calls(synchronous: SyncDealerAgent) -> None:
    quote = synchronous.quote(stock="N-7")
    assert synchronous.verify_quote(quote)
    held = synchronous.hold(quote.quote_id)
    assert synchronous.hold_status(held.hold_id).status == "active"
    assert synchronous.release(held.hold_id).status == "released"
    assert sum(len(page.changes) for page in synchronous.changes_all(limit=50)) == len(LOT)
