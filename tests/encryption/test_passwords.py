"""The hashes of the passwords of accounts."""

import pytest

from dealer_agent.encryption.passwords import (
    NO_PASSWORD,
    check_new_password,
    hash_password,
    is_password,
    read_password_hash,
)

pytestmark = pytest.mark.outside_protocol("passwords of accounts")

PASSWORD = "a long password"


def test_a_hash_fits_its_password_only_and_never_repeats() -> None:
    one, two = hash_password(PASSWORD), hash_password(PASSWORD)
    assert one != two
    assert read_password_hash(one) == one
    assert is_password(PASSWORD, one)
    assert not is_password(f"{PASSWORD} ", one)
    assert not is_password("", one)


def test_the_hash_for_unknown_users_costs_the_same_and_fits_nothing() -> None:
    assert read_password_hash(NO_PASSWORD) == NO_PASSWORD
    assert NO_PASSWORD.split("$")[:4] == hash_password(PASSWORD).split("$")[:4]
    assert not is_password("", NO_PASSWORD)


@pytest.mark.parametrize(
    "written",
    [
        "",
        PASSWORD,
        "$2b$12$abcdefghijklmnopqrstuv",
        NO_PASSWORD.replace("m=65536", "m=4194304"),
        NO_PASSWORD.replace("m=65536", "m=8"),
        NO_PASSWORD.replace("t=3", "t=99"),
        NO_PASSWORD.replace("p=4", "p=0"),
        NO_PASSWORD.replace("argon2id", "argon2i"),
        NO_PASSWORD + "\n",
        NO_PASSWORD + "A",
    ],
)
def test_another_text_and_an_expensive_hash_are_no_hash(written: str) -> None:
    with pytest.raises(ValueError, match="dealer-agent feeds password"):
        read_password_hash(written)


@pytest.mark.parametrize(
    "password", ["", "x" * 11, "x" * 129, "pässword is long", "with a tab\tin it", "two\nlines of it"]
)
def test_a_new_password_is_long_and_printable(password: str) -> None:
    with pytest.raises(ValueError, match="choose another"):
        check_new_password(password)
    check_new_password(PASSWORD)
