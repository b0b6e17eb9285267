"""The section `[alerts]`: who gets alerts, about which conditions, and the thresholds.

`alerts.conditions` has the meaning of each condition.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Annotated, Literal
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from dealer_agent.dealers.profile_checks import (
    is_this_machine,
    read_by,
    read_channel_address,
    read_email,
    read_environment_name,
)

ConditionId = Literal[
    "feed_late",
    "feed_refused",
    "feed_failing",
    "feed_warned",
    "deliveries_failing",
    "deliveries_undeliverable",
    "lead_failed",
    "leads_quarantined",
    "agent_doubtful",
    "agent_quarantined",
    "disk_low",
    "disk_full",
    "database_away",
    "database_slow",
    "key_copy_unknown",
    "public_address_failing",
    "certificate_expiring",
    "clock_wrong",
    "proxy_undeclared",
]

SECRET_PREFIX = "whsec_"  # noqa: S105 - what a secret begins with
LEAST_SECRET_BYTES, MOST_SECRET_BYTES = 24, 64
"""The lengths that Standard Webhooks allows."""


def read_webhook_url(value: str) -> str:
    """The URL of a webhook, or an empty text. Plain HTTP is allowed only for a receiver on this machine."""
    if not value:
        return value
    parts = urlsplit(read_channel_address(value))
    if parts.scheme == "http" and not is_this_machine(parts.hostname or ""):
        raise ValueError("must begin with https://; http:// is only for a receiver on this machine")
    return value


class AlertSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who gets alerts, and when. Without `mail` and `webhook_url`, no condition is checked."""

    mail: Annotated[tuple[Annotated[str, read_by(read_email)], ...], Meta(max_length=20)] = ()
    webhook_url: Annotated[str, read_by(read_webhook_url)] = ""
    webhook_secret_env: Annotated[str, read_by(read_environment_name)] = "DEALER_AGENT_ALERTS_SECRET"  # noqa: S105 - a name
    off: tuple[ConditionId, ...] = ()
    feed_late_hours: Annotated[int, Meta(ge=1, le=8760)] = 26
    feed_failing_minutes: Annotated[int, Meta(ge=1, le=10_080)] = 60
    deliveries_waiting_minutes: Annotated[int, Meta(ge=1, le=10_080)] = 30
    disk_free_mib: Annotated[int, Meta(ge=1, le=1_048_576)] = 1024
    database_seconds: Annotated[int, Meta(ge=1, le=600)] = 5
    key_copy_days: Annotated[int, Meta(ge=1, le=365)] = 3
    public_address_minutes: Annotated[int, Meta(ge=1, le=1440)] = 10
    certificate_days: Annotated[int, Meta(ge=1, le=365)] = 14
    clock_seconds: Annotated[int, Meta(ge=1, le=86_400)] = 60

    @property
    def has_receivers(self) -> bool:
        """Whether anybody gets alerts."""
        return bool(self.mail or self.webhook_url)


def webhook_secret(settings: AlertSettings, env: Mapping[str, str]) -> bytes:
    """The key of the webhook's signature, from the environment. Raises ValueError with advice."""
    name = settings.webhook_secret_env
    text = env.get(name, "")
    example = "python3 -c \"import base64, os; print('whsec_' + base64.b64encode(os.urandom(32)).decode())\""
    if not text:
        raise ValueError(f"the environment variable {name} is not set; set it to a secret such as {example}")
    try:
        secret = base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
    except binascii.Error:
        secret = b""
    if not text.startswith(SECRET_PREFIX) or not LEAST_SECRET_BYTES <= len(secret) <= MOST_SECRET_BYTES:
        raise ValueError(
            f"the environment variable {name} must hold {SECRET_PREFIX} and {LEAST_SECRET_BYTES} to "
            f"{MOST_SECRET_BYTES} bytes in base64: {example}"
        )
    return secret
