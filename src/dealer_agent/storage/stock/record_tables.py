"""Defines the tables of the record of the stock (docs/how-to/record.md)."""

from sqlalchemy import BigInteger, LargeBinary, String

from dealer_agent.storage.columns import ExternalText, UtcTime, columns, dealer_table

# The record of the stock: the earlier rows of `units`, with their documents. A change of a unit adds the row that it
# replaces. `until` is the revision that replaced it: the row was valid from `revision` until then. The row of a sold
# unit comes here when the unit is forgotten, and has no document. `document` is packed (`stock.packing`).
recorded_units = dealer_table(
    "recorded_units",
    columns(ExternalText, "vehicle_id", "vin", "stock"),
    columns(BigInteger, "revision", "until"),
    columns(String, "action"),
    columns(UtcTime, "first_seen", "changed_at", "updated_at"),
    columns(LargeBinary, "document"),
    key=("vehicle_id", "revision"),
)

# The first revision that the record has in full. A dealer without a row has its whole history.
record_starts = dealer_table("record_starts", columns(BigInteger, "revision"))

# The record of replies, in batches (`stock.recorded_replies`). The id of a batch is that of its first reply. `replies`
# is packed: it has the requests, the callers and the hashes of the replies, and no headers and no customer data.
recorded_replies = dealer_table(
    "recorded_replies",
    columns(String, "batch_id", "settings_id"),
    columns(UtcTime, "first_at", "last_at"),
    columns(BigInteger, "number", "revision"),
    columns(LargeBinary, "replies"),
    key=("batch_id",),
)

# The settings that decide replies, and the version of the program, by the hash of the document. The document is packed,
# and has no secrets. `used_at` is the time of the newest batch with them.
reply_settings = dealer_table(
    "reply_settings",
    columns(String, "settings_id"),
    columns(UtcTime, "used_at"),
    columns(LargeBinary, "document"),
    key=("settings_id",),
)
