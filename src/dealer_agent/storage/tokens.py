"""Stores access tokens. Only a hash of a token is stored, never the token itself.

A token gives access only to its purpose: the skills, or the calendar of visits. It may have a time at which it expires,
and the scopes of the skills that it opens.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Literal, NamedTuple

from sqlalchemy import bindparam, insert, or_, select, update

from dealer_agent.protocol.ids import new_ulid
from dealer_agent.storage.leads.prepared_statements import Prepared
from dealer_agent.storage.privacy.event_chain import lock_dealer
from dealer_agent.storage.privacy.keys import claim_dealer
from dealer_agent.storage.schema import revisions, tokens
from dealer_agent.storage.statements import of_dealer, rows_of, upsert
from dealer_agent.storage.transaction import Transaction

Purpose = Literal["skills", "calendar"]


class TokenRecord(NamedTuple):
    """A token without its secret, for a list. `scopes` are separated by spaces; None opens all skills."""

    token_id: str
    name: str
    purpose: Purpose
    created_at: datetime
    revoked_at: datetime | None
    expires_at: datetime | None
    scopes: str | None
    used_at: datetime | None


class ActiveToken(NamedTuple):
    """A token that gives access to the skills until it expires. `scopes` are as in TokenRecord."""

    token_id: str
    name: str
    token_hash: bytes
    expires_at: datetime | None
    scopes: str | None


ADD_TOKEN = insert(tokens)

LIST_TOKENS = rows_of(tokens, TokenRecord).order_by(tokens.c.created_at, tokens.c.token_id)

LIST_ACTIVE_TOKENS = (
    rows_of(tokens, ActiveToken)
    .where(tokens.c.purpose == "skills", tokens.c.revoked_at.is_(None))
    .order_by(tokens.c.created_at, tokens.c.token_id)
)

FIND_TOKEN = select(tokens.c.token_id).where(
    of_dealer(tokens, token_hash="sought", purpose="for_purpose"),
    tokens.c.revoked_at.is_(None),
    or_(tokens.c.expires_at.is_(None), tokens.c.expires_at > bindparam("at")),
)

FIND_ACTIVE_TOKEN = Prepared(
    select(tokens.c.token_id).where(of_dealer(tokens, token_id="sought"), tokens.c.revoked_at.is_(None))
)

REVOKE_TOKEN = (
    update(tokens)
    .where(of_dealer(tokens, token_id="token"), tokens.c.revoked_at.is_(None))
    .values(revoked_at=bindparam("at"))
)

USE_TOKEN = (
    update(tokens)
    .where(
        of_dealer(tokens, token_id="token"),
        or_(tokens.c.used_at.is_(None), tokens.c.used_at < bindparam("at")),
    )
    .values(used_at=bindparam("at"))
)

NEXT_REVISION = upsert(revisions, "UPDATE SET token_counter = revisions.token_counter + 1").values(
    stock_counter=0, token_counter=1
)


def create_token(
    tx: Transaction,
    name: str,
    token_hash: bytes,
    purpose: Purpose = "skills",
    expires_at: datetime | None = None,
    scopes: Collection[str] = (),
) -> str:
    """Stores the hash of a new token and returns the token's id. Raises AlreadyStored for a known hash.

    Without `scopes`, it opens all skills.

    Like `revoke_token`, it raises KeyMissing and WrongKey if another folder uses the dealer's id.
    """
    claim_dealer(tx)
    token_id = new_ulid()
    row = {"token_id": token_id, "name": name, "token_hash": token_hash, "created_at": tx.now, "purpose": purpose}
    tx.execute(ADD_TOKEN, row | {"expires_at": expires_at, "scopes": " ".join(sorted(scopes)) or None})
    tx.execute(NEXT_REVISION)
    return token_id


def revoke_token(tx: Transaction, token_id: str) -> bool:
    """Ends a token for ever. Returns False if there is no such active token.

    It locks the dealer: a lead with this token is stored before the revocation, or never.
    """
    lock_dealer(tx)
    claim_dealer(tx)
    revoked = tx.execute(REVOKE_TOKEN, {"token": token_id, "at": tx.now}).rowcount == 1
    if revoked:
        tx.execute(NEXT_REVISION)
    return revoked


def list_tokens(tx: Transaction) -> list[TokenRecord]:
    """All tokens, revoked and expired ones too, oldest first."""
    return [TokenRecord(*row) for row in tx.execute(LIST_TOKENS)]


def find_token(tx: Transaction, token_hash: bytes, purpose: Purpose) -> str | None:
    """The id of the active token with this hash and purpose."""
    token_id: str | None = tx.execute(FIND_TOKEN, {"sought": token_hash, "for_purpose": purpose, "at": tx.now}).scalar()
    return token_id


def list_active_tokens(tx: Transaction) -> list[ActiveToken]:
    """The tokens that give access to the skills until they expire. Those that have expired are among them."""
    return [ActiveToken(*row) for row in tx.execute(LIST_ACTIVE_TOKENS)]


def note_use(tx: Transaction, last_uses: Mapping[str, datetime]) -> None:
    """Stores the last use of each token id. An older time, or the id of no token, changes nothing."""
    if not last_uses:
        return
    # Processes change rows in one order. Otherwise two of them could wait for each other.
    tx.execute_each(USE_TOKEN, [{"token": token_id, "at": at} for token_id, at in sorted(last_uses.items())])
