// Written by `make docs` from the published schemas. Do not edit.

import { Refused } from "../errors.js";

/**
 * The request does not have the right shape. `details.errors` lists every problem with its JSON pointer; repair
 * them all and send again.
 */
export class SchemaValidationFailed extends Refused {
  declare readonly code: "SCHEMA_VALIDATION_FAILED";
}

/** Only required members are missing, and nothing else is wrong. `details.errors` names each of them. */
export class MissingRequiredField extends Refused {
  declare readonly code: "MISSING_REQUIRED_FIELD";
}

/**
 * `data.type` names no skill that this dealer offers, or the path or HTTP method does not exist. See the agent
 * card.
 */
export class UnsupportedSkill extends Refused {
  declare readonly code: "UNSUPPORTED_SKILL";
}

/** No listing has this VIN, stock number or vehicle id. Search again: the stock changes. */
export class VehicleNotFound extends Refused {
  declare readonly code: "VEHICLE_NOT_FOUND";
}

/** The dealer had this vehicle, but it is sold or gone. Offer the buyer another one. */
export class VehicleUnavailable extends Refused {
  declare readonly code: "VEHICLE_UNAVAILABLE";
}

/**
 * A customer came without consent, or the consent lacks the scope `lead_submission` or the channel that
 * `preferred_contact` names. Ask the customer.
 */
export class ContactConsentRequired extends Refused {
  declare readonly code: "CONTACT_CONSENT_REQUIRED";
}

/** The consent is malformed, expired, or granted in the future. Ask the customer again. */
export class InvalidConsent extends Refused {
  declare readonly code: "INVALID_CONSENT";
}

/**
 * None of the requested times is free, and no other time can be proposed. The lead itself is kept:
 * `details.lead_id` names it. Do not send it again.
 */
export class AppointmentTimeUnavailable extends Refused {
  declare readonly code: "APPOINTMENT_TIME_UNAVAILABLE";
}

/**
 * The bearer token is missing or invalid (401). Or it lacks the scope of the skill, or the dealer does not allow
 * this to the caller (403). The dealer hands out tokens, and names the issuers whose tokens it accepts.
 */
export class AuthRequired extends Refused {
  declare readonly code: "AUTH_REQUIRED";
}

/** Too many requests. Wait for the seconds in `Retry-After`, which `details.retry_after_seconds` repeats. */
export class RateLimited extends Refused {
  declare readonly code: "RATE_LIMITED";
}

/** Something went wrong on the dealer's side. Try again later; quote `error_id` to the dealer. */
export class InternalError extends Refused {
  declare readonly code: "INTERNAL_ERROR";
}

/** This `idempotency_key` was used with another payload. Use a new key for a new lead. */
export class IdempotencyConflict extends Refused {
  declare readonly code: "IDEMPOTENCY_CONFLICT";
}

/** A2A: this agent keeps no tasks. Send messages without a `taskId`. */
export class TaskNotFound extends Refused {
  declare readonly code: "TASK_NOT_FOUND";
}

/** A2A: this agent pushes no notifications. Leave their configuration out. */
export class PushNotificationNotSupported extends Refused {
  declare readonly code: "PUSH_NOTIFICATION_NOT_SUPPORTED";
}

/** A2A: the agent card does not declare this operation. Use SendMessage. */
export class UnsupportedOperation extends Refused {
  declare readonly code: "UNSUPPORTED_OPERATION";
}

/**
 * A2A: no part of the message has a media type that the agent card declares. Send a data part with the request
 * media type of the skill.
 */
export class ContentTypeNotSupported extends Refused {
  declare readonly code: "CONTENT_TYPE_NOT_SUPPORTED";
}

/** A2A: send `A2A-Version: 1.0`, or leave the header out. */
export class VersionNotSupported extends Refused {
  declare readonly code: "VERSION_NOT_SUPPORTED";
}
