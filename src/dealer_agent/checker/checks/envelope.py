"""The A2A message around a payload."""

from dealer_agent.checker.check import check, expect
from dealer_agent.checker.target import Target


@check("envelope.reply.message-id")
async def reply_has_an_id_of_its_own(target: Target) -> None:
    """Compares the ids of one request and its reply."""
    request = target.message(target.payload("dealer.information"))
    exchange = await target.send_message(request)
    found = target.reply_message(exchange).get("messageId")
    expect(isinstance(found, str) and found, "The reply has no messageId.", exchange)
    expect(found != request["message"]["messageId"], "The reply repeats the messageId of the request.", exchange)
