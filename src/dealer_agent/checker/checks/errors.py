"""Errors: the envelope, ErrorInfo and the error payload, and which code, status and number answers which mistake."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from dealer_agent.checker import forms
from dealer_agent.checker.check import check, check_each, each_of
from dealer_agent.checker.exchange import Exchange
from dealer_agent.checker.outcome import Failed, Skipped, expect, expect_status
from dealer_agent.checker.target import Refusal, Target

Payload = dict[str, Any]

UNKNOWN_TYPE = {"type": "inventory.horoscope.request"}
UNKNOWN_VIN = "ZZZZZZ00000000000"
"""A VIN that matches the pattern of the published versions and that no vehicle has."""
UNKNOWN_VEHICLE = {"type": "inventory.vehicle.request", "vin": UNKNOWN_VIN}
WRONG_POINTER, WRONG_VALUE = "/filters/year_min", "new"
SEVERAL_POINTERS = ["/filters/year_max", "/pagination/skip", "/sort/field"]


def _search(**members: Any) -> Payload:
    return {"type": "inventory.search.request", **members}


WRONG_TYPE = _search(filters={"year_min": WRONG_VALUE})
UNKNOWN_MEMBER = _search(filters={"price_maximum": 30_000})
MISSING_MEMBER = _search(sort={"field": "price"})
SEVERAL = _search(filters={"year_max": "old"}, pagination={"skip": -1}, sort={"order": "asc"})

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


async def _provoked(target: Target) -> list[Refusal]:
    """The errors of some requests that no agent can fulfil. Skips the check if there is none: others fail for that."""
    found = []
    for payload in (UNKNOWN_TYPE, WRONG_TYPE, UNKNOWN_VEHICLE):
        if payload["type"].removesuffix(".request") in (*target.card.skills, "inventory.horoscope"):
            try:
                found.append(target.refusal(await target.send(payload)))
            except Failed:
                continue
    if not found:
        raise Skipped("No request got an error.")
    return found


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


Predicate = Callable[[Refusal, Target], bool]

_OF_ERRORS: Mapping[str, tuple[Predicate, str]] = {
    "errors.status": (lambda error, _: error.status >= 400, "An error has an HTTP status below 400."),
    "errors.members": (
        lambda error, _: set(error.exchange.json["error"]) <= {"code", "message", "details"},
        "`error` has another member than code, message and details.",
    ),
    "errors.code-is-status": (
        lambda error, _: type(error.number) is int and error.number == error.status,
        "`error.code` is not the HTTP status.",
    ),
    "errors.message": (
        lambda error, _: forms.name(error.exchange.json["error"].get("message")),
        "`error.message` is absent or empty.",
    ),
    "errors.two-details": (
        lambda error, _: len(_entries(error)) == 2 and all(isinstance(each, dict) for each in _entries(error)),
        "`error.details` has not exactly two objects.",
    ),
    "errors.info-first": (_begins_with_info, "The first entry of `error.details` is not ErrorInfo."),
    "errors.domain": (lambda error, _: forms.name(error.info.get("domain")), "ErrorInfo has no `domain`."),
    "errors.domain-of-vocabulary": (
        lambda error, _: error.info.get("domain") in ("autoagentprotocol.org", None, ""),
        "The `domain` of ErrorInfo is not autoagentprotocol.org.",
    ),
    "errors.metadata": (_has_strings_in_metadata, "`metadata` of ErrorInfo is no object of strings."),
    "errors.payload": (lambda error, _: bool(error.payload), "The error has no error payload."),
    "errors.no-internals": (
        lambda error, _: (
            not any(each in error.exchange.body.decode("utf-8", "replace") for each in TRACES_OF_INTERNALS)
        ),
        "The error shows internals of the server.",
    ),
}
"""What each error has, and the sentence that says that it has not."""

_OF_PAYLOADS: Mapping[str, tuple[Predicate, str]] = {
    "errors.reason": (
        lambda error, _: error.info.get("reason") == error.payload.get("code"),
        "The `reason` of ErrorInfo and the `code` of the error payload differ.",
    ),
    "errors.metadata-error-id": (
        lambda error, _: (
            "error_id" in _metadata(error) and _metadata(error)["error_id"] == error.payload.get("error_id")
        ),
        "`metadata.error_id` of ErrorInfo is not the `error_id` of the error payload.",
    ),
    "errors.payload-type": (_has_type_of_vocabulary, "The `type` of the error payload is not that of the vocabulary."),
    "errors.payload-type-url": (_has_type_url, "The `@type` of the error payload is no type URL."),
    "errors.id": (lambda error, _: forms.name(error.payload.get("error_id")), "The error payload has no `error_id`."),
    "errors.payload-message": (
        lambda error, _: forms.name(error.payload.get("message")),
        "The error payload has no `message`.",
    ),
    "errors.retryable": (
        lambda error, _: isinstance(error.payload.get("retryable"), bool),
        "`retryable` is not true or false.",
    ),
    "errors.retryable-schema": (
        lambda error, _: error.code != "SCHEMA_VALIDATION_FAILED" or error.payload.get("retryable") is not True,
        "`retryable` is true for SCHEMA_VALIDATION_FAILED.",
    ),
    "errors.retryable-others": (
        lambda error, _: (
            error.code not in ("VEHICLE_NOT_FOUND", "UNSUPPORTED_SKILL") or error.payload.get("retryable") is not True
        ),
        "`retryable` is true for a vehicle or a skill that the agent does not have.",
    ),
    "errors.details-object": (
        lambda error, _: isinstance(error.payload.get("details"), dict),
        "`details` of the error payload is no object.",
    ),
    "errors.created-at": (_has_time, "`created_at` is no timestamp in UTC."),
    "errors.closed-payload": (
        lambda error, target: set(error.payload) - ({"@type"} if not target.is_rpc else set()) <= PAYLOAD_MEMBERS,
        "The error payload has a member that the published schema does not have.",
    ),
}
"""What each error with an error payload has. `errors.payload` fails for others."""


@check_each({**_OF_ERRORS, **_OF_PAYLOADS})
async def _(target: Target, fulfils: Predicate, sentence: str) -> None:
    of_payload = (fulfils, sentence) in _OF_PAYLOADS.values()
    refusals = [each for each in await _provoked(target) if each.payload or not of_payload]
    if not refusals:
        raise Skipped("No error has an error payload.")
    for refusal in refusals:
        expect(fulfils(refusal, target), sentence, refusal.exchange)


@check("errors.body")
async def _(target: Target) -> None:
    exchange = await target.send({"type": "dealer.horoscope.request"})
    if exchange.status < 400:
        raise Skipped("The unknown type got no error.")
    document = exchange.json
    expect(
        isinstance(document, dict) and isinstance(document.get("error"), dict),
        f"The body of an error (HTTP {exchange.status}) is not a JSON object with the object `error`.",
        exchange,
    )


@check("errors.id-unique")
async def _(target: Target) -> None:
    types = ("inventory.horoscope.request", "inventory.weather.request")
    ids = [(await target.refused({"type": name})).payload.get("error_id") for name in types]
    if None in ids:
        raise Skipped("The errors have no error_id.")
    expect(ids[0] != ids[1], "Two errors have the same error_id.")


@check("errors.created-now")
async def _(target: Target) -> None:
    times = [(_time_of(each), _date_of(each.exchange), each.exchange) for each in await _provoked(target)]
    known = [(created, now, exchange) for created, now, exchange in times if created and now]
    if not known:
        raise Skipped("No error has both created_at and the header Date.")
    for created, now, exchange in known:
        expect(abs(created - now) < CLOCK_DIFFERENCE, f"created_at is {created}, and Date {now}.", exchange)


def _date_of(exchange: Exchange) -> datetime | None:
    """The dealer's own clock."""
    try:
        return parsedate_to_datetime(exchange.header("date") or "")
    except ValueError:
        return None


