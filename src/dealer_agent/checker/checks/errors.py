"""What an error looks like: the envelope, ErrorInfo and the error payload.

Most checks look at the same few errors, in `provoked`. Which code an error has is the subject of `error_codes.py`.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from dealer_agent.checker.check import Failed, Skipped, check, expect
from dealer_agent.checker.exchange import Exchange
from dealer_agent.checker.target import Refusal, Target

UNKNOWN_TYPE = {"type": "inventory.horoscope.request"}
UNKNOWN_VIN = "ZZZZZZ00000000000"
"""A VIN that matches the pattern of the published versions and that no vehicle has."""
WRONG_TYPE: dict[str, Any] = {"filters": {"year_min": "new"}}
WRONG_POINTER, WRONG_VALUE = "/filters/year_min", "new"

CLOCK_DIFFERENCE = timedelta(minutes=5)

ERROR_INFO = "google.rpc.ErrorInfo"
PAYLOAD_TYPES = {"proto": "proto.error", "autoagent": "aap.error"}
PAYLOAD_MEMBERS = {"type", "error_id", "code", "message", "retryable", "details", "created_at"}

PUBLISHED_CODES = {
    "UNSUPPORTED_SKILL",
    "SCHEMA_VALIDATION_FAILED",
    "MISSING_REQUIRED_FIELD",
    "INVALID_CONDITION",
    "VEHICLE_NOT_FOUND",
    "VEHICLE_UNAVAILABLE",
    "CONTACT_CONSENT_REQUIRED",
    "INVALID_CONSENT",
    "APPOINTMENT_TIME_UNAVAILABLE",
    "IDEMPOTENCY_CONFLICT",
    "RATE_LIMITED",
    "INTERNAL_ERROR",
}

TRACES_OF_INTERNALS = (
    "Traceback (most recent",
    'File "/',
    ".py:",
    ".py\\",
    "/site-packages/",
    "/node_modules/",
    "    at ",
    "SELECT ",
    "INSERT INTO",
    "sqlite3.",
    "psycopg",
    "NullPointerException",
    "/home/",
    "/usr/",
    "/var/",
)


async def wrong_requests(target: Target) -> list[Exchange]:
    """Exchanges of requests that no agent can fulfil: of an unknown type, and if possible a wrong filter and VIN."""
    payloads: list[dict[str, Any]] = [UNKNOWN_TYPE]
    if "inventory.search" in target.card.skills:
        payloads.append(target.payload("inventory.search", **WRONG_TYPE))
    if "inventory.vehicle" in target.card.skills:
        payloads.append(target.payload("inventory.vehicle", vin=UNKNOWN_VIN))
    return [await target.send(payload) for payload in payloads]


async def provoked(target: Target) -> list[Refusal]:
    """The errors that the wrong requests got. Skips the check if there is none: another check fails for that."""
    found = []
    for exchange in await wrong_requests(target):
        try:
            found.append(target.refusal(exchange))
        except Failed:
            continue
    if not found:
        raise Skipped("No request got an error.")
    return found


async def refused_or_skipped(target: Target, payload: dict[str, Any]) -> Refusal:
    """The error of a payload. Skips the check if it gets none: another check fails for that."""
    try:
        return await target.refuse(payload)
    except Failed as accepted:
        raise Skipped(accepted.sentence) from None


def _each_error(
    requirement_id: str, sentence: str, fulfils: Callable[[Refusal, Target], bool], *, of_payload: bool = False
) -> None:
    """Registers a check of each provoked error. `sentence` says what is wrong.

    With `of_payload`, errors without an error payload are left out: `errors.payload` fails for them.
    """

    @check(requirement_id)
    async def run(target: Target) -> None:
        refusals = await provoked(target)
        if of_payload:
            refusals = [each for each in refusals if each.payload]
            if not refusals:
                raise Skipped("No error has an error payload.")
        for refusal in refusals:
            expect(fulfils(refusal, target), sentence, refusal.exchange)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _entries(refusal: Refusal) -> list[Any]:
    return refusal.data if isinstance(refusal.data, list) else []


def _metadata(refusal: Refusal) -> dict[str, Any]:
    metadata = refusal.info.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _begins_with_info(refusal: Refusal, _: Target) -> bool:
    first = next(iter(_entries(refusal)), None)
    return isinstance(first, dict) and str(first.get("@type")).endswith(ERROR_INFO)


def _has_strings_in_metadata(refusal: Refusal, _: Target) -> bool:
    metadata = refusal.info.get("metadata")
    return isinstance(metadata, dict) and all(isinstance(value, str) for value in metadata.values())


def _has_type_of_vocabulary(refusal: Refusal, target: Target) -> bool:
    found, expected = refusal.payload.get("type"), PAYLOAD_TYPES.get(target.vendor)
    return found == expected if expected else str(found).endswith(".error")


def _has_type_url(refusal: Refusal, _: Target) -> bool:
    url = refusal.payload.get("@type")
    return isinstance(url, str) and "/" in url and not url.endswith(ERROR_INFO)


def _time_of(refusal: Refusal) -> datetime | None:
    text = refusal.payload.get("created_at")
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) and "T" in text else None
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None


def _has_time(refusal: Refusal, target: Target) -> bool:
    found = _time_of(refusal)
    return found is not None and (target.revision.is_published or found.utcoffset() == timedelta(0))


_each_error("errors.status", "An error has an HTTP status below 400.", lambda error, _: error.status >= 400)
_each_error(
    "errors.members",
    "`error` has another member than code, message and details.",
    lambda error, _: set(error.exchange.json["error"]) <= {"code", "message", "details"},
)
_each_error(
    "errors.code-is-status",
    "`error.code` is not the HTTP status.",
    lambda error, _: type(error.number) is int and error.number == error.status,
)
_each_error(
    "errors.message",
    "`error.message` is absent or empty.",
    lambda error, _: _is_text(error.exchange.json["error"].get("message")),
)
_each_error(
    "errors.two-details",
    "`error.details` has not exactly two objects.",
    lambda error, _: len(_entries(error)) == 2 and all(isinstance(each, dict) for each in _entries(error)),
)
_each_error("errors.info-first", "The first entry of `error.details` is not ErrorInfo.", _begins_with_info)
_each_error(
    "errors.reason",
    "The `reason` of ErrorInfo and the `code` of the error payload differ.",
    lambda error, _: error.info.get("reason") == error.payload.get("code"),
    of_payload=True,
)
_each_error("errors.domain", "ErrorInfo has no `domain`.", lambda error, _: _is_text(error.info.get("domain")))
_each_error(
    "errors.domain-of-vocabulary",
    "The `domain` of ErrorInfo is not autoagentprotocol.org.",
    lambda error, _: error.info.get("domain") in ("autoagentprotocol.org", None, ""),
)
_each_error("errors.metadata", "`metadata` of ErrorInfo is no object of strings.", _has_strings_in_metadata)
_each_error(
    "errors.metadata-error-id",
    "`metadata.error_id` of ErrorInfo is not the `error_id` of the error payload.",
    lambda error, _: "error_id" in _metadata(error) and _metadata(error)["error_id"] == error.payload.get("error_id"),
    of_payload=True,
)
_each_error("errors.payload", "The error has no error payload.", lambda error, _: bool(error.payload))
_each_error(
    "errors.payload-type",
    "The `type` of the error payload is not that of the vocabulary.",
    _has_type_of_vocabulary,
    of_payload=True,
)
_each_error(
    "errors.payload-type-url", "The `@type` of the error payload is no type URL.", _has_type_url, of_payload=True
)
_each_error(
    "errors.id",
    "The error payload has no `error_id`.",
    lambda error, _: _is_text(error.payload.get("error_id")),
    of_payload=True,
)
_each_error(
    "errors.payload-message",
    "The error payload has no `message`.",
    lambda error, _: _is_text(error.payload.get("message")),
    of_payload=True,
)
_each_error(
    "errors.retryable",
    "`retryable` is not true or false.",
    lambda error, _: isinstance(error.payload.get("retryable"), bool),
    of_payload=True,
)
_each_error(
    "errors.retryable-schema",
    "`retryable` is true for SCHEMA_VALIDATION_FAILED.",
    lambda error, _: error.code != "SCHEMA_VALIDATION_FAILED" or error.payload.get("retryable") is not True,
    of_payload=True,
)
_each_error(
    "errors.retryable-others",
    "`retryable` is true for a vehicle or a skill that the agent does not have.",
    lambda error, _: (
        error.code not in ("VEHICLE_NOT_FOUND", "UNSUPPORTED_SKILL") or error.payload.get("retryable") is not True
    ),
    of_payload=True,
)
_each_error(
    "errors.details-object",
    "`details` of the error payload is no object.",
    lambda error, _: isinstance(error.payload.get("details"), dict),
    of_payload=True,
)
_each_error("errors.created-at", "`created_at` is no timestamp in UTC.", _has_time, of_payload=True)
_each_error(
    "errors.closed-payload",
    "The error payload has a member that the published schema does not have.",
    lambda error, target: set(error.payload) - ({"@type"} if not target.is_rpc else set()) <= PAYLOAD_MEMBERS,
    of_payload=True,
)
_each_error(
    "errors.no-internals",
    "The error shows internals of the server.",
    lambda error, _: not any(each in error.exchange.body.decode("utf-8", "replace") for each in TRACES_OF_INTERNALS),
)


@check("errors.body")
async def errors_have_the_envelope(target: Target) -> None:
    """Sends a type that no agent knows."""
    exchange = await target.send({"type": "dealer.horoscope.request"})
    if exchange.status < 400:
        raise Skipped("The unknown type got no error.")
    document = exchange.json
    expect(
        isinstance(document, dict) and isinstance(document.get("error"), dict),
        f"The body of an error (HTTP {exchange.status}) is no JSON object with the object `error`.",
        exchange,
    )


@check("errors.metadata-pointer")
async def metadata_has_the_pointer(target: Target) -> None:
    """Looks at the error of a wrong filter."""
    error = await _wrong_filter(target)
    found = _metadata(error).get("instancePath")
    expect(found == WRONG_POINTER, f"`metadata.instancePath` is {found!r}, not {WRONG_POINTER}.", error.exchange)


@check("errors.metadata-received")
async def metadata_has_the_value(target: Target) -> None:
    """Looks at the error of a wrong filter."""
    error = await _wrong_filter(target)
    found = _metadata(error).get("received")
    expect(found in (WRONG_VALUE, f'"{WRONG_VALUE}"'), f"`metadata.received` is {found!r}, not new.", error.exchange)


async def _wrong_filter(target: Target) -> Refusal:
    if "inventory.search" not in target.card.skills:
        raise Skipped("The card does not offer inventory.search.")
    return await refused_or_skipped(target, target.payload("inventory.search", **WRONG_TYPE))


@check("errors.id-unique")
async def each_error_has_its_own_id(target: Target) -> None:
    """Compares the ids of two errors."""
    ids = []
    for name in ("inventory.horoscope.request", "inventory.weather.request"):
        error = await refused_or_skipped(target, {"type": name})
        ids.append(error.payload.get("error_id"))
    if None in ids:
        raise Skipped("The errors have no error_id.")
    expect(ids[0] != ids[1], "Two errors have the same error_id.", target)


@check("errors.created-now")
async def errors_are_dated_now(target: Target) -> None:
    """Compares `created_at` with the dealer's own clock in the header `Date`."""
    compared = 0
    for error in await provoked(target):
        created, now = _time_of(error), _date_of(error.exchange)
        if created is not None and now is not None:
            compared += 1
            expect(abs(created - now) < CLOCK_DIFFERENCE, f"created_at is {created}, and Date {now}.", error.exchange)
    if not compared:
        raise Skipped("No error has both created_at and the header Date.")


def _date_of(exchange: Exchange) -> datetime | None:
    try:
        return parsedate_to_datetime(exchange.header("date") or "")
    except ValueError:
        return None


@check("errors.known-code")
async def codes_are_published(target: Target) -> None:
    """Looks at the code of an error that no other check looks at."""
    error = await refused_or_skipped(target, target.payload("inventory.search", sort={"field": 7, "order": 7}))
    expect(error.code in PUBLISHED_CODES, f"The code {error.code!r} is not one of the published codes.", error.exchange)
