"""Access tokens: hashes only, and a revision that tells a running service of every change."""

from datetime import timedelta

import pytest
from tests.soak import sqlite_first
from tests.storage.calls import read, write_at
from tests.storage.samples import DEALER, MONDAY, TUESDAY, import_rows, row

from dealer_agent.storage.errors import AlreadyStored
from dealer_agent.storage.stock.reading import ChangeCounters, read_revision
from dealer_agent.storage.store import Store
from dealer_agent.storage.tokens import create_token, find_token, list_active_tokens, list_tokens, revoke_token


def test_a_token_opens_the_door_until_it_is_revoked(store: Store) -> None:
    first = write_at(MONDAY, store, DEALER, create_token, "Website", b"\x01" * 32)
    second = write_at(TUESDAY, store, DEALER, create_token, "Website", b"\x02" * 32)
    assert read(store, DEALER, list_active_tokens) == [
        (first, "Website", b"\x01" * 32, None, None),
        (second, "Website", b"\x02" * 32, None, None),
    ]
    assert write_at(TUESDAY, store, DEALER, revoke_token, first)
    assert read(store, DEALER, list_active_tokens) == [(second, "Website", b"\x02" * 32, None, None)]
    assert read(store, DEALER, list_tokens) == [
        (first, "Website", "skills", MONDAY, TUESDAY, None, None, None),
        (second, "Website", "skills", TUESDAY, None, None, None, None),
    ]


@sqlite_first()
def test_every_token_made_or_revoked_moves_the_token_revision_and_no_other(store: Store) -> None:
    import_rows(store, [row("V1")])
    token = write_at(MONDAY, store, DEALER, create_token, "Website", b"\x01" * 32)
    assert read(store, DEALER, read_revision) == ChangeCounters(1, 1)
    write_at(TUESDAY, store, DEALER, revoke_token, token)
    assert read(store, DEALER, read_revision) == ChangeCounters(1, 2)
    import_rows(store, [row("V1")])
    assert read(store, DEALER, read_revision) == ChangeCounters(2, 2)


@sqlite_first()
def test_a_token_is_not_found_after_its_expiry(store: Store) -> None:
    write_at(MONDAY, store, DEALER, create_token, "calendar", b"\x01" * 32, "calendar", TUESDAY)
    with store.read(DEALER, TUESDAY - timedelta(seconds=1)) as tx:
        assert find_token(tx, b"\x01" * 32, "calendar")
        assert list_tokens(tx)[0].expires_at == TUESDAY
    with store.read(DEALER, TUESDAY) as tx:
        assert find_token(tx, b"\x01" * 32, "calendar") is None


@sqlite_first()
def test_revoking_twice_or_what_is_not_there_changes_nothing(store: Store) -> None:
    token = write_at(MONDAY, store, DEALER, create_token, "Website", b"\x01" * 32)
    assert not write_at(TUESDAY, store, DEALER, revoke_token, "unknown")
    assert not write_at(TUESDAY, store, "lakeside", revoke_token, token)
    assert write_at(MONDAY, store, DEALER, revoke_token, token)
    assert not write_at(TUESDAY, store, DEALER, revoke_token, token)
    assert read(store, DEALER, list_tokens)[0].revoked_at == MONDAY
    assert read(store, DEALER, read_revision).tokens == 2


@sqlite_first()
def test_a_dealer_cannot_have_two_tokens_with_one_hash(store: Store) -> None:
    write_at(MONDAY, store, DEALER, create_token, "Website", b"\x01" * 32)
    with pytest.raises(AlreadyStored):
        write_at(MONDAY, store, DEALER, create_token, "Other", b"\x01" * 32)
    assert read(store, DEALER, read_revision).tokens == 1
    write_at(MONDAY, store, "lakeside", create_token, "Website", b"\x01" * 32)


@sqlite_first()
def test_tokens_belong_to_their_dealer(store: Store) -> None:
    write_at(MONDAY, store, DEALER, create_token, "Website", b"\x01" * 32)
    assert read(store, "lakeside", list_tokens) == []
    assert read(store, "lakeside", list_active_tokens) == []


@sqlite_first()
def test_the_secret_of_a_calendar_opens_the_calendar_and_no_skill_until_it_is_revoked(store: Store) -> None:
    skills = write_at(MONDAY, store, DEALER, create_token, "Website", b"\x01" * 32)
    calendar = write_at(MONDAY, store, DEALER, create_token, "calendar", b"\x02" * 32, purpose="calendar")
    assert read(store, DEALER, list_active_tokens) == [(skills, "Website", b"\x01" * 32, None, None)]
    assert {token.token_id: token.purpose for token in read(store, DEALER, list_tokens)} == {
        skills: "skills",
        calendar: "calendar",
    }
    assert read(store, DEALER, find_token, b"\x02" * 32, "calendar") == calendar
    for other in (b"\x01" * 32, b"\x03" * 32):
        assert read(store, DEALER, find_token, other, "calendar") is None
    assert read(store, "lakeside", find_token, b"\x02" * 32, "calendar") is None
    assert write_at(TUESDAY, store, DEALER, revoke_token, calendar)
    assert read(store, DEALER, find_token, b"\x02" * 32, "calendar") is None
