"""The section `[dmc12]` of `dealer.toml`, and what it needs of the others (docs/how-to/dmc12.md). Pure."""

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from dealer_agent.dealers.profile import DealerRooftop
from dealer_agent.dmc12.records import store_of
from dealer_agent.protocol.problems import Problem

_NEEDS = (
    "store_code",
    "website",
    "address with address_line_1, city, a state of two letters and a ZIP code",
)


class Dmc12Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether the service speaks DMC-12. `fresh_hours` is the most age of the stock of a dealer without feeds."""

    enabled: bool = False
    fresh_hours: Annotated[int, Meta(ge=1, le=720)] = 24


def dmc12_fits(file: dict[str, Any]) -> Iterator[Problem]:
    """DMC-12 needs the offers extension, and of each rooftop what a store has. Parts may be of a wrong type."""
    match file:
        case {"dmc12": {"enabled": True}, "rooftops": list(rooftops)}:
            if not _is_on(file.get("offers")):
                yield Problem(("dmc12", "enabled"), "needs quotes and holds; write enabled = true in [offers]")
            yield from _incomplete(rooftops)


def _is_on(section: object) -> bool:
    return isinstance(section, dict) and section.get("enabled") is True


def _incomplete(rooftops: list[Any]) -> Iterator[Problem]:
    """The problems of rooftops that cannot be stores of DMC-12. They lack something that it needs, or share a code."""
    codes = Counter(
        code for each in rooftops if isinstance(each, dict) and isinstance(code := each.get("store_code"), str)
    )
    for number, each in enumerate(rooftops):
        try:
            rooftop = msgspec.convert(each, DealerRooftop)
        except (msgspec.ValidationError, RecursionError):
            # Reported by its type.
            continue
        if store_of(rooftop) is None:
            yield Problem(("rooftops", number), f"cannot be a store of [dmc12]: it needs {', '.join(_NEEDS)}")
        elif codes[str(rooftop.store_code)] > 1:
            yield Problem(("rooftops", number, "store_code"), "is also that of another rooftop; write another one")
