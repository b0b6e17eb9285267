"""Access tokens: hashes only, and a revision that tells a running service of every change."""

import pytest
from tests.storage.samples import DEALER, MONDAY, TUESDAY, import_rows, row

from dealer_agent.storage import AlreadyStored, Store


def test_a_token_opens_the_door_until_it_is_revoked(store: Store) -> None:
    first = store.create_token(DEALER, "Website", b"\x01" * 32, MONDAY)
    second = store.create_token(DEALER, "Website", b"\x02" * 32, TUESDAY)
    assert store.active_token_hashes(DEALER) == [(first, "Website", b"\x01" * 32), (second, "Website", b"\x02" * 32)]
    assert store.revoke_token(DEALER, first, TUESDAY)
    assert store.active_token_hashes(DEALER) == [(second, "Website", b"\x02" * 32)]
    assert store.list_tokens(DEALER) == [
        (first, "Website", "skills", MONDAY, TUESDAY),
        (second, "Website", "skills", TUESDAY, None),
    ]


def test_every_token_made_or_revoked_moves_the_token_revision_and_no_other(store: Store) -> None:
    import_rows(store, [row("V1")])
    token = store.create_token(DEALER, "Website", b"\x01" * 32, MONDAY)
    assert store.revision(DEALER) == (1, 1)
    store.revoke_token(DEALER, token, TUESDAY)
    assert store.revision(DEALER) == (1, 2)
    import_rows(store, [row("V1")])
    assert store.revision(DEALER) == (2, 2)


def test_revoking_twice_or_what_is_not_there_changes_nothing(store: Store) -> None:
    token = store.create_token(DEALER, "Website", b"\x01" * 32, MONDAY)
    assert not store.revoke_token(DEALER, "unknown", TUESDAY)
    assert not store.revoke_token("lakeside", token, TUESDAY)
    assert store.revoke_token(DEALER, token, MONDAY)
    assert not store.revoke_token(DEALER, token, TUESDAY)
    assert store.list_tokens(DEALER)[0].revoked_at == MONDAY
    assert store.revision(DEALER).tokens == 2


def test_one_hash_is_one_token(store: Store) -> None:
    store.create_token(DEALER, "Website", b"\x01" * 32, MONDAY)
    with pytest.raises(AlreadyStored):
        store.create_token(DEALER, "Other", b"\x01" * 32, MONDAY)
    assert store.revision(DEALER).tokens == 1
    store.create_token("lakeside", "Website", b"\x01" * 32, MONDAY)


def test_tokens_belong_to_their_dealer(store: Store) -> None:
    store.create_token(DEALER, "Website", b"\x01" * 32, MONDAY)
    assert store.list_tokens("lakeside") == []
    assert store.active_token_hashes("lakeside") == []


def test_the_secret_of_a_calendar_opens_the_calendar_and_no_skill_until_it_is_revoked(store: Store) -> None:
    skills = store.create_token(DEALER, "Website", b"\x01" * 32, MONDAY)
    calendar = store.create_token(DEALER, "calendar", b"\x02" * 32, MONDAY, purpose="calendar")
    assert store.active_token_hashes(DEALER) == [(skills, "Website", b"\x01" * 32)]
    assert [(token.token_id, token.purpose) for token in store.list_tokens(DEALER)] == [
        (skills, "skills"),
        (calendar, "calendar"),
    ]
    assert store.subscribed_visits(DEALER, b"\x02" * 32, since=MONDAY, at=MONDAY, until=TUESDAY, most=9) == []
    for other in (b"\x01" * 32, b"\x03" * 32):
        assert store.subscribed_visits(DEALER, other, since=MONDAY, at=MONDAY, until=TUESDAY, most=9) is None
    assert store.subscribed_visits("lakeside", b"\x02" * 32, since=MONDAY, at=MONDAY, until=TUESDAY, most=9) is None
    assert store.revoke_token(DEALER, calendar, TUESDAY)
    assert store.subscribed_visits(DEALER, b"\x02" * 32, since=MONDAY, at=MONDAY, until=TUESDAY, most=9) is None
