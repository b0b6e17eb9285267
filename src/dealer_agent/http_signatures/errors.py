"""Why a signature is refused. Pure."""

from typing import Literal

Reason = Literal[
    "malformed",
    "too_large",
    "unsupported",
    "not_covered",
    "missing_parameter",
    "too_early",
    "expired",
    "too_long",
    "unknown_key",
    "wrong_algorithm",
    "wrong_signature",
    "wrong_digest",
    "replayed",
]
"""The stable words for a refusal. Programs may compare them."""


class SignatureRefused(Exception):  # noqa: N818 - says what happened.
    """A signature that is wrong, or that does not cover enough. The message is a sentence for the sender."""

    def __init__(self, reason: Reason, sentence: str) -> None:
        super().__init__(sentence)
        self.reason: Reason = reason
