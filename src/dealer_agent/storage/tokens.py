"""Access tokens. Only a hash of a token is kept; what is handed out never reaches storage."""

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, insert, select, text, update
from ulid import ULID

from dealer_agent.storage.schema import tokens


class TokenRecord(NamedTuple):
    """A token as a person sees it in a list."""

    token_id: str
    name: str
    created_at: datetime
    revoked_at: datetime | None


class ActiveToken(NamedTuple):
    """A token that opens the door."""

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
    .where(tokens.c.dealer_id == bindparam("dealer_id"), tokens.c.revoked_at.is_(None))
    .order_by(tokens.c.created_at, tokens.c.token_id)
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


def create_token(connection: Connection, dealer_id: str, name: str, token_hash: bytes, at: datetime) -> str:
    """Keeps a new token's hash and returns its id. Raises AlreadyStored for a hash that is there."""
    token_id = str(ULID())
    row = {"dealer_id": dealer_id, "token_id": token_id, "name": name, "token_hash": token_hash, "created_at": at}
    connection.execute(ADD_TOKEN, row)
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


def active_token_hashes(connection: Connection, dealer_id: str) -> list[ActiveToken]:
    """Those that open the door."""
    return [ActiveToken(*row) for row in connection.execute(LIST_ACTIVE_TOKENS, {"dealer_id": dealer_id})]
