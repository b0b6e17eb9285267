"""Writes the settings file of a new dealer or a new installation: commented, and valid without changes."""

import json
import re
import textwrap
import unicodedata
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from string import Template

from dealer_agent.config.installation import FILE_NAME as INSTALLATION_FILE
from dealer_agent.config.installation import OF_INSTALLATION
from dealer_agent.config.loading import FILE_NAME, require_private
from dealer_agent.config.settings import Sections, read_public_url
from dealer_agent.dealers.profile import Guess

GUESSES: tuple[Guess, ...] = ("feed_price", "timezone")
"""The keys that have a guess in the template."""
PLACES = frozenset(
    {"app", "config", "data", "dealer", "dealer-agent", "etc", "home", "lib", "opt", "root", "srv", "tmp", "var"}
)
"""Names of folders that name no dealer."""


def name_of_folder(folder: Path) -> str | None:
    """The name of a dealer that the name of its folder suggests; None for a folder such as `data`."""
    name = folder.resolve().name
    return None if name.lower() in {"", *PLACES} else name.replace("-", " ").replace("_", " ").title()


def write_dealer_toml(folder: Path, name: str, *guesses: Guess) -> Path:
    """Writes `dealer.toml` for a store of that name into the folder, and returns its path.

    `guesses` are those beside the template's own: "name" if nobody has given the name. A new folder gets mode 0700.
    Raises FileExistsError if there is a file already, SettingsError if other users have access to the folder, and
    ValueError for an empty name.
    """
    return _write_new(folder / FILE_NAME, dealer_toml(name, *guesses))


def write_installation_toml(folder: Path, public_url: str) -> Path:
    """Writes `installation.toml` into the folder, and returns its path. It raises what `write_dealer_toml` raises.

    Raises ValueError for a text that is not a public URL.
    """
    return _write_new(folder / INSTALLATION_FILE, installation_toml(public_url))


def dealer_toml(name: str, *guesses: Guess) -> str:
    """The text of a new `dealer.toml`. Raises ValueError for an empty name."""
    if not name.strip():
        raise ValueError("a store needs a name")
    guessed = ", ".join(map(_quoted, (*guesses, *GUESSES)))
    return _template("template.toml").substitute(name=_quoted(name.strip()), id=_quoted(_slug(name)), guesses=guessed)


def installation_toml(public_url: str) -> str:
    """The text of a new `installation.toml`. Raises ValueError for a text that is not a public URL."""
    own = _template("installation_template.toml").substitute(public_url=_quoted(read_public_url(public_url)))
    return "\n".join((own, *_inherited()))


_OTHER_TEXT = ("service", "search", "rate_limits", "metrics", "delivery")
"""The sections that have a text of their own in the template of an installation."""


def _inherited() -> Iterator[str]:
    """The sections of a `dealer.toml` that an installation has too. Each says which keys a dealer cannot set."""
    for block in _template("template.toml").template.split("\n\n"):
        header = re.search(r"(?m)^(?:# )?\[([a-z_0-9]+)\]$", block)
        if header and header[1] in Sections.__struct_fields__ and header[1] not in _OTHER_TEXT:
            keys = OF_INSTALLATION.get(header[1], ())
            remark = f"Not for dealers: {', '.join(keys)}." if keys else ""
            yield "".join(f"# {line}\n" for line in textwrap.wrap(remark, 118)) + block.strip() + "\n"


def _write_new(path: Path, text: str) -> Path:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    require_private(path.parent)
    with path.open("x", encoding="utf-8", newline="\n") as file:
        file.write(text)
    return path


def _template(name: str) -> Template:
    return Template(files("dealer_agent.config").joinpath(name).read_text("utf-8"))


def _quoted(text: str) -> str:
    # A JSON string is a TOML string, except for the control character that JSON does not escape.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _slug(name: str) -> str:
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain)[:63].strip("-") or "dealer"
