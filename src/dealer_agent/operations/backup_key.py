"""The keys in a backup, encrypted with a passphrase: scrypt derives a key, AES-256-GCM encrypts.

The cost of scrypt is fixed by the format, so a file cannot ask for more memory.
"""

import secrets
from typing import Annotated

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from msgspec import Meta, Struct

from dealer_agent.encryption import Keyring, render
from dealer_agent.operations.errors import BackupUnreadable, OperationError

PASSPHRASE_VARIABLE = "DEALER_AGENT_BACKUP_PASSPHRASE"  # noqa: S105 - a name
SHORTEST_PASSPHRASE = 12
"""The fewest characters of a passphrase."""
LONGEST_PASSPHRASE = 1024
_COST = 2**17
"""With `_BLOCK`, scrypt needs 128 MiB of memory and about half a second."""
_BLOCK = 8
_CONTEXT = b"dealer-agent backup: keys to customer data"


class _Sealed(Struct, frozen=True, forbid_unknown_fields=True):
    """The encrypted keys, as JSON. The binary values are base64."""

    salt: Annotated[bytes, Meta(min_length=16, max_length=16)]
    nonce: Annotated[bytes, Meta(min_length=12, max_length=12)]
    encrypted: bytes


def check_passphrase(passphrase: str) -> str:
    """The passphrase, if it is long enough. Raises OperationError."""
    if not SHORTEST_PASSPHRASE <= len(passphrase) <= LONGEST_PASSPHRASE:
        raise OperationError(f"the passphrase must have {SHORTEST_PASSPHRASE} to {LONGEST_PASSPHRASE:,} characters")
    return passphrase


def seal_keys(keyring: Keyring, passphrase: str) -> bytes:
    """The keys, encrypted with the passphrase."""
    salt, nonce = secrets.token_bytes(16), secrets.token_bytes(12)
    encrypted = AESGCM(_derived(passphrase, salt)).encrypt(nonce, render(keyring).encode(), _CONTEXT)
    return msgspec.json.encode(_Sealed(salt, nonce, encrypted))


def open_keys(sealed: bytes, passphrase: str) -> Keyring:
    """The keys in `sealed`. Raises BackupUnreadable for a wrong passphrase or damaged bytes."""
    try:
        parts = msgspec.json.decode(sealed, type=_Sealed)
        plain = AESGCM(_derived(passphrase, parts.salt)).decrypt(parts.nonce, parts.encrypted, _CONTEXT)
    except msgspec.DecodeError:
        raise BackupUnreadable("the encrypted keys in the backup are damaged: use another backup") from None
    except InvalidTag:
        raise BackupUnreadable(
            "the passphrase is wrong: the keys in the backup need the one they were made with"
        ) from None
    return Keyring.parse(plain.decode())


def _derived(passphrase: str, salt: bytes) -> bytes:
    return Scrypt(salt=salt, length=32, n=_COST, r=_BLOCK, p=1).derive(passphrase.encode())
