"""Defects in one line: what is changed in a response or in a request, and in which ones."""

from collections.abc import Callable
from typing import Any

from dealer_agent.self_test.defect import Agent, Answer, Breaking, Call, Change, broken

When = Callable[[Call], object]


def always(_: Call) -> bool:
    """All calls."""
    return True


def changes_answers(when: When, change: Callable[[Answer], Answer]) -> Breaking:
    """An agent that changes the answers to some calls."""

    async def changed(call: Call, agent: Agent) -> Answer:
        answer = await agent(call)
        return change(answer) if when(call) else answer

    return changed


def changes_calls(when: When, change: Callable[[Call], Call]) -> Breaking:
    """An agent that reads some calls as others."""

    async def changed(call: Call, agent: Agent) -> Answer:
        return await agent(change(call) if when(call) else call)

    return changed


def answers(requirement_id: str, change: Callable[[Answer], Answer], when: When = always, **place: Any) -> None:
    """Registers a defect that changes the answers to some calls. `place` is that of `broken`."""
    register(requirement_id, changes_answers(when, change), place)


def calls(requirement_id: str, change: Callable[[Call], Call], when: When = always, **place: Any) -> None:
    """Registers a defect that changes some calls before the agent gets them."""
    register(requirement_id, changes_calls(when, change), place)


def register(requirement_id: str, defect: Breaking, place: dict[str, Any]) -> None:
    """`broken` as a call. `place` has its options."""
    broken(requirement_id, **place)(defect)


def asks(type_name: str, **members: Any) -> When:
    """Calls whose payload has this type and these members."""
    return lambda call: (
        isinstance(call.payload, dict)
        and call.payload.get("type") == type_name
        and all(call.payload.get(name) == value for name, value in members.items())
    )


def error(change: Change) -> Callable[[Answer], Answer]:
    """Changes the member `error` of a response."""
    return lambda answer: answer.with_error(change)


def error_payload(change: Change) -> Callable[[Answer], Answer]:
    """Changes the error payload of a response."""
    return lambda answer: answer.with_error_payload(change)


def with_status(status: int) -> Callable[[Answer], Answer]:
    """Changes the HTTP status of an error, and the `error.code` that repeats it."""

    def change(answer: Answer) -> Answer:
        return answer.with_status(status).with_error(lambda found: found.update(code=status))

    return change


def with_code(code: str) -> Callable[[Answer], Answer]:
    """Changes the error code in both entries."""

    def change(found: Any) -> None:
        entries = found.get("details") or found["data"]
        for each in entries if isinstance(entries, list) else [entries]:
            each["reason" if "reason" in each else "code"] = code

    return error(change)
