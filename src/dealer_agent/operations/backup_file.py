"""The file of a backup: a tar file with a manifest first, and then the files that it lists, in this order.

The members are regular files with short relative names, and nothing is compressed. So `tar -x` also unpacks a backup.
The reader accepts nothing else: no links, no folders, no extended headers. It writes no more bytes than the file has.

The manifest has the hash of each file. Its authentication code, under the active key to the customer data, covers the
rest of the manifest. So only a person with this key can make or change a backup that `verify` accepts.

The keys themselves are in the manifest on request, encrypted with a passphrase: scrypt derives a key, AES-256-GCM
encrypts. The cost of scrypt is fixed by the format, so a file cannot ask for more memory.
"""

import hashlib
import os
import re
import secrets
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, BinaryIO, Literal

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from msgspec import Meta, Struct

from dealer_agent.encryption import Cipher, EncryptionError, Keyring, render
from dealer_agent.encryption.private_files import new_private_file
from dealer_agent.operations import BackupUnreadable, OperationError

FORMAT = 2
MANIFEST = "manifest.json"
MOST_FILES = 100_000
"""The most files in a backup: an installation has one or two for each dealer."""
MOST_MANIFEST_BYTES = 32 * 2**20
MOST_TABLES = 200
MOST_COLUMNS = 200
MOST_KEY_BYTES = 64 * 1024
"""The most bytes of the encrypted keys."""
TABLES_FOLDER = "dealer-agent.tables"
"""The folder with the rows of the database."""
_BLOCK = tarfile.BLOCKSIZE
_PART = 2**20
_USTAR_SIZE = 8**11
"""From this size on, a header has the size in binary."""
_NAME = re.compile(r"(?:[A-Za-z0-9_-][A-Za-z0-9_.-]*/){0,3}[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}")
_LONGEST_NAME = 155
"""With the bound of the last part, every name fits into a header."""
_CONTEXT = ("backup", "manifest")
"""What the authentication code of a manifest is about. It never changes."""

Progress = Callable[[int, int], object]
"""Gets how much is done, and how much there is to do."""


def counter(on_progress: Progress, total: int) -> Callable[[int], None]:
    """A function that adds a part of the work to what is done, and tells `on_progress`."""
    done = 0

    def count(part: int) -> None:
        nonlocal done
        done += part
        on_progress(done, total)

    return count


class BackupFile(Struct, frozen=True, forbid_unknown_fields=True):
    """A file in a backup. `sha256` has hexadecimal digits."""

    name: str
    size: Annotated[int, Meta(ge=0)]
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


_Name = Annotated[str, Meta(max_length=63)]
_Version = Annotated[str, Meta(pattern=r"^[0-9A-Za-z.+-]{1,50}\Z")]
_KeyId = Annotated[str, Meta(pattern=r"^[0-9A-Za-z._-]{1,32}\Z")]


class TableRows(Struct, frozen=True, forbid_unknown_fields=True):
    """A table in a backup: the names of its columns, and how many rows its file has."""

    name: _Name
    columns: Annotated[tuple[_Name, ...], Meta(min_length=1, max_length=MOST_COLUMNS)]
    rows: Annotated[int, Meta(ge=0)]

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"{TABLES_FOLDER}/{self.name}.jsonl"


