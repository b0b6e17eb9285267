"""Sealing, opening, keyed hashes and MACs: what opens, what is refused, and what happens while keys change."""

from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import assume, given
from hypothesis import strategies as st

from dealer_agent.encryption import Cipher, DecryptionFailed, EncryptionError, InvalidKeys, Keyring, UnknownKey

OLD, NEW = ("k-old", bytes(range(32))), ("k-new", bytes(range(100, 132)))
CIPHER = Cipher(Keyring((OLD,)))
ROTATED = Cipher(Keyring((NEW, OLD)))
STRANGER = Cipher(Keyring((NEW,)))
PREFIX = b"\x01\x05k-old"
"""What each value and each MAC of CIPHER begins with: the format, the length of the id of its key, and this id."""
PERSON = b'{"first_name":"Robin","email":"robin@example.com"}'
CONTEXT = ("leads", "customer", "acme", "01KE7AQ2N0V5X3J8R6T4Y9W1ZA")

# JSON admits any string, halves of surrogate pairs too.
words = st.text(st.characters(exclude_categories=()), max_size=20)
contexts = st.lists(words, max_size=5).map(tuple)

CONFUSABLE = [
    (("ab", "c"), ("a", "bc")),
    (("a", "b"), ("b", "a")),
    (("a",), ("a", "")),
    ((), ("",)),
    (("", "a"), ("a", "")),
    (("a\0b",), ("a", "b")),
    (("é",), ("e\u0301",)),
    (("1", "2"), ("12",)),
    (("\0\0\0\1a",), ("a",)),
]


@given(st.binary(max_size=2000), contexts)
def test_what_was_sealed_opens_in_its_place(plain: bytes, context: tuple[str, ...]) -> None:
    sealed = CIPHER.encrypt(plain, *context)
    assert CIPHER.decrypt(sealed, *context) == plain
    assert CIPHER.key_of(sealed) == "k-old"


def test_nothing_of_the_plain_bytes_stands_in_the_sealed_ones() -> None:
    sealed = CIPHER.encrypt(PERSON, *CONTEXT)
    for told in (b"Robin", b"robin@example.com", b"first_name", b"leads", b"acme"):
        assert told not in sealed


def test_the_same_bytes_are_sealed_differently_each_time() -> None:
    assert len({CIPHER.encrypt(PERSON, *CONTEXT) for _ in range(1000)}) == 1000