@check("errors.known-code")
async def _(target: Target) -> None:
    payload = target.payload("inventory.search", sort={"field": 7, "order": 7})
    (await target.refused(payload)).expect_code(*PUBLISHED_CODES)


# Which code, status and number answers which mistake


@check_each(
    {
        "errors.unknown-member": (UNKNOWN_MEMBER, "SCHEMA_VALIDATION_FAILED"),
        "errors.wrong-type": (WRONG_TYPE, "SCHEMA_VALIDATION_FAILED"),
        "errors.missing-member": (MISSING_MEMBER, "MISSING_REQUIRED_FIELD"),
        "errors.missing-and-wrong": (SEVERAL, "SCHEMA_VALIDATION_FAILED"),
        "errors.unknown-skill": (UNKNOWN_TYPE, "UNSUPPORTED_SKILL"),
        "errors.unknown-vehicle": (UNKNOWN_VEHICLE, "VEHICLE_NOT_FOUND"),
    }
)
async def _(target: Target, payload: Payload, code: str) -> None:
    (await target.refuse(payload)).expect_code(code)


@check_each(
    {
        "errors.unknown-member-status": (UNKNOWN_MEMBER, 422),
        "errors.missing-member-status": (MISSING_MEMBER, 422),
        "errors.unknown-skill-status": (UNKNOWN_TYPE, 404),
        "errors.unknown-vehicle-status": (UNKNOWN_VEHICLE, 404),
    }
)
async def _(target: Target, payload: Payload, status: int) -> None:
    expect_status((await target.refused(payload)).exchange, status)


