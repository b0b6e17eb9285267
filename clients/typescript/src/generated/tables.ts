// Written by `make docs` from the published schemas. Do not edit.

import type { RefusalRecord } from "../errors.js";
import type { Shape } from "../shapes.js";
import * as refusals from "./refusals.js";

/** The version of this package. */
export const VERSION = "0.1.0";

/** The URI of the extension for offers, and the `typ` of the signature of a quote. */
export const OFFERS_EXTENSION = "https://proto.example/extensions/offers/v1";
export const QUOTE_TYPE = "offer-quote+jws";

/** Each skill: the stem of its media types, and whether it submits a lead or is of the extension. */
export const SKILLS = {
  "dealer.information": {"stem": "dealer-information", "isLead": false, "isExtension": false},
  "inventory.facets": {"stem": "inventory-facets", "isLead": false, "isExtension": false},
  "inventory.search": {"stem": "inventory-search", "isLead": false, "isExtension": false},
  "inventory.vehicle": {"stem": "vehicle-detail", "isLead": false, "isExtension": false},
  "lead.submit": {"stem": "lead-submit", "isLead": true, "isExtension": false},
  "inventory.changes": {"stem": "inventory-changes", "isLead": false, "isExtension": true},
  "offer.quote": {"stem": "offer-quote", "isLead": false, "isExtension": true},
  "offer.hold": {"stem": "offer-hold", "isLead": false, "isExtension": true},
  "offer.release": {"stem": "offer-release", "isLead": false, "isExtension": true},
  "offer.status": {"stem": "offer-status", "isLead": false, "isExtension": true},
  "lead.status": {"stem": "lead-status", "isLead": false, "isExtension": true},
  "visit.move": {"stem": "visit-move", "isLead": false, "isExtension": true},
  "visit.cancel": {"stem": "visit-cancel", "isLead": false, "isExtension": true},
} as const;

