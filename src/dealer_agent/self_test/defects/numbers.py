"""Defects for the checks of numbers in requests: agents that read a JSON number as another one."""

from dealer_agent.self_test.defect import Agent, AgentResponse, Breaking, Call, broken


def _reads(text: str, otherwise: str) -> Breaking:
    """Reads this text of a limit as another one."""

    async def answer(call: Call, agent: Agent) -> AgentResponse:
        body = call.body.replace(b'"limit": %b}' % text.encode(), b'"limit": %b}' % otherwise.encode())
        return await agent(Call(call.method, call.url, call.headers, body))

    return answer


for _name, _text, _otherwise in (
    ("numbers.zero-fraction", "2.0", "2.5"),
    ("numbers.exponent", "2e0", "2.5"),
    ("duplicate-member", '1,"limit":2', "1"),
    ("numbers.fraction", "2.5", "2"),
    ("numbers.text", '"2"', "2"),
    ("numbers.boolean", "true", "2"),
    ("numbers.too-large", "100000000000000000000002", "2"),
    ("null", "null", "2"),
):
    broken(f"envelope.{_name}")(_reads(_text, _otherwise))
