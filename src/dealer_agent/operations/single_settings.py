"""Sets single settings by their path in a `dealer.toml`, such as `rooftops.0.address.city`. Numbers count from 0."""

from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from dealer_agent.reference_pages import DocumentedSetting, SettingsSection, is_placeholder, settings_sections


def find_setting(path_text: str) -> tuple[SettingsSection, DocumentedSetting] | None:
    """The documentation of the setting with a path; None for an unknown one."""
    *path, key = [part for part in path_text.split(".") if not part.isdigit()] or [""]
    settings = (
        (section, setting)
        for section in settings_sections()
        for setting in section.settings
        if setting.key == key and len(section.path) == len(path) and all(map(_is_part, section.path, path))
    )
    return next(settings, None)


def set_value(document: Any, path_text: str, value: str, setting: DocumentedSetting) -> None:
    """Sets what a person wrote at a path, in a document of tomlkit or of tomllib. Sections that are missing are added.

    A text may have no quotes. An empty value removes the setting: then its default holds. Raises ValueError for what
    is not a value of TOML, and for a path that leads nowhere.
    """
    *path, key = path_text.split(".")
    table = document
    for part in path:
        try:
            if not part.isdigit() and part not in table:
                table[part] = {}
            table = table[int(part) if part.isdigit() else part]
        except (TOMLKitError, LookupError, TypeError, ValueError):
            raise ValueError(f"these settings have no {path_text.rpartition('.')[0]}: add this section first") from None
    try:
        if value:
            table[key] = value if _is_bare_text(value, setting) else tomlkit.value(value).unwrap()
        else:
            table.pop(key, None)
    except (TOMLKitError, RecursionError, ValueError, TypeError, AttributeError):
        raise ValueError(f"this is not a value of TOML: write {setting.allowed}") from None


def _is_part(named: str, part: str) -> bool:
    return named == part or is_placeholder(named)


def _is_bare_text(value: str, setting: DocumentedSetting) -> bool:
    """Whether a person wrote a text without quotes."""
    return value[0] not in "\"'[{" and (setting.allowed.startswith("text") or setting.allowed.startswith('`"'))
