"""Reads the settings of a service: `installation.toml`, or `dealer.toml` of a dealer with a folder of its own.

The dealers' settings of an `installation.toml` are in its database. A folder with `dealer.toml` is an installation with
one dealer, which has no other settings than this file.

The sections of `dealer.toml` about the service may also be in `installation.toml`. Each dealer inherits their values.
A dealer cannot change values that give access to what others use, such as the mail server and its password.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import FieldInfo, fields

from dealer_agent.config.alert_settings import AlertSettings
from dealer_agent.config.feeds import FeedFileSettings
from dealer_agent.config.keys import load_cipher
from dealer_agent.config.loading import (
    database_connections,
    database_of,
    load_settings,
    rate_limit_url,
    read_text,
    read_toml,
    require_private,
)
from dealer_agent.config.settings import (
    DATABASE_CONNECTIONS,
    FEWEST_CONNECTIONS,
    MOST_CONNECTIONS,
    CheckedDealerFile,
    DealerFile,
    Sections,
    Settings,
    read_public_url,
)
from dealer_agent.config.settings_problems import error_with_lines
from dealer_agent.config.sftp import SftpSettings
from dealer_agent.dealers.profile_checks import read_by, read_host
from dealer_agent.encryption import Cipher
from dealer_agent.outgoing.addresses import AddressRule
from dealer_agent.protocol.problems import Path as SettingPath
from dealer_agent.protocol.problems import Problem

FILE_NAME = "installation.toml"

DEALERS = "dealers"
"""The folder with a folder for each dealer."""

SNAPSHOTS = "snapshots"
"""The folder with the snapshots of all dealers. It may be deleted while the service is stopped."""

OF_INSTALLATION = {
    "service": (
        "trusted_proxies",
        "private_networks",
        "max_connections",
        "max_connections_per_address",
        "request_memory_mib",
        "request_memory_mib_per_address",
    ),
    "mail": ("host", "port", "security", "user_env", "password_env", "timeout_seconds"),
    "console": ("enabled",),
    "logs": ("level", "access"),
    "feed_files": FeedFileSettings.__struct_fields__,
    "sftp": SftpSettings.__struct_fields__,
    "metrics": ("enabled", "host", "port", "dealers"),
    "traces": ("endpoint", "ratio", "follow_parent"),
}
"""The keys that a dealer of an installation cannot set, by section."""
ADDRESS_KEYS = ("public_url", "base_path")
ADDRESS_IS_SET = f"the public address is public_url under [installation] in {FILE_NAME}; remove this key"
"""What to do with a key of ADDRESS_KEYS, under `[service]` of a dealer or of the installation."""


class InstallationSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The section `[installation]`. A process uses at most `database_connections` to PostgreSQL.

    `snapshot_memory_mib` is for the stock of all dealers that a process has loaded. The installation's key is replaced
    and destroyed at the age `rotate_keys_days`; 0 means never. `alerts` are those of the operator, about what the
    dealers share.
    """

    public_url: Annotated[str, read_by(read_public_url)]
    host: Annotated[str, read_by(read_host)] = "127.0.0.1"
    port: Annotated[int, Meta(ge=1, le=65535)] = 8080
    workers: Annotated[int, Meta(ge=1, le=64)] = 1
    snapshot_memory_mib: Annotated[int, Meta(ge=1, le=1_048_576)] = 512
    database_connections: Annotated[int, Meta(ge=FEWEST_CONNECTIONS, le=MOST_CONNECTIONS)] = DATABASE_CONNECTIONS
    rotate_keys_days: Annotated[int, Meta(ge=0, le=3650)] = 30
    alerts: AlertSettings = AlertSettings()


