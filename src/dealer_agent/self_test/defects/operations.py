"""Defects for the checks of operations: agents that crash on, or answer, operations of A2A that they do not offer."""

from dataclasses import replace

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


@broken("operations.not-invented")
async def invents_a_task(call: Call, agent: Agent) -> AgentResponse:
    """Answers with a task for each id."""
    if call.method == "GET" and call.path == "/tasks/check-no-such-task":
        body = b'{"id": "check-no-such-task", "status": {"state": "TASK_STATE_SUBMITTED"}}'
        return AgentResponse(200, (("content-type", "application/json"),), body)
    return await agent(call)


@broken("operations.not-invented", name="operations.not-invented.stream")
async def answers_a_stream_at_once(call: Call, agent: Agent) -> AgentResponse:
    """Answers a stream as a message."""
    return await agent(replace(call, url=call.url.replace("/message:stream", "/message:send")))
