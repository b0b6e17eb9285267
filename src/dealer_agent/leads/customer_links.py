"""Signed links for customers (docs/protocol.md#customer-links). Pure.

A link names a visit, a purpose and the second in which it expires. A token is `LEAD.APPOINTMENT.UNTIL.SIGNATURE`, with
UNTIL in seconds since 1970 and an HMAC-SHA256. The key of the signature depends on the purpose and the dealer, so a
token is valid for one purpose only. No link is stored.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Literal, NamedTuple

from itsdangerous import BadSignature, Signer

LinkPurpose = Literal["visit", "contact"]
"""`visit`: see, move or cancel the visit. `contact`: withdraw consent. It is also the path of the page."""

LONGEST_TOKEN = 200
"""Characters. A longer token is rejected before its signature is computed."""


class LinkTarget(NamedTuple):
    """The content of a token. The link works before `until`."""

    lead_id: str
    appointment_id: str
    until: datetime


@dataclass(frozen=True, slots=True)
class CustomerLinks:
    """Makes and reads the links of one dealer.

    `base_url` is the URL of the service, without a trailing slash. A link works for `valid` after the visit ends.
    """

    dealer_id: str
    base_url: str
    key: bytes = field(repr=False)
    valid: timedelta

    def address(self, purpose: LinkPurpose, lead_id: str, appointment_id: str, ends_at: datetime) -> str:
        """The URL for a mail. A visit always gets the same URL."""
        return f"{self.base_url}{self.path(purpose, lead_id, appointment_id, ends_at)}"

    def path(self, purpose: LinkPurpose, lead_id: str, appointment_id: str, ends_at: datetime) -> str:
        """The path of this URL below `base_url`."""
        until = int((ends_at + self.valid).timestamp())
        token = self._signer(purpose).sign(f"{lead_id}.{appointment_id}.{until}")
        return f"/{purpose}/{token.decode('ascii')}"

    def read(self, purpose: LinkPurpose, token: str) -> LinkTarget | None:
        """The content of a token, even if it has expired. None if this dealer did not sign it for this purpose."""
        if len(token) > LONGEST_TOKEN or not token.isascii():
            return None
        try:
            signed = self._signer(purpose).unsign(token).decode("ascii")
        except BadSignature:
            return None
        lead_id, appointment_id, until = signed.split(".")
        return LinkTarget(lead_id, appointment_id, datetime.fromtimestamp(int(until), UTC))

    def _signer(self, purpose: LinkPurpose) -> Signer:
        salt = f"customer link, {purpose}: {self.dealer_id}"
        return Signer(self.key, salt, key_derivation="hmac", digest_method=sha256)
