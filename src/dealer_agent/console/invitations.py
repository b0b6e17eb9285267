"""Invites people to the console, changes what they may do, and removes them: for the pages and for the commands."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from dealer_agent.console.acts import OPERATOR, ROLES
from dealer_agent.correctable import CorrectableError
from dealer_agent.protocol.formats import normal_email
from dealer_agent.server.tokens import new_token
from dealer_agent.storage.console.people import (
    Person,
    add_person,
    find_by_email,
    is_last,
    members_of,
    memberships_of,
    remove_membership,
    set_membership,
)
from dealer_agent.storage.console.sign_ins import add_invitation, end_sessions
from dealer_agent.storage.isolation import ALL_DEALERS
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

VALID = timedelta(days=1)
MOST_MEMBERS = 500
"""The most people of a dealer."""


class NotInvited(CorrectableError):  # noqa: N818 - it says what happened
    """A person cannot be invited or changed so. The message says why."""


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

    def invite(
        self, email: str, role: str, rooftops: Collection[str], by: str, *, now: datetime | None = None
    ) -> tuple[Person, str]:
        """Invites a person with a role, or a known person again. Returns the person and the secret of the link.

        An invitation that is used again takes the person's passkeys, password and codes away. Raises NotInvited.
        """
        address = normal_email(email)
        if address is None:
            raise NotInvited(f"'{email[:100]}' is not an e-mail address: write it as name@example.com")
        require_role(role, self.for_dealer)
        secret = new_token()
        with self.store.write(self.owner, now) as tx:
            person = find_by_email(tx, address)
            self._check_dealers(tx, person)
            self._check_room(tx, person)
            if person is not None:
                self._check_last(tx, person.person_id, role)
            person = person or add_person(tx, address)
            set_membership(tx, person.person_id, self.for_dealer, role, rooftops if role == "sales" else ())
            add_invitation(tx, person.person_id, secret.secret_hash, by, tx.now + VALID)
        return person, secret.secret

    def change(self, person_id: str, role: str, rooftops: Collection[str]) -> None:
        """Gives a member another role. Raises NotInvited."""
        require_role(role, self.for_dealer)
        with self.store.write(self.owner) as tx:
            self._require(tx, person_id)
            self._check_last(tx, person_id, role)
            set_membership(tx, person_id, self.for_dealer, role, rooftops if role == "sales" else ())

    def remove(self, person_id: str) -> None:
        """Takes a member's role away, and ends their sessions. Raises NotInvited."""
        with self.store.write(self.owner) as tx:
            self._require(tx, person_id)
            self._check_last(tx, person_id, "")
            end_sessions(tx, person_id)
            remove_membership(tx, person_id, self.for_dealer)

    def _require(self, tx: Transaction, person_id: str) -> None:
        if all(member.person_id != person_id for member in members_of(tx, self.for_dealer)):
            raise NotInvited("there is no such person: see the list of people")

    def _check_last(self, tx: Transaction, person_id: str, role: str) -> None:
        """Raises NotInvited if the dealer would have no owner."""
        if role != "owner" and is_last(tx, person_id, self.for_dealer, "owner"):
            raise NotInvited("a dealer keeps at least one owner: make somebody else an owner first")

    def _check_dealers(self, tx: Transaction, person: Person | None) -> None:
        others = () if person is None else memberships_of(tx, person.person_id)
        if not self.by_operator and any(each.for_dealer != self.for_dealer for each in others):
            raise NotInvited("this address cannot be invited here: ask the operator of the service to do it")

    def _check_room(self, tx: Transaction, person: Person | None) -> None:
        members = members_of(tx, self.for_dealer)
        known = person is not None and any(member.person_id == person.person_id for member in members)
        if not known and len(members) >= MOST_MEMBERS:
            raise NotInvited(f"there are {MOST_MEMBERS:,} people already: remove one first")


def require_role(role: str, for_dealer: str) -> None:
    """Raises NotInvited unless a person may have this role for the dealer, or for the installation."""
    allowed = (OPERATOR,) if for_dealer == ALL_DEALERS else ROLES
    if role not in allowed:
        raise NotInvited(f"'{role[:50]}' is not a role here: choose {', '.join(allowed)}")
