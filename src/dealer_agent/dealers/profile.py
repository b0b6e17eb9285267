"""The dealer's profile as `dealer.toml` holds it (contract, parts 5, 6, 9 and 10). Pure types.

The annotations carry every rule that `config` checks before one of these is made, so that what holds a `Profile` can
trust it. Money is whole US dollars.
"""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from dealer_agent.dealers.rules import (
    agreed_by,
    read_by,
    read_country,
    read_email,
    read_hours,
    read_phone,
    read_slug,
    read_text,
    read_time_zone,
    read_web_address,
    read_zip_prefix,
    rooftops_are_told_apart,
    zip_fits_country,
)
from dealer_agent.protocol.vehicle import Fee, SaleCondition

Text = Annotated[str, read_by(read_text)]
DayHours = Annotated[str, read_by(read_hours)]
FeedPrice = Literal["advertised", "before_fees"]


class Geo(Struct, frozen=True, forbid_unknown_fields=True):
    """WGS 84 degrees."""

    latitude: Annotated[float, Meta(ge=-90, le=90)]
    longitude: Annotated[float, Meta(ge=-180, le=180)]


class Address(Struct, frozen=True, forbid_unknown_fields=True):
    """A rooftop's postal address."""

    address_line_1: Text
    city: Text
    state: Text
    zip: Text
    address_line_2: Text | UnsetType = UNSET
    country: Annotated[str, read_by(read_country)] = "US"


class WeekHours(Struct, frozen=True, forbid_unknown_fields=True):
    """The hours of one department, each day as `09:00-20:00` or `closed`; a day left out is closed."""

    monday: DayHours = "closed"
    tuesday: DayHours = "closed"
    wednesday: DayHours = "closed"
    thursday: DayHours = "closed"
    friday: DayHours = "closed"
    saturday: DayHours = "closed"
    sunday: DayHours = "closed"


class DealerRooftop(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A sales location. `feed_ids` are the dealer ids and names by which feeds know it.

    `fees` absent: not known. Empty: there are none. Only known fees turn a price before fees into an advertised one.
    """

    name: Text
    timezone: Annotated[str, read_by(read_time_zone)]
    feed_ids: tuple[Text, ...] = ()
    legal_name: Text | UnsetType = UNSET
    website: Annotated[str, read_by(read_web_address)] | UnsetType = UNSET
    notes: Text | UnsetType = UNSET
    capabilities: tuple[Text, ...] = ()
    address: Annotated[Address, agreed_by(zip_fits_country)] | UnsetType = UNSET
    geo: Geo | UnsetType = UNSET
    phones: dict[str, Annotated[str, read_by(read_phone)]] = {}
    emails: dict[str, Annotated[str, read_by(read_email)]] = {}
    hours: dict[str, WeekHours] = {}
    fees: tuple[Fee, ...] | UnsetType = UNSET


class AreaOffer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An amount off for buyers whose ZIP code starts with one of the prefixes; empty conditions or makes mean all."""

    zip_prefixes: Annotated[tuple[Annotated[str, read_by(read_zip_prefix)], ...], Meta(min_length=1)]
    amount_off: Annotated[int, Meta(ge=1, le=2**63 - 1)]
    conditions: tuple[SaleCondition, ...] = ()
    makes: tuple[Text, ...] = ()


class Policies(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The house's rules. `text` is for shoppers; `max_shrink` is the share of the stock that a full file may remove."""

    text: Text | UnsetType = UNSET
    remember_sold_days: Annotated[int, Meta(ge=0, le=3650)] = 90
    duplicate_window_hours: Annotated[int, Meta(ge=0, le=8760)] = 24
    max_shrink: Annotated[float, Meta(ge=0, le=1)] = 0.30


class Profile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The dealer, one or more rooftops. `feed_price` says what the feed's selling price is (contract, part 6)."""

    id: Annotated[str, read_by(read_slug)]
    name: Text
    welcome_message: Text | UnsetType = UNSET
    feed_price: FeedPrice
    rooftops: Annotated[tuple[DealerRooftop, ...], agreed_by(rooftops_are_told_apart, min_length=1)]
    area_offers: tuple[AreaOffer, ...] = ()
    policies: Policies = Policies()