/** What the client checks: filters before it sends them, and responses as far as its types promise. */
export const SHAPES: Readonly<Record<string, Shape>> = {
  SearchRequest: {"type": "object", "properties": {"filters": {"$ref": "Filters"}, "pagination": {"$ref": "Pagination"}, "sort": {"$ref": "Sort"}, "privacy": {"$ref": "Privacy"}}, "required": [], "additionalProperties": false},
  Filters: {"type": "object", "properties": {"make": {"type": "array", "items": {"type": "string", "maxLength": 200}, "maxItems": 100}, "model": {"type": "array", "items": {"type": "string", "maxLength": 200}, "maxItems": 100}, "trim": {"type": "array", "items": {"type": "string", "maxLength": 200}, "maxItems": 100}, "condition": {"type": "array", "items": {"enum": ["cpo", "new", "used"]}, "maxItems": 100}, "vehicle_type": {"type": "array", "items": {"enum": ["car", "motorcycle", "other", "rv", "trailer"]}, "maxItems": 100}, "transmission": {"type": "array", "items": {"type": "string", "maxLength": 200}, "maxItems": 100}, "fuel": {"type": "array", "items": {"type": "string", "maxLength": 200}, "maxItems": 100}, "electric_range_mi_min": {"type": "integer", "minimum": 0}, "electric_range_mi_max": {"type": "integer", "minimum": 0}, "dc_fast_charge": {"type": "boolean"}, "charge_port": {"type": "array", "items": {"type": "string", "maxLength": 200}, "maxItems": 100}, "driveline": {"type": "array", "items": {"type": "string", "maxLength": 200}, "maxItems": 100}, "body": {"type": "array", "items": {"type": "string", "maxLength": 200}, "maxItems": 100}, "displacement_cc_min": {"type": "integer", "minimum": 0}, "displacement_cc_max": {"type": "integer", "minimum": 0}, "exterior_color": {"type": "array", "items": {"type": "string", "maxLength": 200}, "maxItems": 100}, "interior_color": {"type": "array", "items": {"type": "string", "maxLength": 200}, "maxItems": 100}, "rooftops": {"type": "array", "items": {"type": "string", "maxLength": 200}, "maxItems": 100}, "year_min": {"type": "integer", "minimum": 1900, "maximum": 2100}, "year_max": {"type": "integer", "minimum": 1900, "maximum": 2100}, "price_min": {"type": "integer", "minimum": 0}, "price_max": {"type": "integer", "minimum": 0}, "mileage_max": {"type": "integer", "minimum": 0}, "vin": {"type": "string", "pattern": "^[A-HJ-NPR-Z0-9]{17}$"}, "stock": {"type": "string", "maxLength": 200}, "query": {"type": "string", "maxLength": 200}}, "additionalProperties": false},
  Pagination: {"type": "object", "properties": {"skip": {"type": "integer", "minimum": 0}, "limit": {"type": "integer", "minimum": 1, "maximum": 1000}}, "additionalProperties": false},
  Sort: {"type": "object", "properties": {"field": {"enum": ["list_price", "make", "mileage", "model", "msrp", "price", "stock", "updated_at", "year"]}, "order": {"enum": ["asc", "desc"]}}, "required": ["field", "order"], "additionalProperties": false},
  Privacy: {"type": "object", "properties": {"anonymous": {"type": "boolean"}}, "additionalProperties": false},
  Rooftop: {"type": "object", "properties": {"name": {"type": "string"}, "legal_name": {"type": "string"}, "website": {"type": "string"}, "geo": {"$ref": "GeoPoint"}, "emails": {"type": "array", "items": {"$ref": "Named"}}, "phones": {"type": "array", "items": {"$ref": "Named"}}, "address": {"$ref": "PostalAddress"}, "schedules": {"type": "array", "items": {"$ref": "Schedule"}}, "timezone": {"type": "string"}, "notes": {"type": "string"}, "capabilities": {"type": "array", "items": {"type": "string"}}, "fees": {"type": "array", "items": {"$ref": "Fee"}}}, "required": ["name"]},
  GeoPoint: {"type": "object", "properties": {"latitude": {"type": "number"}, "longitude": {"type": "number"}}, "required": ["latitude", "longitude"]},
  Named: {"type": "object", "properties": {"name": {"type": "string"}, "value": {"type": "string"}}, "required": ["value"]},
  PostalAddress: {"type": "object", "properties": {"address_line_1": {"type": "string"}, "city": {"type": "string"}, "state": {"type": "string"}, "zip": {"type": "string"}, "address_line_2": {"type": "string"}, "country": {"type": "string"}}},
  Schedule: {"type": "object", "properties": {"name": {"type": "string"}, "value": {"$ref": "Week"}}, "required": ["value"]},
  Week: {"type": "object", "properties": {"monday": {"anyOf": [{"$ref": "OpenHours"}, {"type": "null"}]}, "tuesday": {"anyOf": [{"$ref": "OpenHours"}, {"type": "null"}]}, "wednesday": {"anyOf": [{"$ref": "OpenHours"}, {"type": "null"}]}, "thursday": {"anyOf": [{"$ref": "OpenHours"}, {"type": "null"}]}, "friday": {"anyOf": [{"$ref": "OpenHours"}, {"type": "null"}]}, "saturday": {"anyOf": [{"$ref": "OpenHours"}, {"type": "null"}]}, "sunday": {"anyOf": [{"$ref": "OpenHours"}, {"type": "null"}]}}},
  OpenHours: {"type": "object", "properties": {"open": {"type": "string"}, "close": {"type": "string"}}, "required": ["open", "close"]},
  Fee: {"type": "object", "properties": {"name": {"type": "string"}, "amount": {"type": "integer"}}, "required": ["name", "amount"]},
  DealerInformation: {"type": "object", "properties": {"name": {"type": "string"}, "rooftops": {"type": "array", "items": {"$ref": "Rooftop"}}, "welcome_message": {"type": "string"}}, "required": ["name", "rooftops"]},
  TextCount: {"type": "object", "properties": {"value": {"type": ["string", "integer", "number", "boolean"]}, "count": {"type": "integer"}}, "required": ["value", "count"]},
  YearCount: {"type": "object", "properties": {"value": {"type": ["string", "integer"]}, "count": {"type": "integer"}}, "required": ["value", "count"]},
  IntRange: {"type": "object", "properties": {"min": {"type": ["integer", "number"]}, "max": {"type": ["integer", "number"]}}, "required": ["min", "max"]},
  FloatRange: {"type": "object", "properties": {"min": {"type": ["integer", "number"]}, "max": {"type": ["integer", "number"]}}, "required": ["min", "max"]},
  Facets: {"type": "object", "properties": {"makes": {"type": "array", "items": {"$ref": "TextCount"}}, "models": {"type": "array", "items": {"$ref": "TextCount"}}, "trims": {"type": "array", "items": {"$ref": "TextCount"}}, "years": {"type": "array", "items": {"$ref": "YearCount"}}, "conditions": {"type": "array", "items": {"$ref": "TextCount"}}, "vehicle_types": {"type": "array", "items": {"$ref": "TextCount"}}, "transmissions": {"type": "array", "items": {"$ref": "TextCount"}}, "fuels": {"type": "array", "items": {"$ref": "TextCount"}}, "dc_fast_charge": {"type": "array", "items": {"$ref": "TextCount"}}, "charge_ports": {"type": "array", "items": {"$ref": "TextCount"}}, "drivelines": {"type": "array", "items": {"$ref": "TextCount"}}, "bodies": {"type": "array", "items": {"$ref": "TextCount"}}, "exterior_colors": {"type": "array", "items": {"$ref": "TextCount"}}, "interior_colors": {"type": "array", "items": {"$ref": "TextCount"}}, "rooftops": {"type": "array", "items": {"$ref": "TextCount"}}, "statuses": {"type": "array", "items": {"$ref": "TextCount"}}, "price_range": {"$ref": "IntRange"}, "mileage_range": {"$ref": "IntRange"}, "year_range": {"$ref": "IntRange"}, "displacement_cc_range": {"$ref": "IntRange"}, "electric_range_mi_range": {"$ref": "FloatRange"}}},
  Vehicle: {"type": "object", "properties": {"vin": {"type": "string"}, "stock": {"type": "string"}, "vehicle_type": {"type": "string"}, "year": {"type": "integer"}, "make": {"type": "string"}, "model": {"type": "string"}, "trim": {"type": "string"}, "list_price": {"type": "integer"}, "msrp": {"type": "integer"}, "fees": {"type": "array", "items": {"$ref": "Fee"}}, "mileage": {"type": "integer"}, "body": {"type": "string"}, "transmission": {"type": "string"}, "driveline": {"type": "string"}, "engine": {"type": "string"}, "displacement_cc": {"type": "integer"}, "fuel": {"type": "string"}, "city_mpg": {"type": "integer"}, "highway_mpg": {"type": "integer"}, "electric_range_mi": {"type": "number"}, "battery_kwh": {"type": "number"}, "motor_power_hp": {"type": "number"}, "dc_fast_charge": {"type": "boolean"}, "charge_port": {"type": "string"}, "exterior_color": {"type": "string"}, "interior_color": {"type": "string"}, "features": {"type": "array", "items": {"type": "string"}}, "photos": {"type": "array", "items": {"type": "string"}}, "vdp_url": {"type": "string"}, "description": {"type": "string"}, "notes": {"type": "string"}, "other_attributes": {"type": "object"}, "inventory_date": {"type": "string"}, "vehicle_id": {"type": "string"}, "status": {"type": "string"}, "rooftop": {"type": "string"}, "updated_at": {"type": "string"}, "changed_at": {"type": "string"}, "dealer_id": {"type": "string"}, "condition": {"type": "string"}, "price": {"type": "integer"}}, "required": ["status"]},
  SearchPage: {"type": "object", "properties": {"total": {"type": "integer"}, "skip": {"type": "integer"}, "limit": {"type": "integer"}, "vehicles": {"type": "array", "items": {"$ref": "Vehicle"}}}, "required": ["total", "vehicles"]},
  VehicleDetail: {"type": "object", "properties": {"vin": {"type": "string"}, "stock": {"type": "string"}, "vehicle_type": {"type": "string"}, "year": {"type": "integer"}, "make": {"type": "string"}, "model": {"type": "string"}, "trim": {"type": "string"}, "list_price": {"type": "integer"}, "msrp": {"type": "integer"}, "fees": {"type": "array", "items": {"$ref": "Fee"}}, "mileage": {"type": "integer"}, "body": {"type": "string"}, "transmission": {"type": "string"}, "driveline": {"type": "string"}, "engine": {"type": "string"}, "displacement_cc": {"type": "integer"}, "fuel": {"type": "string"}, "city_mpg": {"type": "integer"}, "highway_mpg": {"type": "integer"}, "electric_range_mi": {"type": "number"}, "battery_kwh": {"type": "number"}, "motor_power_hp": {"type": "number"}, "dc_fast_charge": {"type": "boolean"}, "charge_port": {"type": "string"}, "exterior_color": {"type": "string"}, "interior_color": {"type": "string"}, "features": {"type": "array", "items": {"type": "string"}}, "photos": {"type": "array", "items": {"type": "string"}}, "vdp_url": {"type": "string"}, "description": {"type": "string"}, "notes": {"type": "string"}, "other_attributes": {"type": "object"}, "inventory_date": {"type": "string"}, "vehicle_id": {"type": "string"}, "status": {"type": "string"}, "rooftop": {"type": "string"}, "updated_at": {"type": "string"}, "changed_at": {"type": "string"}, "dealer_id": {"type": "string"}, "condition": {"type": "string"}, "price": {"type": "integer"}, "zip": {"type": "string"}, "offered_price": {"type": "integer"}, "held_until": {"type": "string"}}, "required": ["status"]},
  AppointmentReply: {"type": "object", "properties": {"appointment_id": {"type": "string"}, "status": {"type": "string"}, "confirmed_at": {"type": "string"}, "proposed_times": {"type": "array", "items": {"type": "string"}}, "confirmed_window": {"$ref": "TimeSlot"}, "proposed_slots": {"type": "array", "items": {"$ref": "TimeSlot"}}}, "required": ["appointment_id", "status"]},
  TimeSlot: {"type": "object", "properties": {"start": {"type": "string"}, "end": {"type": "string"}}, "required": ["start"]},
  DealerContact: {"type": "object", "properties": {"name": {"type": "string"}, "phone": {"type": "string"}}},
  LeadReceipt: {"type": "object", "properties": {"lead_id": {"type": "string"}, "status": {"type": "string"}, "appointment": {"$ref": "AppointmentReply"}, "dealer": {"$ref": "DealerContact"}, "lead_secret": {"type": "string"}}, "required": ["lead_id", "status"]},
  StockChange: {"type": "object", "properties": {"vehicle_id": {"type": "string"}, "change": {"type": "string"}, "vehicle": {"$ref": "Vehicle"}}, "required": ["vehicle_id", "change"]},
  StockChanges: {"type": "object", "properties": {"changes": {"type": "array", "items": {"$ref": "StockChange"}}, "cursor": {"type": "string"}, "more": {"type": "boolean"}}, "required": ["changes", "cursor", "more"]},
  QuotedVehicle: {"type": "object", "properties": {"vehicle_id": {"type": "string"}, "vin": {"type": "string"}, "stock": {"type": "string"}, "year": {"type": "integer"}, "make": {"type": "string"}, "model": {"type": "string"}, "trim": {"type": "string"}, "condition": {"type": "string"}, "mileage": {"type": "integer"}}, "required": ["vehicle_id"]},
  PriceLine: {"type": "object", "properties": {"label": {"type": "string"}, "kind": {"type": "string"}, "payee": {"type": "string"}, "amount": {"type": ["integer", "number"]}, "firm": {"type": "boolean"}, "legal_basis": {"type": "string"}}, "required": ["label", "kind", "payee", "amount", "firm"]},
  Jurisdiction: {"type": "object", "properties": {"of": {"type": "string"}, "state": {"type": "string"}, "zip": {"type": "string"}}, "required": ["of"]},
  Quote: {"type": "object", "properties": {"quote_id": {"type": "string"}, "vehicle": {"$ref": "QuotedVehicle"}, "price": {"type": ["integer", "number"]}, "lines": {"type": "array", "items": {"$ref": "PriceLine"}}, "total": {"type": ["integer", "number"]}, "complete": {"type": "boolean"}, "missing": {"type": "array", "items": {"type": "string"}}, "jurisdiction": {"$ref": "Jurisdiction"}, "currency": {"type": "string"}, "created_at": {"type": "string"}, "valid_until": {"type": "string"}, "terms": {"type": "string"}, "stock_at": {"type": "string"}, "buyer_ref": {"type": "string"}, "signature": {"type": "string"}}, "required": ["quote_id", "vehicle", "price", "lines", "total", "complete", "missing", "jurisdiction", "currency", "created_at", "valid_until", "terms"]},
  Hold: {"type": "object", "properties": {"hold_id": {"type": "string"}, "quote_id": {"type": "string"}, "vehicle_id": {"type": "string"}, "price": {"type": ["integer", "number"]}, "currency": {"type": "string"}, "created_at": {"type": "string"}, "expires_at": {"type": "string"}, "status": {"type": "string"}, "terms": {"type": "string"}}, "required": ["hold_id", "quote_id", "vehicle_id", "price", "currency", "created_at", "expires_at", "status", "terms"]},
  LeadVisit: {"type": "object", "properties": {"appointment_id": {"type": "string"}, "appointment_type": {"type": "string"}, "status": {"type": "string"}, "place": {"$ref": "VisitPlace"}, "at": {"type": "string"}, "duration_minutes": {"type": "integer"}, "alternatives": {"type": "array", "items": {"type": "string"}}}, "required": ["appointment_id", "appointment_type", "status", "place"]},
  VisitPlace: {"type": "object", "properties": {"name": {"type": "string"}, "address": {"$ref": "PostalAddress"}}, "required": ["name"]},
  LeadState: {"type": "object", "properties": {"lead_id": {"type": "string"}, "status": {"type": "string"}, "received_at": {"type": "string"}, "visit": {"$ref": "LeadVisit"}, "other_visits": {"type": "array", "items": {"$ref": "LeadVisit"}}}, "required": ["lead_id", "status", "received_at"]},
};

