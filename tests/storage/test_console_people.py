"""People of the console and how they sign in: of many who come at once, one gets what works once."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from tests.soak import sqlite_first

from dealer_agent.storage.console import people, sign_ins
from dealer_agent.storage.console.people import Person
from dealer_agent.storage.errors import AlreadyStored
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

pytestmark = pytest.mark.outside_protocol("console")
NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
OWNER = "*"


def winners(store: Store, take: Callable[[Transaction], object]) -> int:
    """How many of eight transactions at the same time get something."""

    def one(_: int) -> bool:
        with store.write(OWNER, NOW) as tx:
            return bool(take(tx))

    with ThreadPoolExecutor(4) as threads:
        return sum(threads.map(one, range(8)))


def invitation(person: Person) -> sign_ins.Invitation:
    return sign_ins.Invitation(
        person_id=person.person_id,
        for_dealer="north",
        role="sales",
        rooftops=b"[]",
        by_operator=False,
        invited_by="owner@example.com",
        created_at=NOW,
        expires_at=NOW + timedelta(days=1),
    )


@pytest.fixture
def sam(store: Store) -> Person:
    with store.write(OWNER, NOW) as tx:
        person = people.add_person(tx, "sam@example.com")
        people.set_membership(tx, person.person_id, "north", "sales", ["North", "South"])
    return person


def test_an_address_belongs_to_one_person(store: Store, sam: Person) -> None:
    with pytest.raises(AlreadyStored), store.write(OWNER) as tx:
        people.add_person(tx, sam.email)
    with store.read(OWNER) as tx:
        assert people.find_by_email(tx, sam.email) == people.find_person(tx, sam.person_id) == sam
        (member,) = people.members_of(tx, "north")
        assert (member.role, member.rooftops) == ("sales", ("North", "South"))


def test_an_invitation_a_code_and_a_recovery_code_work_for_one_of_many(store: Store, sam: Person) -> None:
    with store.write(OWNER, NOW) as tx:
        sign_ins.add_invitation(tx, b"token", invitation(sam))
        people.set_totp(tx, sam.person_id, 1)
    assert winners(store, lambda tx: sign_ins.take_invitation(tx, b"token")) == 1
    assert winners(store, lambda tx: people.use_totp_step(tx, sam.person_id, 7)) == 1
    assert winners(store, lambda tx: people.use_totp_step(tx, sam.person_id, 6)) == 0, "an older step"
    assert winners(store, lambda tx: people.replace_recovery(tx, sam, b'["left"]')) == 1


def test_an_invitation_expires(store: Store, sam: Person) -> None:
    with store.write(OWNER, NOW) as tx:
        sign_ins.add_invitation(tx, b"token", invitation(sam))
    with store.read(OWNER, NOW + timedelta(days=1)) as tx:
        assert sign_ins.find_invitation(tx, b"token") is None
        assert sign_ins.list_invitations(tx, "north") == []


@sqlite_first()
def test_a_newer_invitation_replaces_the_older_one(store: Store, sam: Person) -> None:
    with store.write(OWNER, NOW) as tx:
        for token in (b"old", b"new"):
            sign_ins.add_invitation(tx, token, invitation(sam))
        assert sign_ins.find_invitation(tx, b"old") is None
        assert sign_ins.find_invitation(tx, b"new") is not None


@sqlite_first()
def test_a_session_ends_after_twelve_hours_without_use(store: Store, sam: Person) -> None:
    with store.write(OWNER, NOW) as tx:
        sign_ins.start_session(tx, sam.person_id, b"hash", address="", browser="", proved=True)
    for hours, is_there in ((11.9, True), (12.1, False)):
        with store.read(OWNER, NOW + timedelta(hours=hours)) as tx:
            assert (sign_ins.find_session(tx, b"hash") is not None) == is_there


def test_a_removed_person_leaves_nothing(store: Store, sam: Person) -> None:
    with store.write(OWNER, NOW) as tx:
        sign_ins.add_passkey(tx, sam.person_id, b"id", b"key", 0, "Phone")
        sign_ins.start_session(tx, sam.person_id, b"hash", address="", browser="", proved=True)
        sign_ins.add_invitation(tx, b"token", invitation(sam))
        people.remove_members(tx, "north")
        assert people.find_person(tx, sam.person_id) is None
        assert sign_ins.find_passkey(tx, b"id") is None
        assert sign_ins.find_session(tx, b"hash") is None
        assert sign_ins.find_invitation(tx, b"token") is None
        assert people.memberships_of(tx, sam.person_id) == []


def test_a_person_of_two_dealers_stays_when_one_is_removed(store: Store, sam: Person) -> None:
    with store.write(OWNER, NOW) as tx:
        people.set_membership(tx, sam.person_id, "south", "owner")
        people.remove_members(tx, "north")
        assert [each.for_dealer for each in people.memberships_of(tx, sam.person_id)] == ["south"]
        assert people.is_last(tx, sam.person_id, "south", "owner")
