"""Each run ends with verdicts, whatever JSON an agent answers: no check breaks on a value of another type."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from zlib import crc32

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.checker.agents import HonestAgent, check_agent
from tests.server.dealership import LISTENS_AT
from tests.soak import examples

from dealer_agent.checker.events import Verdict
from dealer_agent.checker.reports import REPORTS
from dealer_agent.checker.result import RunResult
from dealer_agent.checker.runner import Options
from dealer_agent.self_test.defect import Agent, AgentResponse, Breaking, Call

pytestmark = pytest.mark.outside_protocol("checker")

Replace = Callable[[Any], Any]
"""Another value for one value of an answer, whose own values are replaced already."""

CRASH = "The check itself failed"
BINDINGS = ("JSONRPC", "HTTP+JSON")
FOUND_BY = ("supportedInterfaces", "skills", "entries", "uri")
"""Members by which a run finds the interfaces and skills. They stay as they are."""
PARTS = ("message", "parts", "0", "data")
AROUND = {(*outer, *PARTS[:length]) for outer in ((), ("result",)) for length in range(len(PARTS) + 1)}
"""What is around a payload."""
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**400), 10**400)
    | st.floats(allow_nan=False)
    | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
OVERFLOW = float("inf")
"""Is written as 1e999, which every reader of JSON accepts."""
ODD_TEXT = "\ud800²\u0000`" + "9" * 30


def of_type(kind: type | tuple[type, ...], other: Replace) -> Replace:
    return lambda value: (
        other(value) if isinstance(value, kind) and (kind is bool or not isinstance(value, bool)) else value
    )


def some(replace: Replace, share: int = 2, seed: int = 0) -> Replace:
    """Replaces one of `share` values: the same ones in each answer, because a check repeats what failed."""

    def chosen(value: Any) -> Any:
        return replace(value) if crc32(f"{seed} {value}".encode("utf-8", "replace")) % share == 0 else value

    return chosen


NUMBER = (int, float)
SHAPES: dict[str, Replace] = {
    "all numbers are strings": of_type(NUMBER, str),
    "some numbers are strings": some(of_type(NUMBER, str)),
    "all numbers overflow": of_type(NUMBER, lambda _: OVERFLOW),
    "all numbers are huge": of_type(NUMBER, lambda _: 10**400),
    "all numbers are negative": of_type(NUMBER, lambda value: -value - 1),
    "all numbers are arrays": of_type(NUMBER, lambda value: [value]),
    "all strings are numbers": of_type(str, len),
    "some strings are numbers": some(of_type(str, len)),
    "all strings are objects": of_type(str, lambda value: {"value": value}),
    "some strings are arrays": some(of_type(str, lambda value: [[value]])),
    "all strings are odd": of_type(str, lambda _: ODD_TEXT),
    "all booleans are strings": of_type(bool, str),
    "all arrays are objects": of_type(list, lambda value: {str(index): each for index, each in enumerate(value)}),
    "some arrays are strings": some(of_type(list, str)),
    "some objects are arrays": some(of_type(dict, lambda value: [*value.values()])),
    "some values are null": some(of_type((int, float, str), lambda _: None)),
}


ALWAYS = ("all numbers overflow",)
"""The shape of a normal run. Each is a whole run of the checker, which takes seconds."""
EACH_SHAPE = [shape if shape in ALWAYS else pytest.param(shape, marks=pytest.mark.soak) for shape in SHAPES]


def replaced(node: Any, replace: Replace, path: tuple[str, ...] = ()) -> Any:
    """A document with other values. What is around a payload stays, and what finds an interface."""
    if isinstance(node, dict):
        found: Any = {
            name: value if name in FOUND_BY else replaced(value, replace, (*path, name)) for name, value in node.items()
        }
    elif isinstance(node, list):
        found = [replaced(each, replace, (*path, "0")) for each in node]
    else:
        found = node
    return found if path in AROUND or path[-1] in ("type", "jsonrpc") else replace(found)


def answering(replace: Replace, *, documents: bool) -> Breaking:
    """An agent with other values in its card and the documents beside it, or in its responses to messages."""

    async def answer(call: Call, agent: Agent) -> AgentResponse:
        found = await agent(call)
        if found.document is None or documents is not (call.method == "GET"):
            return found
        return found.with_body(json.dumps(replaced(found.document, replace)).replace("Infinity", "1e999").encode())

    return answer


def check(
    agent: HonestAgent, replace: Replace, *, documents: bool, binding: str = "HTTP+JSON", only: tuple[str, ...] = ()
) -> list[Verdict]:
    options = Options(only, revisions={"1.0.0"}, bindings={binding}, vocabularies={"proto"}, leads=True, rate=1e9)
    url = f"{LISTENS_AT}/.well-known/agent-card.json"
    return check_agent(agent, options, answering(replace, documents=documents), url)


def expect_verdicts(verdicts: list[Verdict]) -> None:
    """No check broke, and each report can be written."""
    broken = {f"{each.requirement.id}: {each.sentence}" for each in verdicts if CRASH in each.sentence}
    assert broken == set()
    result = RunResult(LISTENS_AT, datetime.now(UTC), verdicts=verdicts)
    for write in REPORTS.values():
        write(result).encode()


@pytest.mark.parametrize("shape", EACH_SHAPE)
def test_responses_with_values_of_another_type_fail_a_must(shape: str, honest: HonestAgent) -> None:
    verdicts = check(honest, SHAPES[shape], documents=False, binding=BINDINGS[len(shape) % 2])
    expect_verdicts(verdicts)
    assert any(each.outcome == "fail" and each.requirement.level == "MUST" for each in verdicts)


@pytest.mark.parametrize("shape", EACH_SHAPE)
def test_documents_with_values_of_another_type_end_no_run(shape: str, honest: HonestAgent) -> None:
    expect_verdicts(check(honest, SHAPES[shape], documents=True, only=("cards", "catalog", "signatures")))


@pytest.mark.soak
@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), documents=st.booleans(), binding=st.sampled_from(BINDINGS))
def test_responses_with_any_values_end_no_run(
    data: st.DataObject, documents: bool, binding: str, honest: HonestAgent
) -> None:
    values = data.draw(st.lists(JSON, min_size=1, max_size=20))
    share, seed = data.draw(st.sampled_from((2, 5, 20, 100))), data.draw(st.integers(0, 10**6))

    def other(value: Any) -> Any:
        return values[crc32(str(value).encode("utf-8", "replace")) % len(values)]

    expect_verdicts(check(honest, some(other, share, seed), documents=documents, binding=binding))
