"""Defects for the checks of operations: agents that crash on operations of A2A that they do not offer."""

from dealer_agent.self_test.defect import Agent, AgentResponse, Breaking, Call, broken


def _crashes(method: str, path: str) -> Breaking:
    """Answers a route with status 500 and a text, as a web framework does after an exception."""

    async def answer(call: Call, agent: Agent) -> AgentResponse:
        if call.method == method and call.path == path:
            return AgentResponse(500, (("content-type", "text/plain"),), b"Internal Server Error")
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
    broken(f"operations.{_name}")(_crashes(_method, _path))
