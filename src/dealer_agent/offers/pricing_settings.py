"""The types of `[pricing]` in `dealer.toml`. Pure. docs/reference/settings.md has the meaning of each key.

Amounts and rates are decimal numbers in quotes: a number without quotes would be a binary fraction.
"""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import cached_property
from typing import Annotated, Any, Literal, get_args

from msgspec import UNSET, Meta, Struct, UnsetType

from dealer_agent.dealers.profile import MOST_ROOFTOPS
from dealer_agent.dealers.profile_checks import Text, must_satisfy, read_by
from dealer_agent.offers.us_places import PREFIX_LENGTH, UsLocation, read_state, read_zip
from dealer_agent.protocol.offers import Payee
from dealer_agent.protocol.problems import Problem

RuleKind = Literal["doc", "addon", "transport", "discount", "rebate", "title", "registration", "tax"]
Base = Literal["vehicle_price", "price", "taxable"]
SUBTRACTED: frozenset[str] = frozenset({"discount", "rebate"})
"""The kinds whose amounts are written without a sign, and subtracted."""

MOST_LINES = 500
MOST_ZIPS = 1000
"""The most ZIP codes and prefixes of a line."""
MOST_STATES = 100
MOST_AMOUNT = 1_000_000
LONGEST_LABEL = 80
LONGEST_BASIS = 200
MOST_DECIMALS = 8
"""The most digits of a rate after its point."""


def _short_text(most: int) -> Meta:
    """The annotation of a text that is not blank and has at most so many characters."""

    def read(value: str) -> str:
        if not value.strip():
            raise ValueError("is empty; write something, or leave the key out")
        if len(value) > most:
            raise ValueError(f"has {len(value)} characters; write at most {most}")
        return value

    return read_by(read)


def read_amount(value: str) -> str:
    """An amount of money with at most two decimals, in quotes."""
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,2})?", value):
        raise ValueError(f"'{value}' must be an amount with at most two decimals, in quotes, such as '85' or '85.50'")
    if Decimal(value) > MOST_AMOUNT:
        raise ValueError(f"{value} is too large; write at most {MOST_AMOUNT}")
    return value


def read_rate(value: str) -> str:
    """A rate from 0 to 1, in quotes: 0.0775 is 7.75 %."""
    if not re.fullmatch(rf"[0-9]{{1,3}}(\.[0-9]{{1,{MOST_DECIMALS}}})?", value):
        raise ValueError(f"'{value}' must be a rate in quotes: write 7.75 % as '0.0775'")
    rate = Decimal(value)
    if rate > 1:
        percent = f"if it is {value} %, write '{(rate / 100).normalize():f}'"
        raise ValueError(f"{value} is more than 1, the whole price; {percent}")
    return value


def read_currency(value: str) -> str:
    """A currency as three letters."""
    if not re.fullmatch("[A-Z]{3}", value):
        raise ValueError(f"'{value}' must be the three letters of a currency, such as 'USD'")
    return value


def lines_say_how_much(lines: list[Any]) -> Iterator[Problem]:
    """A line has either an amount, or a rate and its base. A share of the taxable lines is not a taxable line."""
    for index, line in enumerate(lines):
        if not isinstance(line, dict):
            continue
        match "amount" in line, "rate" in line, "base" in line:
            case (True, True, _):
                yield Problem((index, "rate"), "the line also has an amount; remove one of the two")
            case (False, False, _):
                yield Problem((index,), 'says neither amount nor rate; write amount = "85.00", or rate and base')
            case (False, True, False):
                bases = " or ".join(f'base = "{base}"' for base in get_args(Base))
                yield Problem((index, "rate"), f"of what? write {bases}")
            case (True, False, True):
                yield Problem((index, "base"), "is for a rate; remove it, because the line has an amount")
        if line.get("base") == "taxable" and line.get("taxable") is True:
            yield Problem((index, "taxable"), "would be a part of its own base; write false, or another base")


class LineRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line of the price after the advertised price, and where it holds (docs/how-to/all-in-price.md).

    `amount` is at least 0; a discount or rebate is subtracted. `states` and `zips` together are its places: without
    both, every place. `rooftops` are those of the vehicles: without any, all.
    """

    label: Annotated[str, _short_text(LONGEST_LABEL)]
    kind: RuleKind
    payee: Payee
    amount: Annotated[Decimal, read_by(read_amount)] | UnsetType = UNSET
    rate: Annotated[Decimal, read_by(read_rate)] | UnsetType = UNSET
    base: Base | UnsetType = UNSET
    taxable: bool = False
    firm: bool = False
    legal_basis: Annotated[str, _short_text(LONGEST_BASIS)] | UnsetType = UNSET
    rooftops: Annotated[tuple[Text, ...], Meta(max_length=MOST_ROOFTOPS)] = ()
    states: Annotated[tuple[Annotated[str, read_by(read_state)], ...], Meta(max_length=MOST_STATES)] = ()
    zips: Annotated[tuple[Annotated[str, read_by(read_zip)], ...], Meta(max_length=MOST_ZIPS)] = ()

    @property
    def holds_everywhere(self) -> bool:
        """Whether it names no state and no ZIP code."""
        return not self.states and not self.zips


class PricingSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """The lines of the all-in price, in their order, and their currency (ISO 4217)."""

    currency: Annotated[str, read_by(read_currency)] = "USD"
    lines: Annotated[tuple[LineRule, ...], must_satisfy(lines_say_how_much), Meta(max_length=MOST_LINES)] = ()

    @cached_property
    def _numbers_by_place(self) -> Mapping[str, tuple[int, ...]]:
        """The numbers of the lines that name a state, ZIP code or prefix; those of everywhere have the key `""`."""
        found: dict[str, tuple[int, ...]] = {}
        for number, line in enumerate(self.lines):
            for key in {*line.states, *line.zips} if not line.holds_everywhere else {""}:
                found[key] = (*found.get(key, ()), number)
        return found

    def lines_at(self, rooftop: str, place: UsLocation) -> list[LineRule]:
        """The lines that hold at a place for the vehicles of a rooftop, in their order."""
        by_place, code = self._numbers_by_place, place.zip_code or ""
        keys = {"", place.state or "", code[:PREFIX_LENGTH], code}
        numbers = {number for key in keys for number in by_place.get(key, ())}
        found = (self.lines[number] for number in sorted(numbers))
        return [line for line in found if not line.rooftops or rooftop in line.rooftops]
