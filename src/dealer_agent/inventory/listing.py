"""Units of stock, and the listings that buyers see (docs/protocol.md#listings). Pure.

The database stores units. The dealer's policy for rooftops, fees and prices makes listings of them, so a change of the
policy does not need a new feed. Money is whole US dollars.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from hashlib import blake2b
from operator import attrgetter

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from dealer_agent.inventory.canonical_words.text import fold
from dealer_agent.protocol.skill import VehicleDetail
from dealer_agent.protocol.vehicle import (
    FIELDS,
    Fee,
    FeedPrice,
    ListingStatus,
    SaleCondition,
    Scalar,
    Vehicle,
    VehicleMembers,
)
from dealer_agent.protocol.vehicle_field import Natural


class Unit(VehicleMembers, frozen=True, omit_defaults=True, kw_only=True):
    """One unit of stock as the feed gave it, in canonical words. It has `vin` or `stock` or both. Mileage is miles.

    `selling_price` is the feed's price (`Profile.feed_price` says what it includes). `rooftop_hints` are the feed's
    dealer ids and names, best first. `feed_updated_at` is the feed's time for the unit. Buyers get `extras` unchanged.
    """

    vehicle_id: str | UnsetType = UNSET
    rooftop_hints: tuple[str, ...] = ()
    status: ListingStatus = "available"
    condition: SaleCondition | UnsetType = UNSET
    selling_price: Natural | UnsetType = UNSET
    feed_updated_at: datetime | UnsetType = UNSET
    extras: dict[str, Scalar] = field(default_factory=dict)


document_of: Callable[[Unit], bytes] = msgspec.json.Encoder(order="deterministic").encode
"""The JSON of a unit, as the stock has it."""


@dataclass(frozen=True, slots=True)
class RooftopRule:
    """A rooftop in the dealer's policy.

    `feed_ids` are its ids and names in feeds, besides its own name. `fees` are all of its mandatory charges: None if
    the dealer did not configure them, () if there are none.
    """

    name: str
    feed_ids: frozenset[str] = frozenset()
    fees: tuple[Fee, ...] | None = None


@dataclass(frozen=True)
class ListingPolicy:
    """The dealer's policy for listings. There is at least one rooftop."""

    dealer_id: str
    feed_price: FeedPrice
    rooftops: tuple[RooftopRule, ...]

    @cached_property
    def rule_by_hint(self) -> Mapping[str, RooftopRule]:
        """Maps a feed id or name, as it is and folded, to its rooftop: of two with the same id, to the first one."""
        rules: dict[str, RooftopRule] = {}
        for rule in self.rooftops:
            for hint in (rule.name, *sorted(rule.feed_ids)):
                if folded := fold(hint):
                    rules[hint] = rules.setdefault(folded, rule)
        return rules

    def rooftop_of(self, hints: Iterable[str]) -> RooftopRule | None:
        """The rooftop that the first known hint names. None without a known hint."""
        for hint in hints:
            # Most feeds write it as the settings do. Folding takes time, so it comes second.
            rule = self.rule_by_hint.get(hint) or self.rule_by_hint.get(fold(hint))
            if rule is not None:
                return rule
        return None

    def rule_of(self, unit: Unit) -> RooftopRule:
        """The rooftop under which a unit is listed: the first one if the unit names no known rooftop."""
        return self.rooftop_of(unit.rooftop_hints) or self.rooftops[0]


class UnitRecord(Struct, frozen=True):
    """What the database knows of a unit besides its feed.

    `confirmed_at` is the time of the last import with the unit, `changed_at` the last change of price, status or
    content. Times without an offset are UTC.
    """

    vehicle_id: str
    confirmed_at: datetime
    changed_at: datetime


def vehicle_id_for(unit: Unit) -> str:
    """The id of a new unit, from its VIN, else from its stock number. Raises ValueError for a unit with neither.

    The id is the same for all spellings of a VIN or stock number.
    """
    if isinstance(unit.vin, str) and (vin := unit.vin.strip().upper()):
        return f"vin-{vin}"
    if isinstance(unit.stock, str) and (stock := unit.stock.strip().casefold()):
        return f"stock-{stock}"
    raise ValueError("a unit needs a VIN or a stock number")


def list_unit(unit: Unit, record: UnitRecord, policy: ListingPolicy) -> Vehicle:
    """The listing of a unit under the dealer's policy. A unit without a known rooftop is listed under the first.

    `price` is absent if the fees that belong to it are unknown. `fees` are present only with the price that includes
    them.
    """
    rule = policy.rule_of(unit)
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
    """The listing as responses contain it, followed by the dealer's extra members.

    An extra member with the name of a known one is left out. Numbers without a fraction become integers.
    """
    body = msgspec.json.encode(_whole_numbers(vehicle))
    passed = _passed_through(extras)
    if not passed:
        return body
    return body[:-1] + b"," + msgspec.json.encode(passed)[1:]


def listing_digest(vehicle: Vehicle, extras: Mapping[str, Scalar] | None = None) -> str:
    """A hash of price, status and content, without `updated_at` and `changed_at`. It is the same in every process."""
    content = msgspec.structs.replace(_whole_numbers(vehicle), updated_at=_NO_TIME, changed_at=UNSET)
    encoded = msgspec.json.encode((content, _passed_through(extras)), order="deterministic")
    return blake2b(encoded, digest_size=16).hexdigest()


_MEMBERS = VehicleMembers.__struct_fields__
_members_of = attrgetter(*_MEMBERS)

_FLOATS = [name for name, row in FIELDS.items() if row.value_type is float]
_NO_TIME = datetime.min.replace(tzinfo=UTC)
_KNOWN = frozenset(VehicleDetail.__struct_fields__)


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _passed_through(extras: Mapping[str, Scalar] | None) -> dict[str, Scalar]:
    return {name: value for name, value in extras.items() if name not in _KNOWN} if extras else {}


def _whole_numbers(vehicle: Vehicle) -> Vehicle:
    """The vehicle with `310` instead of `310.0`."""
    whole: dict[str, int] = {}
    for name in _FLOATS:
        number = getattr(vehicle, name)
        if isinstance(number, float) and number.is_integer():
            whole[name] = int(number)
    return msgspec.structs.replace(vehicle, **whole) if whole else vehicle


_VEHICLE = msgspec.json.Decoder(Vehicle)


class _Identified(Struct, gc=False):
    vehicle_id: str


LISTING_ID = msgspec.json.Decoder(_Identified)
"""Reads only the `vehicle_id` of a listing."""


class Listing:
    """A unit in stock. `json` is the listing as responses contain it.

    A large stock is kept as bytes, so `vehicle` is decoded at its first use.
    """

    __slots__ = ("_vehicle", "json")

    def __init__(self, json: bytes, vehicle: Vehicle | None = None) -> None:
        self.json = json
        self._vehicle = vehicle

    @classmethod
    def of(cls, vehicle: Vehicle, extras: Mapping[str, Scalar] | None = None) -> "Listing":
        """The listing of a vehicle, with the dealer's extra members."""
        return cls(listing_json(vehicle, extras), vehicle)

    @property
    def vehicle(self) -> Vehicle:
        """The listing without its extra members."""
        if self._vehicle is None:
            self._vehicle = _VEHICLE.decode(self.json)
        return self._vehicle


class RemovedUnit(Struct, frozen=True):
    """A unit that was sold or left the feed, and is still remembered (docs/protocol.md#inventory-vehicle)."""

    vehicle_id: str
    vin: str | UnsetType = UNSET
    stock: str | UnsetType = UNSET
