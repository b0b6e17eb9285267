"""Encryption and keyed hashes of customer data. Pure, except for random numbers.

An encrypted value is: the byte 1, the length of the key's id in one byte, the id, a nonce of 12 bytes, and the plain
bytes in AES-256-GCM. The bytes before the nonce and the context are authenticated too: a value that was moved to
another row cannot be decrypted.
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
    """The keys that are derived from one key: each use has its own, so that one use discloses nothing about another."""

    def __init__(self, key_id: str, key: bytes) -> None:
        self.header = _FORM + bytes([len(key_id)]) + key_id.encode("ascii")
        self._key = key

    @cached_property
    def cipher(self) -> AESGCM:
        return AESGCM(_derived(self._key, b"encryption"))

    @cached_property
    def lookup(self) -> hmac.HMAC:
        return hmac.new(_derived(self._key, b"lookup"), digestmod=sha256)

    @cached_property
    def mac(self) -> hmac.HMAC:
        return hmac.new(_derived(self._key, b"mac"), digestmod=sha256)


def _derived(key: bytes, use: bytes) -> bytes:
    return HKDF(SHA256(), KEY_BYTES, salt=None, info=b"dealer-agent vault 1: " + use).derive(key)


class _Keys:
    """The keys of a keyring by id, and the keys derived from its permanent secret."""

    def __init__(self, keyring: Keyring) -> None:
        self.keyring = keyring
        self.by_id = {key_id: _Key(key_id, key) for key_id, key in keyring.keys}
        self.active = self.by_id[keyring.active]
        # By purpose, the key that was derived from the permanent secret.
        self.permanent: dict[str, bytes] = {}


class Cipher:
    """Encrypts and decrypts with the keys of a keyring. Threads may share it.

    A context says where a value belongs, such as table, column, dealer and row id. Only the same context, part by part,
    decrypts or verifies the value. `reload` returns the current keyring (the same object if nothing changed), or raises
    InvalidKeys or an error of its source.
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
        """Reads the keys from their source. Returns whether they changed. Raises InvalidKeys and keeps the old keys."""
        if self._reload is None:
            return False
        keyring = self._reload()
        if keyring == self._keys.keyring:
            return False
        if self.keyring.permanent is not None and keyring.permanent != self.keyring.permanent:
            raise InvalidKeys("has another permanent secret, or none: put the right one back from your backup")
        self._keys = _Keys(keyring)
        return True

    def pinned(self) -> "Cipher":
        """A copy that keeps its keys while another thread refreshes this cipher.

        `refresh` of the copy refreshes this cipher too, and then takes its keys.
        """

        def reload() -> Keyring:
            self.refresh()
            return self.keyring

        pinned = Cipher.__new__(Cipher)
        pinned._keys = self._keys
        pinned._reload = reload if self.follows_its_source else None
        return pinned

    @property
    def header(self) -> bytes:
        """The first bytes of every value that is encrypted with the active key, and of no other value."""
        return self._keys.active.header

    def encrypt(self, plain: bytes, *context: str) -> bytes:
        """The bytes encrypted with the active key and a fresh random nonce."""
        key = self._keys.active
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return key.header + nonce + key.cipher.encrypt(nonce, plain, key.header + _encoded(context))

    def decrypt(self, encrypted: bytes, *context: str) -> bytes:
        """The plain bytes. Raises UnknownKey (after reading the source of the keys again) and DecryptionFailed."""
        key = self._key(self.key_of(encrypted, *context))
        nonce_end = len(key.header) + _NONCE_BYTES
        nonce, ciphertext = encrypted[len(key.header) : nonce_end], encrypted[nonce_end:]
        if len(nonce) < _NONCE_BYTES:
            raise DecryptionFailed(*context)
        try:
            return key.cipher.decrypt(nonce, ciphertext, key.header + _encoded(context))
        except InvalidTag:
            raise DecryptionFailed(*context) from None

    def key_of(self, value: bytes, *context: str) -> str:
        """The id of the key of an encrypted value or of a MAC. Raises DecryptionFailed if it has none."""
        if value[:1] != _FORM or len(value) < len(_FORM) + 1:
            raise DecryptionFailed(*context)
        key_id = bytes(value[2 : 2 + value[1]]).decode("ascii", "replace")
        if len(key_id) != value[1] or not is_key_id(key_id):
            raise DecryptionFailed(*context)
        return key_id

    def hash(self, value: str, *context: str) -> bytes:
        """A hash (32 bytes) with the active key, to find the value again. Without the key it discloses nothing."""
        return _keyed_hash(self._keys.active.lookup, value.encode("utf-8", "surrogatepass"), context)

    def hashes(self, value: str, *context: str) -> list[bytes]:
        """The `hash` under each key, the active one first: a lookup needs all of them during a key rotation."""
        plain = value.encode("utf-8", "surrogatepass")
        return [_keyed_hash(key.lookup, plain, context) for key in self._keys.by_id.values()]

    def mac(self, data: bytes, *context: str) -> bytes:
        """An authentication code under the active key, with the key's id in front."""
        key = self._keys.active
        return key.header + _keyed_hash(key.mac, data, context)

    def verify_mac(self, mac: bytes, data: bytes, *context: str) -> bool:
        """Whether `mac` is that of these data in this context.

        Raises UnknownKey, and DecryptionFailed for bytes that are not a MAC.
        """
        key = self._key(self.key_of(mac))
        return hmac.compare_digest(mac, key.header + _keyed_hash(key.mac, data, context))

    def permanent_key(self, purpose: str) -> bytes:
        """32 bytes for one purpose, derived from the permanent secret. A key rotation does not change them.

        Data under this key stays readable after an erasure. So use it only for what holds no readable customer data:
        keyed hashes and signatures. Raises InvalidKeys if the keyring has no permanent secret; the cipher of a running
        service has one (`config.keys.load_cipher`).
        """
        keys = self._keys
        if keys.keyring.permanent is None:
            raise InvalidKeys("has no permanent secret: put the right keys back from your backup")
        if purpose not in keys.permanent:
            keys.permanent[purpose] = _derived(keys.keyring.permanent, b"lasting: " + purpose.encode())
        return keys.permanent[purpose]

    def _key(self, key_id: str) -> _Key:
        """Returns the key with this id. Raises UnknownKey.

        Another process may just have made the key. So for an unknown id, the source of the keys is read again, once.
        """
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
    """Each part with its length in front, so that different contexts have different encodings."""
    return b"".join(map(_with_length, parts))


# The cache holds nothing of a customer: the parts are names of tables and columns, and ids of dealers and rows.
@lru_cache(maxsize=1024)
def _with_length(part: str) -> bytes:
    encoded = part.encode("utf-8", "surrogatepass")
    return len(encoded).to_bytes(4) + encoded


def _keyed_hash(keyed: hmac.HMAC, data: bytes, context: tuple[str, ...]) -> bytes:
    """The HMAC of the length of the context, the context and the data. The hashes and the MACs are made of it."""
    encoded = _encoded(context)
    # A copy of what has hashed the key already. `hmac.digest` takes longer, and lets other threads run meanwhile.
    code = keyed.copy()
    code.update(len(encoded).to_bytes(4) + encoded + data)
    return code.digest()
