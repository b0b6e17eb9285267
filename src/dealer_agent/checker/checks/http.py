"""HTTP: content types, methods, headers, bodies that are no JSON."""

from dealer_agent.checker.check import check, check_each, each_of, judge_each
from dealer_agent.checker.exchange import Exchange
from dealer_agent.checker.outcome import Judgement, Skipped, conclude, expect, expect_status, header, need, status
from dealer_agent.checker.reply import answered, code, number, refusal_of
from dealer_agent.checker.target import JSON_HEADERS, Request, Target, asking

SKILL = "dealer.information"
ORIGIN = "https://check.example"


def _with(name: str, value: str) -> Request:
    return asking(SKILL, headers={name: value})


def _type(wanted: str) -> Judgement:
    return lambda exchange: (
        exchange.media_type == wanted
        or f"The content type is {exchange.header('content-type')!r} (HTTP {exchange.status})."
    )


def _to(suffix: str) -> Request:
    """A valid request to the endpoint with this suffix of its URL."""

    async def send(target: Target) -> Exchange:
        body = target.body(target.message(target.payload(SKILL)))
        return await target.request("POST", f"{target.interface.endpoint}{suffix}", body, JSON_HEADERS)

    return send


async def _get(target: Target) -> Exchange:
    return await target.request("GET", target.interface.endpoint)


async def _preflight(target: Target) -> Exchange:
    """The exchange of what a browser asks before a POST of JSON."""
    asked = [
        ("Origin", ORIGIN),
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "content-type"),
    ]
    return await target.request("OPTIONS", target.interface.endpoint, headers=asked)


def _allows_post(exchange: Exchange) -> bool | str:
    if exchange.status != 405:
        raise Skipped(f"GET is not answered with 405, but with {exchange.status}.")
    return header("Allow", lambda value: "POST" in [each.strip().upper() for each in value.split(",")])(exchange)


def _is_utf8(exchange: Exchange) -> bool | str:
    charset = (exchange.header("content-type") or "").partition(";")[2].strip().lower().removeprefix("charset=")
    return charset.strip('"') in ("", "utf-8") or f"The content type is {exchange.header('content-type')!r}."


def _allows_content_type(exchange: Exchange) -> bool | str:
    expect_status(exchange, 200, 204)
    # A browser allows POST without being told so.
    conclude(
        header("Access-Control-Allow-Headers", lambda each: "content-type" in each.lower() or each == "*")(exchange)
    )
    return header("Access-Control-Allow-Origin", bool)(exchange)


judge_each(
    {
        "http.content-type-charset": (_with("Content-Type", "application/json; charset=utf-8"), answered),
        "http.content-type-case": (_with("Content-Type", "Application/JSON"), answered),
        "http.content-type-a2a": (
            _with("Content-Type", "application/a2a+json"),
            lambda exchange: answered(exchange) and _type("application/a2a+json")(exchange),
        ),
        "http.unknown-accept": (_with("Accept", ""), answered),
        "http.query-ignored": (_to("?utm_source=check"), answered),
        "http.trailing-slash": (_to("/"), answered),
        # A form could be sent by any page.
        "http.content-type-other": (_with("Content-Type", "text/plain"), status(415)),
        "http.content-type-missing": (_with("Content-Type", ""), status(415)),
        "http.method-not-allowed": (_get, status(405)),
        "http.allow": (_get, _allows_post),
        "http.status": (asking(SKILL), status(200)),
        "http.content-type-utf8": (asking(SKILL), _is_utf8),
        "http.cross-origin": (
            _with("Origin", ORIGIN),
            header("Access-Control-Allow-Origin", lambda value: value in ("*", ORIGIN)),
        ),
        "http.preflight": (_preflight, _allows_content_type),
    }
)


@check("http.content-type")
async def _(target: Target) -> None:
    for exchange in (await asking(SKILL)(target), await asking(SKILL, unknown="check")(target)):
        conclude(_type("application/json")(exchange), exchange)


@check("http.unknown-path")
async def _(target: Target) -> None:
    body = target.body(target.message(target.payload(SKILL)))
    exchange = await target.request("POST", f"{target.interface.url}/check-no-such-path", body, JSON_HEADERS)
    expect_status(exchange, 404)
    conclude(number(404)(exchange), exchange)


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
    conclude(code("SCHEMA_VALIDATION_FAILED")(exchange), exchange)


@check("http.deep-json")
async def _(target: Target) -> None:
    # 10,000 levels are 20,000 bytes.
    exchange = await target.post(b"[" * 10_000 + b"]" * 10_000)
    least = 200 if target.is_rpc else 400
    expect(least <= exchange.status < 500, f"The status is {exchange.status}.", exchange)
    if target.is_rpc and exchange.status != 413:
        refusal_of(exchange).expect_number(-32700, -32600)


# Headers


async def _replies(target: Target) -> list[Exchange]:
    """All successful exchanges at the interface."""
    await asking(SKILL)(target)
    return [each for each in target.posted if each.status == 200]


each_of(
    _replies,
    {
        "http.no-store": header("Cache-Control", lambda value: "no-store" in value.lower()),
        "http.nosniff": header("X-Content-Type-Options", lambda value: value.lower() == "nosniff"),
    },
    last=True,
)


@check("http.request-id")
async def _(target: Target) -> None:
    first = (await asking(SKILL)(target)).header("x-request-id")
    exchange = await target.send(target.payload(SKILL), fresh=True)
    second = exchange.header("x-request-id")
    expect(first and second, "The response has no X-Request-Id.", exchange)
    expect(first != second, f"Two responses have the X-Request-Id {first!r}.", exchange)


@check("http.no-credentials")
async def _(target: Target) -> None:
    for exchange in (await _preflight(target), await _with("Origin", ORIGIN)(target)):
        conclude(header("Access-Control-Allow-Credentials", lambda value: value.lower() != "true")(exchange), exchange)


def _named(exchange: Exchange) -> list[str]:
    """The extensions that the response names."""
    return [uri.strip() for value in exchange.all_headers("a2a-extensions") for uri in value.split(",")]


@check("http.extensions-echo")
async def _(target: Target) -> None:
    uris = need([each["uri"] for each in target.card.extensions], "The card names no extension.")
    exchange = await _with("A2A-Extensions", uris[0])(target)
    expect(uris[0] in _named(exchange), f"A2A-Extensions is {exchange.header('a2a-extensions')!r}.", exchange)


@check("http.extensions-unknown")
async def _(target: Target) -> None:
    unknown = "https://check.example/extensions/unknown"
    # The extension that a revision requires is named beside it.
    named = [each["uri"] for each in target.card.extensions if target.revision.needs_version_header]
    exchange = await _with("A2A-Extensions", ", ".join([*named, unknown]))(target)
    answered(exchange)
    expect(unknown not in _named(exchange), "The unknown extension is repeated.", exchange)
