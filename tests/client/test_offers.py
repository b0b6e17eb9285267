"""What the client does with quotes, holds and changes of dealers that fail, refuse or lie."""

import asyncio
import pickle
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.client.dealers import LEAD, RECEIPT, application, card, members_of, result
from tests.client.test_quotes import SIGNED

from dealer_agent.client import DealerAgent, Retries, errors
from dealer_agent.protocol.offers import OFFERS_EXTENSION

pytestmark = pytest.mark.outside_protocol("the client library")

URL = "http://dealer.test"
HOLD = {
    "hold_id": "01KE7B0000000000000000HOLD",
    "quote_id": SIGNED["quote_id"],
    "vehicle_id": "vin-1",
    "price": 28_151,
    "currency": "USD",
    "created_at": "2026-01-05T15:00:00Z",
    "expires_at": "2026-01-05T17:00:00Z",
    "status": "active",
    "terms": "https://dealer.example/terms",
}
STATE = {"lead_id": RECEIPT["lead_id"], "status": "received", "received_at": "2026-01-05T15:00:00Z"}
AT_ONCE = Retries(most=2, first_pause_seconds=0.0)


def with_offers(url: str) -> dict[str, Any]:
    """A card of a dealer that makes offers. It names their extension first."""
    document = card(url)
    offers = {"uri": OFFERS_EXTENSION, "params": {"skills": {}}}
    document["capabilities"]["extensions"].insert(0, offers)
    return document


Reply = tuple[int, object, dict[str, str]]


def refused(code: str, status: int, *, retryable: bool, **headers: str) -> Reply:
    """An error in the form of published versions. A header of the arguments has `_` for `-`."""
    inner = {"type": "proto.error", "code": code, "message": "No", "retryable": retryable, "details": {}}
    error = {"code": status, "message": "No", "details": [inner]}
    return status, {"error": error}, {name.replace("_", "-"): value for name, value in headers.items()}


def asked(
    call: Callable[[DealerAgent], Awaitable[Any]], replies: list[Reply | dict[str, Any]]
) -> tuple[Any, list[dict[str, Any]]]:
    """The result or the error of a call, and the payloads that arrive at a dealer with these replies."""
    arrived: list[dict[str, Any]] = []

    def respond(body: bytes) -> Reply:
        arrived.append(members_of(body))
        reply = replies[min(len(arrived), len(replies)) - 1]
        return reply if isinstance(reply, tuple) else (200, result(body, reply), {})

    async def run() -> Any:
        app = application(with_offers(URL), respond)
        async with DealerAgent.discover(URL, app=app, binding="HTTP+JSON", retries=AT_ONCE) as agent:
            try:
                return await call(agent)
            except errors.DealerAgentError as error:
                return error

    return asyncio.run(run()), arrived


def hold(agent: DealerAgent) -> Awaitable[Any]:
    return agent.hold("q")


KEYED: dict[str, tuple[Callable[[DealerAgent], Awaitable[Any]], dict[str, Any]]] = {
    "hold": (hold, HOLD),
    "move_visit": (lambda agent: agent.move_visit("l", "2026-01-11T15:00:00Z"), STATE),
    "cancel_visit": (lambda agent: agent.cancel_visit("l"), STATE),
}


@pytest.mark.parametrize(("call", "data"), KEYED.values(), ids=KEYED)
@pytest.mark.parametrize(
    "failure",
    [(503, b"", {}), (504, b"", {}), refused("INTERNAL_ERROR", 500, retryable=True), (429, b"", {"retry-after": "0"})],
    ids=["503", "504", "an internal error", "429"],
)
def test_a_request_with_a_key_is_sent_again_with_the_same_key(
    call: Callable[[DealerAgent], Awaitable[Any]], data: dict[str, Any], failure: Reply
) -> None:
    """The dealer makes one hold, and one change of a visit, however often it arrives."""
    got, arrived = asked(call, [failure, failure, data])
    assert not isinstance(got, errors.DealerAgentError)
    assert len(arrived) == 3
    assert len({each["idempotency_key"] for each in arrived}) == 1


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (refused("HOLD_LIMIT", 429, retryable=True, retry_after="1"), errors.HoldLimit),
        (refused("HOLD_LIMIT", 429, retryable=True), errors.HoldLimit),
        (refused("HOLD_CONFLICT", 409, retryable=True), errors.HoldConflict),
    ],
)
def test_a_hold_that_is_refused_is_never_sent_again(failure: Reply, kind: type[errors.Refused]) -> None:
    error, arrived = asked(hold, [failure, HOLD])
    assert type(error) is kind
    assert len(arrived) == 1
    assert error.idempotency_key == arrived[0]["idempotency_key"]
    assert error.advice


def test_a_hold_that_may_have_arrived_has_its_key() -> None:
    error, arrived = asked(hold, [refused("INTERNAL_ERROR", 500, retryable=True)])
    assert error.may_have_arrived
    assert {each["idempotency_key"] for each in arrived} == {error.idempotency_key}


def test_a_quote_keeps_members_that_the_client_does_not_know() -> None:
    document = SIGNED | {
        "jurisdiction": {"of": "rooftop"},
        "terms": "t",
        "created_at": "c",
        "document": "d",
        "new": [1.5],
    }
    quote, _ = asked(lambda agent: agent.quote(vin="v"), [document])
    assert quote.document == document
    assert quote.total == 30_191.95
    assert pickle.loads(pickle.dumps(quote)) == quote


def test_a_quote_of_another_form_breaks_the_protocol() -> None:
    error, _ = asked(lambda agent: agent.quote(vin="v"), [SIGNED | {"lines": "free"}])
    assert isinstance(error, errors.MalformedResponse)


def test_without_a_vehicle_no_quote_is_asked_for() -> None:
    error, arrived = asked(lambda agent: agent.quote(zip="84115"), [])
    assert isinstance(error, errors.InvalidRequest)
    assert arrived == []


def test_a_quote_without_a_signature_is_not_verified() -> None:
    error, arrived = asked(lambda agent: agent.verify_quote({"quote_id": "q"}), [])
    assert isinstance(error, errors.QuoteNotVerified)
    assert arrived == []


def test_the_extension_of_the_offers_is_not_that_of_the_protocol() -> None:
    """The version of the protocol decides the form of a lead."""
    receipt, arrived = asked(lambda agent: agent.submit_lead(**LEAD, offer={"quote_id": "q"}), [RECEIPT])
    assert receipt.status == "received"
    assert arrived[0]["offer"] == {"quote_id": "q"}

    async def extension(agent: DealerAgent) -> str | None:
        return agent.card.extension

    assert asked(extension, [])[0] == card(URL)["capabilities"]["extensions"][0]["uri"]


def test_a_dealer_that_repeats_a_page_of_changes_does_not_keep_the_client_forever() -> None:
    async def all_pages(agent: DealerAgent) -> int:
        return len([page async for page in agent.changes_all()])

    error, arrived = asked(all_pages, [{"changes": [], "cursor": "same", "more": True}])
    assert isinstance(error, errors.MalformedResponse)
    assert len(arrived) == 2
