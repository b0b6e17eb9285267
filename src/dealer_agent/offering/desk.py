"""Answers `offer.quote`, `offer.hold`, `offer.release` and `offer.status` for one dealer (docs/protocol.md#offers).

Each change is a job of the process's writer, under the dealer's lock. So of all agents that ask for one vehicle at one
time, one gets it, on any number of machines.
"""

import asyncio
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import UNSET, Struct

from dealer_agent.callers import Caller
from dealer_agent.config.settings import OfferSettings
from dealer_agent.dealers.profile import Profile
from dealer_agent.encryption.card_signer import CardSigner
from dealer_agent.holds import HoldRequest, HoldRules, QuotedHold, begin_hold, hold_of, release_hold, shown_status
from dealer_agent.inventory.catalogue import Catalogue, RemovedUnit
from dealer_agent.lead_intake.intake import LeadIntake
from dealer_agent.offering.lead_desk import LeadDesk
from dealer_agent.offers.pricing import (
    AllInPrice,
    NoPriceError,
    WrongZipError,
    all_in_price,
    json_number,
    price_document,
    rooftop_of,
)
from dealer_agent.offers.pricing_settings import PricingSettings
from dealer_agent.protocol.errors import CallerNotKnown
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.protocol.offers import (
    Hold,
    OfferHoldRequest,
    OfferQuoteRequest,
    OfferReleaseRequest,
    OfferStatusRequest,
)
from dealer_agent.protocol.problems import Problem, validation_error
from dealer_agent.protocol.timestamps import utc_text
from dealer_agent.protocol.vehicle import Vehicle
from dealer_agent.storage.offers import StoredHold, StoredQuote, add_quote, hold_of_vehicle
from dealer_agent.storage.store import Store

MOST_PUBLISHED_KEYS: Final = 60
"""How many keys are published for quotes: the newest one, and those before it. Quotes are kept for two years: with a
new key every two weeks, each can be verified as long."""
LEAST_OPEN_HOLDS: Final = 5
"""How many vehicles can be held at one time, however small the stock is."""
WAYS_TO_BE_KNOWN: Final = (
    "Only a known agent can hold a vehicle: sign the request (Web Bot Auth), or send a token of this dealer or of an "
    "issuer that it trusts."
)
_PHONE = re.compile(r"[ ().+/-]*(?:[0-9][ ().+/-]*){7,}", re.ASCII)
_COPIED = ("vin", "stock", "year", "make", "model", "trim", "condition", "mileage")


class _QuotePrice(Struct):
    """What a hold shows of its quote."""

    price: Decimal
    currency: str


