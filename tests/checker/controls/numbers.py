"""Agents that read numbers differently."""

from typing import Any

from tests.checker.breaking import Agent, Answer, Breaking, Call, broken

from dealer_agent.checker.checks.numbers import ACCEPTED, REFUSED


def _reads(text: str, otherwise: str) -> Breaking:
    """Reads this text of a limit as another one."""

    async def answer(call: Call, agent: Agent) -> Answer:
        body = call.body.replace(b'"limit": %b}' % text.encode(), b'"limit": %b}' % otherwise.encode())
        return await agent(Call(call.method, call.url, call.headers, body))

    return answer


LIMITS: dict[str, Any] = dict.fromkeys(ACCEPTED, "2.5") | dict.fromkeys(REFUSED, "2")
LIMITS["envelope.duplicate-member"] = "1"

for _id, _text in (ACCEPTED | REFUSED).items():
    broken(_id)(_reads(_text, LIMITS[_id]))
