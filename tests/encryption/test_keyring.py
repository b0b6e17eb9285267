"""The keys' text form: what is read, what is refused with its line, and that no message or trace shows a key."""

from base64 import urlsafe_b64encode
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dealer_agent.encryption import InvalidKeys, Keyring, new_key, render

ONE, TWO = bytes(range(32)), bytes(range(100, 132))
ONE_TEXT, TWO_TEXT = (urlsafe_b64encode(key).decode().rstrip("=") for key in (ONE, TWO))

ids = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}", fullmatch=True)
keys = st.binary(min_size=32, max_size=32)
keyrings = st.lists(st.tuples(ids, keys), min_size=1, max_size=5, unique_by=(lambda k: k[0], lambda k: k[1])).map(
    lambda entries: Keyring(tuple(entries))
)
permanent = st.none() | st.just(bytes(range(200, 232)))

READ = {
    "one a line": f"a:{ONE_TEXT}\nb:{TWO_TEXT}\n",
    "between commas, as in an environment variable": f"a:{ONE_TEXT},b:{TWO_TEXT}",
    "with spaces, as hands write it": f"  a : {ONE_TEXT} ,  b:{TWO_TEXT}  ,",
    "with the end that base64 may have": f"a:{ONE_TEXT}=\nb:{TWO_TEXT}=",
    "from an editor of Windows": f"a:{ONE_TEXT}\r\nb:{TWO_TEXT}\r\n",
    "among comments and empty lines": f"# active\n\na:{ONE_TEXT} # new, in May\n#c:{ONE_TEXT}\n\nb:{TWO_TEXT}",
}

REFUSED = {
    "nothing": ("", None, "no key"),
    "only a comment": (f"# a:{ONE_TEXT}", None, "no key"),
    "a key without an id": (f"a:{ONE_TEXT}\n{TWO_TEXT}", 2, "colon"),
    "an empty id": (f":{ONE_TEXT}", 1, "id"),
    "a key where the id should be": (f"{ONE_TEXT}:{TWO_TEXT}", 1, "id"),
    "an id with a space in it": (f"my key:{ONE_TEXT}", 1, "id"),
    "an id of other letters": (f"clé:{ONE_TEXT}", 1, "id"),
    "a key that was cut": (f"\n# old\na:{ONE_TEXT[:-1]}", 3, "43 characters"),
    "a key with a letter too many": (f"a:{ONE_TEXT}A", 1, "43 characters"),
    "a key of the other base64": (f"a:{ONE_TEXT[:-2]}+/", 1, "43 characters"),
    "a key with a colon in it": (f"a:{ONE_TEXT}:{TWO_TEXT}", 1, "43 characters"),
    "an id twice": (f"a:{ONE_TEXT}\na:{TWO_TEXT}", 2, "repeats the id of an earlier key"),
    "a second permanent secret": (f"a:{ONE_TEXT}\nlasting:{TWO_TEXT}\nlasting:{TWO_TEXT[::-1]}", 3, "keep the older"),
    "only a permanent secret": (f"lasting:{ONE_TEXT}", None, "no key"),
    "the key as permanent secret": (f"a:{ONE_TEXT}\nlasting:{ONE_TEXT}", 2, "repeats an earlier key under another id"),
    "a key twice": (f"a:{ONE_TEXT}\n\nb:{ONE_TEXT}", 3, "repeats an earlier key under another id"),
}


@pytest.mark.parametrize("text", READ.values(), ids=READ.keys())
def test_a_keyring_is_read(text: str) -> None:
    keyring = Keyring.parse(text)
    assert keyring.keys == (("a", ONE), ("b", TWO))
    assert keyring.active == "a"
    assert keyring.ids == ("a", "b")


@pytest.mark.parametrize(("text", "line", "expected"), REFUSED.values(), ids=REFUSED.keys())
def test_a_text_that_is_no_keyring_is_refused_with_its_line_and_never_quoted(
    text: str, line: int | None, expected: str
) -> None:
    with pytest.raises(InvalidKeys, match=expected) as refused:
        Keyring.parse(text)
    assert refused.value.line == line
    for secret in (ONE_TEXT, TWO_TEXT):
        assert secret[:8] not in str(refused.value)


@given(st.text(st.sampled_from(f"ab:,#\r\n =\t{ONE_TEXT}\N{SNOWMAN}"), max_size=120) | st.text())
def test_any_text_is_a_keyring_or_refused_in_words_of_our_own(text: str) -> None:
    told = ""
    try:
        Keyring.parse(text)
    except InvalidKeys as refused:
        told = str(refused)
    assert told.isascii()


@given(keyrings, permanent)
def test_a_keyring_that_is_written_is_read_again(keyring: Keyring, permanent: bytes | None) -> None:
    keyring = replace(keyring, permanent=permanent)
    assert Keyring.parse(render(keyring)) == keyring
    assert Keyring.parse(render(keyring).replace("\n", ",")) == keyring


def test_a_keyring_shows_no_key() -> None:
    keyring = Keyring((("a", ONE),), TWO)
    for shown in (repr(keyring), str(keyring)):
        assert repr(TWO)[2:10] not in shown
        assert repr(ONE)[2:10] not in shown
        assert ONE_TEXT[:8] not in shown


def test_new_keys_and_their_ids_are_each_their_own() -> None:
    made = [new_key() for _ in range(200)]
    assert len({key_id for key_id, _ in made}) == len({key for _, key in made}) == 200
    assert all(len(key) == 32 for _, key in made)
    assert Keyring.parse(render(Keyring(tuple(made)))).keys == tuple(made)


@pytest.mark.parametrize(
    "entries",
    [
        (("a", ONE), ("a", TWO)),
        (("a", ONE), ("b", ONE)),
        (("a", ONE[:-1]),),
        (("a:b", ONE),),
        (("", ONE),),
        (("a" * 33, ONE),),
        (("lasting", ONE),),
    ],
    ids=[
        "an id twice",
        "a key twice",
        "a short key",
        "a colon in an id",
        "no id",
        "a long id",
        "the permanent secret's name",
    ],
)
def test_a_keyring_that_could_not_be_read_again_cannot_be_made(entries: tuple[tuple[str, bytes], ...]) -> None:
    with pytest.raises(ValueError, match="key"):
        Keyring(entries)
