"""Whether a lead contains the words of a search. Pure."""

import re
from collections.abc import Iterable, Iterator

import msgspec
from msgspec import UNSET, Struct

from dealer_agent.leads.records import LeadRecord
from dealer_agent.protocol.requests import Customer, VehicleOfInterest

LEAST_DIGITS = 7
"""Fewer digits are no phone number: they may be part of a VIN, a year or a stock number."""

_PHONE = re.compile(r"[0-9 ()+./-]+")


class _Request(Struct):
    vehicle_of_interest: VehicleOfInterest | None = None


def has_words(text: str, lead: LeadRecord, added: Iterable[Customer] = ()) -> bool:
    """Whether every word is part of the lead's id, agent, VIN, stock number, or of the customer's name or address.

    Case does not matter. A text that looks like a phone number may also be part of a phone number, in any notation.
    `added` are the customers in later additions to the lead.
    """
    customers = [*added] if lead.customer is None else [msgspec.json.decode(lead.customer, type=Customer), *added]
    texts = [each.casefold() for each in (*_of_lead(lead), *_of_customers(customers)) if each]
    if all(any(word in each for each in texts) for word in text.casefold().split()):
        return True
    digits = re.sub("[^0-9]", "", text)
    if not _PHONE.fullmatch(text) or len(digits) < LEAST_DIGITS:
        return False
    numbers = (re.sub("[^0-9]", "", each.phone) for each in customers if each.phone is not UNSET)
    return any(digits in number for number in numbers)


def _of_lead(lead: LeadRecord) -> Iterator[str | None]:
    yield from (lead.lead_id, lead.source_agent, lead.vin, lead.stock)
    if lead.payload is not None:
        wanted = msgspec.json.decode(lead.payload, type=_Request).vehicle_of_interest
        if wanted is not None:
            yield from (each for each in (wanted.vin, wanted.stock) if each is not UNSET)


def _of_customers(customers: Iterable[Customer]) -> Iterator[str]:
    for customer in customers:
        yield f"{customer.first_name} {customer.last_name}"
        if customer.email is not UNSET:
            yield customer.email
