"""Broken envelopes."""

from tests.checker.breaking import Agent, Answer, Call, broken


@broken("envelope.reply.message-id")
async def repeats_the_message_id(call: Call, agent: Agent) -> Answer:
    answer = await agent(call)
    if not isinstance(call.document, dict) or "message" not in call.document:
        return answer
    return answer.with_message(lambda message: message.update(messageId=call.document["message"].get("messageId")))
