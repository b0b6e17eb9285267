"""The all-in price in words: for a terminal, a page, and the text of a tool. Pure."""

from collections.abc import Iterator
from decimal import Decimal

from dealer_agent.offers.pricing import AllInPrice, ExactLine


def amount_text(amount: Decimal, currency: str) -> str:
    """`$1,764.50` or `CAD 1,764.50`. A negative amount begins with its sign."""
    sign, digits = "-" if amount < 0 else "", f"{amount.copy_abs():,.2f}"
    return f"{sign}${digits}" if currency == "USD" else f"{currency} {sign}{digits}"


def firmness(line: ExactLine) -> str:
    """Whether the dealer keeps an amount."""
    return "firm" if line.firm else "estimate"


def payee_text(line: ExactLine) -> str:
    """Who gets the money, or gives it."""
    return line.payee.replace("_", " ")


def place_text(price: AllInPrice) -> str:
    """Whose taxes and charges the price has: `for a buyer in UT 84115`."""
    place = price.jurisdiction
    where = " ".join(part for part in (place.state, place.zip_code) if part)
    if place.of == "buyer":
        return f"for a buyer in {where}"
    return f"for a buyer at the rooftop, in {where}" if where else "for a buyer at the rooftop"


def total_label(price: AllInPrice) -> str:
    """What the total is: it never looks like the whole price if something is missing."""
    return "All-in price" if price.complete else f"Total without {_missing(price)}"


def gap_text(price: AllInPrice) -> str:
    """What is not in the total. Empty if nothing is missing."""
    if price.complete:
        return ""
    return f"Not stated for this place, so not in the total: {_missing(price)}."


def _missing(price: AllInPrice) -> str:
    *before, last = price.missing
    return f"{', '.join(before)} and {last}" if before else last


def tool_lines(price: AllInPrice) -> Iterator[str]:
    """The lines for a model: each amount with its mark, the total, and what is missing."""
    yield f"Price in lines, {place_text(price)}:"
    for line in price.lines:
        marks = ", ".join(filter(None, (firmness(line), payee_text(line), line.legal_basis)))
        yield f"- {line.label}: {amount_text(line.amount, price.currency)} ({marks})"
    yield f"- {total_label(price)}: {amount_text(price.total, price.currency)}"
    if gap := gap_text(price):
        yield f"- {gap}"
