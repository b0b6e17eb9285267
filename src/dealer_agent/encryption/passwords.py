"""Password hashes: Argon2id (RFC 9106), in the notation that begins with `$argon2id$`."""

import os
import re

from cryptography.exceptions import InvalidKey
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

MEMORY_KIB = 64 * 1024
ITERATIONS = 3
LANES = 4
"""The second recommended option of RFC 9106: 64 MiB and about a tenth of a second."""

FEWEST_CHARACTERS = 12
MOST_CHARACTERS = 128

_HASH = re.compile(r"\$argon2id\$v=19\$m=(\d{1,7}),t=(\d{1,3}),p=(\d{1,3})\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}")
_LEAST_MEMORY_KIB = 19 * 1024
_MOST_MEMORY_KIB = 128 * 1024
_MOST_ITERATIONS = 10
_MOST_LANES = 8

NO_PASSWORD = "$argon2id$v=19$m=65536,t=3,p=4$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"  # noqa: S105
"""A hash that no known password has. To check it takes as long as to check another hash."""


def check_new_password(password: str) -> None:
    """Raises ValueError with advice for a password that is too short, too long, or not printable ASCII."""
    if not FEWEST_CHARACTERS <= len(password) <= MOST_CHARACTERS:
        raise ValueError(f"a password has {FEWEST_CHARACTERS} to {MOST_CHARACTERS} characters; choose another")
    if not (password.isascii() and password.isprintable()):
        raise ValueError("a password has letters, digits, signs and spaces of ASCII only; choose another")


def hash_password(password: str) -> str:
    """The hash of a password, with a new salt."""
    kdf = Argon2id(salt=os.urandom(16), length=32, iterations=ITERATIONS, lanes=LANES, memory_cost=MEMORY_KIB)
    return kdf.derive_phc_encoded(password.encode())


def is_password(password: str, password_hash: str) -> bool:
    """Whether this password has this hash, which `read_password_hash` accepts. Takes a tenth of a second and 64 MiB."""
    try:
        Argon2id.verify_phc_encoded(password.encode(), password_hash)
    except InvalidKey:
        return False
    return True


def read_password_hash(value: str) -> str:
    """A hash that `hash_password` could have made. Bounds the memory and the time to check it. Raises ValueError."""
    match = _HASH.fullmatch(value)
    if match is None:
        raise ValueError("is not an Argon2id hash; make one with `dealer-agent feeds password`")
    memory, iterations, lanes = map(int, match.groups())
    if not (
        _LEAST_MEMORY_KIB <= memory <= _MOST_MEMORY_KIB
        and 1 <= iterations <= _MOST_ITERATIONS
        and 1 <= lanes <= _MOST_LANES
    ):
        raise ValueError("has cost parameters that are not accepted; make another with `dealer-agent feeds password`")
    return value
