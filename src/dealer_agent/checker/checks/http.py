"""HTTP: content types, methods, headers, bodies that are no JSON."""

from typing import Any

from dealer_agent.checker.check import Skipped, check, expect
from dealer_agent.checker.exchange import Exchange, Headers
from dealer_agent.checker.target import JSON_HEADERS, Target

SKILL = "dealer.information"


def with_content_type(content_type: str | None) -> Headers:
    """The headers of a normal request, with another content type; None for none."""
    others = [each for each in JSON_HEADERS if each[0] != "Content-Type"]
    return others if content_type is None else [("Content-Type", content_type), *others]


async def information(target: Target, headers: Headers = JSON_HEADERS, **options: bool) -> Exchange:
    """The exchange of a valid request for the dealer's information."""
    return await target.send(target.payload(SKILL), headers, **options)


# Content types


@check("http.content-type")
async def replies_are_json(target: Target) -> None:
    """A success and an error."""
    unknown = target.payload(SKILL, unknown="check")
    for exchange in (await information(target), await target.send(unknown)):
        expect(
            exchange.media_type == "application/json",
            f"The content type is {exchange.header('content-type')!r} (HTTP {exchange.status}).",
            exchange,
        )


@check("http.content-type-utf8")
async def replies_name_no_other_charset(target: Target) -> None:
    """No parameter, or that of UTF-8."""
    exchange = await information(target)
    _, _, parameters = (exchange.header("content-type") or "").partition(";")
    charset = parameters.strip().lower().removeprefix("charset=").strip('"')
    expect(charset in ("", "utf-8"), f"The content type is {exchange.header('content-type')!r}.", exchange)


@check("http.content-type-a2a")
async def a2a_json_is_answered_with_a2a_json(target: Target) -> None:
    """The second content type of A2A."""
    exchange = await information(target, with_content_type("application/a2a+json"))
    target.answer(exchange)
    expect(
        exchange.media_type == "application/a2a+json",
        f"The content type of the reply is {exchange.header('content-type')!r}.",
        exchange,
    )


@check("http.content-type-charset")
async def charset_is_accepted(target: Target) -> None:
    """As many clients send it."""
    target.answer(await information(target, with_content_type("application/json; charset=utf-8")))


@check("http.content-type-case")
async def case_of_the_content_type_does_not_matter(target: Target) -> None:
    """In capitals."""
    target.answer(await information(target, with_content_type("Application/JSON")))


@check("http.content-type-other")
async def other_content_types_are_refused(target: Target) -> None:
    """A form could be sent by any page."""
    _expect_status(415, await information(target, with_content_type("text/plain")))


@check("http.content-type-missing")
async def no_content_type_is_refused(target: Target) -> None:
    """A valid body without a content type."""
    _expect_status(415, await information(target, with_content_type(None)))


def _expect_status(status: int, exchange: Exchange) -> None:
    expect(exchange.status == status, f"The status is {exchange.status}. Expected: {status}.", exchange)


# Methods and URLs


@check("http.method-not-allowed")
async def get_is_not_allowed(target: Target) -> None:
    """GET at the endpoint."""
    _expect_status(405, await target.request("GET", target.interface.endpoint))


@check("http.allow")
async def allowed_method_is_named(target: Target) -> None:
    """`Allow` of a 405."""
    exchange = await target.request("GET", target.interface.endpoint)
    if exchange.status != 405:
        raise Skipped(f"GET is not answered with 405, but with {exchange.status}.")
    allowed = [each.strip().upper() for each in (exchange.header("allow") or "").split(",")]
    expect("POST" in allowed, f"Allow is {exchange.header('allow')!r}.", exchange)


async def _post_to(target: Target, url: str) -> Exchange:
    body = target.body(target.message(target.payload(SKILL)))
    return await target.request("POST", url, body, JSON_HEADERS)


@check("http.query-ignored")
async def query_is_ignored(target: Target) -> None:
    """A parameter of a tracker."""
    target.answer(await _post_to(target, f"{target.interface.endpoint}?utm_source=check"))


@check("http.trailing-slash")
async def slash_at_the_end_is_served(target: Target) -> None:
    """The same request at the same path with a slash."""
    exchange = await _post_to(target, f"{target.interface.endpoint}/")
    expect(exchange.status < 300, f"The status is {exchange.status}.", exchange)
    target.answer(exchange)


@check("http.unknown-accept")
async def accept_is_optional(target: Target) -> None:
    """The same request without the header."""
    target.answer(await information(target, [each for each in JSON_HEADERS if each[0] != "Accept"]))


@check("http.status")
async def a_valid_message_gets_200(target: Target) -> None:
    """Not 201, not 202."""
    exchange = await information(target)
    target.answer(exchange)
    _expect_status(200, exchange)


@check("http.unknown-path")
async def unknown_path_has_the_body_of_errors(target: Target) -> None:
    """Below the base URL."""
    exchange = await _post_to(target, f"{target.interface.url}/check-no-such-path")
    _expect_status(404, exchange)
    refusal = target.refusal(exchange)
    expect(refusal.number == 404, f"error.code is {refusal.number!r}. Expected: 404.", exchange)


# Bodies

