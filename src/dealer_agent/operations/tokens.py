"""Makes and revokes the tokens of buyer agents: for `dealer-agent tokens`, and for the console."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from dealer_agent.open_installation import OpenDealer
from dealer_agent.operations import OperationError
from dealer_agent.protocol.did_you_mean import did_you_mean
from dealer_agent.protocol.skill import SCOPES
from dealer_agent.server.tokens import new_token
from dealer_agent.storage.tokens import create_token, revoke_token

MOST_DAYS = 3650


class CreatedToken(NamedTuple):
    """A new token. `text` is shown once: the service stores only a hash of it. `expires_at` None is never."""

    token_id: str
    text: str
    expires_at: datetime | None


def read_scopes(scopes: Iterable[str]) -> list[str]:
    """The scopes that a person has chosen, each once. Raises ValueError for an unknown one."""
    chosen = sorted(set(scopes))
    for scope in chosen:
        if scope not in SCOPES:
            raise ValueError(f"'{scope}' must be one of {', '.join(SCOPES)}{did_you_mean(scope, [*SCOPES])}")
    return chosen


def read_token_name(text: str) -> str:
    """The name of a token. Raises ValueError for an empty one."""
    if not text.strip():
        raise ValueError("the name is empty; write whom the token is for")
    return text


def make_token(dealer: OpenDealer, name: str, days: int | None, scopes: Iterable[str]) -> CreatedToken:
    """Makes a token that expires after so many days, None is never. Without `scopes`, it opens all skills."""
    token = new_token()
    with dealer.write() as tx:
        expires_at = None if days is None else tx.now + timedelta(days=days)
        token_id = create_token(tx, name, token.secret_hash, expires_at=expires_at, scopes=[*scopes])
    return CreatedToken(token_id, token.text(token_id), expires_at)


def end_token(dealer: OpenDealer, token_id: str) -> datetime:
    """Revokes a token for ever, and returns when. Raises OperationError if there is no such active token."""
    with dealer.write() as tx:
        if not revoke_token(tx, token_id):
            raise OperationError(f"There is no active token {token_id}; see dealer-agent tokens list")
    return tx.now
