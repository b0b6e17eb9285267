"""The host key of our SFTP server: a file that is made once. Vendors compare its fingerprint."""

import os
from contextlib import suppress
from pathlib import Path

import asyncssh

from dealer_agent.encryption import EncryptionError
from dealer_agent.encryption.private_files import advice, is_open_to_others, new_private_file

ALGORITHM = "ssh-ed25519"


class HostKeyError(EncryptionError):
    """The host key cannot be used. The message says what to do, and has nothing of the key."""


def host_key(path: Path) -> asyncssh.SSHKey:
    """The private key in the file. A missing file is created with mode 0600. Blocks. Raises HostKeyError.

    The file may have any key that OpenSSH writes without a passphrase.
    """
    try:
        if not path.exists():
            _create(path)
        if is_open_to_others(path.stat().st_mode):
            raise HostKeyError(advice("600", [path]))
        return asyncssh.read_private_key(path)
    except OSError as error:
        raise HostKeyError(
            f"{path} cannot be read or made: {error.strerror}; give access to the file and its "
            "folder to the user that runs this program"
        ) from None
    except asyncssh.KeyImportError:
        raise HostKeyError(
            f"{path} has no private key without a passphrase; put the host key back from your backup"
        ) from None


def fingerprint(key: asyncssh.SSHKey) -> str:
    """The SHA256 fingerprint of a key, as `ssh-keygen -l` shows it."""
    return key.get_fingerprint()


def _create(path: Path) -> None:
    """Writes a new key. If another process has just written one, that one stays."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    temporary.unlink(missing_ok=True)
    with new_private_file(temporary) as file:
        file.write(asyncssh.generate_private_key(ALGORITHM).export_private_key())
    try:
        # A link, because a rename would replace the key of another process.
        with suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        temporary.unlink()
