"""Idempotency keys: a retry is the same lead. `lead_defects.py` has the keys that are refused."""

from dealer_agent.checker.check import Failed, Skipped, check, expect
from dealer_agent.checker.exchange import Exchange
from dealer_agent.checker.lead_requests import (
    Lead,
    is_accepted,
    key_of,
    keyed,
    lead,
    plain,
    submit,
    time_at,
    with_members,
)
from dealer_agent.checker.target import Refusal, Target

CONFLICT_STATUS = 409


async def _first(target: Target) -> Exchange:
    """The exchange of the lead with a key, whose first request was refused for its consent."""
    wrong = keyed(target)
    wrong["consent"] = []
    await submit(target, wrong)
    return await submit(target, keyed(target))


async def _accepted_first(target: Target) -> Exchange:
    exchange = await _first(target)
    if not is_accepted(target, exchange):
        raise Skipped("The lead with a key is refused.")
    return exchange


def _second_key(target: Target) -> Lead:
    return lead(target, with_members(idempotency_key=key_of(target, "second")))


@check("idempotency.longest-key")
async def long_keys_are_accepted(target: Target) -> None:
    """Sends a key of 128 characters."""
    if is_accepted(target, await _first(target)):
        return
    exchange = await submit(target, _second_key(target))
    if not is_accepted(target, exchange) and not is_accepted(target, await submit(target, plain(target))):
        raise Skipped("A lead without a key is refused too.")
    target.answer(exchange)


@check("idempotency.after-refusal")
async def keys_of_refused_leads_stay_free(target: Target) -> None:
    """Sends a lead with a wrong consent, and then the corrected lead with the same key."""
    exchange = await _first(target)
    if is_accepted(target, exchange):
        return
    if not is_accepted(target, await submit(target, _second_key(target))):
        raise Skipped("A lead with a key is refused.")
    raise Failed("The corrected lead with the same key is refused.", exchange)


async def _retry(target: Target) -> tuple[Exchange, Exchange]:
    """The exchanges of a lead and of its retry. Skips the check if one is refused: another check fails for that."""
    first = await _accepted_first(target)
    message_id = f"{target.message(keyed(target))['message']['messageId']}-retry"
    return first, await submit(target, keyed(target), message_id=message_id)


async def _replies(target: Target) -> tuple[Exchange, Lead, Lead]:
    first, again = await _retry(target)
    if not is_accepted(target, again):
        raise Skipped("The retry is refused.")
    return again, target.answer(first), target.answer(again)


@check("idempotency.same-lead")
async def retries_are_the_same_lead(target: Target) -> None:
    """Sends a lead again."""
    first, again = await _retry(target)
    ids = [target.answer(each).get("lead_id") for each in (first, again)]
    expect(ids[0] == ids[1], f"The retry is the lead {ids[1]}, and the first request {ids[0]}.", again)


@check("idempotency.same-status")
async def retries_have_the_same_status(target: Target) -> None:
    """Sends a lead again."""
    exchange, first, again = await _replies(target)
    found = again.get("status")
    expect(found == first.get("status"), f"The status is {found!r}, and was {first.get('status')!r}.", exchange)


@check("idempotency.same-answer")
async def retries_have_the_same_answer(target: Target) -> None:
    """Compares everything but id and status."""
    exchange, first, again = await _replies(target)
    others = [
        {name: value for name, value in each.items() if name not in ("lead_id", "status")} for each in (first, again)
    ]
    expect(others[0] == others[1], "The retry gets another answer.", exchange)


@check("idempotency.new-message-id")
async def retries_have_their_own_message_id(target: Target) -> None:
    """Compares the replies of a lead and of its retry."""
    first, again = await _retry(target)
    if not is_accepted(target, again):
        raise Skipped("The retry is refused.")
    ids = [target.reply_message(each).get("messageId") for each in (first, again)]
    expect(ids[0] != ids[1], "The reply to the retry has the messageId of the first reply.", again)


@check("idempotency.submitted-at")
async def the_time_of_submission_does_not_matter(target: Target) -> None:
    """Sends a lead again, with another time of submission."""
    first = await _accepted_first(target)
    again = await submit(target, keyed(target) | {"submitted_at": time_at(target, -1, hours=2)})
    ids = [target.answer(each).get("lead_id") for each in (first, again)]
    expect(ids[0] == ids[1], "The retry is another lead.", again)


async def _conflict(target: Target) -> Refusal:
    await _accepted_first(target)
    return target.refusal(await submit(target, keyed(target) | {"message": "Another message with the same key."}))


@check("idempotency.conflict")
async def another_lead_with_the_key_is_refused(target: Target) -> None:
    """Sends another lead with the same key."""
    error = await _conflict(target)
    expect(error.code == "IDEMPOTENCY_CONFLICT", f"The code is {error.code or 'absent'}.", error.exchange)


@check("idempotency.conflict-status")
async def conflicts_have_409(target: Target) -> None:
    """Sends another lead with the same key."""
    try:
        error = await _conflict(target)
    except Failed as accepted:
        raise Skipped(accepted.sentence) from None
    expect(error.status == CONFLICT_STATUS, f"The status is {error.status}, not 409.", error.exchange)
