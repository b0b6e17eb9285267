"""Reads `installation.toml`: the settings of a service of many dealers. The dealers' settings are in its database.

The sections of `dealer.toml` may also be in `installation.toml`. Each dealer inherits their values, key by key.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct

from dealer_agent.config.keys import load_cipher
from dealer_agent.config.loading import read_dealer_file, read_settings_text, read_toml, require_private
from dealer_agent.config.settings import (
    AuthSettings,
    DealerFile,
    DeliverySettings,
    LogSettings,
    MailSettings,
    RateLimitSettings,
    SearchSettings,
    ServiceSettings,
    Settings,
    default_is_within_cap,
    named_skills_need_tokens,
    read_public_url,
)
from dealer_agent.config.settings_problems import SettingsError, error_with_lines
from dealer_agent.dealers.profile_checks import must_satisfy, read_by, read_host
from dealer_agent.encryption import Cipher
from dealer_agent.protocol.problems import Problem

FILE_NAME = "installation.toml"
DEALER_FILE = "the dealer's settings"


class InstallationSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The section `[installation]`. `snapshot_memory_mib` is for the stock of all dealers in one process.

    `database_connections` is the most connections of one process to PostgreSQL.
    """

    public_url: Annotated[str, read_by(read_public_url)]
    host: Annotated[str, read_by(read_host)] = "127.0.0.1"
    port: Annotated[int, Meta(ge=1, le=65535)] = 8080
    workers: Annotated[int, Meta(ge=1, le=64)] = 1
    snapshot_memory_mib: Annotated[int, Meta(ge=1, le=1_048_576)] = 512
    database_connections: Annotated[int, Meta(ge=3, le=1000)] = 10


class InstallationFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`installation.toml`: its own section, and the sections that dealers inherit."""

    installation: InstallationSettings
    service: ServiceSettings = ServiceSettings()
    search: Annotated[SearchSettings, must_satisfy(default_is_within_cap)] = SearchSettings()
    auth: Annotated[AuthSettings, must_satisfy(named_skills_need_tokens)] = AuthSettings()
    rate_limits: RateLimitSettings = RateLimitSettings()
    logs: LogSettings = LogSettings()
    mail: MailSettings = MailSettings()
    delivery: DeliverySettings = DeliverySettings()


@dataclass(frozen=True)
class Installation:
    """An installation. `directory` holds `installation.toml`. `inherited` are its sections as TOML values.

    `cipher` has the keys of the installation, which encrypt the keys of the dealers.
    """

    directory: Path
    database_url: str
    file: InstallationFile
    inherited: Mapping[str, Mapping[str, Any]]
    cipher: Cipher | None

    @property
    def public_url(self) -> str:
        """The address of the installation, without a slash at its end."""
        return self.file.installation.public_url.rstrip("/")

    def folder_of(self, dealer_id: str) -> Path:
        """The folder of a dealer's files: folders that receive leads, and the heads of its event chains."""
        return self.directory / "dealers" / dealer_id

    def dealer_settings(self, text: str, hosts: tuple[str, ...] = (), cipher: Cipher | None = None) -> Settings:
        """The settings of a dealer whose `dealer.toml` has this text. `hosts` are its own host names.

        The address is that of the first host, else a path below the address of the installation. Raises SettingsError
        with all problems.
        """
        file = read_dealer_file(text, self.inherited, _problems_here)
        public_url, base_path = (f"https://{hosts[0]}", "") if hosts else (self.public_url, f"/d/{file.id}")
        return Settings.of(
            file,
            directory=self.folder_of(file.id),
            database_url=self.database_url,
            service=msgspec.structs.replace(file.service, public_url=public_url, base_path=base_path),
            cipher=cipher,
        )


def load_installation(directory: Path, env: Mapping[str, str]) -> Installation:
    """The installation whose `installation.toml` is in the directory.

    `DATABASE_URL` is the database, by default the SQLite file `dealer-agent.db` in the directory. `DEALER_AGENT_KEYS`
    has the keys, which are by default in the file `dealer-agent.keys`. Raises SettingsError with all problems.
    """
    directory = directory.resolve()
    text = read_settings_text(directory / FILE_NAME)
    data = read_toml(FILE_NAME, text, InstallationFile)
    require_private(directory)
    return Installation(
        directory=directory,
        database_url=env.get("DATABASE_URL") or f"sqlite:///{directory / 'dealer-agent.db'}",
        file=msgspec.convert(data, InstallationFile),
        inherited={name: section for name, section in data.items() if name != "installation"},
        cipher=load_cipher(directory, env),
    )


def variables_of(dealer_id: str) -> str:
    """The beginning of the names of a dealer's environment variables: those of others are not its own to read."""
    return f"DEALER_{dealer_id.upper().replace('-', '_')}_"


def _problems_here(file: DealerFile) -> Iterator[Problem]:
    """The settings that one dealer of many may not have: they reach what belongs to others."""
    begin = variables_of(file.id)
    for number, rooftop in enumerate(file.rooftops):
        here = ("rooftops", number, "deliver")
        for place, http in enumerate(rooftop.deliver.http):
            for key, name in (("secret_env", http.secret_env), ("authorization_env", http.authorization_env)):
                if name is not UNSET and not name.startswith(begin):
                    yield Problem((*here, "http", place, key), f"'{name}' must begin with {begin}")
        for place, folder in enumerate(rooftop.deliver.directory):
            if Path(folder.path).is_absolute() or ".." in Path(folder.path).parts:
                yield Problem(
                    (*here, "directory", place, "path"), f"'{folder.path}' must be a folder below the dealer's own"
                )
    if Path(file.privacy.heads_file).name != file.privacy.heads_file:
        yield Problem(("privacy", "heads_file"), f"'{file.privacy.heads_file}' must be the name of a file")


__all__ = ["DEALER_FILE", "FILE_NAME", "Installation", "SettingsError", "error_with_lines", "load_installation"]
