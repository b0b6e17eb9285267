"""HTTP: content types, methods, headers, bodies that are no JSON."""

from collections.abc import Awaitable, Callable

from dealer_agent.checker.check import check, check_each, each_of
from dealer_agent.checker.exchange import Exchange, Headers
from dealer_agent.checker.outcome import Skipped, expect, expect_status
from dealer_agent.checker.target import JSON_HEADERS, Target

SKILL = "dealer.information"

Request = Callable[[Target], Awaitable[Exchange]]


async def _information(target: Target, headers: Headers = JSON_HEADERS, **options: bool) -> Exchange:
    """The exchange of a valid request for the dealer's information."""
    return await target.send(target.payload(SKILL), headers, **options)


def _replaced(name: str, value: str | None) -> tuple[tuple[str, str], ...]:
    """The headers of a normal request, with another value of one; None for none."""
    others = tuple(each for each in JSON_HEADERS if each[0] != name)
    return others if value is None else ((name, value), *others)


def _expect_type(exchange: Exchange, wanted: str) -> None:
    found = f"The content type is {exchange.header('content-type')!r} (HTTP {exchange.status})."
    expect(exchange.media_type == wanted, found, exchange)


@check("http.content-type")
async def _(target: Target) -> None:
    for exchange in (await _information(target), await target.send(target.payload(SKILL, unknown="check"))):
        _expect_type(exchange, "application/json")


@check("http.content-type-a2a")
async def _(target: Target) -> None:
    exchange = await _information(target, _replaced("Content-Type", "application/a2a+json"))
    target.answer(exchange)
    _expect_type(exchange, "application/a2a+json")


async def _get(target: Target) -> Exchange:
    return await target.request("GET", target.interface.endpoint)


def _with(name: str, value: str | None) -> Request:
    return lambda target: _information(target, _replaced(name, value))


def _to(suffix: str) -> Request:
    """A valid request to the endpoint with this suffix of its URL."""

    async def send(target: Target) -> Exchange:
        body = target.body(target.message(target.payload(SKILL)))
        return await target.request("POST", f"{target.interface.endpoint}{suffix}", body, JSON_HEADERS)

    return send


@check_each(
    {
        "http.content-type-charset": _with("Content-Type", "application/json; charset=utf-8"),
        "http.content-type-case": _with("Content-Type", "Application/JSON"),
        "http.unknown-accept": _with("Accept", None),
        "http.query-ignored": _to("?utm_source=check"),
        "http.trailing-slash": _to("/"),
    }
)
async def _(target: Target, request: Request) -> None:
    target.answer(await request(target))


@check_each(
    {
        # A form could be sent by any page.
        "http.content-type-other": (_with("Content-Type", "text/plain"), 415),
        "http.content-type-missing": (_with("Content-Type", None), 415),
        "http.method-not-allowed": (_get, 405),
        "http.status": (_information, 200),
    }
)
async def _(target: Target, request: Request, status: int) -> None:
    expect_status(await request(target), status)


@check("http.allow")
async def _(target: Target) -> None:
    exchange = await _get(target)
    if exchange.status != 405:
        raise Skipped(f"GET is not answered with 405, but with {exchange.status}.")
    allowed = [each.strip().upper() for each in (exchange.header("allow") or "").split(",")]
    expect("POST" in allowed, f"Allow is {exchange.header('allow')!r}.", exchange)


@check("http.content-type-utf8")
async def _(target: Target) -> None:
    exchange = await _information(target)
    _, _, parameters = (exchange.header("content-type") or "").partition(";")
    charset = parameters.strip().lower().removeprefix("charset=").strip('"')
    expect(charset in ("", "utf-8"), f"The content type is {exchange.header('content-type')!r}.", exchange)


@check("http.unknown-path")
async def _(target: Target) -> None:
    body = target.body(target.message(target.payload(SKILL)))
    exchange = await target.request("POST", f"{target.interface.url}/check-no-such-path", body, JSON_HEADERS)
    expect_status(exchange, 404)
    target.refusal(exchange).expect_number(404)


# Bodies


@check_each(
    {
        "http.not-json": b'{"message": ',
        "http.empty-body": b"",
        "http.not-an-object": b'["message"]',
        "http.not-utf8": b'{"message": "\xff\xfe"}',
    }
)
async def _(target: Target, body: bytes) -> None:
    exchange = await target.post(body)
    expect_status(exchange, 422)
    target.refusal(exchange).expect_code("SCHEMA_VALIDATION_FAILED")


