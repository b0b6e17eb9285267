"""The types of the section `[sftp]`, and of the sections `[feeds.sftp]` and `[feeds.upload]`. Pure.

docs/reference/settings.md has the meaning of each key.
"""

import re
from collections.abc import Iterator
from typing import Annotated, Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_ssh_public_key
from msgspec import UNSET, Meta, Struct, UnsetType

from dealer_agent.dealers.profile_checks import Text, read_by, read_environment_name, read_host
from dealer_agent.encryption.passwords import read_password_hash
from dealer_agent.protocol.problems import Problem

KEY_TYPES = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa")

EnvironmentName = Annotated[str, read_by(read_environment_name)]


def read_public_key(value: str) -> str:
    """A public key as in a `.pub` file of OpenSSH, without its comment. Raises ValueError."""
    words = value.split(None, 2)
    if len(words) < 2 or words[0] not in KEY_TYPES or "\n" in value.strip():
        raise ValueError("is not a public key; write one line of a .pub file, such as 'ssh-ed25519 AAAA…'")
    try:
        load_ssh_public_key(" ".join(words[:2]).encode())
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError(
            "is not a public key: its second word is damaged; copy the line of the .pub file again"
        ) from None
    return " ".join(words[:2])


def read_host_key(value: str) -> str:
    """The SHA256 fingerprint of a host key, or the host key without its comment. Raises ValueError."""
    if not value.startswith("SHA256:"):
        return read_public_key(value)
    if not re.fullmatch(r"SHA256:[A-Za-z0-9+/]{43}", value):
        raise ValueError(
            f"'{value}' is not a fingerprint; write 'SHA256:' and 43 characters, as ssh-keygen -l shows it"
        )
    return value


def has_login(source: dict[str, Any]) -> Iterator[Problem]:
    """A login has a password or a key, not both."""
    given = [key for key in ("password_env", "key_file") if key in source]
    if not given:
        yield Problem(("password_env",), "is missing; write password_env, or key_file instead")
    elif len(given) > 1:
        yield Problem(("key_file",), "is one login too many; write password_env or key_file")


def has_password_or_key(account: dict[str, Any]) -> Iterator[Problem]:
    """An account has a password, a public key, or both."""
    if not account.get("password_hash") and not account.get("public_keys"):
        yield Problem(
            ("password_hash",), "is missing; write one (dealer-agent feeds password makes it), or public_keys"
        )


class SftpSource(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Somebody's SFTP server that files are fetched from. `path` may have `*` and `?` in its last part.

    A file is complete if its size and its time did not change for `settle_seconds`.
    """

    host: Annotated[str, read_by(read_host)]
    port: Annotated[int, Meta(ge=1, le=65535)] = 22
    user: Text
    password_env: EnvironmentName | UnsetType = UNSET
    key_file: Text | UnsetType = UNSET
    host_key: Annotated[str, read_by(read_host_key)] | UnsetType = UNSET
    path: Text
    settle_seconds: Annotated[int, Meta(ge=1, le=600)] = 5
    timeout_seconds: Annotated[int, Meta(ge=1, le=3600)] = 300


class UploadAccount(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The account of a vendor that uploads files to our SFTP server. Its user name is the name of the feed."""

    password_hash: Annotated[str, read_by(read_password_hash)] | UnsetType = UNSET
    public_keys: Annotated[tuple[Annotated[str, read_by(read_public_key)], ...], Meta(max_length=10)] = ()


class SftpSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Our SFTP server, which receives the files of feeds (docs/reference/feeds.md#receive-feeds-by-sftp)."""

    enabled: bool = False
    host: Annotated[str, read_by(read_host)] = "127.0.0.1"
    port: Annotated[int, Meta(ge=1, le=65535)] = 2222
    host_key_file: Text = "sftp-host-key"
    max_connections: Annotated[int, Meta(ge=4, le=1000)] = 64
    max_connections_per_address: Annotated[int, Meta(ge=1, le=1000)] = 8
    failed_logins: Annotated[int, Meta(ge=1, le=100_000)] = 10
    max_waiting_files: Annotated[int, Meta(ge=1, le=10_000)] = 20
    max_waiting_mib: Annotated[int, Meta(ge=1, le=1_048_576)] = 1024
    login_seconds: Annotated[int, Meta(ge=5, le=600)] = 30
    idle_seconds: Annotated[int, Meta(ge=5, le=3600)] = 300
