"""A lead with everything that can be known without the database. Pure."""

from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Self

import msgspec
from msgspec import UNSET

from dealer_agent.leads.acceptance import Acceptance
from dealer_agent.leads.consent import PURPOSE, Grant
from dealer_agent.leads.consent_events import ConsentRecord
from dealer_agent.leads.received_lead import (
    agent_name,
    consenting_customer,
    contact_points,
    key_scope,
    sender_keys,
    with_normal_phone,
)
from dealer_agent.leads.records import LeadRecord
from dealer_agent.protocol.requests import Customer
from dealer_agent.protocol.skill import LeadSubmitRequest


@dataclass(frozen=True, slots=True)
class PreparedLead:
    """A lead that passed the schema. It is prepared outside its transaction, where other leads would wait for it.

    `payload` has the JSON values of the request, extras included. `contacts` are the `contact_points`, `senders` the
    `sender_keys`.
    """

    request: LeadSubmitRequest
    payload: dict[str, Any]
    token_id: str | None
    request_hash: bytes
    contacts: tuple[str, ...]
    senders: tuple[str, ...]
    customer: Customer

    @classmethod
    def of(cls, request: LeadSubmitRequest, payload: dict[str, Any], token_id: str | None, body: bytes) -> Self:
        """Prepares a lead. `body` is the body of the HTTP request."""
        contacts = contact_points(request.customer)
        senders = sender_keys(token_id, request, contacts)
        customer = with_normal_phone(request.customer, contacts)
        return cls(request, payload, token_id, sha256(body).digest(), contacts, senders, customer)

    @property
    def is_trusted(self) -> bool:
        """Whether a token identifies the sender."""
        return self.token_id is not None

    @property
    def key_scope(self) -> str:
        """The scope of its idempotency key."""
        return key_scope(self.token_id, self.senders)

    @property
    def named_rooftop(self) -> str | None:
        """The rooftop that the buyer names."""
        wish = self.request.vehicle_of_interest
        return None if wish is UNSET or wish.rooftop is UNSET else wish.rooftop

    def lead_record(
        self, lead_id: str, rooftop: str, accepted: Acceptance, first_id: str | None, now: datetime
    ) -> LeadRecord:
        """The row of a new lead. `first_id` is an earlier lead that may be of the same person."""
        # A vehicle that is not in stock is not stored unencrypted: it may be the customer's own.
        found = accepted.found
        return LeadRecord(
            lead_id=lead_id,
            received_at=now,
            source_agent=agent_name(self.request),
            status="received",
            rooftop=rooftop,
            customer=msgspec.json.encode(self.customer),
            payload=msgspec.json.encode(self.payload),
            vehicle=accepted.listing,
            vehicle_id=None if found is None else found.vehicle_id,
            vin=found.vin or None if found else None,
            stock=found.stock or None if found else None,
            token_id=self.token_id,
            may_be_same_person_as=first_id,
        )

    def consent_record(self, grant: Grant, now: datetime) -> ConsentRecord:
        """The record of its consent."""
        return ConsentRecord(
            received_at=now,
            granted_at=grant.granted_at,
            channels=grant.channels,
            scope=grant.scope,
            purpose=PURPOSE,
            consent_text=grant.text,
            request_hash=self.request_hash,
            customer=consenting_customer(self.customer),
            source_agent=grant.source_agent or agent_name(self.request),
            expires_at=grant.expires_at,
            token_id=self.token_id,
        )
