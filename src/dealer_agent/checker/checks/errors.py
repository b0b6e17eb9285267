"""Checks errors: their envelope, ErrorInfo and payload, and that each mistake gets its code, status and number."""

import json
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from dealer_agent.checker import forms
from dealer_agent.checker.check import check, check_each, each_of, judge_each
from dealer_agent.checker.exchange import Exchange, at, date_of, dicts
from dealer_agent.checker.fields import EXACT_FILTERS, RANGE_FILTERS, TRUE_FILTERS, WORD_FILTERS
from dealer_agent.checker.outcome import Failed, Judgement, Skipped, expect, has, skip_if_failed, skip_unless, status
from dealer_agent.checker.reply import Refusal, code, if_refused, number, refusal_of
from dealer_agent.checker.searches import shown
from dealer_agent.checker.target import LEAD, Request, Target
from dealer_agent.protocol.skill import SKILL_BY_REQUEST_TYPE

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
ONE_WRONG_FILTER = _search(filters={"price_max": 30_000, "year_min": WRONG_VALUE, "year_max": 2030})
UNKNOWN_MEMBER = _search(filters={"price_maximum": 30_000})
MISSING_MEMBER = _search(sort={"field": "price"})
SEVERAL = _search(filters={"year_max": "old"}, pagination={"skip": -1}, sort={"order": "asc"})

CLOCK_DIFFERENCE = timedelta(minutes=25)
"""Less than the half hour by which zones differ."""

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

CLIENT_CODES = PUBLISHED_CODES - {"RATE_LIMITED", "INTERNAL_ERROR"}
"""The codes of mistakes of a request."""

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
    "sqlalchemy.",
    "ORA-0",
    "syntax error at or near",
    "java.lang.",
    "node:internal",
    "NullPointerException",
    "/home/",
    "/usr/",
    "/var/",
)


TRANSPORT = (401, 405, 413, 415, 429)
"""What HTTP says before a skill is asked."""
OF_JSON_RPC = (-32700, -32600, -32601)
"""Numbers of JSON-RPC's own errors, which need no error payload."""
A2A_DOMAIN = "a2a-protocol.org"
"""The domain of A2A's own errors."""


def _asks_a_skill(target: Target, exchange: Exchange) -> bool:
    """Whether the error of a request is one of the protocol. Others are errors of HTTP, of JSON-RPC or of A2A."""
    # A refusal of a token may be an error of the protocol, too.
    if (exchange.status in TRANSPORT and b"AUTH_REQUIRED" not in exchange.body) or at(
        exchange.json, "error.code"
    ) in OF_JSON_RPC:
        return False
    return str(at(target.asked(exchange), "type")) in SKILL_BY_REQUEST_TYPE


async def errors_of_run(target: Target) -> list[Refusal]:
    """The errors of some requests that no agent can fulfil, and of all requests of skills so far that were refused.

    Skips the check if there is none: others fail for that.
    """
    refusals = [
        error
        for each in target.posted
        if isinstance(at(each.json, "error"), dict) and _asks_a_skill(target, each)
        if (error := refusal_of(each)).info.get("domain") != A2A_DOMAIN
    ]
    for payload in (UNKNOWN_TYPE, WRONG_TYPE, UNKNOWN_VEHICLE):
        if payload["type"].removesuffix(".request") in (*target.card.skills, "inventory.horoscope"):
            with suppress(Failed):
                refusals.append(refusal_of(await target.send(payload)))
    return skip_unless(refusals, "No request got an error.")


async def _with_payload(target: Target) -> list[Refusal]:
    """The errors with an error payload. `errors.payload` fails for others."""
    return skip_unless([each for each in await errors_of_run(target) if each.payload], "No error has an error payload.")


def _entries(refusal: Refusal) -> list[Any]:
    return refusal.data if isinstance(refusal.data, list) else []


def _time_of(refusal: Refusal) -> datetime | None:
    text = refusal.payload.get("created_at")
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) and "T" in text else None
    except ValueError:
        return None
    return moment if moment is not None and moment.tzinfo is not None else None


