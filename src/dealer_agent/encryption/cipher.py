"""Sealing, opening and keyed hashes of customer data. Pure but for the random numbers.

Sealed: the byte 1, one byte of length, the key's id, 12 bytes of nonce, AES-256-GCM over the plain bytes. What stands
before the nonce and the whole context are authenticated too: bytes that were moved to another row do not open.
"""

import hmac
import secrets
from collections.abc import Callable
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from dealer_agent.encryption.errors import DecryptionFailed, InvalidKeys, UnknownKey
from dealer_agent.encryption.keyring import KEY_BYTES, Keyring, is_key_id

_FORM: Final = b"\x01"
_NONCE_BYTES = 12


class _Key:
    """What is derived from one key: a key of its own for each use, so that no use tells anything of another."""

    def __init__(self, key_id: str, key: bytes) -> None:
        self.header = _FORM + bytes([len(key_id)]) + key_id.encode("ascii")
        self._key = key

    @cached_property
    def cipher(self) -> AESGCM:
        return AESGCM(_derived(self._key, b"encryption"))

    @cached_property
    def lookup(self) -> bytes:
        return _derived(self._key, b"lookup")

    @cached_property
    def mac(self) -> bytes:
        return _derived(self._key, b"mac")


def _derived(key: bytes, use: bytes) -> bytes:
    return HKDF(SHA256(), KEY_BYTES, salt=None, info=b"dealer-agent vault 1: " + use).derive(key)


class _Keys:
    """A keyring's keys by id, and the keys derived from its lasting secret. A cipher whose keys change gets another."""

    def __init__(self, keyring: Keyring) -> None:
        self.keyring = keyring
        self.by_id = {key_id: _Key(key_id, key) for key_id, key in keyring.keys}
        self.active = self.by_id[keyring.active]
        self.lasting: dict[str, bytes] = {}


class Cipher:
    """Seals and opens under the keys of a keyring. Threads may share it.

    A context says where the bytes belong, such as table, column, dealer and row id. Only the same context, part by
    part, opens or verifies them. `reload` gives the keyring as it stands now (the same object where nothing changed),
    or raises InvalidKeys.
    """

    def __init__(self, keyring: Keyring, reload: Callable[[], Keyring] | None = None) -> None:
        self._keys = _Keys(keyring)
        self._reload = reload

    @property
    def keyring(self) -> Keyring:
        """The keys in use."""
        return self._keys.keyring

    @property
    def follows_its_source(self) -> bool:
        """Whether `refresh` finds keys that were changed while this process runs."""
        return self._reload is not None

    def refresh(self) -> bool:
        """Takes the keys that are in their source now; whether they changed. Raises InvalidKeys, and keeps the old."""
        if self._reload is None:
            return False
        found = self._reload()
        if found == self._keys.keyring:
            return False
        if self.keyring.lasting is not None and found.lasting != self.keyring.lasting:
            raise InvalidKeys("has another lasting secret, or none: put the right one back from your backup")
        self._keys = _Keys(found)
        return True

    def encrypt(self, plain: bytes, *context: str) -> bytes:
        """The bytes, encrypted under the active key with a fresh random nonce."""
        key = self._keys.active
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return key.header + nonce + key.cipher.encrypt(nonce, plain, key.header + _encoded(context))

    def decrypt(self, sealed: bytes, *context: str) -> bytes:
        """What was sealed. Raises UnknownKey (after one look for new keys) and DecryptionFailed."""
        key = self._key(self.key_of(sealed, *context))
        nonce_end = len(key.header) + _NONCE_BYTES
        nonce, encrypted = sealed[len(key.header) : nonce_end], sealed[nonce_end:]
        if len(nonce) < _NONCE_BYTES:
            raise DecryptionFailed(*context)
        try:
            return key.cipher.decrypt(nonce, encrypted, key.header + _encoded(context))
        except InvalidTag:
            raise DecryptionFailed(*context) from None

    def key_of(self, sealed: bytes, *context: str) -> str:
        """The id of the key that something is sealed or authenticated with. Raises DecryptionFailed if it has none."""
        if sealed[:1] != _FORM or len(sealed) < len(_FORM) + 1:
            raise DecryptionFailed(*context)
        key_id = bytes(sealed[2 : 2 + sealed[1]]).decode("ascii", "replace")
        if len(key_id) != sealed[1] or not is_key_id(key_id):
            raise DecryptionFailed(*context)
        return key_id

    def hash(self, value: str, *context: str) -> bytes:
        """32 bytes by which the value is found again, under the active key; without the key they say nothing of it."""
        return _authenticated(self._keys.active.lookup, value.encode("utf-8", "surrogatepass"), context)

    def hashes(self, value: str, *context: str) -> list[bytes]:
        """The same under every key, the active one first: what a lookup searches while keys change."""
        plain = value.encode("utf-8", "surrogatepass")
        return [_authenticated(key.lookup, plain, context) for key in self._keys.by_id.values()]

    def mac(self, data: bytes, *context: str) -> bytes:
        """An authentication code under the active key, with the key's id in front."""
        key = self._keys.active
        return key.header + _authenticated(key.mac, data, context)

    def verify_mac(self, mac: bytes, data: bytes, *context: str) -> bool:
        """Whether `mac` was made of these data in this context. Raises UnknownKey, and DecryptionFailed for no MAC."""
        key = self._key(self.key_of(mac))
        return hmac.compare_digest(mac, key.header + _authenticated(key.mac, data, context))

    def lasting_key(self, purpose: str) -> bytes:
        """32 bytes for one purpose, derived from the lasting secret. A change of keys does not change them.

        Data under this key stays readable after an erasure. So use it only for what holds no readable customer data:
        keyed hashes and signatures. Raises InvalidKeys where the keyring has no lasting secret; the cipher of a running
        service has one (`config.keys.load_cipher`).
        """
        keys = self._keys
        if keys.keyring.lasting is None:
            raise InvalidKeys("has no lasting secret")
        if purpose not in keys.lasting:
            keys.lasting[purpose] = _derived(keys.keyring.lasting, b"lasting: " + purpose.encode())
        return keys.lasting[purpose]

    def _key(self, key_id: str) -> _Key:
        """Raises UnknownKey. Another process may have made the key a moment ago: its source is asked once."""
        key = self._keys.by_id.get(key_id)
        if key is None:
            try:
                self.refresh()
            except InvalidKeys:
                raise UnknownKey(key_id) from None
            key = self._keys.by_id.get(key_id)
        if key is None:
            raise UnknownKey(key_id)
        return key


def _encoded(parts: tuple[str, ...]) -> bytes:
    """Each part with its length in front: no two contexts are encoded alike, however their parts are divided."""
    return b"".join(map(_with_length, parts))


# The parts are names of tables and columns, and ids of dealers and rows: nothing of a customer.
@lru_cache(maxsize=1024)
def _with_length(part: str) -> bytes:
    encoded = part.encode("utf-8", "surrogatepass")
    return len(encoded).to_bytes(4) + encoded


def _authenticated(key: bytes, data: bytes, context: tuple[str, ...]) -> bytes:
    encoded = _encoded(context)
    return hmac.digest(key, len(encoded).to_bytes(4) + encoded + data, sha256)
