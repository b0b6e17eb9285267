"""Agents that know no other operations of A2A."""

from tests.checker.breaking import Agent, Answer, Breaking, Call, broken

from dealer_agent.checker.checks.operations import OPERATIONS


def _not_found(method: str, path: str) -> Breaking:
    """Answers a route as the web framework does."""

    async def answer(call: Call, agent: Agent) -> Answer:
        if call.method == method and call.path == path:
            return Answer(500, (("content-type", "text/plain"),), b"Internal Server Error")
        return await agent(call)

    return answer


for _id, _operation in OPERATIONS.items():
    broken(_id)(_not_found(_operation[1], _operation[2]))

broken("operations.list-tasks")(_not_found("GET", "/tasks"))
