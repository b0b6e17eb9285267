"""Work on a service as a whole: doctor, backup and restore, moves of dealers, erasure, keys.

Messages of its errors are sentences for the operator. They never contain a key, a password or a passphrase.
"""

from dealer_agent.correctable import CorrectableError


class OperationError(CorrectableError):
    """The work cannot be done."""


class BackupUnreadable(OperationError):  # noqa: N818 - the name says what happened, as in storage
    """A file is not a backup, or it is damaged, or another version made it."""