/** Each known error code: its class, whether the same request may succeed later, and what to do next. */
export const REFUSALS: Readonly<Record<string, RefusalRecord>> = {
  SCHEMA_VALIDATION_FAILED: { kind: refusals.SchemaValidationFailed, retryable: false, advice: "`details.errors` lists every problem with its JSON pointer; repair them all and send again." },
  MISSING_REQUIRED_FIELD: { kind: refusals.MissingRequiredField, retryable: false, advice: "`details.errors` names each of them." },
  UNSUPPORTED_SKILL: { kind: refusals.UnsupportedSkill, retryable: false, advice: "See the agent card." },
  VEHICLE_NOT_FOUND: { kind: refusals.VehicleNotFound, retryable: false, advice: "Search again: the stock changes." },
  VEHICLE_UNAVAILABLE: { kind: refusals.VehicleUnavailable, retryable: false, advice: "Offer the buyer another one." },
  CONTACT_CONSENT_REQUIRED: { kind: refusals.ContactConsentRequired, retryable: false, advice: "Ask the customer." },
  INVALID_CONSENT: { kind: refusals.InvalidConsent, retryable: false, advice: "Ask the customer again." },
  APPOINTMENT_TIME_UNAVAILABLE: { kind: refusals.AppointmentTimeUnavailable, retryable: false, advice: "The lead itself is kept: `details.lead_id` names it. Do not send it again. `details.alternatives` of `visit.move` are free times." },
  AUTH_REQUIRED: { kind: refusals.AuthRequired, retryable: false, advice: "The dealer hands out tokens, and names the issuers whose tokens it accepts." },
  RATE_LIMITED: { kind: refusals.RateLimited, retryable: true, advice: "Wait for the seconds in `Retry-After`, which `details.retry_after_seconds` repeats." },
  INTERNAL_ERROR: { kind: refusals.InternalError, retryable: true, advice: "Try again later; quote `error_id` to the dealer." },
  IDEMPOTENCY_CONFLICT: { kind: refusals.IdempotencyConflict, retryable: false, advice: "Use a new key for a new lead." },
  QUOTE_NOT_FOUND: { kind: refusals.QuoteNotFound, retryable: false, advice: "Ask for a quote." },
  QUOTE_EXPIRED: { kind: refusals.QuoteExpired, retryable: false, advice: "Ask for a new quote: the price may be another one." },
  HOLD_CONFLICT: { kind: refusals.HoldConflict, retryable: false, advice: "`details.until` says until when. Try again then, or offer the buyer another vehicle." },
  HOLD_NOT_FOUND: { kind: refusals.HoldNotFound, retryable: false, advice: "Use the `hold_id` of the response to `offer.hold`, with the same proof of who you are." },
  HOLD_ENDED: { kind: refusals.HoldEnded, retryable: false, advice: "`details.status` says why. Ask for a new quote." },
  CURSOR_EXPIRED: { kind: refusals.CursorExpired, retryable: false, advice: "Begin again without a cursor, and replace what you have of this dealer." },
  HOLD_LIMIT: { kind: refusals.HoldLimit, retryable: true, advice: "Wait for the seconds in `Retry-After`, which `details.retry_after_seconds` repeats." },
  CALLER_NOT_KNOWN: { kind: refusals.CallerNotKnown, retryable: false, advice: "Sign the request (Web Bot Auth), or send a token of the dealer or of an issuer that it trusts." },
  LEAD_NOT_FOUND: { kind: refusals.LeadNotFound, retryable: false, advice: "Use the `lead_id` of the response to `lead.submit`, with the same proof of who you are, or with its `lead_secret`." },
  VISIT_NOT_FOUND: { kind: refusals.VisitNotFound, retryable: false, advice: "Read the lead with `lead.status`. To ask for a visit, send a lead." },
  VISIT_ENDED: { kind: refusals.VisitEnded, retryable: false, advice: "`details.reason` says why: it has `begun`, or was `cancelled` or `moved`. Read the lead with `lead.status`." },
  TASK_NOT_FOUND: { kind: refusals.TaskNotFound, retryable: false, advice: "Send messages without a `taskId`." },
  PUSH_NOTIFICATION_NOT_SUPPORTED: { kind: refusals.PushNotificationNotSupported, retryable: false, advice: "Leave their configuration out." },
  UNSUPPORTED_OPERATION: { kind: refusals.UnsupportedOperation, retryable: false, advice: "Use SendMessage." },
  CONTENT_TYPE_NOT_SUPPORTED: { kind: refusals.ContentTypeNotSupported, retryable: false, advice: "Send a data part with the request media type of the skill." },
  VERSION_NOT_SUPPORTED: { kind: refusals.VersionNotSupported, retryable: false, advice: "" },
};

/** The error codes of JSON-RPC numbers that stand for one code. */
export const CODE_OF_NUMBER: Readonly<Record<string, string>> = {
  "-32602": "SCHEMA_VALIDATION_FAILED",
  "-32004": "UNSUPPORTED_SKILL",
  "-32601": "UNSUPPORTED_SKILL",
  "-32002": "RATE_LIMITED",
  "-32603": "INTERNAL_ERROR",
  "-32001": "TASK_NOT_FOUND",
  "-32003": "PUSH_NOTIFICATION_NOT_SUPPORTED",
  "-32005": "CONTENT_TYPE_NOT_SUPPORTED",
  "-32009": "VERSION_NOT_SUPPORTED",
};
