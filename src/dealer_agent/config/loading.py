"""Reads `dealer.toml`, the keys and the environment."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from dealer_agent.config.keys import load_cipher
from dealer_agent.config.settings import (
    DATABASE_CONNECTIONS,
    FEWEST_CONNECTIONS,
    MOST_CONNECTIONS,
    CheckedDealerFile,
    DealerFile,
    Settings,
)
from dealer_agent.config.settings_problems import SettingsError, error_with_lines, find_problems
from dealer_agent.encryption.private_files import advice, open_to_others

FILE_NAME = "dealer.toml"
DATABASE_FILE = "dealer-agent.db"
MOST_SETTINGS_MIB = 2
"""The largest text of settings. Each process of an installation keeps the settings of many dealers in memory."""
CONNECTIONS_VARIABLE = "DATABASE_CONNECTIONS"
RATE_LIMIT_VARIABLE = "RATE_LIMIT_URL"
_RATE_LIMIT_URL = re.compile(
    r"(redis|valkey)s?://([^@/\s]*@)?([\w.-]+|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?(/[0-9]*)?(\?\S*)?"
)


def load_settings(folder: Path, env: Mapping[str, str]) -> Settings:
    """The settings of the dealer whose `dealer.toml` is in the folder.

    `DATABASE_URL` is the database, by default the SQLite file `dealer-agent.db` in the folder. `DEALER_AGENT_KEYS`
    has the keys to customer data, which are by default in the file `dealer-agent.keys`. Raises SettingsError with all
    problems of the files, and if other users have access to the folder.
    """
    folder = folder.resolve()
    file = read_dealer_file(read_text(folder / FILE_NAME))
    require_private(folder)
    return Settings.of(
        file,
        folder=folder,
        database_url=database_of(folder, env),
        service=msgspec.structs.replace(file.service, public_url=file.service.public_url.rstrip("/")),
        cipher=load_cipher(folder, env),
    )


def database_of(folder: Path, env: Mapping[str, str]) -> str:
    """The URL of the database: `DATABASE_URL`, by default the SQLite file in the folder."""
    return env.get("DATABASE_URL") or f"sqlite:///{folder / DATABASE_FILE}"


def database_connections(env: Mapping[str, str]) -> int:
    """The most connections of a process to PostgreSQL: `DATABASE_CONNECTIONS`. Raises SettingsError."""
    given = env.get(CONNECTIONS_VARIABLE) or str(DATABASE_CONNECTIONS)
    if not re.fullmatch("[0-9]{1,4}", given) or not FEWEST_CONNECTIONS <= int(given) <= MOST_CONNECTIONS:
        raise SettingsError(
            f"{CONNECTIONS_VARIABLE}: '{given}' must be a number from {FEWEST_CONNECTIONS} to {MOST_CONNECTIONS}"
        )
    return int(given)


def rate_limit_url(env: Mapping[str, str]) -> str:
    """The URL of the store of the rate limits that machines share: `RATE_LIMIT_URL`, by default none.

    Raises SettingsError, which never contains the URL, because it may have a password.
    """
    url = env.get(RATE_LIMIT_VARIABLE, "")
    if url and _RATE_LIMIT_URL.fullmatch(url) is None:
        raise SettingsError(
            f"{RATE_LIMIT_VARIABLE}: write valkey://host:6379 or valkey://user:password@host:6379/0; "
            "the scheme is valkey or redis, or with TLS valkeys or rediss"
        )
    return url


def require_private(folder: Path) -> None:
    """Raises SettingsError if other users have access to a dealer's folder."""
    if open_to_others([folder]):
        raise SettingsError(f"{folder}: {advice('700', [folder])}")


def read_dealer_file(text: str) -> DealerFile:
    """Parses the text of a `dealer.toml`. Raises SettingsError."""
    return msgspec.convert(read_toml(FILE_NAME, text, CheckedDealerFile), DealerFile)


def read_toml(file: str, text: str, kind: Any) -> dict[str, Any]:
    """The values in the text of a TOML file, which msgspec can convert to the type `kind`. Raises SettingsError."""
    data = parse_toml(file, text)
    found = find_problems(kind, data)
    if found:
        raise error_with_lines(file, text, found)
    return data


def parse_toml(file: str, text: str) -> dict[str, Any]:
    """The values in the text of a TOML file, of any type. Raises SettingsError."""
    if len(text) > MOST_SETTINGS_MIB << 20:
        raise SettingsError(f"{file}: is larger than {MOST_SETTINGS_MIB} MiB; shorten its texts")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _not_toml(file, text, str(error)) from None


def read_text(path: Path) -> str:
    """The text of a settings file. Raises SettingsError."""
    name = path.name
    try:
        # Windows editors write a byte order mark first, which TOML does not allow.
        return path.read_text("utf-8-sig")
    except FileNotFoundError:
        problem = f"there is none in {path.parent}; name its folder with --dir, or make one with `dealer-agent init`"
    except NotADirectoryError:
        problem = f"{path.parent} is not a folder; name the folder of {name} with --dir"
    except IsADirectoryError:
        problem = f"{path} is a folder and must be a file; move the folder away"
    except PermissionError:
        problem = f"this user may not read {path}; run the command as the user who owns it"
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise SettingsError(f"{name}, line {line}: is not UTF-8; save the file as UTF-8") from None
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
    raise SettingsError(f"{name}: {problem}")


def _not_toml(file: str, text: str, message: str) -> SettingsError:
    """The error for a text that `tomllib` cannot read. `message` is the message of `tomllib`, which names the line."""
    position = re.search(r" \(at line (\d+), column \d+\)$| \(at end of document\)$", message)
    if position is None:
        return SettingsError(f"{file}: is not TOML: {message}")
    line = int(position[1]) if position[1] else len(text.splitlines())
    return SettingsError(f"{file}, line {line}: is not TOML: {message[: position.start()]}")
