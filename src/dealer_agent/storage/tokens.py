"""Access tokens. Only a hash of a token is kept; what is handed out never reaches storage.

A token opens what its purpose names, and nothing else: the skills, or the calendar of visits.
"""

from datetime import datetime
from typing import Literal, NamedTuple

from sqlalchemy import Connection, bindparam, insert, select, text, update
from ulid import ULID

from dealer_agent.storage.schema import tokens

Purpose = Literal["skills", "calendar"]


class TokenRecord(NamedTuple):
    """A token as a person sees it in a list."""

    token_id: str
    name: str
    purpose: Purpose
    created_at: datetime
    revoked_at: datetime | None


class ActiveToken(NamedTuple):
    """A token that opens the skills."""

    token_id: str
    name: str
    token_hash: bytes


ADD_TOKEN = insert(tokens)

LIST_TOKENS = (
    select(*(tokens.c[name] for name in TokenRecord._fields))
    .where(tokens.c.dealer_id == bindparam("dealer_id"))
    .order_by(tokens.c.created_at, tokens.c.token_id)
)

LIST_ACTIVE_TOKENS = (
    select(*(tokens.c[name] for name in ActiveToken._fields))
    .where(tokens.c.dealer_id == bindparam("dealer_id"), tokens.c.purpose == "skills", tokens.c.revoked_at.is_(None))
    .order_by(tokens.c.created_at, tokens.c.token_id)
)

FIND_TOKEN = select(tokens.c.token_id).where(
    tokens.c.dealer_id == bindparam("dealer_id"),
    tokens.c.token_hash == bindparam("token_hash"),
    tokens.c.purpose == bindparam("purpose"),
    tokens.c.revoked_at.is_(None),
)

REVOKE_TOKEN = (
    update(tokens)
    .where(
        tokens.c.dealer_id == bindparam("in_dealer"),
        tokens.c.token_id == bindparam("in_token"),
        tokens.c.revoked_at.is_(None),
    )
    .values(revoked_at=bindparam("at"))
)

NEXT_TOKEN_REVISION = text("""
    INSERT INTO revisions (dealer_id, stock_revision, token_revision) VALUES (:dealer_id, 0, 1)
    ON CONFLICT (dealer_id) DO UPDATE SET token_revision = revisions.token_revision + 1
""")


def create_token(
    connection: Connection, dealer_id: str, name: str, token_hash: bytes, at: datetime, purpose: Purpose
) -> str:
    """Keeps a new token's hash and returns its id. Raises AlreadyStored for a hash that is there."""
    token_id = str(ULID())
    row = {"dealer_id": dealer_id, "token_id": token_id, "name": name, "token_hash": token_hash, "created_at": at}
    connection.execute(ADD_TOKEN, row | {"purpose": purpose})
    connection.execute(NEXT_TOKEN_REVISION, {"dealer_id": dealer_id})
    return token_id


def revoke_token(connection: Connection, dealer_id: str, token_id: str, at: datetime) -> bool:
    """Ends a token for ever; False when there is no such active token."""
    revoked = connection.execute(REVOKE_TOKEN, {"in_dealer": dealer_id, "in_token": token_id, "at": at}).rowcount == 1
    if revoked:
        connection.execute(NEXT_TOKEN_REVISION, {"dealer_id": dealer_id})
    return revoked


def list_tokens(connection: Connection, dealer_id: str) -> list[TokenRecord]:
    """All of them, revoked ones too, oldest first."""
    return [TokenRecord(*row) for row in connection.execute(LIST_TOKENS, {"dealer_id": dealer_id})]


def find_token(connection: Connection, dealer_id: str, token_hash: bytes, purpose: Purpose) -> str | None:
    """The id of the token with this hash that opens what `purpose` names."""
    sought = {"dealer_id": dealer_id, "token_hash": token_hash, "purpose": purpose}
    token_id: str | None = connection.execute(FIND_TOKEN, sought).scalar()
    return token_id


def active_token_hashes(connection: Connection, dealer_id: str) -> list[ActiveToken]:
    """Those that open the skills."""
    return [ActiveToken(*row) for row in connection.execute(LIST_ACTIVE_TOKENS, {"dealer_id": dealer_id})]
