"""Defines the tables of quotes and holds (docs/protocol.md#offers)."""

from sqlalchemy import LargeBinary, String

from dealer_agent.storage.columns import ExternalText, UtcTime, columns, dealer_table

# The quotes of `offer.quote`, with their signatures, and the holds of `offer.hold` (`storage.offers`). A unique index
# allows one hold of a vehicle whose `ended_at` is not set.
quotes = dealer_table(
    "quotes",
    columns(String, "quote_id"),
    columns(ExternalText, "vehicle_id", "caller"),
    columns(UtcTime, "created_at", "valid_until"),
    columns(LargeBinary, "document"),
    key=("quote_id",),
)

holds = dealer_table(
    "holds",
    columns(String, "hold_id", "quote_id", "status"),
    columns(ExternalText, "vehicle_id", "caller", "ended_why"),
    columns(LargeBinary, "key_hash", "request_hash"),
    columns(UtcTime, "created_at", "expires_at", "ended_at"),
    key=("hold_id",),
)