def _error(judgement: Judgement) -> Judgement:
    """A judgement of the member `error` of a response."""
    return lambda error: judgement(error.exchange.json["error"])


def _info(judgement: Judgement) -> Judgement:
    return lambda error: judgement(error.info)


def _payload(judgement: Judgement) -> Judgement:
    return lambda error: judgement(error.payload)


def _is_true(predicate: Callable[[Refusal], object], sentence: str) -> Judgement:
    """A judgement of an error, with the sentence that says what is wrong."""
    return lambda error: bool(predicate(error)) or sentence


def _is_not_retryable(*codes: str) -> Judgement:
    return _is_true(
        lambda error: error.code not in codes or error.payload.get("retryable") is not True,
        f"`retryable` is true for {' or '.join(codes)}.",
    )


each_of(
    errors_of_run,
    {
        "errors.status": _is_true(lambda error: error.status >= 400, "An error has an HTTP status below 400."),
        "errors.members": _error(
            lambda error: error.keys() <= {"code", "message", "details"} or f"`error` has {', '.join(error)}."
        ),
        "errors.code-is-status": _is_true(
            lambda error: type(error.number) is int and error.number == error.status,
            "`error.code` is not the HTTP status.",
        ),
        "errors.message": _error(has("message", forms.name)),
        "errors.two-details": _is_true(
            lambda error: len(_entries(error)) == 2 and len(dicts(_entries(error))) == 2,
            "`error.details` does not have exactly two objects.",
        ),
        "errors.info-first": _is_true(
            lambda error: str(at(next(iter(_entries(error)), None), "@type")).endswith(ERROR_INFO),
            "The first entry of `error.details` is not ErrorInfo.",
        ),
        "errors.domain": _info(has("domain", forms.name)),
        "errors.domain-of-vocabulary": _info(has("domain", forms.one_of("autoagentprotocol.org", None, ""))),
        "errors.metadata": _info(
            has("metadata", lambda found: isinstance(found, dict) and all(map(forms.text, found.values())))
        ),
        "errors.payload": _is_true(lambda error: error.payload, "The error has no error payload."),
        "errors.no-internals": _is_true(
            lambda error: (
                not any(each in error.exchange.body.decode("utf-8", "replace") for each in TRACES_OF_INTERNALS)
            ),
            "The error shows internals of the server.",
        ),
    },
    last=True,
)
each_of(
    _with_payload,
    {
        "errors.reason": _is_true(
            lambda error: error.info.get("reason") == error.payload.get("code"),
            "The `reason` of ErrorInfo and the `code` of the error payload differ.",
        ),
        "errors.metadata-error-id": _is_true(
            lambda error: at(error.info, "metadata.error_id") == error.payload.get("error_id", ""),
            "`metadata.error_id` of ErrorInfo is not the `error_id` of the error payload.",
        ),
        "errors.payload-type-url": _payload(
            has("@type", lambda url: forms.text(url) and "/" in url and not url.endswith(ERROR_INFO), "no type URL")
        ),
        "errors.id": _payload(has("error_id", forms.name)),
        "errors.payload-message": _payload(has("message", forms.name)),
        "errors.retryable": _payload(has("retryable", forms.truth)),
        "errors.retryable-schema": _is_not_retryable("SCHEMA_VALIDATION_FAILED", "MISSING_REQUIRED_FIELD"),
        "errors.retryable-same": _is_not_retryable(
            "MISSING_REQUIRED_FIELD", "CONTACT_CONSENT_REQUIRED", "INVALID_CONSENT", "IDEMPOTENCY_CONFLICT"
        ),
        "errors.status-class": _is_true(
            lambda error: error.code not in CLIENT_CODES or 400 <= error.status < 500 or error.number != error.status,
            "A mistake of the request has a status that is not of the class 4xx.",
        ),
        "errors.retryable-others": _is_not_retryable("VEHICLE_NOT_FOUND", "UNSUPPORTED_SKILL"),
        "errors.details-object": _payload(has("details", forms.an_object)),
    },
    last=True,
)


