"""Customer data at rest: keys, encryption, keyed hashes. Pure, except for random numbers."""

from dealer_agent.encryption.cipher import Cipher
from dealer_agent.encryption.errors import DecryptionFailed, EncryptionError, InvalidKeys, UnknownKey
from dealer_agent.encryption.keyring import Keyring, new_key, new_permanent_secret, render

__all__ = [
    "Cipher",
    "DecryptionFailed",
    "EncryptionError",
    "InvalidKeys",
    "Keyring",
    "UnknownKey",
    "new_key",
    "new_permanent_secret",
    "render",
]
