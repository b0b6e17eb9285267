"""The content of a stored lead: its request and all additions to it (docs/protocol.md#duplicates). Pure."""

from dataclasses import dataclass
from typing import Any, Self

import msgspec
from msgspec import Struct, UnsetType

from dealer_agent.leads.records import StoredLead
from dealer_agent.protocol.requests import Appointment, Customer
from dealer_agent.protocol.responses import AppointmentReply


class RequestedVisit(Struct):
    """A requested visit and its reply."""

    request: Appointment
    reply: AppointmentReply


class Addition(Struct, omit_defaults=True):
    """The JSON document of an addition. The trade-in is as received."""

    message: str | None = None
    customer: Customer | None = None
    trade_in: dict[str, Any] | None = None
    appointment: RequestedVisit | None = None


def additions_of(stored: StoredLead) -> list[Addition]:
    """The additions to a lead that were not erased, oldest first."""
    return [msgspec.json.decode(event.changes, type=Addition) for event in stored.events if event.changes is not None]


@dataclass(frozen=True, slots=True)
class LeadContent:
    """The parts of a lead that additions change. `messages` and `customers` are oldest first."""

    messages: tuple[str, ...]
    customers: tuple[Customer, ...]
    trade_in: dict[str, Any] | None

    @classmethod
    def of(cls, stored: StoredLead) -> Self:
        """The content of a lead whose customer is not erased."""
        assert stored.lead.customer is not None, "an erased lead has no content"
        assert stored.lead.payload is not None, "an erased lead has no content"
        first = msgspec.json.decode(stored.lead.payload, type=_FirstRequest)
        customers = (msgspec.json.decode(stored.lead.customer, type=Customer),)
        added = additions_of(stored)
        said: list[_FirstRequest | Addition] = [first, *added]
        return cls(
            messages=tuple(each.message for each in said if each.message),
            customers=customers + tuple(each.customer for each in added if each.customer),
            trade_in=next((each.trade_in for each in reversed(said) if each.trade_in), first.trade_in),
        )

    @property
    def customer(self) -> Customer:
        """The customer as the last request described them."""
        return self.customers[-1]

    def added_by(
        self, message: str | UnsetType, customer: Customer, trade_in: dict[str, Any] | None, *, may_replace: bool
    ) -> Addition:
        """What a request adds. Unless it `may_replace`, it changes neither the customer nor an existing trade-in."""
        addition = Addition()
        if message and message not in self.messages[-1:]:
            addition.message = message
        if may_replace and customer != self.customer:
            addition.customer = customer
        if trade_in and trade_in != self.trade_in and (may_replace or not self.trade_in):
            addition.trade_in = trade_in
        return addition


class _FirstRequest(Struct):
    """The part of a stored payload that additions change."""

    message: str | None = None
    trade_in: dict[str, Any] | None = None
