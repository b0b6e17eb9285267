"""Writes the `dealer.toml` of a new dealer: a commented file that is valid without changes."""

import json
import re
import unicodedata
from importlib.resources import files
from pathlib import Path
from string import Template

from dealer_agent.config.loading import FILE_NAME, require_private


def write_dealer_toml(directory: Path, name: str) -> Path:
    """Writes `dealer.toml` for a store of that name into the directory, and returns its path.

    A new directory gets mode 0700. Raises FileExistsError if there is a file already, SettingsError if other users have
    access to the directory, and ValueError for an empty name.
    """
    text = dealer_toml(name)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    require_private(directory)
    path = directory / FILE_NAME
    with path.open("x", encoding="utf-8", newline="\n") as file:
        file.write(text)
    return path


def dealer_toml(name: str) -> str:
    """The text of a new `dealer.toml`. Raises ValueError for an empty name."""
    if not name.strip():
        raise ValueError("a store needs a name")
    template = Template(files("dealer_agent.config").joinpath("template.toml").read_text("utf-8"))
    return template.substitute(name=_quoted(name.strip()), id=_quoted(_slug(name)))


def _quoted(text: str) -> str:
    # A JSON string is a TOML string, except for the control character that JSON does not escape.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _slug(name: str) -> str:
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain)[:63].strip("-") or "dealer"
