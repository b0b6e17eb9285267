"""Completes the commands that a message names, so that they work where a person pastes them. Pure."""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

ALONE = ("init", "serve", "demo", "doctor", "check", "backup", "restore", "report", "price", "mcp", "help")
GROUPS = (
    "inventory",
    "feeds",
    "keys",
    "leads",
    "appointments",
    "offers",
    "record",
    "deliveries",
    "alerts",
    "consent",
    "accesses",
    "dealers host",
    "dealers",
    "database",
    "tokens",
    "agents",
    "console",
    "ask",
)
WITHOUT_FOLDER = frozenset(
    {
        "init",
        "check",
        "mcp",
        "help",
        "ask",
        "database",
        "keys directory",
        "feeds password",
        "offers verify",
    }
)
"""The commands and groups that have no `--dir`."""
WITHOUT_DEALER = frozenset({"serve", "demo", "backup", "restore", "dealers", "dealers host", "feeds host-key"})
"""The other commands and groups that have no `--dealer`."""
# The options go after the name of the command. A command that has --dir already stays as it is.
_COMMAND = re.compile(
    rf"\bdealer-agent (({'|'.join(GROUPS)}) [a-z]+(?:-[a-z]+)*|(?:{'|'.join(ALONE)})\b)(?![^.;:,\n]* --dir )"
)


class Where(NamedTuple):
    """Where a command works: the folder of `--dir` and the dealer of `--dealer`. None: without this option.

    `Where()` changes nothing.
    """

    folder: Path | None = None
    dealer_id: str | None = None

    def complete(self, text: str) -> str:
        """The text, with the options of this place after each command that has them."""
        return _COMMAND.sub(self._completed, text)

    def _completed(self, match: re.Match[str]) -> str:
        """A command of a message, with the options of this place."""
        names = {match[1], match[2]}
        if names & WITHOUT_FOLDER:
            return match[0]
        options = [] if self.folder is None else ["--dir", str(self.folder)]
        if self.dealer_id is not None and not names & WITHOUT_DEALER:
            options += ["--dealer", self.dealer_id]
        return shlex.join(["dealer-agent", *match[1].split(), *options])
