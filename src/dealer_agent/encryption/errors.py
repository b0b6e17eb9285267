"""What the cipher can fail with. Messages are plain words for the dealer; they never hold a key or what was sealed."""

# ruff: noqa: N818 - the names say what happened, as storage's do


class EncryptionError(Exception):
    """Whatever goes wrong with keys and with what they seal."""


class InvalidKeys(EncryptionError):
    """The text of a keyring cannot be used; `line` counts from 1 (None: the text as a whole)."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class UnknownKey(EncryptionError):
    """The data was sealed with a key that is not in the keyring."""

    def __init__(self, key_id: str) -> None:
        super().__init__(
            f"customer data is sealed with the key {key_id}, which is not among the keys here: "
            "put it back from your backup, into dealer-agent.keys or DEALER_AGENT_KEYS"
        )
        self.key_id = key_id


class DecryptionFailed(EncryptionError):
    """The data was changed, belongs to another place, or was sealed with another key of the same name.

    `context` is what it should be bound to: table, column, dealer, then what names the row.
    """

    def __init__(self, *context: str) -> None:
        place = f" ({context[0]}.{context[1]} of {' '.join(context[3:])})" if len(context) > 3 else ""
        super().__init__(
            f"customer data cannot be opened: it was changed or moved in the database, or its key is another one{place}"
        )
