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
 * None of the requested times is free, and no other time can be proposed. `visit.move`: the time is not free. The
 * lead itself is kept: `details.lead_id` names it. Do not send it again. `details.alternatives` of `visit.move` are
 * free times.
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

/** This dealer has given this agent no quote with this id. Ask for a quote. */
export class QuoteNotFound extends Refused {
  declare readonly code: "QUOTE_NOT_FOUND";
}

/** The time of the quote has ended. Ask for a new quote: the price may be another one. */
export class QuoteExpired extends Refused {
  declare readonly code: "QUOTE_EXPIRED";
}

/**
 * Another agent holds the vehicle. `details.until` says until when. Try again then, or offer the buyer another
 * vehicle.
 */
export class HoldConflict extends Refused {
  declare readonly code: "HOLD_CONFLICT";
}

/**
 * This agent has no hold with this id. Use the `hold_id` of the response to `offer.hold`, with the same proof of
 * who you are.
 */
export class HoldNotFound extends Refused {
  declare readonly code: "HOLD_NOT_FOUND";
}

/** The hold has ended. `details.status` says why. Ask for a new quote. */
export class HoldEnded extends Refused {
  declare readonly code: "HOLD_ENDED";
}

/**
 * The cursor of `inventory.changes` is too old, or the record of the stock does not reach back to it. Begin again
 * without a cursor, and replace what you have of this dealer.
 */
export class CursorExpired extends Refused {
  declare readonly code: "CURSOR_EXPIRED";
}

/**
 * The agent has no more holds for today, or has held this vehicle in the last 24 hours, or agents hold as much of
 * the stock as they may. Wait for the seconds in `Retry-After`, which `details.retry_after_seconds` repeats.
 */
export class HoldLimit extends Refused {
  declare readonly code: "HOLD_LIMIT";
}

/**
 * Only an agent that proves who it is can hold a vehicle. Sign the request (Web Bot Auth), or send a token of the
 * dealer or of an issuer that it trusts.
 */
export class CallerNotKnown extends Refused {
  declare readonly code: "CALLER_NOT_KNOWN";
}

/**
 * This agent has sent no lead with this id, or its customer was erased, or the secret is wrong. Use the `lead_id`
 * of the response to `lead.submit`, with the same proof of who you are, or with its `lead_secret`.
 */
export class LeadNotFound extends Refused {
  declare readonly code: "LEAD_NOT_FOUND";
}

/** The lead has no visit, or none with this id. Read the lead with `lead.status`. To ask for a visit, send a lead. */
export class VisitNotFound extends Refused {
  declare readonly code: "VISIT_NOT_FOUND";
}

/**
 * The visit cannot be changed any more. `details.reason` says why: it has `begun`, or was `cancelled` or `moved`.
 * Read the lead with `lead.status`.
 */
export class VisitEnded extends Refused {
  declare readonly code: "VISIT_ENDED";
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
