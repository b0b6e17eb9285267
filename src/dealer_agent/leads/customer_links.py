"""Signed links for customers. A link names one visit of one lead, what it is for, and how long it works. Pure.

A token has the form `LEAD.APPOINTMENT.UNTIL.SIGNATURE`; UNTIL is a time in seconds since 1970. itsdangerous makes the
signature with HMAC-SHA256. Its key depends on the purpose and the dealer, so a token for one purpose is invalid for
another. Nothing is stored for a link. See docs/how-to/customer-links.md.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Literal, NamedTuple

from itsdangerous import BadSignature, Signer

Purpose = Literal["visit", "contact"]
"""`visit`: see, move or cancel the visit. `contact`: withdraw consent. The path of the page has the same name."""

LONGEST_TOKEN = 200
"""Characters. A longer token is refused before its signature is computed."""


class Linked(NamedTuple):
    """The content of a token. The link works before `until`."""

    lead_id: str
    appointment_id: str
    until: datetime


@dataclass(frozen=True, slots=True)
class CustomerLinks:
    """Makes and reads the links of one dealer. `base_url` is the address of the service, without a slash at its end."""

    dealer_id: str
    base_url: str
    key: bytes = field(repr=False)
    valid: timedelta
    """For how long after the end of a visit its links work."""

    def address(self, purpose: Purpose, lead_id: str, appointment_id: str, ends_at: datetime) -> str:
        """The web address for a mail. The same visit always gets the same address."""
        return f"{self.base_url}{self.path(purpose, lead_id, appointment_id, ends_at)}"

    def path(self, purpose: Purpose, lead_id: str, appointment_id: str, ends_at: datetime) -> str:
        """The path of the same address, below that of the service."""
        until = int((ends_at + self.valid).timestamp())
        token = self._signer(purpose).sign(f"{lead_id}.{appointment_id}.{until}")
        return f"/{purpose}/{token.decode('ascii')}"

    def read(self, purpose: Purpose, token: str) -> Linked | None:
        """The content of a token, also after it expired. None if this dealer did not sign it for this purpose."""
        if len(token) > LONGEST_TOKEN or not token.isascii():
            return None
        try:
            signed = self._signer(purpose).unsign(token).decode("ascii")
        except BadSignature:
            return None
        lead_id, appointment_id, until = signed.split(".")
        return Linked(lead_id, appointment_id, datetime.fromtimestamp(int(until), UTC))

    def _signer(self, purpose: Purpose) -> Signer:
        salt = f"customer link, {purpose}: {self.dealer_id}"
        return Signer(self.key, salt, key_derivation="hmac", digest_method=sha256)