def _has_type_of_vocabulary(error: Refusal, target: Target) -> bool:
    kind, expected = error.payload.get("type"), PAYLOAD_TYPES.get(target.vendor)
    return kind == expected if expected else str(kind).endswith(".error")


def _has_time(error: Refusal, target: Target) -> bool:
    moment = _time_of(error)
    return moment is not None and (target.revision.is_published or moment.utcoffset() == timedelta(0))


def _has_known_members(error: Refusal, target: Target) -> bool:
    return set(error.payload) - ({"@type"} if not target.is_rpc else set()) <= PAYLOAD_MEMBERS


@check_each(
    {
        "errors.payload-type": (_has_type_of_vocabulary, "does not have the `type` of the vocabulary"),
        "errors.created-at": (_has_time, "has no timestamp in UTC as `created_at`"),
        "errors.closed-payload": (_has_known_members, "has a member that the published schema does not have"),
    },
    last=True,
)
async def _(target: Target, good: Callable[[Refusal, Target], bool], defect: str) -> None:
    for error in await _with_payload(target):
        expect(good(error, target), f"The error payload {defect}.", error.exchange)


@check("errors.one-domain", last=True)
async def _(target: Target) -> None:
    domains = {str(domain): each for each in await errors_of_run(target) if (domain := each.info.get("domain"))}
    last = next(reversed(domains.values()), None)
    expect(len(domains) < 2, f"Errors have the domains {' and '.join(domains)}.", last.exchange if last else None)


@check("errors.body")
async def _(target: Target) -> None:
    """An unknown type is refused. That the refusal is an error of HTTP is the matter of another check."""
    exchange = await target.send({"type": "dealer.horoscope.request"})
    if exchange.status < 400:
        raise Skipped("The unknown type got no error.")
    error = at(exchange.json, "error")
    sentence = f"The body of an error (HTTP {exchange.status}) is not a JSON object with the object `error`."
    expect(isinstance(error, dict), sentence, exchange)


@check("errors.id-unique", last=True)
async def _(target: Target) -> None:
    """Two unknown types get two errors, and the errors of the run are looked at, too. A retried lead may repeat one."""
    types = ("inventory.horoscope.request", "inventory.weather.request")
    with skip_if_failed():
        errors = [refusal_of(await target.send({"type": name})) for name in types]
    errors += [each for each in await _with_payload(target) if at(target.asked(each.exchange), "type") != LEAD]
    known = {id(each.exchange): each for each in errors}.values()
    ids = Counter(each.payload["error_id"] for each in known if forms.name(each.payload.get("error_id")))
    twice = next((name for name, count in ids.items() if count > 1), None)
    expect(twice is None, f"Two errors have the error_id {twice}.")


@check("errors.created-now")
async def _(target: Target) -> None:
    """The header `Date` is the agent's own clock, so a wrong clock of this machine does not matter."""
    times = [(_time_of(each), date_of(each.exchange), each.exchange) for each in await errors_of_run(target)]
    known = [(created, now, exchange) for created, now, exchange in times if created and now]
    skip_unless(known, "No error has both created_at and the header Date.")
    for created, now, exchange in known:
        expect(abs(created - now) < CLOCK_DIFFERENCE, f"created_at is {created}, and Date {now}.", exchange)


def _sending(payload: Payload) -> Request:
    return lambda target: target.send(payload)


def _names_correct_filter(exchange: Exchange) -> bool | str:
    return b"price_max" in exchange.body.replace(b"price_maximum", b"") or "price_max is not named."


def _points_to_no_valid_filter(exchange: Exchange) -> bool | str:
    error = refusal_of(exchange)
    pointers = [str(at(error.payload, "details.instancePath")), str(at(error.info, "metadata.instancePath"))]
    valid = next((each for each in pointers if each.endswith(("price_max", "year_max"))), None)
    return valid is None or f"The pointer is {valid}, which is valid. The wrong member is {WRONG_POINTER}."


