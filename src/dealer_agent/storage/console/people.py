"""Stores the people of the console, and what each may do for which dealer.

The rows belong to the owner of the installation (`OpenInstallation.owner`): a person may have several dealers.
"""

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

import msgspec
from sqlalchemy import bindparam, delete, insert, or_, select, update

from dealer_agent.protocol.ids import new_ulid
from dealer_agent.storage.console.tables import console_sessions, invitations, memberships, passkeys, people
from dealer_agent.storage.statements import of_dealer, rows_of, upsert
from dealer_agent.storage.transaction import Transaction

NO_CODES = b"[]"


class Person(NamedTuple):
    """A person. `password` is a hash. `recovery` has the hashes of the recovery codes that are left (JSON)."""

    person_id: str
    email: str
    password: str | None
    totp_number: int | None
    totp_step: int | None
    recovery: bytes
    created_at: datetime
    signed_in_at: datetime | None


class Membership(NamedTuple):
    """What a person is for a dealer. Without `rooftops`, for all rooftops of the dealer."""

    person_id: str
    for_dealer: str
    role: str
    rooftops: tuple[str, ...] = ()


FIND_PERSON = rows_of(people, Person, person_id="of_person")

FIND_BY_EMAIL = rows_of(people, Person, email="at_email")

ADD_PERSON = insert(people)

_PERSON = of_dealer(people, person_id="of_person")

NOTE_SIGN_IN = update(people).where(_PERSON).values(signed_in_at=bindparam("at"))

SET_PASSWORD = update(people).where(_PERSON).values(password=bindparam("new_hash"))

SET_TOTP = update(people).where(_PERSON).values(totp_number=bindparam("number"), totp_step=None)

USE_STEP = (
    update(people)
    .where(_PERSON, or_(people.c.totp_step.is_(None), people.c.totp_step < bindparam("step")))
    .values(totp_step=bindparam("step"))
)

REPLACE_CODES = (
    update(people).where(_PERSON, people.c.recovery == bindparam("known")).values(recovery=bindparam("left"))
)

FORGET_CREDENTIALS = (
    update(people).where(_PERSON).values(password=None, totp_number=None, totp_step=None, recovery=NO_CODES)
)

DELETE_PERSON = delete(people).where(_PERSON)

DELETE_PASSKEYS = delete(passkeys).where(of_dealer(passkeys, person_id="of_person"))

DELETE_SESSIONS = delete(console_sessions).where(of_dealer(console_sessions, person_id="of_person"))

DELETE_INVITATIONS = delete(invitations).where(of_dealer(invitations, person_id="of_person"))

SET_MEMBERSHIP = upsert(memberships, "UPDATE SET role = excluded.role, rooftops = excluded.rooftops")

LIST_MEMBERSHIPS = rows_of(memberships, Membership, for_dealer="of_member").order_by(memberships.c.person_id)

LIST_MEMBERSHIPS_OF = rows_of(memberships, Membership, person_id="of_person").order_by(memberships.c.for_dealer)

DELETE_MEMBERSHIPS = delete(memberships).where(of_dealer(memberships, person_id="of_person"))

DELETE_MEMBERSHIP = DELETE_MEMBERSHIPS.where(memberships.c.for_dealer == bindparam("of_member"))

HAS_INVITATION = select(invitations.c.person_id).where(of_dealer(invitations, person_id="of_person")).limit(1)

_INVITED_TO = of_dealer(invitations, for_dealer="of_member")

FIND_INVITED = select(invitations.c.person_id).where(_INVITED_TO)

DELETE_INVITATIONS_TO = delete(invitations).where(_INVITED_TO)

COUNT_ROLE = select(memberships.c.person_id).where(of_dealer(memberships, for_dealer="of_member", role="having"))


def add_person(tx: Transaction, email: str) -> Person:
    """A new person without credentials. `email` is in lower case. Raises AlreadyStored for a known one."""
    person = Person(new_ulid(), email, None, None, None, NO_CODES, tx.now, None)
    tx.execute(ADD_PERSON, person._asdict())
    return person


def find_person(tx: Transaction, person_id: str) -> Person | None:
    """The person with this id."""
    return tx.find(Person, FIND_PERSON, {"of_person": person_id})


def find_by_email(tx: Transaction, email: str) -> Person | None:
    """The person with this e-mail address, which is in lower case."""
    return tx.find(Person, FIND_BY_EMAIL, {"at_email": email})


