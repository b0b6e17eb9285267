"""Reads `dealer.toml` and the environment, once, and says everything that is wrong with them."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from dealer_agent.config.keys import load_cipher
from dealer_agent.config.settings import DealerFile, Settings, read_public_url
from dealer_agent.config.settings_problems import SettingsError, SettingsProblem, error_with_lines, find_problems
from dealer_agent.encryption.file_permissions import advice, open_to_others

FILE_NAME = "dealer.toml"


def load_settings(directory: Path, env: Mapping[str, str]) -> Settings:
    """The settings of the dealer whose `dealer.toml` is in the directory.

    `DATABASE_URL` names the database; without it, it is the SQLite file `dealer-agent.db` in the directory.
    `DEALER_AGENT_KEYS` holds the keys to customer data; without it, they are in `dealer-agent.keys` beside the file.
    Raises SettingsError with all problems, each with its line, when a file is absent, is no TOML, or breaks a rule,
    and when other users may read the directory.
    """
    directory = directory.resolve()
    file = read_dealer_file(_text(directory / FILE_NAME))
    require_private(directory)
    default_database = f"sqlite:///{directory / 'dealer-agent.db'}"
    return Settings(
        directory=directory,
        database_url=env.get("DATABASE_URL") or default_database,
        dealer=file,
        service=msgspec.structs.replace(file.service, public_url=read_public_url(file.service.public_url)),
        search=file.search,
        auth=file.auth,
        rate_limits=file.rate_limits,
        logs=file.logs,
        mail=file.mail,
        delivery=file.delivery,
        cipher=load_cipher(directory, env),
    )


def require_private(directory: Path) -> None:
    """Raises SettingsError when other users have access to a dealer's directory."""
    if open_to_others([directory]):
        raise SettingsError([SettingsProblem(str(directory), None, "", advice("700", [directory]))])


def read_dealer_file(text: str) -> DealerFile:
    """A `dealer.toml`, from its text. Raises SettingsError."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError([_broken(text, str(error))]) from None
    found = find_problems(DealerFile, data)
    if found:
        raise error_with_lines(FILE_NAME, text, found)
    return msgspec.convert(data, DealerFile)


def _text(path: Path) -> str:
    try:
        # Windows editors put a byte order mark first, which TOML does not know.
        return path.read_text("utf-8-sig")
    except FileNotFoundError:
        advice = f"there is none in {path.parent}; name its folder with --dir, or make one with `dealer-agent init`"
        raise SettingsError([SettingsProblem(FILE_NAME, None, "", advice)]) from None
    except NotADirectoryError:
        advice = f"{path.parent} is no folder; name the folder of {FILE_NAME} with --dir"
        raise SettingsError([SettingsProblem(FILE_NAME, None, "", advice)]) from None
    except IsADirectoryError:
        raise SettingsError([SettingsProblem(FILE_NAME, None, "", f"{path} is a folder and must be a file")]) from None
    except PermissionError:
        advice = f"this user may not read {path}; run the command as the user who owns it"
        raise SettingsError([SettingsProblem(FILE_NAME, None, "", advice)]) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise SettingsError([SettingsProblem(FILE_NAME, line, "", "is not UTF-8; save the file as UTF-8")]) from None
    except OSError as error:
        raise SettingsError([SettingsProblem(FILE_NAME, None, "", f"cannot be read: {error.strerror}")]) from None


def _broken(text: str, message: str) -> SettingsProblem:
    place = re.search(r" \(at line (\d+), column \d+\)$| \(at end of document\)$", message)
    if place is None:
        return SettingsProblem(FILE_NAME, None, "", f"is not TOML: {message}")
    line = int(place[1]) if place[1] else len(text.splitlines())
    return SettingsProblem(FILE_NAME, line, "", f"is not TOML: {message[: place.start()]}")
