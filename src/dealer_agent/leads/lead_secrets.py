"""The secrets by which an anonymous sender proves that a lead is its own (docs/protocol.md#lead-secret). Pure.

A secret is an HMAC-SHA256 of the lead's id, so it is not stored: who reads the database has no secret. The key is
derived from the dealer's permanent secret, which no key rotation changes.
"""

import hmac
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from hashlib import sha256

SECRET_BYTES = 24
"""192 bits. In Base64 they are 32 characters, without padding."""


@dataclass(frozen=True, slots=True)
class LeadSecrets:
    """Makes and checks the secrets of one dealer's leads."""

    dealer_id: str
    key: bytes = field(repr=False)

    def of(self, lead_id: str) -> str:
        """The secret of a lead."""
        # No dealer id and no lead id has a colon.
        digest = hmac.digest(self.key, f"{self.dealer_id}:{lead_id}".encode(), sha256)
        return urlsafe_b64encode(digest[:SECRET_BYTES]).decode()

    def is_right(self, lead_id: str, secret: str) -> bool:
        """Whether this is the secret of the lead. The time does not depend on how much of it is right."""
        return hmac.compare_digest(self.of(lead_id).encode(), secret.encode("utf-8", "replace"))
