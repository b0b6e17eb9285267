"""The errors of DMC-12, and which of them each of our codes becomes. Pure."""

from collections.abc import Mapping
from typing import Any, Final

RETRYABLE: Final = frozenset({"RATE_LIMITED", "UPSTREAM_UNAVAILABLE", "INTERNAL_ERROR"})
"""The codes after which the same call may succeed later. DMC-12 fixes them."""

CODE_OF: Final[Mapping[str, str]] = {
    "SCHEMA_VALIDATION_FAILED": "VALIDATION_FAILED",
    "MISSING_REQUIRED_FIELD": "VALIDATION_FAILED",
    "CONTENT_TYPE_NOT_SUPPORTED": "VALIDATION_FAILED",
    "VERSION_NOT_SUPPORTED": "VALIDATION_FAILED",
    "APPOINTMENT_TIME_UNAVAILABLE": "VALIDATION_FAILED",
    "UNSUPPORTED_SKILL": "NOT_CONFIGURED",
    "UNSUPPORTED_OPERATION": "NOT_CONFIGURED",
    "PUSH_NOTIFICATION_NOT_SUPPORTED": "NOT_CONFIGURED",
    "VEHICLE_NOT_FOUND": "VEHICLE_NOT_FOUND",
    "VEHICLE_UNAVAILABLE": "VEHICLE_UNAVAILABLE",
    "CONTACT_CONSENT_REQUIRED": "CONSENT_REQUIRED",
    "INVALID_CONSENT": "CONSENT_INVALID",
    "AUTH_REQUIRED": "NOT_AUTHORIZED",
    "CALLER_NOT_KNOWN": "NOT_AUTHORIZED",
    "RATE_LIMITED": "RATE_LIMITED",
    "INTERNAL_ERROR": "INTERNAL_ERROR",
    # Only a hold has a key: the same quote with another customer_ref.
    "IDEMPOTENCY_CONFLICT": "QUOTE_STATE",
    "QUOTE_NOT_FOUND": "QUOTE_NOT_FOUND",
    "QUOTE_EXPIRED": "QUOTE_EXPIRED",
    "HOLD_CONFLICT": "RESERVATION_CONFLICT",
    "HOLD_NOT_FOUND": "RESERVATION_NOT_FOUND",
    "HOLD_ENDED": "RESERVATION_STATE",
    "HOLD_LIMIT": "RESERVATION_LIMIT",
    # No tool asks for these.
    "CURSOR_EXPIRED": "INTERNAL_ERROR",
    "LEAD_NOT_FOUND": "INTERNAL_ERROR",
    "VISIT_NOT_FOUND": "INTERNAL_ERROR",
    "VISIT_ENDED": "INTERNAL_ERROR",
    "TASK_NOT_FOUND": "INTERNAL_ERROR",
}
"""The code of DMC-12 for each of our codes (docs/protocol.md#errors)."""


class ToolError(Exception):
    """A call that failed, with a code of DMC-12. `more` are further members of the error."""

    def __init__(self, code: str, message: str, more: Mapping[str, Any] | None = None, error_id: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.more, self.error_id = code, message, dict(more or {}), error_id

    def document(self, error_id: str) -> dict[str, Any]:
        """The error as DMC-12 has it, with the id of our error, or else this one."""
        return {
            "error": self.code.lower(),
            "error_code": self.code,
            "retryable": self.code in RETRYABLE,
            "error_id": self.error_id or error_id,
            "message": self.message,
            **self.more,
        }
