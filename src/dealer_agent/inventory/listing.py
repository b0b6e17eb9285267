"""From a unit of stock to the listing that buyers see: the dealer's policy and the listing's JSON. Pure.

Specification, part 2.5; contract, part 6. Money is whole US dollars.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from hashlib import blake2b
from operator import attrgetter
from typing import Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from dealer_agent.inventory.unit import Unit
from dealer_agent.inventory.vocabulary import fold
from dealer_agent.protocol.skill import VehicleDetail
from dealer_agent.protocol.vehicle import Fee, Scalar, Vehicle, VehicleMembers

FeedPrice = Literal["advertised", "before_fees"]
"""What the feed's selling price is: the advertised price, or the price before the rooftop's mandatory charges."""


@dataclass(frozen=True, slots=True)
class RooftopRule:
    """How a rooftop is recognised in a feed, and what it charges.

    `feed_ids` are the feed's ids and names of it; its own name counts without being among them. `fees` are all of its
    mandatory charges: None when the dealer has not said, () when there are none.
    """

    name: str
    feed_ids: frozenset[str] = frozenset()
    fees: tuple[Fee, ...] | None = None


@dataclass(frozen=True)
class ListingPolicy:
    """What a dealer's profile says about listings. At least one rooftop; the first takes what matches none."""

    dealer_id: str
    feed_price: FeedPrice
    rooftops: tuple[RooftopRule, ...]

    @cached_property
    def rule_by_hint(self) -> Mapping[str, RooftopRule]:
        """The rooftop for each folded feed id and name; of two that claim the same one, the earlier."""
        rules: dict[str, RooftopRule] = {}
        for rule in self.rooftops:
            for hint in (rule.name, *sorted(rule.feed_ids)):
                rules.setdefault(fold(hint), rule)
        rules.pop("", None)
        return rules


class UnitRecord(Struct, frozen=True):
    """What the store knows of a unit beside the feed.

    `confirmed_at` is the last import that had the unit, `changed_at` the last change of price, status or content. Times
    without an offset are UTC.
    """

    vehicle_id: str
    confirmed_at: datetime
    changed_at: datetime


def vehicle_id_for(unit: Unit) -> str:
    """The id that a unit gets when it is first seen: made from its VIN, else from its stock number (contract, part 6).

    Spelling variants of one VIN or stock number make one id. Raises ValueError for a unit with neither.
    """
    if isinstance(unit.vin, str) and (vin := unit.vin.strip().upper()):
        return f"vin-{vin}"
    if isinstance(unit.stock, str) and (stock := unit.stock.strip().casefold()):
        return f"stock-{stock}"
    raise ValueError("a unit needs a VIN or a stock number")


def match_rooftop(hints: tuple[str, ...], policy: ListingPolicy) -> tuple[str, bool]:
    """The name of the unit's rooftop, and whether a hint named it; the first rooftop takes what none names."""
    rule, matched = _rule_for(hints, policy)
    return rule.name, matched


def list_unit(unit: Unit, record: UnitRecord, policy: ListingPolicy) -> Vehicle:
    """The listing of a unit under the dealer's policy (contract, part 6).

    `price` is never guessed: before fees that are not given it stays absent. `fees` stand only beside the price that
    they are inside of.
    """
    rule, _ = _rule_for(unit.rooftop_hints, policy)
    members = dict(zip(_MEMBERS, _members_of(unit), strict=True))
    if policy.feed_price == "before_fees":
        price: int | UnsetType = UNSET
        fees: tuple[Fee, ...] | UnsetType = UNSET
        if unit.selling_price is not UNSET:
            members["list_price"] = unit.selling_price
            if rule.fees is not None:
                price = unit.selling_price + sum(fee.amount for fee in rule.fees)
                fees = rule.fees
    else:
        price = unit.selling_price
        fees = unit.fees
        if fees is UNSET and rule.fees is not None:
            fees = rule.fees
        if price is UNSET:
            fees = UNSET
    members["fees"] = fees
    updated_at = record.confirmed_at if unit.feed_updated_at is UNSET else unit.feed_updated_at
    return Vehicle(
        vehicle_id=record.vehicle_id,
        status=unit.status,
        rooftop=rule.name,
        updated_at=_utc(updated_at),
        changed_at=_utc(record.changed_at),
        dealer_id=policy.dealer_id,
        condition=unit.condition,
        price=price,
        **members,
    )


def listing_json(vehicle: Vehicle, extras: Mapping[str, Scalar] | None = None) -> bytes:
    """The listing as it goes over the wire, with the dealer's extra members behind the known ones.

    An extra never stands in for a known member, present or absent. Numbers without a fraction go as integers.
    """
    body = msgspec.json.encode(_whole_numbers(vehicle))
    passed = _passed_through(extras)
    if not passed:
        return body
    return body[:-1] + b"," + msgspec.json.encode(passed)[1:]


def listing_digest(vehicle: Vehicle, extras: Mapping[str, Scalar] | None = None) -> str:
    """A hash of price, status and content, the same in every process: when it differs, the unit changed.

    `updated_at` and `changed_at` are left out (contract, part 6).
    """
    content = msgspec.structs.replace(_whole_numbers(vehicle), updated_at=_NO_TIME, changed_at=UNSET)
    encoded = msgspec.json.encode((content, _passed_through(extras)), order="deterministic")
    return blake2b(encoded, digest_size=16).hexdigest()


_MEMBERS = VehicleMembers.__struct_fields__
_members_of = attrgetter(*_MEMBERS)

_NO_TIME = datetime.min.replace(tzinfo=UTC)
_KNOWN = frozenset(VehicleDetail.__struct_fields__)


def _rule_for(hints: tuple[str, ...], policy: ListingPolicy) -> tuple[RooftopRule, bool]:
    for hint in hints:
        rule = policy.rule_by_hint.get(fold(hint))
        if rule is not None:
            return rule, True
    return policy.rooftops[0], False


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _passed_through(extras: Mapping[str, Scalar] | None) -> dict[str, Scalar]:
    return {name: value for name, value in extras.items() if name not in _KNOWN} if extras else {}


def _whole_numbers(vehicle: Vehicle) -> Vehicle:
    """The same vehicle with `310` for `310.0`."""
    whole: dict[str, int] = {}
    for name in ("electric_range_mi", "battery_kwh", "motor_power_hp"):
        number = getattr(vehicle, name)
        if isinstance(number, float) and number.is_integer():
            whole[name] = int(number)
    return msgspec.structs.replace(vehicle, **whole) if whole else vehicle
