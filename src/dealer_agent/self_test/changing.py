"""Defects in one line: what is changed in a response or in a request, and in which ones."""

from collections.abc import Callable
from typing import Any

from dealer_agent.self_test.defect import Agent, AgentResponse, Breaking, Call, Change, broken

When = Callable[[Call], object]


def always(_: Call) -> bool:
    """All calls."""
    return True


def changes_answers(when: When, change: Callable[[AgentResponse], AgentResponse]) -> Breaking:
    """An agent that changes the answers to some calls."""

    async def changed(call: Call, agent: Agent) -> AgentResponse:
        answer = await agent(call)
        return change(answer) if when(call) else answer

    return changed


def changes_calls(when: When, change: Callable[[Call], Call]) -> Breaking:
    """An agent that reads some calls as others."""

    async def changed(call: Call, agent: Agent) -> AgentResponse:
        return await agent(change(call) if when(call) else call)

    return changed


def answers(
    requirement_id: str, change: Callable[[AgentResponse], AgentResponse], when: When = always, **options: Any
) -> None:
    """Registers a defect that changes the answers to some calls. `options` are those of `broken`."""
    register(requirement_id, changes_answers(when, change), options)


def calls(requirement_id: str, change: Callable[[Call], Call], when: When = always, **options: Any) -> None:
    """Registers a defect that changes some calls before the agent gets them."""
    register(requirement_id, changes_calls(when, change), options)


def register(requirement_id: str, defect: Breaking, options: dict[str, Any]) -> None:
    """`broken` as a call. `options` are its keyword arguments."""
    broken(requirement_id, **options)(defect)


def asks(type_name: str, **members: Any) -> When:
    """Calls whose payload has this type and these members."""
    return lambda call: (
        isinstance(call.payload, dict)
        and call.payload.get("type") == type_name
        and all(call.payload.get(name) == value for name, value in members.items())
    )


def error(change: Change) -> Callable[[AgentResponse], AgentResponse]:
    """Changes the member `error` of a response."""
    return lambda answer: answer.with_error(change)


def error_payload(change: Change) -> Callable[[AgentResponse], AgentResponse]:
    """Changes the error payload of a response."""
    return lambda answer: answer.with_error_payload(change)


def with_status(status: int) -> Callable[[AgentResponse], AgentResponse]:
    """Changes the HTTP status of an error, and the `error.code` that repeats it."""

    def change(answer: AgentResponse) -> AgentResponse:
        return answer.with_status(status).with_error(lambda node: node.update(code=status))

    return change


def with_code(code: str) -> Callable[[AgentResponse], AgentResponse]:
    """Changes the error code in both entries."""

    def change(node: Any) -> None:
        entries = node.get("details") or node["data"]
        for each in entries if isinstance(entries, list) else [entries]:
            each["reason" if "reason" in each else "code"] = code

    return error(change)
