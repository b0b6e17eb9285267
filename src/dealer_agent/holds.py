"""Begins and ends holds, each in one transaction under the dealer's lock (docs/protocol.md#offer-hold).

A hold ends by the clock, without anybody's help: one whose time is over does not hold.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET

from dealer_agent.correctable import NotPossible
from dealer_agent.protocol.errors import (
    HoldConflict,
    HoldEnded,
    HoldLimit,
    HoldNotFound,
    IdempotencyConflict,
    QuoteExpired,
    QuoteNotFound,
    VehicleUnavailable,
)
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.protocol.offers import HoldStatus, LeadOffer
from dealer_agent.protocol.timestamps import utc_text
from dealer_agent.storage.offers import (
    StoredHold,
    StoredQuote,
    add_hold,
    change_hold,
    count_open_holds,
    expire_hold_of_vehicle,
    find_hold,
    find_hold_by_key,
    find_quote,
    hold_of_vehicle,
    holds_of_caller,
)
from dealer_agent.storage.transaction import Transaction

BUDGET_TIME = timedelta(hours=24)
"""The time for which a hold counts against the budget of its agent."""
QUICK_RELEASE = timedelta(hours=1)
"""A hold that its agent releases within this time does not count, once in BUDGET_TIME."""
LONGEST_HOLD = timedelta(days=30)
"""The latest end that staff can give a hold, from its beginning."""


LEAD_HOLD = timedelta(hours=72)
"""How long a hold lasts after its lead, unless staff end it."""


_KEPT_BY_LEADS: Final = ("quote_id", "price", "lines", "total", "currency", "valid_until")


class HoldRules(NamedTuple):
    """How long a hold lasts, how many an agent may begin in BUDGET_TIME, and how many all agents may have at once."""

    lasts: timedelta
    most: int
    most_open: int


class HoldRequest(NamedTuple):
    """A request for a hold. `caller` is the identity of the agent, and `key_hash` that of its idempotency key."""

    caller: str
    quote_id: str
    key_hash: bytes
    request_hash: bytes


class QuotedHold(NamedTuple):
    """A hold, and the quote that it is for."""

    hold: StoredHold
    quote: StoredQuote


class HoldRefusedError(NotPossible):
    """Staff cannot change the hold. The message says why."""


def begin_hold(tx: Transaction, asked: HoldRequest, rules: HoldRules, is_for_sale: Callable[[str], bool]) -> QuotedHold:
    """Holds the vehicle of a quote. A repeated request gets the hold that it has made.

    Raises QuoteNotFound, QuoteExpired, VehicleUnavailable, HoldConflict, HoldLimit and IdempotencyConflict.
    """
    earlier = find_hold_by_key(tx, asked.key_hash)
    if earlier is not None:
        if earlier.request_hash != asked.request_hash:
            raise IdempotencyConflict("This idempotency_key came with another payload before.")
        return _with_quote(tx, earlier)
    quote = quote_of(tx, asked.quote_id, asked.caller)
    if quote.valid_until <= tx.now:
        until = utc_text(quote.valid_until)
        raise QuoteExpired(f"The quote was valid until {until}.", {"valid_until": until})
    if not is_for_sale(quote.vehicle_id):
        raise VehicleUnavailable("This vehicle is no longer available.", {"vehicle_id": quote.vehicle_id})
    expire_hold_of_vehicle(tx, quote.vehicle_id)
    other = hold_of_vehicle(tx, quote.vehicle_id)
    if other is not None:
        raise _conflict(other, asked.caller)
    _check_budget(tx, asked.caller, quote.vehicle_id, rules)
    hold = StoredHold(
        hold_id=new_ulid(),
        quote_id=quote.quote_id,
        vehicle_id=quote.vehicle_id,
        caller=asked.caller,
        key_hash=asked.key_hash,
        request_hash=asked.request_hash,
        created_at=tx.now,
        expires_at=tx.now + rules.lasts,
        status="active",
    )
    add_hold(tx, hold)
    return QuotedHold(hold, quote)


def quote_of(tx: Transaction, quote_id: str, caller: str | None) -> StoredQuote:
    """A quote that this agent may use: its own, or one of an anonymous agent. Raises QuoteNotFound."""
    quote = find_quote(tx, quote_id)
    if quote is None or quote.caller not in (None, caller):
        raise QuoteNotFound("There is no such quote.", {"instancePath": "/quote_id"})
    return quote


def hold_of(tx: Transaction, hold_id: str, caller: str | None) -> QuotedHold:
    """A hold of this agent. Raises HoldNotFound."""
    hold = find_hold(tx, hold_id)
    if hold is None or hold.caller != caller:
        raise HoldNotFound("There is no such hold.", {"instancePath": "/hold_id"})
    return _with_quote(tx, hold)


def release_hold(tx: Transaction, hold_id: str, caller: str) -> QuotedHold:
    """Ends a hold of this agent. One that it has released stays so. Raises HoldNotFound and HoldEnded."""
    quoted = hold_of(tx, hold_id, caller)
    if quoted.hold.status == "released":
        return quoted
    if not quoted.hold.holds_at(tx.now):
        raise HoldEnded("This hold has ended.", {"status": quoted.hold.status_at(tx.now)})
    return quoted._replace(hold=_end_now(tx, quoted.hold._replace(status="released")))


def offer_of_lead(tx: Transaction, offer: LeadOffer, caller: str | None) -> dict[str, Any]:
    """What a lead keeps of its quote, as JSON values. Its hold, if it has one that holds, now waits for the dealer.

    A lead is kept whatever became of the quote and of the hold. Raises QuoteNotFound and HoldNotFound.
    """
    if offer.hold_id is UNSET:
        assert offer.quote_id is not UNSET, "the schema wants one of both"
        quote, hold = quote_of(tx, offer.quote_id, caller), None
    else:
        found = hold_of(tx, offer.hold_id, caller)
        quote, hold = found.quote, found.hold
        if hold.status == "active" and hold.holds_at(tx.now):
            hold = hold._replace(status="became_lead", expires_at=tx.now + LEAD_HOLD)
            change_hold(tx, hold)
    quoted = msgspec.json.decode(quote.document)
    kept = {name: quoted[name] for name in _KEPT_BY_LEADS}
    return kept if hold is None else kept | {"hold_id": hold.hold_id, "held_until": utc_text(hold.expires_at)}


def end_hold(tx: Transaction, hold_id: str, why: str) -> StoredHold:
    """Ends a hold for the staff. Raises HoldRefusedError."""
    hold = _require_open_hold(tx, hold_id)
    return _end_now(tx, hold._replace(status="ended_by_dealer", ended_why=why))


def extend_hold(tx: Transaction, hold_id: str, until: datetime) -> StoredHold:
    """Gives a hold another end, for the staff. Raises HoldRefusedError."""
    hold = _require_open_hold(tx, hold_id)
    if until <= tx.now:
        raise HoldRefusedError("That time is in the past: choose a later one")
    if until > hold.created_at + LONGEST_HOLD:
        raise HoldRefusedError(f"A hold lasts at most {LONGEST_HOLD.days} days: choose an earlier time")
    extended = hold._replace(expires_at=until)
    change_hold(tx, extended)
    return extended


def shown_status(hold: StoredHold, now: datetime, *, is_for_sale: bool) -> HoldStatus:
    """What became of a hold. A vehicle that is held and gone has been sold."""
    status = hold.status_at(now)
    return "sold" if status in ("active", "became_lead") and not is_for_sale else status


def _require_open_hold(tx: Transaction, hold_id: str) -> StoredHold:
    hold = find_hold(tx, hold_id)
    if hold is None:
        raise HoldRefusedError(f"There is no hold {hold_id}")
    if not hold.holds_at(tx.now):
        raise HoldRefusedError(f"Hold {hold_id} has ended already: it is {hold.status_at(tx.now)}")
    return hold


def _with_quote(tx: Transaction, hold: StoredHold) -> QuotedHold:
    quote = find_quote(tx, hold.quote_id)
    assert quote is not None, "a quote is kept as long as its hold"
    return QuotedHold(hold, quote)


def _end_now(tx: Transaction, hold: StoredHold) -> StoredHold:
    ended = hold._replace(ended_at=tx.now)
    change_hold(tx, ended)
    return ended


def _conflict(other: StoredHold, caller: str) -> HoldConflict:
    """The refusal while the vehicle is held. It says until when, and never by whom, except to the holder."""
    until = utc_text(other.expires_at)
    if other.caller == caller:
        return HoldConflict("You hold this vehicle already.", {"until": until, "hold_id": other.hold_id})
    return HoldConflict("Another agent holds this vehicle.", {"until": until})


def _check_budget(tx: Transaction, caller: str, vehicle_id: str, rules: HoldRules) -> None:
    """Raises HoldLimit if the agent has begun too many holds or has held this vehicle, or if too many are held."""
    recent = holds_of_caller(tx, caller, tx.now - BUDGET_TIME)
    same = [hold for hold in recent if hold.vehicle_id == vehicle_id]
    if same:
        words = "This agent has held this vehicle in the last 24 hours."
        raise HoldLimit.of(words, _seconds_until(same[-1].created_at + BUDGET_TIME, tx.now))
    # One hold that was given back quickly does not count.
    given_back = next((hold for hold in recent if _was_quick(hold)), None)
    counted = [hold for hold in recent if hold is not given_back]
    if len(counted) >= rules.most:
        words = "This agent has no more holds for today."
        free_at = counted[len(counted) - rules.most].created_at if rules.most else tx.now
        raise HoldLimit.of(words, _seconds_until(free_at + BUDGET_TIME, tx.now))
    # Anybody can be many agents. So the budget of each does not bound what all of them hold.
    open_holds = count_open_holds(tx)
    if open_holds.first_end is not None and open_holds.number >= rules.most_open:
        words = "Agents already hold as many vehicles of this dealer as they may hold at one time."
        raise HoldLimit.of(words, _seconds_until(open_holds.first_end, tx.now))


def _was_quick(hold: StoredHold) -> bool:
    return hold.status == "released" and hold.ended_at is not None and hold.ended_at - hold.created_at <= QUICK_RELEASE


def _seconds_until(moment: datetime, now: datetime) -> int:
    return max(1, -((now - moment) // timedelta(seconds=1)))