class InstallationFile(Sections, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`installation.toml`: its own section, and the sections that dealers inherit."""

    installation: InstallationSettings


@dataclass(frozen=True)
class Installation:
    """What a service serves. `folder` holds `installation.toml`. `inherited` are its sections as TOML values.

    `cipher` has the keys of the installation, which encrypt the keys of the dealers. `rate_limit_url` is the store of
    the rate limits that machines share; if it is empty, each machine has its own.

    `only` are the settings of the dealer of a folder with `dealer.toml`: it is the only one, and the keys encrypt its
    data. Without a `public_url`, it has the URL `listens_at`.
    """

    folder: Path
    database_url: str
    file: InstallationFile
    inherited: Mapping[str, Mapping[str, Any]]
    cipher: Cipher | None
    rate_limit_url: str = ""
    only: Settings | None = None
    listens_at: str = ""

    @property
    def public_url(self) -> str:
        """The URL of the installation, without a trailing slash."""
        return self.file.installation.public_url.rstrip("/") or self.listens_at

    @property
    def address_rule(self) -> AddressRule:
        """Which IP addresses the addresses in the settings of dealers may have."""
        return self.file.service.address_rule if self.only is None else self.only.address_rule

    def folder_of(self, dealer_id: str) -> Path:
        """The folder of a dealer's files: folders that receive leads, and the heads of its event chains."""
        return self.folder / DEALERS / dealer_id

    def address_of(self, dealer_id: str, hosts: Sequence[str]) -> str:
        """The address of a dealer with these host names: its first host, else a path below the installation's."""
        return "".join(self._address(dealer_id, hosts))

    def dealer_settings(self, text: str, hosts: tuple[str, ...] = ()) -> Settings:
        """The settings of a dealer whose `dealer.toml` has this text. `hosts` are its own host names.

        Raises SettingsError with all problems.
        """
        name = "dealer.toml"
        data = read_toml(name, text, CheckedDealerFile)
        inherited = {name: values | data.get(name, {}) for name, values in self.inherited.items()}
        file = msgspec.convert(data | inherited, DealerFile)
        found = [
            *_address_problems(data),
            *_keys_of_installation(data),
            *_problems_among_others(file),
            *_alert_problems(file.id, data.get("alerts", {})),
        ]
        if found:
            raise error_with_lines(name, text, found)
        address, path = self._address(file.id, hosts)
        return Settings.of(
            file,
            folder=self.folder_of(file.id),
            database_url=self.database_url,
            service=msgspec.structs.replace(file.service, public_url=address, base_path=path),
            cipher=self.cipher,
            installation=self.folder,
        )

    def _address(self, dealer_id: str, hosts: Sequence[str]) -> tuple[str, str]:
        return (f"https://{hosts[0]}", "") if hosts else (self.public_url, f"/d/{dealer_id}")


def is_installation(folder: Path) -> bool:
    """Whether a folder holds an `installation.toml`."""
    return (folder / FILE_NAME).exists()


def load_served(folder: Path, env: Mapping[str, str], listens_at: str = "") -> Installation:
    """What a service serves from a folder with `installation.toml`, else with `dealer.toml`. Raises SettingsError."""
    if is_installation(folder):
        return load_installation(folder, env)
    return installation_of(load_settings(folder, env), env, listens_at)


def load_installation(folder: Path, env: Mapping[str, str]) -> Installation:
    """The installation whose `installation.toml` is in the folder. Database and keys are found as for one dealer.

    Raises SettingsError with all problems of the file, and if other users have access to the folder.
    """
    folder = folder.resolve()
    text = read_text(folder / FILE_NAME)
    data = read_toml(FILE_NAME, text, InstallationFile)
    if found := list(_address_problems(data)):
        raise error_with_lines(FILE_NAME, text, found)
    require_private(folder)
    return Installation(
        folder=folder,
        database_url=database_of(folder, env),
        file=msgspec.convert(data, InstallationFile),
        inherited={name: section for name, section in data.items() if name != "installation"},
        cipher=load_cipher(folder, env),
        rate_limit_url=rate_limit_url(env),
    )


def installation_of(only: Settings, env: Mapping[str, str], listens_at: str = "") -> Installation:
    """The installation of the dealer of a folder. Raises SettingsError."""
    section = InstallationSettings(
        public_url=only.service.public_url,
        database_connections=database_connections(env),
        rotate_keys_days=only.dealer.privacy.rotate_keys_days,
        alerts=only.alerts,
    )
    sections = {name: getattr(only, name) for name in Sections.__struct_fields__}
    return Installation(
        folder=only.folder,
        database_url=only.database_url,
        file=InstallationFile(installation=section, **sections),
        inherited={},
        cipher=only.cipher,
        rate_limit_url=rate_limit_url(env),
        only=only,
        listens_at=listens_at,
    )


def variable_prefix(dealer_id: str) -> str:
    """The part of a dealer's environment variables before the last two underscores.

    It is another one for each dealer. With one underscore, `a` could read the variables of `a-b`, and `agent` could
    read DEALER_AGENT_KEYS.
    """
    return f"DEALER_{dealer_id.upper().replace('-', '_')}"


def _address_problems(data: Mapping[str, Any]) -> Iterator[Problem]:
    """The keys of a dealer's address in a section that dealers inherit. Each dealer has another address."""
    for key in ADDRESS_KEYS:
        if key in data.get("service", {}):
            yield Problem(("service", key), ADDRESS_IS_SET)


def _keys_of_installation(data: Mapping[str, Any]) -> Iterator[Problem]:
    for section, keys in OF_INSTALLATION.items():
        for key in keys:
            if key in data.get(section, {}):
                yield Problem((section, key), f"belongs to {FILE_NAME}; remove it here")


def _alert_problems(dealer_id: str, alerts: Mapping[str, Any]) -> Iterator[Problem]:
    """A dealer's own webhook needs the dealer's own secret. `alerts` has only what its own file says."""
    name = alerts.get("webhook_secret_env")
    own = name is not None and name.rpartition("__")[0] == variable_prefix(dealer_id)
    if not own and (name is not None or alerts.get("webhook_url")):
        example = f"{variable_prefix(dealer_id)}__ALERTS"
        yield Problem(("alerts", "webhook_secret_env"), f"must name a variable of this dealer, such as {example}")


def _problems_among_others(file: DealerFile) -> Iterator[Problem]:
    """Settings that would let one dealer of an installation use the secrets or files of another.

    All settings that name an environment variable end with `_env`.
    """
    prefix = variable_prefix(file.id)
    for path, text in _own_texts(file, ()):
        match path:
            case ("alerts" | "mail", _) | (*_, "sftp", "path"):
                pass  # Those of `_alert_problems` and OF_INSTALLATION, and a path on the server of somebody else.
            case (*_, str(key)) if key.endswith("_env") and text.rpartition("__")[0] != prefix:
                yield Problem(path, f"'{text}' is not a variable of this dealer; write a name such as {prefix}__SECRET")
            case (*_, "path" | "key_file") if Path(text).is_absolute() or ".." in Path(text).parts:
                yield Problem(path, f"'{text}' is outside the dealer's own folder; write a path inside it")
            case (*_, "heads_file") if Path(text).name != text:
                yield Problem(path, f"'{text}' must be the name of a file, without a folder")


@cache
def _fields_of(kind: type[Struct]) -> tuple[FieldInfo, ...]:
    """`fields` reads the annotations of a class anew each time."""
    return fields(kind)


def _own_texts(value: object, path: SettingPath) -> Iterator[tuple[SettingPath, str]]:
    """The texts of settings that are not the defaults. Tables in which a dealer chooses the keys are left out."""
    if isinstance(value, tuple):
        for number, item in enumerate(value):
            yield from _own_texts(item, (*path, number))
    elif isinstance(value, Struct):
        for each in _fields_of(type(value)):
            found = getattr(value, each.name)
            if isinstance(found, str) and found != each.default:
                yield (*path, each.encode_name), found
            yield from _own_texts(found, (*path, each.encode_name))