@dataclass(frozen=True)
class OfferDesk:
    """Answers the offer skills of one dealer. `signers` has the newest key first, and `keys_url` publishes them all.

    `key` hides the idempotency keys that are stored. `leads` answers the skills after a lead.
    """

    profile: Profile
    settings: OfferSettings
    pricing: PricingSettings
    store: Store
    intake: LeadIntake
    signers: Sequence[CardSigner]
    keys_url: str
    key: bytes = field(repr=False)
    leads: LeadDesk

    @property
    def public_keys(self) -> list[dict[str, str]]:
        """The keys that verify quotes, as JWKs."""
        return [signer.public_key for signer in self.signers]

    async def quote(
        self,
        request: OfferQuoteRequest,
        caller: Caller,
        catalogue: Catalogue,
        stock_at: datetime | None,
        now: datetime,
        seconds: float,
    ) -> bytes:
        """Makes, signs and stores a quote, as JSON. Raises VehicleNotFound, VehicleUnavailable, and others."""
        _check_buyer_ref(request.buyer_ref)
        vehicle = catalogue.listing(request.vin, request.stock, request.vehicle_id).vehicle
        now = now.replace(microsecond=0)
        until = now + timedelta(minutes=self.settings.quote_minutes)
        copied = {name: value for name in _COPIED if (value := getattr(vehicle, name)) is not UNSET}
        quote = {
            "quote_id": new_ulid(),
            "vehicle": {"vehicle_id": vehicle.vehicle_id, **copied},
            **price_document(self._price_of(vehicle, request)),
            "created_at": utc_text(now),
            "valid_until": utc_text(until),
            "terms": self.settings.quote_terms,
        }
        if stock_at is not None:
            quote["stock_at"] = utc_text(stock_at)
        if request.buyer_ref is not UNSET:
            quote["buyer_ref"] = request.buyer_ref
        quote["signature"] = self.signers[0].signature_of(quote, self.keys_url)
        document = msgspec.json.encode(quote)
        stored = StoredQuote(quote["quote_id"], vehicle.vehicle_id, caller.identity or None, now, until, document)
        await self.intake.write(lambda tx: add_quote(tx, stored), caller, now, seconds)
        return document

    def _price_of(self, vehicle: Vehicle, request: OfferQuoteRequest) -> AllInPrice:
        """The all-in price of the vehicle for the ZIP code of the request.

        Raises the error of an invalid payload if there is none.
        """
        rooftop = rooftop_of(self.profile, vehicle)
        try:
            return all_in_price(vehicle, rooftop, None if request.zip is UNSET else request.zip, self.pricing)
        except NoPriceError as error:
            problem = Problem((_named_by(request),), f"{error} Send the dealer a lead (lead.submit).", "price")
        except WrongZipError as error:
            problem = Problem(("zip",), str(error), "pattern", (request.zip,))
        raise validation_error([problem], "payload")

    async def hold(
        self, request: OfferHoldRequest, caller: Caller, catalogue: Catalogue, now: datetime, seconds: float
    ) -> Hold:
        """Holds the vehicle of a quote for a known agent. Raises CallerNotKnown and the errors of `begin_hold`."""
        _check_known(caller)
        _check_buyer_ref(request.buyer_ref)
        content = msgspec.json.encode((request.quote_id, None if request.buyer_ref is UNSET else request.buyer_ref))
        asked = HoldRequest(
            caller.identity,
            request.quote_id,
            self._keyed_hash(caller.identity, request.idempotency_key),
            self._keyed_hash(content.decode()),
        )
        rules = hold_rules(self.settings, len(catalogue))
        begun = await self.intake.write(
            lambda tx: begin_hold(tx, asked, rules, partial(_is_for_sale, catalogue)), caller, now, seconds
        )
        return self._hold_document(begun, catalogue, now)

    async def release(
        self, request: OfferReleaseRequest, caller: Caller, catalogue: Catalogue, now: datetime, seconds: float
    ) -> Hold:
        """Ends a hold of the same agent. Raises CallerNotKnown, HoldNotFound and HoldEnded."""
        _check_known(caller)
        ended = await self.intake.write(
            lambda tx: release_hold(tx, request.hold_id, caller.identity), caller, now, seconds
        )
        return self._hold_document(ended, catalogue, now)

    async def status(
        self, request: OfferStatusRequest, caller: Caller, catalogue: Catalogue, now: datetime, seconds: float
    ) -> Hold:
        """What became of a hold of the same agent. Raises CallerNotKnown and HoldNotFound."""
        _check_known(caller)
        async with asyncio.timeout(seconds):
            found = await asyncio.to_thread(self._read, request.hold_id, caller.identity, now)
        return self._hold_document(found, catalogue, now)

    async def held_until(self, vehicle_id: str, now: datetime, seconds: float) -> str | None:
        """Until when an agent holds a vehicle."""
        async with asyncio.timeout(seconds):
            found = await asyncio.to_thread(self._hold_of, vehicle_id, now)
        return None if found is None else utc_text(found.expires_at)

    def _hold_of(self, vehicle_id: str, now: datetime) -> StoredHold | None:
        with self.store.read(self.profile.id, now) as tx:
            return hold_of_vehicle(tx, vehicle_id)

    def _read(self, hold_id: str, caller: str, now: datetime) -> QuotedHold:
        with self.store.read(self.profile.id, now) as tx:
            return hold_of(tx, hold_id, caller)

    def _hold_document(self, quoted: QuotedHold, catalogue: Catalogue, now: datetime) -> Hold:
        """A hold as its agent sees it."""
        hold, priced = quoted.hold, msgspec.json.decode(quoted.quote.document, type=_QuotePrice)
        return Hold(
            hold_id=hold.hold_id,
            quote_id=hold.quote_id,
            vehicle_id=hold.vehicle_id,
            price=json_number(priced.price),
            currency=priced.currency,
            created_at=utc_text(hold.created_at),
            expires_at=utc_text(hold.expires_at),
            status=shown_status(hold, now, is_for_sale=_is_for_sale(catalogue, hold.vehicle_id)),
            terms=self.settings.hold_terms,
        )

    def _keyed_hash(self, *words: str) -> bytes:
        return hmac.digest(self.key, msgspec.json.encode(words), sha256)


def hold_rules(settings: OfferSettings, units: int) -> HoldRules:
    """What bounds the holds of a dealer with so many units in stock."""
    most_open = max(LEAST_OPEN_HOLDS, units * settings.most_held_percent // 100)
    return HoldRules(timedelta(minutes=settings.hold_minutes), settings.holds_a_day, most_open)


def _check_known(caller: Caller) -> None:
    if not caller.is_known:
        raise CallerNotKnown(WAYS_TO_BE_KNOWN)


def _is_for_sale(catalogue: Catalogue, vehicle_id: str) -> bool:
    found = catalogue.find(vehicle_id=vehicle_id)
    return found is not None and not isinstance(found, RemovedUnit)


def _named_by(request: OfferQuoteRequest) -> str:
    return next(name for name in ("vin", "stock", "vehicle_id") if getattr(request, name) is not UNSET)


def _check_buyer_ref(buyer_ref: object) -> None:
    """Refuses a handle that looks like customer data. Raises SchemaValidationFailed."""
    if isinstance(buyer_ref, str) and ("@" in buyer_ref or _PHONE.fullmatch(buyer_ref)):
        words = "looks like an e-mail address or a phone number; send a name of your own that says nothing of the buyer"
        raise validation_error([Problem(("buyer_ref",), words, "pattern")], "payload")
