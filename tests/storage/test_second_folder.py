"""A second folder that uses a dealer's id on the same database changes neither its stock nor its tokens."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.soak import sqlite_first
from tests.storage.calls import read, write
from tests.storage.current import make_current
from tests.storage.samples import CIPHER, DEALER, KEYRING, MONDAY, import_rows, row, stock_of

from dealer_agent.encryption import Cipher, Keyring, new_key, new_permanent_secret
from dealer_agent.storage.errors import KeyMissing, WrongKey
from dealer_agent.storage.privacy.keys import key_uses
from dealer_agent.storage.store import Store
from dealer_agent.storage.tokens import create_token, list_tokens, revoke_token

SECOND = Cipher(Keyring((new_key(),), permanent=new_permanent_secret()))
ROTATED = Cipher(replace(KEYRING, keys=(new_key(),)))
"""The keys of the first folder after all old ones were destroyed: the permanent secret stays."""

WRITES: dict[str, Callable[[Store], object]] = {
    "an import": lambda store: import_rows(store, [row("V2")]),
    "the dry run of an import": lambda store: import_rows(store, [row("V2")], dry_run=True),
    "a new token": lambda store: write(store, DEALER, create_token, "a buyer", b"hash"),
    "the end of a token": lambda store: write(store, DEALER, revoke_token, "T1"),
}


@pytest.fixture
def first(database_url: str) -> str:
    """The URL of a database with the stock of a dealer, whose service never ran."""
    make_current(database_url)
    with Store.open(database_url, CIPHER) as store:
        import_rows(store, [row("V1")])
    return database_url


def untouched(url: str) -> bool:
    with Store.open(url) as store:
        (unit,) = stock_of(store, DEALER, remember_days=1, now=MONDAY).live
        return unit.unit.vin == "V1" and read(store, DEALER, list_tokens) == []


@pytest.mark.parametrize("write_something", WRITES.values(), ids=WRITES)
def test_a_second_folder_with_keys_of_its_own_is_refused(
    first: str, write_something: Callable[[Store], object]
) -> None:
    with Store.open(first, SECOND) as store, pytest.raises(WrongKey, match="another folder uses the id ridgeline"):
        write_something(store)
    assert untouched(first)


@pytest.mark.parametrize("write_something", WRITES.values(), ids=WRITES)
def test_a_second_folder_without_keys_is_refused_on_postgresql(
    postgresql_url: str, write_something: Callable[[Store], object]
) -> None:
    make_current(postgresql_url)
    with Store.open(postgresql_url, CIPHER) as store:
        import_rows(store, [row("V1")])
    with Store.open(postgresql_url) as store, pytest.raises(KeyMissing, match="give it another id"):
        write_something(store)
    assert untouched(postgresql_url)


def test_a_lost_key_does_not_stop_imports_into_the_sqlite_file_of_the_folder(sqlite_url: str) -> None:
    make_current(sqlite_url)
    for cipher in (CIPHER, None):
        with Store.open(sqlite_url, cipher) as store:
            import_rows(store, [row("V1")])


@sqlite_first()
@pytest.mark.parametrize("cipher", [CIPHER, ROTATED], ids=["the same keys", "newer keys"])
def test_the_folder_that_came_first_may_write_with_the_same_and_with_newer_keys(first: str, cipher: Cipher) -> None:
    with Store.open(first, cipher) as store:
        assert import_rows(store, [row("V1"), row("V2")]).after == 2
        write(store, DEALER, create_token, "a buyer", b"hash")


def test_without_recorded_keys_any_folder_may_import(database_url: str) -> None:
    make_current(database_url)
    with Store.open(database_url) as store:
        for _ in range(2):
            import_rows(store, [row("V1")])
        assert read(store, DEALER, key_uses) == {}
    with Store.open(database_url, SECOND) as store:
        import_rows(store, [row("V1")])
        assert list(read(store, DEALER, key_uses)) == [SECOND.keyring.active]