@check("http.deep-json")
async def _(target: Target) -> None:
    # 10,000 levels are 20,000 bytes.
    exchange = await target.post(b"[" * 10_000 + b"]" * 10_000)
    status = 200 if target.is_rpc else 400
    expect(status <= exchange.status < 500, f"The status is {exchange.status}.", exchange)
    if target.is_rpc and exchange.status != 413:
        target.refusal(exchange).expect_number(-32700, -32600)


# Headers


async def _replies(target: Target) -> list[tuple[Exchange, Exchange]]:
    """All successful exchanges at the interface."""
    await _information(target)
    endpoint = target.interface.endpoint
    posted = (each for each in target.exchanges if each.method == "POST" and each.url == endpoint)
    return [(each, each) for each in posted if each.status == 200]


each_of(
    _replies,
    {
        "http.no-store": lambda reply: (
            "no-store" in (reply.header("cache-control") or "").lower()
            or f"Cache-Control is {reply.header('cache-control')!r}."
        ),
        "http.nosniff": lambda reply: (
            (reply.header("x-content-type-options") or "").lower() == "nosniff"
            or f"X-Content-Type-Options is {reply.header('x-content-type-options')!r}."
        ),
    },
    last=True,
)


@check("http.request-id")
async def _(target: Target) -> None:
    first = (await _information(target)).header("x-request-id")
    exchange = await _information(target, fresh=True)
    second = exchange.header("x-request-id")
    expect(first and second, "The response has no X-Request-Id.", exchange)
    expect(first != second, f"Two responses have the X-Request-Id {first!r}.", exchange)


ORIGIN = ("Origin", "https://check.example")


async def _from_a_page(target: Target) -> Exchange:
    return await _information(target, [*JSON_HEADERS, ORIGIN])


@check("http.cross-origin")
async def _(target: Target) -> None:
    exchange = await _from_a_page(target)
    found = exchange.header("access-control-allow-origin")
    expect(found in ("*", ORIGIN[1]), f"Access-Control-Allow-Origin is {found!r}.", exchange)


async def _preflight(target: Target) -> Exchange:
    """The exchange of what a browser asks before a POST of JSON."""
    asked = [ORIGIN, ("Access-Control-Request-Method", "POST"), ("Access-Control-Request-Headers", "content-type")]
    return await target.request("OPTIONS", target.interface.endpoint, headers=asked)


@check("http.preflight")
async def _(target: Target) -> None:
    exchange = await _preflight(target)
    expect_status(exchange, 200, 204)
    # A browser allows POST without being told so.
    headers = (exchange.header("access-control-allow-headers") or "").lower()
    expect("content-type" in headers or headers == "*", f"Access-Control-Allow-Headers is {headers!r}.", exchange)
    expect(exchange.header("access-control-allow-origin"), "Access-Control-Allow-Origin is absent.", exchange)


@check("http.no-credentials")
async def _(target: Target) -> None:
    for exchange in (await _preflight(target), await _from_a_page(target)):
        found = exchange.header("access-control-allow-credentials")
        expect(found is None or found.lower() != "true", "Access-Control-Allow-Credentials is true.", exchange)


@check("http.extensions-echo")
async def _(target: Target) -> None:
    uris = [each["uri"] for each in target.card.extensions]
    if not uris:
        raise Skipped("The card names no extension.")
    exchange = await _information(target, [*JSON_HEADERS, ("A2A-Extensions", uris[0])])
    found = exchange.header("a2a-extensions") or ""
    expect(uris[0] in [each.strip() for each in found.split(",")], f"A2A-Extensions is {found!r}.", exchange)


@check("http.extensions-unknown")
async def _(target: Target) -> None:
    unknown = "https://check.example/extensions/unknown"
    # The extension that a revision requires is named beside it.
    named = [each["uri"] for each in target.card.extensions if target.revision.needs_version_header]
    exchange = await _information(target, [*JSON_HEADERS, ("A2A-Extensions", ", ".join([*named, unknown]))])
    target.answer(exchange)
    expect(unknown not in (exchange.header("a2a-extensions") or ""), "The unknown extension is repeated.", exchange)
