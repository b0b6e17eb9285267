"""Stores how people sign in to the console: passkeys, invitations and sessions.

Only hashes of the secrets are stored: of an invitation's link, and of a session's cookie.
"""

from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import bindparam, delete, insert, update

from dealer_agent.protocol.ids import new_ulid
from dealer_agent.storage.console.people import DELETE_INVITATIONS, DELETE_SESSIONS
from dealer_agent.storage.console.tables import console_sessions, invitations, passkeys
from dealer_agent.storage.statements import of_dealer, rows_of
from dealer_agent.storage.transaction import Transaction

MOST_SESSIONS = 20
"""The most sessions of a person. A new one ends the one that was not used for the longest time."""
IDLE = timedelta(hours=12)
"""A session ends when nobody has used it for so long."""
LONGEST_SESSION = timedelta(days=7)
"""A session ends at this age, however often it is used."""
TOUCH_AFTER = timedelta(minutes=5)
"""The use of a session is stored at most this often."""


class Passkey(NamedTuple):
    """A passkey of a person. `name` is what the person calls it."""

    credential_id: bytes
    person_id: str
    public_key: bytes
    name: str
    sign_count: int
    created_at: datetime
    used_at: datetime | None


class Invitation(NamedTuple):
    """An invitation that was not used yet. `rooftops` are a JSON array."""

    person_id: str
    for_dealer: str
    role: str
    rooftops: bytes
    by_operator: bool
    invited_by: str
    created_at: datetime
    expires_at: datetime


class ConsoleSession(NamedTuple):
    """A session. `proved_at` is when the person last proved who they are; None: when the invitation was used."""

    session_hash: bytes
    session_id: str
    person_id: str
    address: str
    browser: str
    created_at: datetime
    used_at: datetime
    proved_at: datetime | None


FIND_PASSKEY = rows_of(passkeys, Passkey, credential_id="sought")

LIST_PASSKEYS = rows_of(passkeys, Passkey, person_id="of_person").order_by(
    passkeys.c.created_at, passkeys.c.credential_id
)

ADD_PASSKEY = insert(passkeys)

USE_PASSKEY = (
    update(passkeys)
    .where(of_dealer(passkeys, credential_id="sought"))
    .values(sign_count=bindparam("count"), used_at=bindparam("at"))
)

DELETE_PASSKEY = delete(passkeys).where(of_dealer(passkeys, credential_id="sought", person_id="of_person"))

ADD_INVITATION = insert(invitations)

FIND_INVITATION = rows_of(invitations, Invitation, token_hash="sought").where(
    invitations.c.expires_at > bindparam("at")
)

LIST_INVITATIONS = rows_of(invitations, Invitation, for_dealer="of_member").where(
    invitations.c.expires_at > bindparam("at")
)

REPLACE_INVITATION = DELETE_INVITATIONS.where(invitations.c.for_dealer == bindparam("of_member"))

DELETE_INVITATION = delete(invitations).where(of_dealer(invitations, token_hash="sought"))

ADD_SESSION = insert(console_sessions)

FIND_SESSION = rows_of(console_sessions, ConsoleSession, session_hash="sought").where(
    console_sessions.c.used_at > bindparam("since"),
    console_sessions.c.created_at > bindparam("born_after"),
)

LIST_SESSIONS = (
    rows_of(console_sessions, ConsoleSession, person_id="of_person")
    .where(console_sessions.c.used_at > bindparam("since"))
    .order_by(console_sessions.c.used_at.desc(), console_sessions.c.session_id)
)

_SESSION = of_dealer(console_sessions, session_hash="sought")

TOUCH_SESSION = update(console_sessions).where(_SESSION).values(used_at=bindparam("at"))

PROVE_SESSION = update(console_sessions).where(_SESSION).values(proved_at=bindparam("at"))

END_SESSION = delete(console_sessions).where(of_dealer(console_sessions, session_id="session", person_id="of_person"))

END_OTHERS = DELETE_SESSIONS.where(console_sessions.c.session_hash != bindparam("sought"))

DELETE_IDLE = delete(console_sessions).where(
    of_dealer(console_sessions), console_sessions.c.used_at <= bindparam("since")
)


def add_passkey(
    tx: Transaction, person_id: str, credential_id: bytes, public_key: bytes, count: int, name: str
) -> None:
    """Stores a new passkey of a person. Raises AlreadyStored for a known one."""
    tx.execute(ADD_PASSKEY, Passkey(credential_id, person_id, public_key, name, count, tx.now, None)._asdict())


