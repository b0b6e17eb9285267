"""Defects for the checks of every exchange: agents that are wrong where no other check looks, or mix buyers up."""

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import replace

from dealer_agent.self_test.changing import answers, asks, error_payload, with_status
from dealer_agent.self_test.defect import Agent, AgentResponse, Call, Change, broken
from dealer_agent.self_test.defects.leads import customer, lead
from dealer_agent.self_test.defects.limits import rate_limited
from dealer_agent.self_test.reading import SEARCH

TOO_MANY_COLOURS = asks("inventory.facets.request", filters={"colour_of_seats": ["red"]})


answers("errors.status-of-code", with_status(400), TOO_MANY_COLOURS)
answers(
    "errors.status-of-code",
    with_status(400),
    lambda call: "stock" in (call.payload or {}) and "vin" not in (call.payload or {}),
    name="errors.status-of-code.stock",
)
PAGES_OF_FACETS = asks("inventory.facets.request", pagination={"skip": 0, "limit": 10})


def _entries(change: Change) -> Callable[[AgentResponse], AgentResponse]:
    """Changes each entry of `details.errors`."""
    return error_payload(lambda node: [change(each) for each in node["details"].get("errors", ())])


answers("errors.entries", _entries(lambda entry: entry.update(instancePath="filters.vin")), PAGES_OF_FACETS)
answers("errors.entries", _entries(lambda entry: entry.pop("message")), PAGES_OF_FACETS, name="errors.entries.text")
answers("errors.keyword-known", _entries(lambda entry: entry.update(keyword="is not known")), TOO_MANY_COLOURS)
answers(
    "errors.keyword-known",
    _entries(lambda entry: entry.update(keyword=entry["message"], message=entry["keyword"])),
    asks("inventory.search.request", filters={"vin": "1HGCY1F30RA00001"}),
    name="errors.keyword-known.swapped",
)


def _fails(answer: AgentResponse) -> AgentResponse:
    """Answers 500."""
    return answer.with_status(500)


answers("limits.no-server-errors", _fails, asks("inventory.search.request", privacy={"anonymous": "yes"}))
answers(
    "envelope.reply.no-task-id",
    lambda answer: answer.with_message(lambda message: message.update(taskId="task-1")),
)


@broken("leads.personal-data-everywhere")
async def names_the_customer(call: Call, agent: Agent) -> AgentResponse:
    """Repeats the customer's e-mail address in the error for an absent consent."""
    answer = await agent(call)
    if not lead(lambda payload: "consent" not in payload)(call):
        return answer
    return answer.with_error(lambda node: node.update(message=f"{customer(call.payload).get('email')} must agree."))


_latest: list[Call] = []


@broken("limits.parallel")
async def answers_the_latest_buyer(call: Call, agent: Agent) -> AgentResponse:
    """Answers all buyers that search at the same time with the result of one of them."""
    if call.skill != SEARCH or b'"contextId"' not in call.body:
        return await agent(call)
    _latest[:] = [call]
    # Requests of other buyers arrive in this pause, and the last one replaces `_latest`.
    await asyncio.sleep(0.01)
    return await agent(_latest[0])


@broken("http.other-methods")
async def does_not_look_at_the_method(call: Call, agent: Agent) -> AgentResponse:
    """Answers PUT and DELETE like POST."""
    is_other = call.method in ("PUT", "DELETE")
    return await agent(replace(call, method="POST") if is_other else call)


_times = itertools.count()


@broken("limits.retry-after", name="limits.retry-after.once")
async def is_busy_from_time_to_time(call: Call, agent: Agent) -> AgentResponse:
    """Refuses every second one of some searches with 429, without Retry-After."""
    answer = await agent(call)
    if asks("inventory.search.request", pagination={"limit": 17})(call) and next(_times) % 2 == 0:
        return rate_limited(answer).with_header("retry-after", None)
    return answer