BODIES = {
    "http.not-json": b'{"message": ',
    "http.empty-body": b"",
    "http.not-an-object": b'["message"]',
    "http.not-utf8": b'{"message": "\xff\xfe"}',
}
"""A body that is refused, by requirement."""


def _is_refused(body: bytes) -> Any:
    async def is_refused(target: Target) -> None:
        exchange = await target.post(body)
        _expect_status(422, exchange)
        refusal = target.refusal(exchange)
        expect(refusal.code == "SCHEMA_VALIDATION_FAILED", f"The code is {refusal.code or 'absent'}.", refusal.exchange)

    return is_refused


for _id, _body in BODIES.items():
    check(_id)(_is_refused(_body))


@check("http.deep-json")
async def deep_json_is_refused(target: Target) -> None:
    """Arrays in arrays: 10,000 levels are 20,000 bytes."""
    exchange = await target.post(b"[" * 10_000 + b"]" * 10_000)
    status = 200 if target.is_rpc else 400
    expect(status <= exchange.status < 500, f"The status is {exchange.status}.", exchange)
    if target.is_rpc and exchange.status != 413:
        number = target.refusal(exchange).number
        expect(number in (-32700, -32600), f"The number of the error is {number!r}.", exchange)


# Headers


@check("http.no-store", last=True)
async def replies_are_not_stored(target: Target) -> None:
    """All replies of skills."""
    await information(target)
    for exchange in _posted(target):
        found = exchange.header("cache-control") or ""
        expect("no-store" in found.lower(), f"Cache-Control is {found!r}.", exchange)


@check("http.nosniff", last=True)
async def replies_are_not_sniffed(target: Target) -> None:
    """All replies of skills."""
    await information(target)
    for exchange in _posted(target):
        found = exchange.header("x-content-type-options") or ""
        expect(found.lower() == "nosniff", f"X-Content-Type-Options is {found!r}.", exchange)


def _posted(target: Target) -> list[Exchange]:
    """The successful exchanges at the interface."""
    endpoint = target.interface.endpoint
    return [each for each in target.exchanges if each.method == "POST" and each.url == endpoint and each.status == 200]


@check("http.request-id")
async def requests_have_ids(target: Target) -> None:
    """Two requests."""
    first = (await information(target)).header("x-request-id")
    exchange = await information(target, fresh=True)
    second = exchange.header("x-request-id")
    expect(first and second, "The reply has no X-Request-Id.", exchange)
    expect(first != second, f"Two replies have the X-Request-Id {first!r}.", exchange)


ORIGIN = ("Origin", "https://check.example")


@check("http.cross-origin")
async def every_origin_may_read(target: Target) -> None:
    """With the header Origin of a browser."""
    exchange = await information(target, [*JSON_HEADERS, ORIGIN])
    found = exchange.header("access-control-allow-origin")
    expect(found in ("*", ORIGIN[1]), f"Access-Control-Allow-Origin is {found!r}.", exchange)


async def _preflight(target: Target) -> Exchange:
    asked = [ORIGIN, ("Access-Control-Request-Method", "POST"), ("Access-Control-Request-Headers", "content-type")]
    return await target.request("OPTIONS", target.interface.endpoint, headers=asked)


@check("http.preflight")
async def preflight_is_answered(target: Target) -> None:
    """As a browser asks before a POST of JSON."""
    exchange = await _preflight(target)
    expect(exchange.status in (200, 204), f"The status is {exchange.status}.", exchange)
    # A browser allows POST without being told so.
    headers = (exchange.header("access-control-allow-headers") or "").lower()
    expect("content-type" in headers or headers == "*", f"Access-Control-Allow-Headers is {headers!r}.", exchange)
    expect(exchange.header("access-control-allow-origin"), "Access-Control-Allow-Origin is absent.", exchange)


@check("http.no-credentials")
async def credentials_are_not_allowed(target: Target) -> None:
    """Of the preflight and of the reply."""
    for exchange in (await _preflight(target), await information(target, [*JSON_HEADERS, ORIGIN])):
        found = exchange.header("access-control-allow-credentials")
        expect(found is None or found.lower() != "true", "Access-Control-Allow-Credentials is true.", exchange)


@check("http.extensions-echo")
async def extension_is_repeated(target: Target) -> None:
    """The first extension of the card that is not its other vocabulary's."""
    uris = [each["uri"] for each in target.card.extensions]
    if not uris:
        raise Skipped("The card names no extension.")
    exchange = await information(target, [*JSON_HEADERS, ("A2A-Extensions", uris[0])])
    found = exchange.header("a2a-extensions") or ""
    expect(uris[0] in [each.strip() for each in found.split(",")], f"A2A-Extensions is {found!r}.", exchange)


@check("http.extensions-unknown")
async def unknown_extension_is_ignored(target: Target) -> None:
    """Neither refused nor repeated. The extension that a revision requires is named beside it."""
    unknown = "https://check.example/extensions/unknown"
    named = [each["uri"] for each in target.card.extensions if target.revision.needs_version_header]
    exchange = await information(target, [*JSON_HEADERS, ("A2A-Extensions", ", ".join([*named, unknown]))])
    target.answer(exchange)
    expect(unknown not in (exchange.header("a2a-extensions") or ""), "The unknown extension is repeated.", exchange)
