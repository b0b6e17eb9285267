"""Reads and writes the keys to customer data. They are in the environment, else in a private file beside `dealer.toml`.

Every write to the file is atomic and durable: after a crash a reader finds the old keys or the new keys.
"""

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

from dealer_agent.config.settings_problems import SettingsError
from dealer_agent.encryption import Cipher, InvalidKeys, Keyring, new_key, new_permanent_secret, render
from dealer_agent.encryption.private_files import advice, is_open_to_others, new_private_file, sync_folder

KEYS_VARIABLE = "DEALER_AGENT_KEYS"
KEY_FILE_NAME = "dealer-agent.keys"

_PERMANENT_IS_MISSING = (
    "has no permanent secret: add the entry `lasting:...` that `dealer-agent keys create --print` shows; "
    "every machine with the same database needs the same one"
)

_HEADER = """\
# The keys to this dealer's customer data. Back up this file separately from the database: without it nobody can read
# the leads again. Keep it secret: a person who has it and the database can read the leads. The first key is the
# active one. `dealer-agent keys rotate` changes it.
"""


class KeyFile:
    """The keyring in a file. It is read again only after the file has changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # The state of the file that was read, and its keys. They are one attribute, because several threads may read at
        # once.
        self._seen: tuple[tuple[int, ...], Keyring] | None = None

    def read(self) -> Keyring:
        """The keys that are in the file now. Raises InvalidKeys with advice."""
        try:
            with self.path.open("rb") as file:
                state = os.fstat(file.fileno())
                # With the mode: the file is refused as soon as other users have access to it.
                seen = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_mode)
                if self._seen is not None and self._seen[0] == seen:
                    return self._seen[1]
                if is_open_to_others(state.st_mode):
                    raise InvalidKeys(advice("600", [self.path]))
                keyring = Keyring.parse(file.read().decode("utf-8-sig"))
                self._seen = seen, keyring
                return keyring
        except UnicodeDecodeError:
            raise InvalidKeys("is not text: put the file back from your backup") from None
        except FileNotFoundError:
            raise InvalidKeys(f"is gone from {self.path.parent}: put it back from your backup") from None
        except OSError as error:
            raise InvalidKeys(
                f"cannot be read: {error.strerror}; give the user that the program runs as access to the file"
            ) from None

    def changing(self) -> AbstractContextManager[None]:
        """`changing` of the file."""
        return changing(self.path)

    def write(self, before: Keyring, keyring: Keyring) -> None:  # noqa: ARG002 - the lock protects `before`
        """`replace_key_file`. Call it within `changing`."""
        replace_key_file(self.path, keyring)


def load_cipher(folder: Path, env: Mapping[str, str]) -> Cipher | None:
    """The cipher with the keys of `DEALER_AGENT_KEYS`, else of the folder's key file; None without keys.

    A key file without a permanent secret gets one. Raises SettingsError, which never contains a key.
    """
    if from_environment(env):
        try:
            keyring = Keyring.parse(env[KEYS_VARIABLE])
        except InvalidKeys as error:
            raise SettingsError(f"{KEYS_VARIABLE}: {error}") from None
        if keyring.permanent is None:
            raise SettingsError(f"{KEYS_VARIABLE}: {_PERMANENT_IS_MISSING}")
        return Cipher(keyring)
    path = folder / KEY_FILE_NAME
    # `exists` would hide a broken link and a folder without access, which are errors.
    if not os.path.lexists(path):
        return None
    file = KeyFile(path)
    try:
        if file.read().permanent is None:
            with changing(path, wait=True):
                found = file.read()
                if found.permanent is None:
                    replace_key_file(path, replace(found, permanent=new_permanent_secret()))
        return Cipher(file.read(), file.read)
    except InvalidKeys as error:
        position = f"{KEY_FILE_NAME}, line {error.line}" if error.line else KEY_FILE_NAME
        raise SettingsError(f"{position}: {error}") from None
    except OSError:
        raise SettingsError(f"{KEY_FILE_NAME}: {_PERMANENT_IS_MISSING}") from None


def from_environment(env: Mapping[str, str]) -> bool:
    """Whether the keys come from the environment. An empty variable counts as not set."""
    return bool(env.get(KEYS_VARIABLE, "").strip())


def create_key_file(folder: Path, keyring: Keyring | None = None) -> Path:
    """Creates the key file of a folder with mode 0600, by default with a new key.

    Raises FileExistsError and OSError.
    """
    path = folder / KEY_FILE_NAME
    with changing(path), _written_beside(path, keyring or Keyring((new_key(),), new_permanent_secret())) as made:
        # A link, because a rename would replace an existing file.
        os.link(made, path)
    return path


def replace_key_file(path: Path, keyring: Keyring) -> None:
    """Replaces the keyring in a key file. Owner and group stay. Hold the lock `changing(path)` while you call it.

    Raises OSError. If the file belongs to another user, it raises PermissionError and changes nothing, because this
    process cannot give the new file to that user.
    """
    path = path.resolve()
    with _written_beside(path, keyring) as made:
        state = path.stat()
        os.chown(made, state.st_uid, state.st_gid)
        made.replace(path)


@contextmanager
def changing(path: Path, *, wait: bool = False) -> Iterator[None]:
    """Locks a key file for a `with` block, so that two processes cannot overwrite each other's new key.

    Raises OSError; without `wait` also BlockingIOError while another process has the lock.
    """
    descriptor = os.open(path.resolve().parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _written_beside(path: Path, keyring: Keyring) -> Iterator[Path]:
    """A complete temporary file beside `path`, deleted at the end of the `with` block unless the block moved it."""
    made = path.with_name(f".{path.name}.new")
    made.unlink(missing_ok=True)  # A killed process may have left one with old keys.
    try:
        with new_private_file(made) as file:
            file.write((_HEADER + render(keyring)).encode("ascii"))
        yield made
        sync_folder(path.parent)
    finally:
        made.unlink(missing_ok=True)
