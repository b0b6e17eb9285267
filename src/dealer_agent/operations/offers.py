"""Quotes and holds as staff see and change them. The commands `offers` and the pages of holds call these functions."""

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from dealer_agent.holds import LONGEST_HOLD, extend_hold
from dealer_agent.offers.words import amount_text
from dealer_agent.storage.offers import StoredHold, StoredQuote, find_hold, find_quote
from dealer_agent.storage.transaction import Transaction

LONGEST_REASON = 200
MOST_HOURS = LONGEST_HOLD // timedelta(hours=1)
"""The most hours that staff can give a hold at once."""


class Offer(NamedTuple):
    """A quote, and its hold if it was asked for by that."""

    quote: StoredQuote
    hold: StoredHold | None


class QuotedLine(Struct):
    """A line of the price. `label` may have text of strangers."""

    label: str
    amount: Decimal
    firm: bool


class QuotedPrice(Struct):
    """The price of a quote as the agent got it, also of one that a lead keeps. Then it has no vehicle."""

    quote_id: str
    price: Decimal
    lines: list[QuotedLine]
    total: Decimal
    currency: str
    valid_until: str
    vehicle: dict[str, Any] = {}
    missing: list[str] = []
    hold_id: str | None = None

    def text_of(self, amount: Decimal) -> str:
        """An amount with the currency of the quote."""
        return amount_text(amount, self.currency)

    @property
    def vehicle_words(self) -> str:
        """The vehicle, such as `2024 Honda Accord EX N-7`; empty if the quote says nothing of it."""
        names = ("year", "make", "model", "trim", "stock")
        return " ".join(str(self.vehicle[name]) for name in names if self.vehicle.get(name))


def find_offer(tx: Transaction, offer_id: str) -> Offer | None:
    """The quote with this id, or the hold with this id and its quote."""
    hold = find_hold(tx, offer_id)
    quote = find_quote(tx, offer_id if hold is None else hold.quote_id)
    return None if quote is None else Offer(quote, hold)


def quoted_price(quote: StoredQuote) -> QuotedPrice:
    """The price of a stored quote."""
    return msgspec.json.decode(quote.document, type=QuotedPrice)


def price_of_lead(offer: Mapping[str, Any]) -> QuotedPrice:
    """The price that a lead keeps of its quote."""
    return msgspec.convert(offer, QuotedPrice)


def extend_by_staff(tx: Transaction, hold_id: str, hours: int) -> StoredHold:
    """Lets a hold end so many hours from now. Raises HoldRefusedError."""
    return extend_hold(tx, hold_id, tx.now + timedelta(hours=hours))
