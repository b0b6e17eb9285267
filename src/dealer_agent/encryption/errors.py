"""The errors of the cipher. Messages are sentences for the dealer. They never contain a key or a plain value."""

from dealer_agent.correctable import CorrectableError

# ruff: noqa: N818 - the names say what happened, as in storage


class EncryptionError(CorrectableError):
    """Any error of keys and encrypted values."""


class InvalidKeys(EncryptionError):
    """The text of a keyring cannot be used; `line` counts from 1 (None: the text as a whole)."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class UnknownKey(EncryptionError):
    """The data was encrypted with a key that is not in the keyring."""

    def __init__(self, key_id: str) -> None:
        super().__init__(
            f"customer data is encrypted with the key {key_id}, which is not among the keys here: "
            "put it back from your backup, into dealer-agent.keys or DEALER_AGENT_KEYS"
        )
        self.key_id = key_id


class DecryptionFailed(EncryptionError):
    """The data was changed or moved, or was encrypted with another key that has the same id.

    `context` is the context that it should have: table, column, dealer, then the ids of the row.
    """

    def __init__(self, *context: str) -> None:
        place = f" ({context[0]}.{context[1]} of {' '.join(context[3:])})" if len(context) > 3 else ""
        super().__init__(
            "customer data cannot be decrypted: it was changed or moved in the database, or its key is another one"
            f"{place}"
        )
