"""The keys and their text form: one `id:key` a line. Pure, except for the random numbers of a new key.

A file and an environment variable have the same text. Commas separate entries like line ends:

    # The first key is the active one.
    k-7f3k2m9q0a:ZJ0...43 characters of base64url...
    k-0m4x8c1v5t:9bX...
    lasting:Qw8...

The entry `lasting` is the permanent secret. It is not a key of customer data, and a key rotation never replaces it.
"""

import re
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Self

from dealer_agent.encryption.errors import InvalidKeys
from dealer_agent.protocol.ids import new_ulid

KEY_BYTES = 32
PERMANENT = "lasting"
"""The name of the permanent secret's entry: no key has this id."""

# An id is shorter than the text of a key. So a key in the place of an id is never accepted as an id, and never shown.
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}")
_KEY = re.compile(r"[A-Za-z0-9_-]{43}=?")


@dataclass(frozen=True)
class Keyring:
    """Key ids, each with its 32 bytes. The first is the active key, which encrypts; the others only decrypt.

    `permanent` are the 32 bytes of the permanent secret; None if the text has none.
    """

    # A trace may show a keyring, but never its keys.
    keys: tuple[tuple[str, bytes], ...] = field(repr=False)
    permanent: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Raises InvalidKeys without a key, and ValueError for ids and keys that the text form cannot contain."""
        if not self.keys:
            raise InvalidKeys("has no key: write one as `dealer-agent keys create --print` shows it")
        ids, keys = zip(*self.keys, strict=True)
        if len(set(ids)) < len(ids) or len(set(keys)) < len(keys):
            raise ValueError("has a key or a key id twice: leave out one of the two")
        for key_id, key in self.keys:
            if not is_key_id(key_id):
                raise ValueError(f"'{key_id}' is not a valid key id: use 1 to 32 letters, digits or - . _")
            if key_id == PERMANENT:
                raise ValueError(f"the key id '{key_id}' is reserved for the permanent secret: choose another one")
            if len(key) != KEY_BYTES:
                raise ValueError(f"the key '{key_id}' is not valid: it must have exactly 32 bytes")
        if self.permanent is not None and (
            len(self.permanent) != KEY_BYTES or self.permanent in dict(self.keys).values()
        ):
            raise ValueError(
                f"the permanent secret is not valid: it must have exactly {KEY_BYTES} bytes, and differ from all keys"
            )

    @classmethod
    def parse(cls, text: str) -> Self:
        """A keyring from its text. Empty lines and comments after `#` are skipped.

        Raises InvalidKeys with the line of the first error. Its message quotes nothing of the text.
        """
        keys: dict[str, bytes] = {}
        for line, entry in _entries(text):
            key_id, colon, key_text = (part.strip() for part in entry.partition(":"))
            if not colon:
                raise InvalidKeys(
                    "is not a key: write its id, a colon and the key, like `dealer-agent keys create`", line
                )
            if not is_key_id(key_id):
                raise InvalidKeys("the id before the colon must be 1 to 32 letters, digits and -._", line)
            if _KEY.fullmatch(key_text) is None:
                raise InvalidKeys(
                    "the key after the colon must have 43 characters (letters, digits, - and _): copy this line again "
                    "from your backup of the keys, because another key reads no data",
                    line,
                )
            key = urlsafe_b64decode(key_text.removesuffix("=") + "=")
            if key_id in keys:
                if key_id == PERMANENT:
                    raise InvalidKeys("has a second permanent secret: keep the older one, and remove the new one", line)
                raise InvalidKeys("repeats the id of an earlier key: remove the key that you added last", line)
            if key in keys.values():
                raise InvalidKeys("repeats an earlier key under another id: remove the id that you added last", line)
            keys[key_id] = key
        permanent = keys.pop(PERMANENT, None)
        return cls(tuple(keys.items()), permanent)

    @property
    def active(self) -> str:
        """The id of the key that encrypts."""
        return self.keys[0][0]

    @property
    def ids(self) -> tuple[str, ...]:
        """All ids, the active one first."""
        return tuple(key_id for key_id, _ in self.keys)


def is_key_id(text: str) -> bool:
    """Whether a key may have this id. `PERMANENT` is not the id of a key, but is read like one."""
    return _ID.fullmatch(text) is not None


def new_key() -> tuple[str, bytes]:
    """A fresh key and its id, such as `k-7f3k2m9q0a`."""
    return f"k-{new_ulid()[-10:].lower()}", secrets.token_bytes(KEY_BYTES)


def new_permanent_secret() -> bytes:
    """A fresh permanent secret."""
    return secrets.token_bytes(KEY_BYTES)


def render(keyring: Keyring) -> str:
    """The text of a keyring, one entry a line, for `Keyring.parse`."""
    entries = keyring.keys if keyring.permanent is None else (*keyring.keys, (PERMANENT, keyring.permanent))
    return "".join(f"{name}:{urlsafe_b64encode(key).decode().rstrip('=')}\n" for name, key in entries)


def _entries(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.split("\n"), start=1):
        for entry in line.partition("#")[0].split(","):
            if entry.strip():
                yield number, entry
