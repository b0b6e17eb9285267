"""What the client sends again, and what never: against a server that really refuses and breaks connections."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.acceptance.running import free_port
from tests.client.dealers import LEAD, PAGE, RECEIPT, card, impatient, members_of, result
from tests.servers.misbehaving import Asked, misbehaving

from dealer_agent.client import DealerAgent, Retries, errors

pytestmark = pytest.mark.outside_protocol("the client library")

AT_ONCE = Retries(most=2, first_pause_seconds=0.0)

Failure = Callable[[Asked], Awaitable[None]]


def fails(status: int, body: object = b"", **headers: str) -> Failure:
    return lambda asked: asked.answer(body, status, **headers)


async def hangs_up(asked: Asked) -> None:
    asked.hang_up()


async def stops_in_the_middle(asked: Asked) -> None:
    asked.start(200, content_length="1000")
    asked.writer.write(b'{"jsonrpc"')
    await asked.writer.drain()
    asked.hang_up()


async def says_nothing(asked: Asked) -> None:
    await asyncio.sleep(600)


def payload(code: str, retryable: bool, **details: object) -> dict[str, Any]:
    """An error over HTTP+JSON, in the form of published versions."""
    inner = {"type": "aap.error", "error_id": "err_1", "code": code, "message": "No", "retryable": retryable}
    return {"error": {"code": 500, "message": "No", "details": [inner | {"details": details}]}}


def undeclared(url: str) -> dict[str, Any]:
    """The card of a dealer that does not declare idempotency."""
    document = card(url)
    del document["capabilities"]["extensions"][0]["params"]["idempotency"]
    return document


async def attempts(
    failure: Failure,
    times: int,
    is_lead: bool,
    *,
    declares: bool = False,
    timeout: float | None = None,
    **options: Any,
) -> tuple[list[dict[str, Any]], errors.DealerAgentError | None]:
    """The payloads that arrive at a dealer that fails so many times, and the error of the caller."""
    arrived: list[dict[str, Any]] = []

    async def serve(asked: Asked) -> None:
        if asked.method == "GET":
            await asked.answer(declaring(undeclared(url)) if declares else undeclared(url))
            return
        arrived.append(members_of(asked.body))
        if len(arrived) <= times:
            await failure(asked)
        else:
            await asked.answer(result(asked.body, RECEIPT if is_lead else PAGE))

    async with (
        misbehaving(serve) as url,
        DealerAgent.discover(url, binding="HTTP+JSON", **({"retries": AT_ONCE} | options)) as agent,
    ):
        try:
            await (agent.submit_lead(**LEAD, timeout=timeout) if is_lead else agent.search(timeout=timeout))
        except errors.DealerAgentError as error:
            return arrived, error
        return arrived, None


MENDED_FOR_BOTH: dict[str, Failure] = {
    "429 with a payload": fails(429, payload("RATE_LIMITED", True, retry_after_seconds=0), retry_after="0"),
    "a bare 429": fails(429, retry_after="0"),
    "a bare 503 with Retry-After": fails(503, retry_after="0"),
}
MENDED_FOR_READING: dict[str, Failure] = {
    "no reply": hangs_up,
    "half a reply": stops_in_the_middle,
    "a bare 502": fails(502),
    "a bare 503": fails(503),
    "an internal error": fails(500, payload("INTERNAL_ERROR", True)),
    "an internal error with 503": fails(503, payload("INTERNAL_ERROR", True), retry_after="0"),
    "an unknown temporary error": fails(500, payload("BUSY", True)),
    "a bare 504": fails(504),
}
NEVER: dict[str, Failure] = {
    "a refusal": fails(404, payload("VEHICLE_NOT_FOUND", False)),
    "an error that is not retryable": fails(500, payload("INTERNAL_ERROR", False)),
    "a bare 500": fails(500, b"<html>"),
    "a longer wait than the client accepts": fails(429, retry_after="3600"),
    "a redirect": fails(307, location="https://elsewhere.example/"),
}


MENDED = MENDED_FOR_BOTH | MENDED_FOR_READING


@pytest.mark.parametrize("failure", MENDED.values(), ids=MENDED)
def test_a_search_is_sent_again_after_a_failure_that_can_pass(failure: Failure) -> None:
    arrived, error = asyncio.run(attempts(failure, 2, is_lead=False))
    assert (len(arrived), error) == (3, None)


@pytest.mark.parametrize("failure", MENDED_FOR_BOTH.values(), ids=MENDED_FOR_BOTH)
def test_a_lead_is_sent_again_with_the_same_key_if_the_dealer_stored_nothing(failure: Failure) -> None:
    arrived, error = asyncio.run(attempts(failure, 2, is_lead=True))
    assert error is None
    assert len(arrived) == 3
    assert len({lead["idempotency_key"] for lead in arrived}) == 1


@pytest.mark.parametrize("failure", MENDED_FOR_READING.values(), ids=MENDED_FOR_READING)
def test_a_lead_that_may_have_arrived_is_not_sent_again(failure: Failure) -> None:
    """The error has the key, so that the caller can decide to send the lead once more."""
    arrived, error = asyncio.run(attempts(failure, 1, is_lead=True))
    assert len(arrived) == 1
    assert isinstance(error, errors.Unreachable | errors.Refused)
    assert error.may_have_arrived
    assert error.idempotency_key == arrived[0]["idempotency_key"]


def declaring(document: dict[str, Any]) -> dict[str, Any]:
    """The card of a dealer that declares idempotency."""
    document["capabilities"]["extensions"][0]["params"]["idempotency"] = True
    return document


@pytest.mark.parametrize("failure", MENDED.values(), ids=MENDED)
def test_a_lead_is_sent_again_with_the_same_key_if_the_dealer_declares_idempotency(failure: Failure) -> None:
    arrived, error = asyncio.run(attempts(failure, 2, is_lead=True, declares=True))
    assert error is None
    assert len(arrived) == 3
    assert len({lead["idempotency_key"] for lead in arrived}) == 1


def test_a_lead_that_an_earlier_attempt_sent_may_be_there_whatever_the_last_attempt_says() -> None:
    failures = iter((hangs_up, fails(422, payload("SCHEMA_VALIDATION_FAILED", False))))
    arrived, error = asyncio.run(attempts(lambda asked: next(failures)(asked), 2, is_lead=True, declares=True))
    assert len(arrived) == 2
    assert isinstance(error, errors.SchemaValidationFailed)
    assert error.may_have_arrived


@pytest.mark.parametrize("is_lead", [False, True], ids=["search", "lead"])
@pytest.mark.parametrize("failure", NEVER.values(), ids=NEVER)
def test_other_failures_are_not_retried(failure: Failure, is_lead: bool) -> None:
    arrived, error = asyncio.run(attempts(failure, 1, is_lead))
    assert len(arrived) == 1
    assert error is not None
    assert (error.idempotency_key is not None) is is_lead


def test_a_reply_that_does_not_come_ends_after_the_timeout_and_may_have_arrived() -> None:
    async def run() -> tuple[errors.Unreachable, bool]:
        arrived = False

        async def serve(asked: Asked) -> None:
            nonlocal arrived
            if asked.method == "GET":
                await asked.answer(card(url))
            else:
                arrived = True
                await says_nothing(asked)

        async with misbehaving(serve) as url, DealerAgent.discover(url) as agent, impatient(agent, 0.5) as hasty:
            with pytest.raises(errors.Unreachable, match="no response in time") as caught:
                await hasty.submit_lead(**LEAD)
        return caught.value, arrived

    error, arrived = asyncio.run(run())
    # A slow machine may need the whole time for the connection.
    assert error.may_have_arrived or not arrived


def test_the_timeout_of_a_call_ends_it_with_all_its_retries() -> None:
    """The dealer says nothing. After the timeout, there is no time for another attempt."""
    arrived, error = asyncio.run(attempts(says_nothing, 99, is_lead=False, timeout=0.3))
    assert len(arrived) <= 1
    assert isinstance(error, errors.Unreachable)
    assert "no response in time" in str(error)


def test_a_call_does_not_pause_beyond_its_timeout() -> None:
    """A pause of half a minute fits into the longest pause of the client, but not into a call of ten seconds."""
    failure = fails(429, retry_after="30")
    arrived, error = asyncio.run(attempts(failure, 99, is_lead=True, timeout=10.0))
    assert len(arrived) == 1
    assert isinstance(error, errors.RateLimited)
    assert error.retry_after == 30


def test_the_number_of_retries_is_bounded() -> None:
    arrived, error = asyncio.run(attempts(fails(503), 99, is_lead=False))
    assert len(arrived) == 3
    assert isinstance(error, errors.Unreachable)
    assert asyncio.run(attempts(fails(503), 99, is_lead=False, retries=Retries(most=0)))[0] == arrived[:1]


def test_a_lead_is_sent_again_if_there_was_no_connection() -> None:
    """The dealer's service restarts: for a moment, nothing listens at its port."""

    async def run() -> int:
        leads = 0

        async def serve(asked: Asked) -> None:
            nonlocal leads
            if asked.method == "GET":
                await asked.answer(card(url), connection="close")
                asked.writer.close()
                return
            leads += 1
            await asked.answer(result(asked.body, RECEIPT))

        patient = Retries(most=1_000, first_pause_seconds=0.01, longest_pause_seconds=0.01)
        seen: list[int] = []
        port = free_port()
        async with misbehaving(serve, port) as url:
            agent = await DealerAgent.discover(url, retries=patient, on_exchange=lambda each: seen.append(each.status))
        # The first server is gone.
        async with agent:
            submitting = asyncio.create_task(agent.submit_lead(**LEAD))
            while 0 not in seen:
                await asyncio.sleep(0.01)
            async with misbehaving(serve, port):
                await submitting
        return leads

    assert asyncio.run(run()) == 1


def test_without_a_server_the_error_says_that_nothing_arrived() -> None:
    async def run() -> errors.Unreachable:
        async with misbehaving(lambda asked: asked.answer(card(url)), free_port()) as url:
            agent = await DealerAgent.discover(url, retries=Retries(most=0))
        async with agent:
            with pytest.raises(errors.Unreachable) as caught:
                await agent.submit_lead(**LEAD, idempotency_key="mine")
        return caught.value

    error = asyncio.run(run())
    assert not error.may_have_arrived
    assert error.idempotency_key == "mine"


def test_a_caller_who_gives_up_ends_the_request() -> None:
    async def run() -> None:
        began = asyncio.Event()

        async def serve(asked: Asked) -> None:
            if asked.method == "GET":
                await asked.answer(card(url))
                return
            began.set()
            await says_nothing(asked)

        async with misbehaving(serve) as url, DealerAgent.discover(url) as agent:
            searching = asyncio.create_task(agent.search())
            await began.wait()
            searching.cancel()
            with pytest.raises(asyncio.CancelledError):
                await searching

    asyncio.run(run())
