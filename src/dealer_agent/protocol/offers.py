"""Defines the payloads of the offers extension: quotes and holds (docs/protocol.md#offers). Pure types."""

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from dealer_agent.protocol.requests import RequestPayload
from dealer_agent.protocol.vehicle_field import Natural, Word

OFFERS_EXTENSION: Final = "https://proto.example/extensions/offers/v1"

QUOTE_TYPE: Final = "offer-quote+jws"
"""The `typ` of the signature of a quote: the same key signs agent cards."""

OfferId = Annotated[str, Meta(max_length=64, pattern=r"^[0-9A-Za-z]+\Z")]
BuyerRef = Annotated[str, Meta(min_length=1, max_length=200)]
IdempotencyKey = Annotated[str, Meta(min_length=1, max_length=128)]
Zip = Annotated[str, Meta(min_length=1, max_length=16)]
Amount = int | float
"""Money with at most two decimals, as JSON has it. A whole amount has no point. All calculations are in decimals."""

LineKind = Literal["vehicle_price", "doc", "addon", "transport", "discount", "rebate", "title", "registration", "tax"]
Payee = Literal["dealer", "government", "manufacturer", "third_party"]
HoldStatus = Literal["active", "released", "expired", "sold", "ended_by_dealer", "became_lead"]


class PriceLine(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of the all-in price. A firm line does not change while the quote is valid; others are estimates."""

    label: str
    kind: LineKind
    payee: Payee
    amount: Amount
    firm: bool
    legal_basis: str | UnsetType = UNSET


class Jurisdiction(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The place whose taxes and charges the lines are: that of the buyer's ZIP code, else that of the rooftop."""

    of: Literal["buyer", "rooftop"]
    state: str | UnsetType = UNSET
    zip: str | UnsetType = UNSET


class OfferQuoteRequest(RequestPayload, tag="offer.quote.request", frozen=True):
    """Asks for a quote of one vehicle. At least one of `vin`, `stock` and `vehicle_id` is required. `buyer_ref` is the
    agent's own name for the buyer: not an e-mail address and not a phone number.
    """

    vin: Word | UnsetType = UNSET
    stock: Word | UnsetType = UNSET
    vehicle_id: Word | UnsetType = UNSET
    zip: Zip | UnsetType = UNSET
    buyer_ref: BuyerRef | UnsetType = UNSET


class QuotedVehicle(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The vehicle of a quote, as it was when the quote was made."""

    vehicle_id: str
    vin: str | UnsetType = UNSET
    stock: str | UnsetType = UNSET
    year: int | UnsetType = UNSET
    make: str | UnsetType = UNSET
    model: str | UnsetType = UNSET
    trim: str | UnsetType = UNSET
    condition: str | UnsetType = UNSET
    mileage: Natural | UnsetType = UNSET


class Quote(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The all-in price of a vehicle. The dealer keeps `price` until `valid_until`, unless the vehicle is gone. `total`
    is the sum of the lines. If it is not `complete`, `missing` names what is not in it. `stock_at` is when the feed
    last confirmed the vehicle. `signature` is a JWS (RFC 7515) of all other members.
    """

    quote_id: str
    vehicle: QuotedVehicle
    price: Amount
    lines: tuple[PriceLine, ...]
    total: Amount
    complete: bool
    missing: tuple[LineKind, ...]
    jurisdiction: Jurisdiction
    currency: str
    created_at: str
    valid_until: str
    terms: str
    stock_at: str | UnsetType = UNSET
    buyer_ref: str | UnsetType = UNSET
    signature: str | UnsetType = UNSET


class LeadOffer(Struct, frozen=True):
    """The quote or the hold that a lead is about. Of both, the hold decides. Only for a request that names the offers
    extension. Other members are ignored.
    """

    quote_id: OfferId | UnsetType = UNSET
    hold_id: OfferId | UnsetType = UNSET


class OfferHoldRequest(RequestPayload, tag="offer.hold.request", frozen=True):
    """Asks to hold the vehicle of a quote. The same `idempotency_key` gets the same hold."""

    quote_id: OfferId
    idempotency_key: IdempotencyKey
    buyer_ref: BuyerRef | UnsetType = UNSET


class OfferReleaseRequest(RequestPayload, tag="offer.release.request", frozen=True):
    """Ends a hold of the same agent. To end it again changes nothing."""

    hold_id: OfferId


class OfferStatusRequest(RequestPayload, tag="offer.status.request", frozen=True):
    """Asks what became of a hold of the same agent."""

    hold_id: OfferId


class Hold(Struct, frozen=True, kw_only=True):
    """A hold of a vehicle. It holds until `expires_at` while `status` is `active` or `became_lead`."""

    hold_id: str
    quote_id: str
    vehicle_id: str
    price: Amount
    currency: str
    created_at: str
    expires_at: str
    status: HoldStatus
    terms: str