def _has_envelope(exchange: Exchange) -> bool | str:
    error = refusal_of(exchange)
    return bool(error.info and error.payload) or "The error has no ErrorInfo or no error payload."


def _of_wrong_type(of: str, name: str, value: str) -> tuple[Request, Judgement]:
    """The details of the error for a wrong type, or the metadata of its ErrorInfo, have a member with this value."""
    # Metadata has strings only: an agent may write the value as JSON.
    judgement = has(f"{of}.{name}", forms.one_of(value, *([f'"{value}"'] if of == "metadata" else [])), f"not {value}")

    def judge(exchange: Exchange) -> bool | str:
        error = refusal_of(exchange)
        return judgement(error.info if of == "metadata" else error.payload)

    return _sending(WRONG_TYPE), if_refused(judge)


judge_each(
    {
        "errors.unknown-member": (_sending(UNKNOWN_MEMBER), code("SCHEMA_VALIDATION_FAILED")),
        "errors.wrong-type": (_sending(WRONG_TYPE), code("SCHEMA_VALIDATION_FAILED")),
        "errors.missing-member": (_sending(MISSING_MEMBER), code("MISSING_REQUIRED_FIELD")),
        "errors.missing-and-wrong": (_sending(SEVERAL), code("SCHEMA_VALIDATION_FAILED")),
        "errors.unknown-skill": (_sending(UNKNOWN_TYPE), code("UNSUPPORTED_SKILL")),
        "errors.unknown-vehicle": (_sending(UNKNOWN_VEHICLE), code("VEHICLE_NOT_FOUND")),
        "errors.known-code": (_sending(_search(sort={"field": 7, "order": 7})), if_refused(code(*PUBLISHED_CODES))),
        "errors.unknown-member-status": (_sending(UNKNOWN_MEMBER), if_refused(status(422))),
        "errors.missing-member-status": (_sending(MISSING_MEMBER), if_refused(status(422))),
        "errors.unknown-skill-status": (_sending(UNKNOWN_TYPE), if_refused(status(404))),
        "errors.unknown-vehicle-status": (_sending(UNKNOWN_VEHICLE), if_refused(status(404))),
        "errors.rpc-invalid-params": (_sending(UNKNOWN_MEMBER), if_refused(number(-32602))),
        "errors.rpc-missing-member": (_sending(MISSING_MEMBER), if_refused(number(-32602))),
        "errors.rpc-unknown-vehicle": (_sending(UNKNOWN_VEHICLE), if_refused(number(-32000))),
        "errors.rpc-unknown-skill-a2a": (_sending(UNKNOWN_TYPE), if_refused(number(-32004))),
        "errors.rpc-unknown-skill": (_sending(UNKNOWN_TYPE), if_refused(number(-32601))),
        "errors.rpc-unknown-skill-next": (_sending(UNKNOWN_TYPE), if_refused(number(-32004))),
        "errors.pointer": _of_wrong_type("details", "instancePath", WRONG_POINTER),
        "errors.received": _of_wrong_type("details", "received", WRONG_VALUE),
        "errors.metadata-pointer": _of_wrong_type("metadata", "instancePath", WRONG_POINTER),
        "errors.metadata-received": _of_wrong_type("metadata", "received", WRONG_VALUE),
        "errors.pointer-spares-valid": (_sending(ONE_WRONG_FILTER), if_refused(_points_to_no_valid_filter)),
        "errors.suggestion": (_sending(UNKNOWN_MEMBER), if_refused(_names_correct_filter)),
        "errors.not-json-envelope": (lambda target: target.post(b'{"message": '), _has_envelope),
    }
)


