"""Invites people to the console, changes what they may do, and removes them: for the pages and for the commands."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from dealer_agent.console.acts import OPERATOR, ROLES
from dealer_agent.correctable import CorrectableError
from dealer_agent.protocol.formats import normal_email
from dealer_agent.server.tokens import new_token
from dealer_agent.storage.console.people import (
    Membership,
    Person,
    add_person,
    find_by_email,
    find_person,
    forget_credentials,
    is_last,
    members_of,
    memberships_of,
    remove_membership,
    set_membership,
)
from dealer_agent.storage.console.sign_ins import (
    Invitation,
    add_invitation,
    list_invitations,
    take_invitation,
    withdraw_invitation,
)
from dealer_agent.storage.isolation import ALL_DEALERS
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

VALID = timedelta(days=1)
MOST_MEMBERS = 500
"""The most people of a dealer."""


class NotInvited(CorrectableError):  # noqa: N818 - it says what happened
    """A person cannot be invited or changed so. The message says why."""


class Listed(NamedTuple):
    """A person with a role, or with an invitation that was not used yet: then until when it works."""

    person: Person
    member: Membership
    invited_until: datetime | None


@dataclass(frozen=True)
class Members:
    """The people of a dealer, or those of the installation (ALL_DEALERS). `owner` has the rows.

    `by_operator`: a command of the machine acts. An owner at a page may not invite a person of another dealer: with the
    link, the owner could sign in as that person there.
    """

    store: Store
    owner: str
    for_dealer: str
    by_operator: bool = False

    def invite(self, email: str, role: str, rooftops: Collection[str], by: str) -> tuple[Person, str]:
        """Invites a person with a role, or a known person again. Returns the person and the secret of the link.

        The person gets the role when the link is used. Raises NotInvited.
        """
        address = normal_email(email)
        if address is None:
            raise NotInvited(f"'{email[:100]}' is not an e-mail address: write it as name@example.com")
        require_role(role, self.for_dealer)
        secret = new_token()
        with self.store.write(self.owner) as tx:
            person = find_by_email(tx, address)
            self._check_dealers(tx, person)
            self._check_room(tx, person)
            if person is not None:
                self._check_last(tx, person.person_id, role)
            person = person or add_person(tx, address)
            invitation = Invitation(
                person_id=person.person_id,
                for_dealer=self.for_dealer,
                role=role,
                rooftops=msgspec.json.encode(sorted(rooftops) if role == "sales" else []),
                by_operator=self.by_operator,
                invited_by=by,
                created_at=tx.now,
                expires_at=tx.now + VALID,
            )
            add_invitation(tx, secret.secret_hash, invitation)
        return person, secret.secret

    def people(self, tx: Transaction) -> list[Listed]:
        """The people with a role, and those who are invited, by e-mail address."""
        memberships = {each.person_id: each for each in members_of(tx, self.for_dealer)}
        until = {}
        for each in list_invitations(tx, self.for_dealer):
            until[each.person_id] = each.expires_at
            rooftops = tuple(msgspec.json.decode(each.rooftops, type=list[str]))
            memberships.setdefault(each.person_id, Membership(each.person_id, self.for_dealer, each.role, rooftops))
        rows = [(find_person(tx, each.person_id), each) for each in memberships.values()]
        listed = (Listed(person, each, until.get(each.person_id)) for person, each in rows if person is not None)
        return sorted(listed, key=lambda each: each.person.email)

    def is_shared(self, tx: Transaction, person_id: str) -> bool:
        """Whether a person also belongs to somebody else: another dealer, or the installation."""
        return any(each.for_dealer != self.for_dealer for each in memberships_of(tx, person_id))

    def change(self, person_id: str, role: str, rooftops: Collection[str]) -> None:
        """Gives a member another role. Raises NotInvited."""
        require_role(role, self.for_dealer)
        with self.store.write(self.owner) as tx:
            self._require(tx, person_id)
            self._check_last(tx, person_id, role)
            set_membership(tx, person_id, self.for_dealer, role, rooftops if role == "sales" else ())

    def remove(self, person_id: str) -> None:
        """Takes a role and an invitation away. A person without any other dealer is deleted. Raises NotInvited."""
        with self.store.write(self.owner) as tx:
            self._check_last(tx, person_id, "")
            withdraw_invitation(tx, person_id, self.for_dealer)
            remove_membership(tx, person_id, self.for_dealer)

    def _require(self, tx: Transaction, person_id: str) -> None:
        if all(member.person_id != person_id for member in members_of(tx, self.for_dealer)):
            raise NotInvited("there is no such person: see the list of people")

    def _check_last(self, tx: Transaction, person_id: str, role: str) -> None:
        """Raises NotInvited if the dealer would have no owner."""
        if role != "owner" and is_last(tx, person_id, self.for_dealer, "owner"):
            raise NotInvited("a dealer keeps at least one owner: make somebody else an owner first")

    def _check_dealers(self, tx: Transaction, person: Person | None) -> None:
        if not self.by_operator and person is not None and self.is_shared(tx, person.person_id):
            raise NotInvited("this address cannot be invited here: ask the operator of the service to do it")

    def _check_room(self, tx: Transaction, person: Person | None) -> None:
        people = self.people(tx)
        is_member = person is not None and any(each.person.person_id == person.person_id for each in people)
        if not is_member and len(people) >= MOST_MEMBERS:
            raise NotInvited(f"there are {MOST_MEMBERS:,} people already: remove one first")


def accept(tx: Transaction, token_hash: bytes) -> str | None:
    """Uses an invitation: forgets what the person signed in with, and gives the role. Returns the id of the person.

    None for an invitation that does not work, also if the person has got another dealer since it was made at a page.
    """
    invitation = take_invitation(tx, token_hash)
    if invitation is None:
        return None
    others = (each.for_dealer != invitation.for_dealer for each in memberships_of(tx, invitation.person_id))
    if any(others) and not invitation.by_operator:
        return None
    forget_credentials(tx, invitation.person_id)
    rooftops = msgspec.json.decode(invitation.rooftops, type=list[str])
    set_membership(tx, invitation.person_id, invitation.for_dealer, invitation.role, rooftops)
    return invitation.person_id


def require_role(role: str, for_dealer: str) -> None:
    """Raises NotInvited unless a person may have this role for the dealer, or for the installation."""
    allowed = (OPERATOR,) if for_dealer == ALL_DEALERS else ROLES
    if role not in allowed:
        raise NotInvited(f"'{role[:50]}' is not a role here: choose {', '.join(allowed)}")
