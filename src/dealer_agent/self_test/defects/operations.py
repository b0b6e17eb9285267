"""Agents that know no other operations of A2A."""

from dealer_agent.self_test.defect import Agent, Answer, Breaking, Call, broken


def _not_found(method: str, path: str) -> Breaking:
    """Answers a route as the web framework does."""

    async def answer(call: Call, agent: Agent) -> Answer:
        if call.method == method and call.path == path:
            return Answer(500, (("content-type", "text/plain"),), b"Internal Server Error")
        return await agent(call)

    return answer


for _name, _method, _path in (
    ("get-task", "GET", "/tasks/check-no-such-task"),
    ("cancel-task", "POST", "/tasks/check-no-such-task:cancel"),
    ("list-tasks", "GET", "/tasks"),
    ("streaming", "POST", "/message:stream"),
    ("subscribe", "POST", "/tasks/check-no-such-task:subscribe"),
    ("push-notifications", "POST", "/tasks/check-no-such-task/pushNotificationConfigs"),
    ("extended-card", "GET", "/extendedAgentCard"),
):
    broken(f"operations.{_name}")(_not_found(_method, _path))