FILTERS = {*WORD_FILTERS, *RANGE_FILTERS, *TRUE_FILTERS, *EXACT_FILTERS, "query"}
OF_LEADS = ("customer", "consent", "source_agent", "vehicle_of_interest", "appointment")
"""Members that a lead may lack."""
REQUIRED = ("/type", "/sort/field", "/sort/order", "/vin", "/stock", "/vehicle_id")
"""Pointers of members that a request may lack."""


def _points_elsewhere(pointer: str, members: Payload) -> bool:
    """Whether a pointer names no member of these, nor one around or inside them."""
    paths, nodes = [], [("", members)]
    while nodes:
        path, node = nodes.pop()
        inner = [(f"{path}/{name}", value) for name, value in node.items()] if isinstance(node, dict) else []
        nodes += inner
        paths += [path] if not inner else []
    return not any(path.startswith(pointer) or pointer.startswith(path) for path in paths)


async def _wrong_requests(target: Target) -> list[tuple[Payload, Refusal]]:
    """The payloads that were refused so far, and their errors."""
    refused = [(target.asked(each.exchange), each) for each in await errors_of_run(target)]
    return [(payload, error) for payload, error in refused if payload]


@check("errors.pointers", last=True)
async def _(target: Target) -> None:
    for payload, error in await _wrong_requests(target):
        for pointer in (at(error.payload, "details.instancePath"), at(error.info, "metadata.instancePath")):
            if isinstance(pointer, str) and error.code == "SCHEMA_VALIDATION_FAILED" and pointer not in REQUIRED:
                only = payload.get("filters") if payload.keys() == {"type", "filters"} else None
                # A schema may blame the object for an unknown member, and never for the value of a known one.
                is_around = (
                    isinstance(only, dict) and {*only} <= FILTERS and len(only) == 1 and pointer in ("", "/filters")
                )
                if payload["type"] == LEAD:
                    # A pointer without a slash leads nowhere.
                    wrong = pointer != "" and not {*payload, *OF_LEADS}.intersection(pointer.split("/")[1:2])
                else:
                    wrong = is_around or _points_elsewhere(pointer, payload)
                expect(not wrong, f"The pointer {pointer!r} does not lead to {shown(payload)}.", error.exchange)


@check("errors.received-everywhere", last=True)
async def _(target: Target) -> None:
    # The values of leads are better not repeated.
    for payload, error in ((one, other) for one, other in await _wrong_requests(target) if one["type"] != LEAD):
        details = at(error.payload, "details")
        pointer, received = at(details, "instancePath"), at(details, "received")
        node: Any = payload
        for name in str(pointer).split("/")[1:]:
            node = node.get(name) if isinstance(node, dict) else None
        if isinstance(node, (str, int, float)) and isinstance(received, (str, int, float)):
            # A long value may be cut, and any value may be written as JSON.
            texts = [str(node), json.dumps(node), json.dumps(node, ensure_ascii=False)]
            good = received == node or any(each.startswith(str(received)[:50].rstrip("….")) for each in texts)
            expect(good, f"`received` is {received!r}, and the value at {pointer} is {node!r:.100}.", error.exchange)


async def _of_several(target: Target) -> tuple[Refusal, list[str]]:
    """The error of a request with three problems, and the pointers that it lists."""
    with skip_if_failed():
        error = refusal_of(await target.send(SEVERAL))
    return error, [pointer for pointer, _ in error.problems(target.revision)]


def _lists_all(found: tuple[Refusal, list[str]]) -> bool | str:
    missing = [each for each in SEVERAL_POINTERS if not {each, each.rpartition("/")[0]} & set(found[1])]
    return not missing or f"`details.errors` does not list {', '.join(missing)}."


def _lists_in_order(found: tuple[Refusal, list[str]]) -> bool | str:
    skip_unless(len(found[1]) >= 2, "The error lists fewer than two problems.")
    return found[1] == sorted(found[1]) or "The problems are not in the order of their pointers."


def _names_keywords(found: tuple[Refusal, list[str]]) -> bool | str:
    entries = skip_unless(dicts(at(found[0].payload, "details.errors")), "The error lists no problems.")
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