def find_passkey(tx: Transaction, credential_id: bytes) -> Passkey | None:
    """The passkey with this id."""
    return tx.find(Passkey, FIND_PASSKEY, {"sought": credential_id})


def passkeys_of(tx: Transaction, person_id: str) -> list[Passkey]:
    """The passkeys of a person, oldest first."""
    return [Passkey(*row) for row in tx.execute(LIST_PASSKEYS, {"of_person": person_id})]


def use_passkey(tx: Transaction, credential_id: bytes, sign_count: int) -> None:
    """Stores that a passkey was used now."""
    tx.execute(USE_PASSKEY, {"sought": credential_id, "count": sign_count, "at": tx.now})


def remove_passkey(tx: Transaction, person_id: str, credential_id: bytes) -> bool:
    """Deletes a passkey of a person. Returns False if there is no such passkey."""
    return tx.execute(DELETE_PASSKEY, {"of_person": person_id, "sought": credential_id}).rowcount == 1


def add_invitation(tx: Transaction, token_hash: bytes, invitation: Invitation) -> None:
    """Stores an invitation. It replaces that of the same person for the same dealer."""
    withdraw_invitation(tx, invitation.person_id, invitation.for_dealer)
    tx.execute(ADD_INVITATION, invitation._asdict() | {"token_hash": token_hash})


def withdraw_invitation(tx: Transaction, person_id: str, for_dealer: str) -> None:
    """Deletes the invitation of a person for a dealer, if there is one."""
    tx.execute(REPLACE_INVITATION, {"of_person": person_id, "of_member": for_dealer})


def find_invitation(tx: Transaction, token_hash: bytes) -> Invitation | None:
    """The invitation with this hash that has not expired."""
    return tx.find(Invitation, FIND_INVITATION, {"sought": token_hash, "at": tx.now})


def list_invitations(tx: Transaction, for_dealer: str) -> list[Invitation]:
    """The invitations for a dealer that have not expired."""
    return [Invitation(*row) for row in tx.execute(LIST_INVITATIONS, {"of_member": for_dealer, "at": tx.now})]


def take_invitation(tx: Transaction, token_hash: bytes) -> Invitation | None:
    """Uses an invitation. It does not work again. Of two processes, one gets it."""
    invitation = find_invitation(tx, token_hash)
    if invitation is None or tx.execute(DELETE_INVITATION, {"sought": token_hash}).rowcount != 1:
        return None
    return invitation


def start_session(
    tx: Transaction, person_id: str, session_hash: bytes, *, address: str, browser: str, proved: bool
) -> None:
    """Adds a session of a person. Sessions that nobody used for IDLE are deleted. With `proved`, it is also proved."""
    tx.execute(DELETE_IDLE, {"since": tx.now - IDLE})
    for old in sessions_of(tx, person_id)[MOST_SESSIONS - 1 :]:
        end_session(tx, person_id, old.session_id)
    proved_at = tx.now if proved else None
    session = ConsoleSession(session_hash, new_ulid(), person_id, address, browser, tx.now, tx.now, proved_at)
    tx.execute(ADD_SESSION, session._asdict())


def find_session(tx: Transaction, session_hash: bytes) -> ConsoleSession | None:
    """The session with this hash, if it was used within IDLE."""
    values = {"sought": session_hash, "since": tx.now - IDLE, "born_after": tx.now - LONGEST_SESSION}
    return tx.find(ConsoleSession, FIND_SESSION, values)


def sessions_of(tx: Transaction, person_id: str) -> list[ConsoleSession]:
    """The sessions of a person that were used within IDLE, the last used one first."""
    return [ConsoleSession(*row) for row in tx.execute(LIST_SESSIONS, {"of_person": person_id, "since": tx.now - IDLE})]


def touch_session(tx: Transaction, session_hash: bytes) -> None:
    """Stores that a session is used now."""
    tx.execute(TOUCH_SESSION, {"sought": session_hash, "at": tx.now})


def prove_session(tx: Transaction, session_hash: bytes) -> None:
    """Stores that the person of a session has proved who they are now."""
    tx.execute(PROVE_SESSION, {"sought": session_hash, "at": tx.now})


def end_session(tx: Transaction, person_id: str, session_id: str) -> bool:
    """Ends a session of a person. Returns False if there is no such session."""
    return tx.execute(END_SESSION, {"of_person": person_id, "session": session_id}).rowcount == 1


def end_others(tx: Transaction, person_id: str, session_hash: bytes) -> None:
    """Ends all sessions of a person but one."""
    tx.execute(END_OTHERS, {"of_person": person_id, "sought": session_hash})
