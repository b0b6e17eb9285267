"""The errors of backups. Messages are sentences for the operator. They never contain a key, a password or a passphrase.

OperationError
    BackupUnreadable
"""

from dealer_agent.correctable import CorrectableError

# ruff: noqa: N818 - the names say what happened, as in storage


class OperationError(CorrectableError):
    """A backup cannot be made or restored."""


class BackupUnreadable(OperationError):
    """A file is no backup, or it is damaged, or another version made it."""