def note_sign_in(tx: Transaction, person_id: str) -> None:
    """Stores that a person signs in now."""
    tx.execute(NOTE_SIGN_IN, {"of_person": person_id, "at": tx.now})


def set_password(tx: Transaction, person_id: str, password: str | None) -> None:
    """Replaces the hash of a person's password. None: the person has no password."""
    tx.execute(SET_PASSWORD, {"of_person": person_id, "new_hash": password})


def set_totp(tx: Transaction, person_id: str, number: int | None) -> None:
    """Sets the number from which the secret of a person's one-time codes is derived. None: there are none."""
    tx.execute(SET_TOTP, {"of_person": person_id, "number": number})


def use_totp_step(tx: Transaction, person_id: str, step: int) -> bool:
    """Whether the code of a step may be used: neither it nor a later one was used before."""
    return tx.execute(USE_STEP, {"of_person": person_id, "step": step}).rowcount == 1


def replace_recovery(tx: Transaction, person: Person, left: bytes) -> bool:
    """Replaces the hashes of a person's recovery codes. False if they have changed meanwhile."""
    values = {"of_person": person.person_id, "known": person.recovery, "left": left}
    return tx.execute(REPLACE_CODES, values).rowcount == 1


def forget_credentials(tx: Transaction, person_id: str) -> None:
    """Ends all sessions of a person, and deletes passkeys, password, one-time codes and recovery codes."""
    for statement in (DELETE_SESSIONS, DELETE_PASSKEYS, FORGET_CREDENTIALS):
        tx.execute(statement, {"of_person": person_id})


def remove_person(tx: Transaction, person_id: str) -> None:
    """Deletes a person with everything of theirs."""
    for statement in (DELETE_SESSIONS, DELETE_PASSKEYS, DELETE_INVITATIONS, DELETE_MEMBERSHIPS, DELETE_PERSON):
        tx.execute(statement, {"of_person": person_id})


def set_membership(tx: Transaction, person_id: str, for_dealer: str, role: str, rooftops: Collection[str] = ()) -> None:
    """Gives a person a role for a dealer, or another one."""
    row = {"person_id": person_id, "for_dealer": for_dealer, "role": role}
    tx.execute(SET_MEMBERSHIP, row | {"rooftops": msgspec.json.encode(sorted(rooftops))})


def remove_membership(tx: Transaction, person_id: str, for_dealer: str) -> None:
    """Takes a person's role for a dealer away. A person without any other role or invitation is deleted."""
    tx.execute(DELETE_MEMBERSHIP, {"of_person": person_id, "of_member": for_dealer})
    is_invited = tx.execute(HAS_INVITATION, {"of_person": person_id}).scalar() is not None
    if not memberships_of(tx, person_id) and not is_invited:
        remove_person(tx, person_id)


def remove_members(tx: Transaction, for_dealer: str) -> None:
    """Takes the roles for a removed dealer away, and the invitations. People without any other role are deleted."""
    invited = tx.execute(FIND_INVITED, {"of_member": for_dealer}).scalars().all()
    tx.execute(DELETE_INVITATIONS_TO, {"of_member": for_dealer})
    for person_id in {*invited, *(member.person_id for member in members_of(tx, for_dealer))}:
        remove_membership(tx, person_id, for_dealer)


def members_of(tx: Transaction, for_dealer: str) -> list[Membership]:
    """The roles of people for a dealer, or for the installation."""
    return [_membership(row) for row in tx.execute(LIST_MEMBERSHIPS, {"of_member": for_dealer})]


def memberships_of(tx: Transaction, person_id: str) -> list[Membership]:
    """The roles of a person."""
    return [_membership(row) for row in tx.execute(LIST_MEMBERSHIPS_OF, {"of_person": person_id})]


def is_last(tx: Transaction, person_id: str, for_dealer: str, role: str) -> bool:
    """Whether nobody else has this role for the dealer."""
    return list(tx.execute(COUNT_ROLE, {"of_member": for_dealer, "having": role}).scalars()) == [person_id]


def _membership(row: tuple[str, str, str, bytes]) -> Membership:
    person_id, for_dealer, role, rooftops = row
    return Membership(person_id, for_dealer, role, tuple(msgspec.json.decode(rooftops, type=list[str])))