class Manifest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is in a backup. `version` is that of the program, `schema` the revision of the database's schema.

    `made_at` is when the backup began. `keys` are the ids of the keys to the customer data, the active one first.
    `sealed_keys` are the keys, encrypted with a passphrase. `tables` are in the order in which they are restored. `mac`
    is the authentication code of all the rest; None if the service had no keys.
    """

    format: int
    kind: Literal["dealer", "installation"]
    made_at: datetime
    version: _Version
    database: Literal["sqlite", "postgresql"]
    schema: Annotated[str, Meta(pattern=r"^[0-9]{4}\Z")]
    keys: tuple[_KeyId, ...]
    sealed_keys: Annotated[bytes, Meta(max_length=MOST_KEY_BYTES)] | None
    tables: Annotated[tuple[TableRows, ...], Meta(max_length=MOST_TABLES)]
    files: Annotated[tuple[BackupFile, ...], Meta(max_length=MOST_FILES)] = ()
    mac: Annotated[bytes, Meta(max_length=256)] | None = None


class _AnyFormat(Struct):
    """What every format of a manifest has."""

    format: int
    version: _Version


def is_portable(name: str) -> bool:
    """Whether a file in a backup may have this name: a relative path of at most four plain parts."""
    return len(name) <= _LONGEST_NAME and _NAME.fullmatch(name) is not None


def write_backup(
    target: Path, manifest: Manifest, files: Mapping[str, Path], cipher: Cipher | None, on_progress: Progress
) -> Manifest:
    """Writes a backup with these files. Returns the manifest with their sizes and hashes. Raises OSError.

    `cipher` authenticates the manifest.
    """
    count = counter(on_progress, 2 * sum(path.stat().st_size for path in files.values()))
    listed = [_listed(name, path, count) for name, path in files.items()]
    manifest = msgspec.structs.replace(manifest, files=tuple(listed))
    if cipher is not None:
        manifest = msgspec.structs.replace(manifest, mac=cipher.mac(_authenticated(manifest), *_CONTEXT))
    text = msgspec.json.format(msgspec.json.encode(manifest))
    with new_private_file(target) as file:
        _write_header(file, MANIFEST, len(text), manifest.made_at)
        file.write(text + _padding(len(text)))
        for each in listed:
            _write_header(file, each.name, each.size, manifest.made_at)
            with files[each.name].open("rb") as source:
                for part in _parts(source, each.size):
                    file.write(part)
                    count(len(part))
            file.write(_padding(each.size))
        file.write(bytes(2 * _BLOCK))
    return manifest


def read_manifest(path: Path) -> Manifest:
    """The manifest of a backup. Raises BackupUnreadable and OSError."""
    with _open_manifest(path) as (_, manifest):
        return manifest


def verify(manifest: Manifest, cipher: Cipher) -> None:
    """Raises BackupUnreadable unless a person with a key of `cipher` made the manifest."""
    if manifest.mac is None:
        raise BackupUnreadable(
            "nobody has signed this backup, and a service with keys signs its backups: use another backup"
        )
    try:
        is_ours = cipher.verify_mac(manifest.mac, _authenticated(manifest), *_CONTEXT)
    except EncryptionError:
        made_with = f"the key {manifest.keys[0]}" if manifest.keys else "a key"
        raise BackupUnreadable(
            f"this backup was made with {made_with}, which is not among your keys: put the dealer-agent.keys of that "
            "day back (or set DEALER_AGENT_KEYS), and try again"
        ) from None
    if not is_ours:
        raise BackupUnreadable("the backup was changed after it was made, or is not yours: use another backup")


def _authenticated(manifest: Manifest) -> bytes:
    """The bytes that the authentication code covers."""
    return msgspec.json.encode(msgspec.structs.replace(manifest, mac=None))


def unpack(path: Path, folder: Path, verified: Manifest, on_progress: Progress) -> None:
    """Writes the files of a backup below `folder`, and verifies their hashes. Raises BackupUnreadable and OSError.

    `verified` is its manifest: the file may have changed since that was read.
    """
    with _open_manifest(path) as (file, manifest):
        if manifest != verified:
            raise BackupUnreadable("the backup changed while it was read: try again")
        count = counter(on_progress, sum(each.size for each in manifest.files))
        for each in manifest.files:
            if _read_header(file) != (each.name, each.size):
                raise BackupUnreadable(_damaged(f"{each.name} is not where the manifest says"))
            target = folder / each.name
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            digest = hashlib.sha256()
            with new_private_file(target) as made:
                for part in _parts(file, each.size):
                    made.write(part)
                    digest.update(part)
                    count(len(part))
            if digest.hexdigest() != each.sha256:
                raise BackupUnreadable(_damaged(f"{each.name} has another hash than the manifest says"))
            _skip_padding(file, each.size)


@contextmanager
def _open_manifest(path: Path) -> Iterator[tuple[BinaryIO, Manifest]]:
    """A backup whose manifest was read, and checked against the size of the file."""
    with path.open("rb") as file:
        name, size = _read_header(file)
        if name != MANIFEST or size > MOST_MANIFEST_BYTES:
            raise BackupUnreadable("this file is not a backup: name a file that dealer-agent backup has written")
        text = b"".join(_parts(file, size))
        _skip_padding(file, size)
        manifest = _decoded(text)
        names = [each.name for each in manifest.files]
        if len({name.casefold() for name in names}) < len(names) or not all(map(is_portable, names)):
            raise BackupUnreadable("the manifest has a name that no backup of dealer-agent has: use another backup")
        needed = sum(_BLOCK + each.size + -each.size % _BLOCK for each in manifest.files)
        if file.tell() + needed > os.fstat(file.fileno()).st_size:
            raise BackupUnreadable(_damaged("its end is missing"))
        yield file, manifest


def _decoded(text: bytes) -> Manifest:
    """The manifest in a backup. Raises BackupUnreadable, which names the version that can read another format."""
    try:
        found = msgspec.json.decode(text, type=_AnyFormat)
        if found.format == FORMAT:
            return msgspec.json.decode(text, type=Manifest)
    except msgspec.DecodeError:
        raise BackupUnreadable(_damaged("its manifest cannot be read")) from None
    if found.format > FORMAT:
        raise BackupUnreadable(
            f"version {found.version} of dealer-agent made this backup in a newer format: restore it with that version"
        )
    raise BackupUnreadable(
        f"version {found.version} of dealer-agent made this backup in an older format, which may contain statements of "
        "a stranger for your database, and this version does not run them: if you made the backup, restore it with "
        "that version, then make a new one with this version"
    )


def _listed(name: str, path: Path, count: Callable[[int], None]) -> BackupFile:
    """The entry of a file in the manifest: its size and its hash. `count` gets the bytes that were read, for a bar."""
    digest, size = hashlib.sha256(), path.stat().st_size
    with path.open("rb") as file:
        for part in _parts(file, size):
            digest.update(part)
            count(len(part))
    return BackupFile(name, size, digest.hexdigest())


def _write_header(file: BinaryIO, name: str, size: int, at: datetime) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size, 0o600, int(at.timestamp())
    file.write(info.tobuf(tarfile.USTAR_FORMAT if size < _USTAR_SIZE else tarfile.GNU_FORMAT))


def _read_header(file: BinaryIO) -> tuple[str, int]:
    """The name and the size of the member that begins here. Raises BackupUnreadable for all but a regular file."""
    try:
        info = tarfile.TarInfo.frombuf(file.read(_BLOCK), "ascii", "strict")
    except (tarfile.HeaderError, UnicodeDecodeError):
        raise BackupUnreadable(
            "this file is not a backup, or it is damaged: name a whole file that dealer-agent backup has written"
        ) from None
    if info.type != tarfile.REGTYPE or info.size < 0:
        raise BackupUnreadable("the backup has a member that is not a plain file: use another backup")
    return info.name, info.size


def _parts(file: BinaryIO, size: int) -> Iterator[bytes]:
    """The next `size` bytes in parts. Raises BackupUnreadable if the file ends before."""
    while size:
        part = file.read(min(size, _PART))
        if not part:
            raise BackupUnreadable(_damaged("its end is missing"))
        size -= len(part)
        yield part


def _padding(size: int) -> bytes:
    return bytes(-size % _BLOCK)


def _skip_padding(file: BinaryIO, size: int) -> None:
    file.read(-size % _BLOCK)


def _damaged(what: str) -> str:
    return f"the backup is damaged: {what}; use another copy of it, or another backup"


PASSPHRASE_VARIABLE = "DEALER_AGENT_BACKUP_PASSPHRASE"  # noqa: S105 - a name
SHORTEST_PASSPHRASE = 12
"""The fewest characters of a passphrase."""
LONGEST_PASSPHRASE = 1024
_SCRYPT_COST = 2**17
"""With `_SCRYPT_BLOCK`, scrypt needs 128 MiB of memory and about half a second."""
_SCRYPT_BLOCK = 8
_KEYS_CONTEXT = b"dealer-agent backup: keys to customer data"


class _EncryptedKeys(Struct, frozen=True, forbid_unknown_fields=True):
    """The encrypted keys, as JSON. The binary values are base64."""

    salt: Annotated[bytes, Meta(min_length=16, max_length=16)]
    nonce: Annotated[bytes, Meta(min_length=12, max_length=12)]
    encrypted: bytes


def seal_keys(keyring: Keyring, passphrase: str) -> bytes:
    """The keys, encrypted with the passphrase. Raises OperationError for one that is too short or too long."""
    if not SHORTEST_PASSPHRASE <= len(passphrase) <= LONGEST_PASSPHRASE:
        raise OperationError(f"the passphrase must have {SHORTEST_PASSPHRASE} to {LONGEST_PASSPHRASE:,} characters")
    salt, nonce = secrets.token_bytes(16), secrets.token_bytes(12)
    encrypted = AESGCM(_key_of_passphrase(passphrase, salt)).encrypt(nonce, render(keyring).encode(), _KEYS_CONTEXT)
    return msgspec.json.encode(_EncryptedKeys(salt, nonce, encrypted))


def open_keys(sealed: bytes, passphrase: str) -> Keyring:
    """The keys in `sealed`. Raises BackupUnreadable for a wrong passphrase or damaged bytes."""
    try:
        parts = msgspec.json.decode(sealed, type=_EncryptedKeys)
        plain = AESGCM(_key_of_passphrase(passphrase, parts.salt)).decrypt(parts.nonce, parts.encrypted, _KEYS_CONTEXT)
    except msgspec.DecodeError:
        raise BackupUnreadable("the encrypted keys in the backup are damaged: use another backup") from None
    except InvalidTag:
        raise BackupUnreadable("the passphrase is wrong: give the one with which the backup was made") from None
    return Keyring.parse(plain.decode())


def _key_of_passphrase(passphrase: str, salt: bytes) -> bytes:
    return Scrypt(salt=salt, length=32, n=_SCRYPT_COST, r=_SCRYPT_BLOCK, p=1).derive(passphrase.encode())
