"""Members of canonical JSON that are not cells: fees, other attributes, the dealer's extras. Pure functions."""

import math
from typing import Any

from msgspec.structs import fields as struct_fields

from dealer_agent.inventory.feeds.cells import line, prose
from dealer_agent.inventory.feeds.json_records import path_is_withheld
from dealer_agent.inventory.feeds.layouts import CANONICAL
from dealer_agent.inventory.feeds.values import dollars
from dealer_agent.inventory.unit import Unit
from dealer_agent.inventory.vocabulary import fold
from dealer_agent.protocol.vehicle import Fee, Scalar, Vehicle

_MOST = 100
_LONGEST = 2_000
_KNOWN = frozenset(
    {fold(member.name) for struct in (Unit, Vehicle) for member in struct_fields(struct)}
    | {name for names in CANONICAL.folded.values() for name in names}
)


def _scalar(value: object) -> Scalar | None:
    """A scalar that responses can contain: no NaN, no integer beyond 64 bits, no unprintable text."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return prose(value, _LONGEST)
    if isinstance(value, int):
        return value if abs(value) < 2**63 else None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return None


def _scalars(members: dict[str, Any]) -> dict[str, Scalar]:
    found: dict[str, Scalar] = {}
    for name, value in members.items():
        tidy = line(name, 64)
        scalar = _scalar(value)
        if tidy and scalar is not None and not path_is_withheld(name) and len(found) < _MOST:
            found[tidy] = scalar
    return found


def ready_members(members: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The unit's `fees`, `other_attributes` and `extras`, and remarks about values that cannot be read.

    `extras` are the scalar members whose names the protocol does not define.
    """
    found: dict[str, Any] = {}
    remarks: list[str] = []
    others = members.get("other_attributes")
    if isinstance(others, dict) and (kept := _scalars(others)):
        found["other_attributes"] = kept
    unknown = {name: value for name, value in members.items() if fold(name) and fold(name) not in _KNOWN}
    if extras := _scalars(unknown):
        found["extras"] = extras
    if "fees" in members and members["fees"] is not None:
        fees = _fees(members["fees"])
        if fees is None:
            remarks.append("fees: not understood; give a list of {name, amount} in whole dollars.")
        else:
            found["fees"] = fees
    return found, remarks


def _fees(value: object) -> tuple[Fee, ...] | None:
    """All fees or None, because a price with only some of its fees would be wrong."""
    if not isinstance(value, list):
        return None
    fees: list[Fee] = []
    for item in value[:_MOST]:
        name = item.get("name") if isinstance(item, dict) else None
        amount = item.get("amount") if isinstance(item, dict) else None
        whole = dollars(str(amount))
        if not isinstance(name, str) or not (tidy := line(name, 100)) or whole is None:
            return None
        fees.append(Fee(name=tidy, amount=whole))
    return tuple(fees)