def test_every_flipped_bit_is_refused() -> None:
    sealed = CIPHER.encrypt(PERSON, *CONTEXT)
    for position in range(len(sealed) * 8):
        changed = bytearray(sealed)
        changed[position // 8] ^= 1 << position % 8
        with pytest.raises(EncryptionError):
            CIPHER.decrypt(bytes(changed), *CONTEXT)


def test_every_cut_and_everything_appended_is_refused() -> None:
    sealed = CIPHER.encrypt(PERSON, *CONTEXT)
    for end in range(len(sealed)):
        with pytest.raises(DecryptionFailed):
            CIPHER.decrypt(sealed[:end], *CONTEXT)
    with pytest.raises(DecryptionFailed):
        CIPHER.decrypt(sealed + b"\0", *CONTEXT)


@given(st.binary(max_size=100))
def test_bytes_of_anybodys_are_refused_in_plain_words(sealed: bytes) -> None:
    with pytest.raises(EncryptionError) as refused:
        CIPHER.decrypt(sealed)
    assert str(refused.value).isascii()


@given(st.binary(max_size=50), contexts, contexts)
def test_in_another_place_it_does_not_open(plain: bytes, here: tuple[str, ...], there: tuple[str, ...]) -> None:
    assume(here != there)
    with pytest.raises(DecryptionFailed):
        CIPHER.decrypt(CIPHER.encrypt(plain, *here), *there)


@pytest.mark.parametrize(("one", "other"), CONFUSABLE, ids=repr)
def test_contexts_that_could_be_confused_are_told_apart(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    for here, there in ((one, other), (other, one)):
        with pytest.raises(DecryptionFailed):
            CIPHER.decrypt(CIPHER.encrypt(PERSON, *here), *there)
        assert CIPHER.hash("robin", *here) != CIPHER.hash("robin", *there)
        assert not CIPHER.verify_mac(CIPHER.mac(PERSON, *here), PERSON, *there)


def test_the_end_of_the_context_and_the_data_are_told_apart() -> None:
    assert CIPHER.hash("bc", "a") != CIPHER.hash("c", "ab")
    assert CIPHER.hash("ab") != CIPHER.hash("b", "a")
    assert not CIPHER.verify_mac(CIPHER.mac(b"bc", "a"), b"c", "ab")
    assert not CIPHER.verify_mac(CIPHER.mac(b"a" + PERSON), PERSON, "a")


def test_without_its_key_it_is_refused_and_the_key_is_named() -> None:
    with pytest.raises(UnknownKey, match="k-old") as refused:
        STRANGER.decrypt(CIPHER.encrypt(PERSON, *CONTEXT), *CONTEXT)
    assert refused.value.key_id == "k-old"


def test_under_another_key_of_the_same_name_it_is_refused() -> None:
    impostor = Cipher(Keyring((("k-old", NEW[1]),)))
    with pytest.raises(DecryptionFailed):
        impostor.decrypt(CIPHER.encrypt(PERSON, *CONTEXT), *CONTEXT)
    assert not impostor.verify_mac(CIPHER.mac(PERSON), PERSON)


def test_the_active_key_seals_and_the_others_still_open() -> None:
    assert ROTATED.key_of(ROTATED.encrypt(PERSON, *CONTEXT)) == "k-new"
    assert ROTATED.decrypt(CIPHER.encrypt(PERSON, *CONTEXT), *CONTEXT) == PERSON


def test_a_hash_stays_the_same_and_depends_on_value_place_and_key() -> None:
    assert Cipher(Keyring((OLD,))).hash("email:robin@example.com", "acme") == CIPHER.hash(
        "email:robin@example.com", "acme"
    )
    others = [
        CIPHER.hash("email:robin@example.com", "acme"),
        CIPHER.hash("email:robin@example.org", "acme"),
        CIPHER.hash("email:robin@example.com", "other"),
        CIPHER.hash("email:robin@example.com"),
        STRANGER.hash("email:robin@example.com", "acme"),
    ]
    assert len(set(others)) == len(others)
    assert {len(found) for found in others} == {32}


def test_a_lookup_searches_the_hash_of_every_key_the_active_one_first() -> None:
    assert ROTATED.hashes("robin", "acme") == [ROTATED.hash("robin", "acme"), CIPHER.hash("robin", "acme")]
    assert CIPHER.hashes("robin", "acme") == [CIPHER.hash("robin", "acme")]


def test_a_value_that_is_no_sound_text_can_be_looked_up() -> None:
    assert CIPHER.hash("\ud800") != CIPHER.hash("\udfff")


@given(st.binary(max_size=200), contexts)
def test_a_mac_verifies_its_data_under_every_key_that_is_still_there(data: bytes, context: tuple[str, ...]) -> None:
    mac = CIPHER.mac(data, *context)
    assert CIPHER.key_of(mac) == "k-old"
    assert CIPHER.verify_mac(mac, data, *context)
    assert ROTATED.verify_mac(mac, data, *context)
    assert not CIPHER.verify_mac(mac, data + b"\0", *context)


def test_every_flipped_bit_of_a_mac_is_refused() -> None:
    mac = CIPHER.mac(PERSON, "acme")
    for position in range(len(mac) * 8):
        changed = bytearray(mac)
        changed[position // 8] ^= 1 << position % 8
        try:
            assert not CIPHER.verify_mac(bytes(changed), PERSON, "acme")
        except EncryptionError:
            assert position < 8 * len(PREFIX), "only a changed prefix is an error; a wrong MAC is False"


def test_the_hash_of_a_lookup_is_not_a_mac_though_value_and_place_are_the_same() -> None:
    assert CIPHER.hash("robin", "acme") != CIPHER.mac(b"robin", "acme")[-32:]


def test_the_form_at_rest_is_the_one_that_is_written_down() -> None:
    """What older versions sealed must open for ever: the form is spelled out here once more."""
    derived = HKDF(SHA256(), 32, salt=None, info=b"dealer-agent vault 1: encryption").derive(OLD[1])
    header, nonce, context = b"\x01\x05k-old", bytes(12), b"\0\0\0\5leads\0\0\0\2\xc3\xa9"
    sealed = header + nonce + AESGCM(derived).encrypt(nonce, PERSON, header + context)
    assert CIPHER.decrypt(sealed, "leads", "é") == PERSON


def test_hashes_and_macs_at_rest_stay_what_they_are() -> None:
    """Known answers: a change of theirs would lose every duplicate and break every consent chain."""
    assert (
        CIPHER.hash("email:robin@example.com", "acme").hex()
        == "56f385f078c4a1e5f5672150d484aeb35b656410e39df6fedad39a79fe6125c4"
    )
    mac = CIPHER.mac(b"end", "acme").removeprefix(PREFIX)
    assert mac.hex() == "472ef33fb42a4dd0f0faaf0bd69836ba5399d5e4760759fbc9bdbfe4ce7073f8"


PERMANENT = bytes(range(64, 96))


def test_a_permanent_key_is_the_same_before_and_after_a_change_of_keys() -> None:
    before, after = (Cipher(Keyring(keys, PERMANENT)).permanent_key("links") for keys in ((OLD,), (NEW,)))
    assert before == after
    assert len(before) == 32
    assert before.hex() == HKDF(SHA256(), 32, None, b"dealer-agent vault 1: lasting: links").derive(PERMANENT).hex()


def test_each_purpose_and_each_permanent_secret_has_its_own_permanent_key() -> None:
    one, other = Cipher(Keyring((OLD,), PERMANENT)), Cipher(Keyring((OLD,), PERMANENT[::-1]))
    assert len({cipher.permanent_key(purpose) for cipher in (one, other) for purpose in ("links", "withdrawals")}) == 4


def test_without_a_permanent_secret_nothing_is_derived() -> None:
    with pytest.raises(InvalidKeys, match="permanent"):
        CIPHER.permanent_key("links")


@pytest.mark.parametrize("found", [None, PERMANENT[::-1]], ids=["none", "another"])
def test_a_running_cipher_does_not_take_another_permanent_secret(found: bytes | None) -> None:
    cipher = Cipher(Keyring((OLD,), PERMANENT), lambda: Keyring((NEW, OLD), found))
    with pytest.raises(InvalidKeys, match="permanent"):
        cipher.refresh()
    assert cipher.keyring == Keyring((OLD,), PERMANENT)


class Source:
    """A keyring that changes in its place."""

    def __init__(self, keyring: Keyring) -> None:
        self.keyring = keyring
        self.asked = 0
        self.broken = False

    def read(self) -> Keyring:
        self.asked += 1
        if self.broken:
            raise InvalidKeys("cannot be read")
        return self.keyring


@pytest.fixture
def source() -> Source:
    return Source(Keyring((OLD,)))


def test_an_unknown_key_id_makes_the_cipher_read_the_keys_again(source: Source) -> None:
    cipher = Cipher(source.keyring, source.read)
    source.keyring = Keyring((NEW, OLD))
    assert cipher.decrypt(ROTATED.encrypt(PERSON, *CONTEXT), *CONTEXT) == PERSON
    assert cipher.keyring == source.keyring
    assert cipher.key_of(cipher.encrypt(PERSON)) == "k-new"


def test_a_code_under_a_key_that_another_process_made_is_verified(source: Source) -> None:
    cipher = Cipher(source.keyring, source.read)
    source.keyring = Keyring((NEW, OLD))
    assert cipher.verify_mac(ROTATED.mac(PERSON), PERSON)


def test_a_key_that_is_nowhere_is_looked_for_once(source: Source) -> None:
    cipher = Cipher(source.keyring, source.read)
    with pytest.raises(UnknownKey):
        cipher.decrypt(STRANGER.encrypt(PERSON))
    assert source.asked == 1


def test_a_cipher_looks_at_its_source_only_when_told_to_or_in_need(source: Source) -> None:
    cipher = Cipher(source.keyring, source.read)
    cipher.decrypt(cipher.encrypt(PERSON))
    assert source.asked == 0
    assert not cipher.refresh()
    source.keyring = Keyring((NEW, OLD))
    assert cipher.refresh()
    assert cipher.keyring.ids == ("k-new", "k-old")


def test_with_a_source_that_is_broken_the_keys_at_hand_go_on_working(source: Source) -> None:
    cipher = Cipher(source.keyring, source.read)
    source.broken = True
    with pytest.raises(InvalidKeys):
        cipher.refresh()
    assert cipher.decrypt(cipher.encrypt(PERSON)) == PERSON
    with pytest.raises(UnknownKey, match="k-new"):
        cipher.decrypt(STRANGER.encrypt(PERSON))


def test_without_a_source_there_is_nothing_to_refresh() -> None:
    assert not CIPHER.refresh()


FAULTS: dict[str, Callable[[], object]] = {
    "an unknown key": lambda: STRANGER.decrypt(CIPHER.encrypt(PERSON, *CONTEXT), *CONTEXT),
    "a broken seal": lambda: CIPHER.decrypt(CIPHER.encrypt(PERSON, *CONTEXT)),
    "no seal at all": lambda: CIPHER.decrypt(PERSON),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_no_message_holds_a_key_or_what_was_sealed(fault: Callable[[], object]) -> None:
    with pytest.raises(EncryptionError) as refused:
        fault()
    told = repr(refused.value) + repr(refused.value.__cause__)
    for secret in ("Robin", "example.com", CONTEXT[3], OLD[1].hex(), repr(OLD[1])[2:12]):
        assert secret not in told