@check_each(
    {
        "errors.rpc-invalid-params": (UNKNOWN_MEMBER, -32602),
        "errors.rpc-missing-member": (MISSING_MEMBER, -32602),
        "errors.rpc-unknown-vehicle": (UNKNOWN_VEHICLE, -32000),
        "errors.rpc-unknown-skill-a2a": (UNKNOWN_TYPE, -32004),
        "errors.rpc-unknown-skill": (UNKNOWN_TYPE, -32601),
        "errors.rpc-unknown-skill-next": (UNKNOWN_TYPE, -32004),
    }
)
async def _(target: Target, payload: Payload, number: int) -> None:
    (await target.refused(payload)).expect_number(number)


def _has(name: str, value: str, *, of: str = "details") -> Callable[[Refusal], bool | str]:
    """Whether the details of an error, or the metadata of ErrorInfo, have a member with this value."""

    def judge(error: Refusal) -> bool | str:
        found = error.details.get(name) if of == "details" else _metadata(error).get(name)
        # Metadata has strings only: an agent may write the value as JSON.
        same = found == value or (of == "metadata" and found == f'"{value}"')
        return same or f"`{of}.{name}` is {found!r}, not {value}."

    return judge


async def _of_wrong_type(target: Target) -> list[tuple[Refusal, Exchange]]:
    if "inventory.search" not in target.card.skills:
        raise Skipped("The card does not offer inventory.search.")
    error = await target.refused(WRONG_TYPE)
    return [(error, error.exchange)]


each_of(
    _of_wrong_type,
    {
        "errors.pointer": _has("instancePath", WRONG_POINTER),
        "errors.received": _has("received", WRONG_VALUE),
        "errors.metadata-pointer": _has("instancePath", WRONG_POINTER, of="metadata"),
        "errors.metadata-received": _has("received", WRONG_VALUE, of="metadata"),
    },
)


async def _of_several(target: Target) -> list[tuple[tuple[Refusal, list[str]], Exchange]]:
    """The error of a request with three problems, and the pointers that it lists."""
    error = await target.refused(SEVERAL)
    return [((error, [pointer for pointer, _ in error.problems(target.revision)]), error.exchange)]


def _lists_all(found: tuple[Refusal, list[str]]) -> bool | str:
    missing = [each for each in SEVERAL_POINTERS if not {each, each.rpartition("/")[0]} & set(found[1])]
    return not missing or f"`details.errors` does not list {', '.join(missing)}."


def _lists_in_order(found: tuple[Refusal, list[str]]) -> bool | str:
    if len(found[1]) < 2:
        raise Skipped("The error lists fewer than two problems.")
    return found[1] == sorted(found[1]) or "The problems are not in the order of their pointers."


def _names_keywords(found: tuple[Refusal, list[str]]) -> bool | str:
    entries = [each for each in found[0].details.get("errors", []) if isinstance(each, dict)]
    if not entries:
        raise Skipped("The error lists no problems.")
    return all(str(each.get("keyword") or "").isalpha() for each in entries) or "A problem has no JSON Schema keyword."


each_of(
    _of_several,
    {
        "errors.all-problems": _lists_all,
        "errors.all-problems-published": _lists_all,
        "errors.problems-in-order": _lists_in_order,
        "errors.keyword": _names_keywords,
    },
)


@check("errors.suggestion")
async def _(target: Target) -> None:
    error = await target.refused(UNKNOWN_MEMBER)
    named = b"price_max" in error.exchange.body.replace(b"price_maximum", b"")
    expect(named, "price_max is not named.", error.exchange)


@check("errors.not-json-envelope")
async def _(target: Target) -> None:
    error = target.refusal(await target.post(b'{"message": '))
    expect(error.info and error.payload, "The error has no ErrorInfo or no error payload.", error.exchange)
