"""The tables of the console (`storage.schema` has all others, and says what they have in common)."""

from sqlalchemy import BigInteger, Boolean, LargeBinary, String

from dealer_agent.storage.columns import ExternalText, UtcTime, columns, dealer_table

# The people who sign in to the console (the package `console`), those of an installation in the rows of ALL_DEALERS.
# `email` is in lower case. `password` is a hash of Argon2id; NULL for a person with passkeys only. The secret of the
# one-time codes is not stored: it is derived from `totp_number`, which is NULL without them. `totp_step` is the last
# step whose code was used. `recovery` is a JSON array of the hashes of recovery codes that are not used yet.
people = dealer_table(
    "people",
    columns(String, "person_id", "password"),
    columns(ExternalText, "email"),
    columns(BigInteger, "totp_number", "totp_step"),
    columns(UtcTime, "created_at", "signed_in_at"),
    columns(LargeBinary, "recovery"),
    key=("person_id",),
)

# What a person may do for a dealer: `role` is one of `console.acts`, and `rooftops` is a JSON array of the rooftops of
# a salesperson, which is empty for all. The dealer ALL_DEALERS is the installation: the person is its operator.
memberships = dealer_table(
    "memberships",
    columns(String, "person_id", "for_dealer", "role"),
    columns(LargeBinary, "rooftops"),
    key=("person_id", "for_dealer"),
)

passkeys = dealer_table(
    "passkeys",
    columns(LargeBinary, "credential_id", "public_key"),
    columns(String, "person_id"),
    columns(ExternalText, "name"),
    columns(BigInteger, "sign_count"),
    columns(UtcTime, "created_at", "used_at"),
    key=("credential_id",),
)

# An invitation works once, until it expires. Its row is deleted when it is used: then the person gets the role.
# `by_operator`: a command of the machine has made it, and not a person of the dealer.
invitations = dealer_table(
    "invitations",
    columns(LargeBinary, "token_hash", "rooftops"),
    columns(String, "person_id", "for_dealer", "role"),
    columns(Boolean, "by_operator"),
    columns(ExternalText, "invited_by"),
    columns(UtcTime, "created_at", "expires_at"),
    key=("token_hash",),
)

# A session ends when its row is deleted, or some hours after `used_at`. `proved_at` is when the person last proved who
# they are. `browser` is what the browser calls itself, in short.
console_sessions = dealer_table(
    "console_sessions",
    columns(LargeBinary, "session_hash"),
    columns(String, "session_id", "person_id"),
    columns(ExternalText, "address", "browser"),
    columns(UtcTime, "created_at", "used_at", "proved_at"),
    key=("session_hash",),
)
