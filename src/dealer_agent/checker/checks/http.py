"""Checks what the agent does with HTTP: content types, methods, headers, bodies that are not JSON."""

from collections.abc import Callable
from operator import attrgetter

from dealer_agent.checker.card import Interface
from dealer_agent.checker.check import check, each_of, judge_each
from dealer_agent.checker.exchange import Exchange, at
from dealer_agent.checker.outcome import Judgement, Skipped, conclude, expect, header, skip_unless, status
from dealer_agent.checker.reply import answered, code, number, refusal_of
from dealer_agent.checker.target import JSON_HEADERS, Request, Target, asking

SKILL = "dealer.information"
ORIGIN = "https://check.example"


def _with_header(name: str, value: str) -> Request:
    return asking(SKILL, headers={name: value})


def _type(wanted: str) -> Judgement:
    return lambda exchange: (
        exchange.media_type == wanted
        or f"The content type is {exchange.header('content-type')!r} (HTTP {exchange.status})."
    )


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


def _posting(body: bytes) -> Request:
    return lambda target: target.post(body)


def _posting_to(suffix: str, *, of: Callable[[Interface], str] = attrgetter("endpoint")) -> Request:
    """A valid request to the endpoint, or another URL of the interface, with this suffix."""

    async def send(target: Target) -> Exchange:
        body = target.body(target.message(target.payload(SKILL)))
        return await target.request("POST", f"{of(target.interface)}{suffix}", body, JSON_HEADERS)

    return send


async def _accepting_anything(target: Target) -> list[Exchange]:
    return [await _with_header("Accept", each)(target) for each in ("", "*/*")]


_IS_INVALID = (status(422), code("SCHEMA_VALIDATION_FAILED"))


judge_each(
    {
        "http.content-type-charset": (_with_header("Content-Type", "application/json; charset=utf-8"), answered),
        "http.content-type-case": (_with_header("Content-Type", "Application/JSON"), answered),
        "http.content-type-a2a": (
            _with_header("Content-Type", "application/a2a+json"),
            answered,
            _type("application/a2a+json"),
        ),
        "http.unknown-accept": (_accepting_anything, answered),
        "http.query-ignored": (_posting_to("?utm_source=check"), answered),
        "http.trailing-slash": (_posting_to("/"), answered),
        # A form could be sent by any page.
        "http.content-type-other": (_with_header("Content-Type", "text/plain"), status(415)),
        "http.content-type-missing": (_with_header("Content-Type", ""), status(415)),
        "http.method-not-allowed": (_get, status(405)),
        "http.allow": (_get, _allows_post),
        "http.cross-origin": (
            _with_header("Origin", ORIGIN),
            header("Access-Control-Allow-Origin", lambda value: value in ("*", ORIGIN)),
        ),
        "http.preflight": (
            _preflight,
            status(200, 204),
            # A browser allows POST without being told so.
            header("Access-Control-Allow-Headers", lambda value: "content-type" in value.lower() or value == "*"),
            header("Access-Control-Allow-Origin", bool),
        ),
        "http.unknown-path": (_posting_to("/check-no-such-path", of=attrgetter("url")), status(404), number(404)),
        "http.not-json": (_posting(b'{"message": '), *_IS_INVALID),
        "http.empty-body": (_posting(b""), *_IS_INVALID),
        "http.not-an-object": (_posting(b'["message"]'), *_IS_INVALID),
        "http.not-utf8": (_posting(b'{"message": "\xff\xfe"}'), *_IS_INVALID),
    }
)


@check("http.content-type", last=True)
async def _(target: Target) -> None:
    """All responses to requests of skills are looked at, after one request of this check."""
    await asking(SKILL)(target)
    for exchange in target.posted:
        if target.asked(exchange) is not None and (exchange.status == 200 or at(exchange.json, "error") is not None):
            conclude(_type("application/json")(exchange), exchange)


@check("http.deep-json")
async def _(target: Target) -> None:
    """JSON-RPC may send its error with HTTP 200. An agent may also refuse the body as too large, with 413."""
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
        "http.content-type-utf8": _is_utf8,
        "http.nosniff": header("X-Content-Type-Options", lambda value: value.lower() == "nosniff"),
    },
    last=True,
)


@check("http.request-id")
async def _(target: Target) -> None:
    """The second request is the same as the first one."""
    first = (await asking(SKILL)(target)).header("x-request-id")
    exchange = await target.send(target.payload(SKILL), fresh=True)
    second = exchange.header("x-request-id")
    expect(first and second, "The response has no X-Request-Id.", exchange)
    expect(first != second, f"Two responses have the X-Request-Id {first!r}.", exchange)


@check("http.no-credentials")
async def _(target: Target) -> None:
    for exchange in (await _preflight(target), await _with_header("Origin", ORIGIN)(target)):
        conclude(header("Access-Control-Allow-Credentials", lambda value: value.lower() != "true")(exchange), exchange)


def _named(exchange: Exchange) -> list[str]:
    """The extensions that the response names."""
    return [uri.strip() for value in exchange.all_headers("a2a-extensions") for uri in value.split(",")]


@check("http.extensions-echo")
async def _(target: Target) -> None:
    uris = skip_unless([each["uri"] for each in target.card.extensions], "The card names no extension.")
    exchange = await _with_header("A2A-Extensions", uris[0])(target)
    expect(uris[0] in _named(exchange), f"A2A-Extensions is {exchange.header('a2a-extensions')!r}.", exchange)


@check("http.extensions-unknown")
async def _(target: Target) -> None:
    unknown = "https://check.example/extensions/unknown"
    # The extension that a revision requires is named beside it.
    named = [each["uri"] for each in target.card.extensions if target.revision.needs_version_header]
    exchange = await _with_header("A2A-Extensions", ", ".join([*named, unknown]))(target)
    answered(exchange)
    expect(unknown not in _named(exchange), "The unknown extension is repeated.", exchange)
