"""Everything around a body: headers, framing, methods, paths (docs/protocol.md#errors, docs/protocol.md#http)."""

import json
from typing import Any

import httpx
import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from tests.acceptance.running import Running
from tests.fuzz.hostile import TARGETS, valid_body
from tests.fuzz.judging import CheckRun
from tests.fuzz.sending import REQUESTS, post, request, send_raw

SHARE = REQUESTS // 5

_odd_bytes = st.lists(st.integers(1, 255).filter(lambda byte: byte not in (10, 13)), max_size=40).map(bytes)

_CONTENT_TYPES = (
    *(
        b"application/json",
        b"application/a2a+json",
        b"APPLICATION/JSON; charset=utf-8",
        b"application/json; charset=utf-16",
    ),
    *(
        b"application/json;",
        b"application/json;;;=",
        b"application/jsonx",
        b"text/plain",
        b"",
        b";",
        b"/",
        b"*/*",
        b"\xff",
    ),
    *(b"multipart/form-data; boundary=x", b"application/x-www-form-urlencoded", b"application/json, text/html"),
)
_VERSIONS = (
    b"1.0",
    b"1",
    b"1.99999999999999999999",
    b"0.3",
    b"",
    b"2.0",
    b"1.0, 1.0",
    b"v1.0",
    b"\xb9.\xb2",
    b"1." * 500,
)
_AUTHORIZATIONS = (
    *(b"Bearer", b"Bearer ", b"Bearer \xff\xfe", b"bearer dat_01_x", b"Basic Og==", b"Bearer dat__", b"Bearer a b c"),
    *(b"\xe9", b"Bearer " + b"x" * 20_000, b"Bearer dat_\xb2_\xb3", b'Digest username="x"'),
)
_FORWARDED = (
    *(
        b"203.0.113.9",
        b"::1",
        b"[2001:db8::1]:443",
        b"1.2.3.4:\xb2",
        b"unknown",
        b",,,",
        b"999.999.999.999",
        b"[",
        b"]:1",
    ),
    *(
        b"fe80::1%eth0",
        b"::ffff:1.2.3.4",
        b"1.2.3.4:99999999999999999999",
        b"127.0.0.1, " * 2_000,
        b":" * 5_000,
        b"1:1:1",
    ),
)

_odd_headers = st.one_of(
    st.tuples(st.just(b"Content-Type"), st.sampled_from(_CONTENT_TYPES) | _odd_bytes),
    st.tuples(st.just(b"A2A-Version"), st.sampled_from(_VERSIONS) | _odd_bytes),
    st.tuples(
        st.just(b"A2A-Extensions"), st.sampled_from([b",", b"x" * 9_000, b"https://a.example, \xff"]) | _odd_bytes
    ),
    st.tuples(st.just(b"Authorization"), st.sampled_from(_AUTHORIZATIONS) | _odd_bytes),
    st.tuples(st.just(b"X-Forwarded-For"), st.sampled_from(_FORWARDED) | _odd_bytes),
    st.tuples(
        st.sampled_from(
            [b"Accept", b"Content-Encoding", b"Expect", b"Upgrade", b"Cookie", b"X-Request-Id", b"Te", b"Host"]
        ),
        st.sampled_from([b"gzip", b"100-continue", b"websocket", b"h2c", b"image/png", b"x" * 9_000]) | _odd_bytes,
    ),
    st.tuples(st.binary(max_size=8), _odd_bytes),
)

_TRUE = (b"Content-Length", b"%d")
_FRAMINGS = (
    *((_TRUE,), (_TRUE, _TRUE), (_TRUE, (b"Content-Length", b"3")), (_TRUE, (b"Transfer-Encoding", b"chunked"))),
    *(((b"Content-Length", length),) for length in (b"-1", b"abc", b"", b"\xb2", b"+5", b"0x10", b"1" * 30, b"5, 5")),
    *((), ((b"Content-Length", b"0"),), ((b"Content-Length", b"99999999"),)),
    *(((b"Transfer-Encoding", coding),) for coding in (b"identity", b"gzip, chunked", b"chunked, chunked", b"\xff")),
)
"""Right and wrong declarations of the length of a body."""

_QUERIES = (
    "",
    "?",
    "?A2A-Version=1.0",
    "?A2A-Version=%ff%fe",
    "?A2A-Version",
    "?&&&=;" + "a=b&" * 500,
    "?%00=%zz",
    "//",
    "/?x#y",
)


def _chunked(body: bytes, size: int, broken: str) -> bytes:
    chunks = [body[start : start + size] for start in range(0, len(body), size)]
    text = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    match broken:
        case "length":
            return b"zz\r\n" + text
        case "huge":
            return b"f" * 20 + b"\r\n" + text
        case "end":
            return text[:-9]
        case "trailer":
            return text[:-2] + b"X-Late: 1\r\n\r\n"
    return text


@st.composite
def _framed_requests(draw: st.DrawFn) -> tuple[str, bytes]:
    """A target, and a request with valid content and hostile framing."""
    target = draw(st.sampled_from(TARGETS))
    body = valid_body(draw(st.sampled_from(["inventory.search", "inventory.facets", "dealer.information"])), target)
    headers = draw(st.lists(_odd_headers, max_size=4))
    if draw(st.booleans()):
        headers.append((b"Content-Type", b"application/json"))
    path = target + draw(st.sampled_from(_QUERIES))
    match draw(st.sampled_from(["true", "true", "chunked", "framing", "many"])):
        case "true":
            raw = request("POST", path, headers, body)
        case "chunked":
            headers.append((b"Transfer-Encoding", b"chunked"))
            broken = draw(st.sampled_from(["", "", "length", "huge", "end", "trailer"]))
            raw = request(
                "POST", path, headers, _chunked(body, draw(st.sampled_from([1, 7, 4_096])), broken), declared=False
            )
        case "framing":
            said = [(name, value.replace(b"%d", b"%d" % len(body))) for name, value in draw(st.sampled_from(_FRAMINGS))]
            raw = request("POST", path, [*headers, *said], body, declared=False)
        case _:
            many = [(b"X-Header-%d" % number, b"v") for number in range(draw(st.sampled_from([50, 1_000, 5_000])))]
            raw = request("POST", path, [*headers, *many], body)
    return target, raw


@pytest.mark.requirement("same-error-body-everywhere")
@pytest.mark.requirement("content-type-415")
@pytest.mark.requirement("nothing-internal-leaves")
def test_a_request_with_hostile_framing_gets_a_valid_reply_or_a_complete_error(
    service: Running, judge: CheckRun, record_property: Any
) -> None:
    sent = unanswered = 0

    @settings(
        max_examples=SHARE,
        deadline=None,
        phases=[Phase.reuse, Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(framed=_framed_requests())
    def answered(framed: tuple[str, bytes]) -> None:
        nonlocal sent, unanswered
        target, raw = framed
        sent += 1
        answer = send_raw(service.port, raw, leave=True)
        if answer is None:
            # A client that disconnects before its request is complete gets no response.
            unanswered += 1
        elif answer.status == 400:
            judge.refused(answer, sent=len(raw))
        else:
            judge.judge(answer, target, sent=len(raw))

    answered()
    record_property("requests_sent", sent)
    record_property("requests_unanswered", unanswered)
    assert sent >= SHARE
    assert unanswered < sent // 2
    judge.unharmed()


_NO_HTTP = {
    "an unknown method": b"PROPFROB /rpc HTTP/1.1\r\nHost: x\r\n\r\n",
    "a length in words": b"POST /message:send HTTP/1.1\r\nHost: x\r\nContent-Length: abc\r\n\r\n{}",
    "two lengths": b"POST /message:send HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "a header without a name": b"POST /message:send HTTP/1.1\r\nHost: x\r\n: value\r\n\r\n",
    "another protocol": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
}


@pytest.mark.requirement("same-error-body-everywhere")
@pytest.mark.parametrize("raw", _NO_HTTP.values(), ids=_NO_HTTP)
def test_invalid_http_is_refused_in_the_error_envelope(service: Running, judge: CheckRun, raw: bytes) -> None:
    answer = send_raw(service.port, raw)
    assert answer is not None
    assert answer.status == 400
    assert answer.headers["connection"] == "close"
    judge.refused(answer, sent=len(raw))


@pytest.mark.requirement("http-413")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [256 * 1024 + 1, 1_000_000, 5_000_000])
@pytest.mark.parametrize("framing", ["declared", "chunked"])
def test_a_body_over_the_limit_is_413_with_and_without_a_declared_size(
    service: Running, judge: CheckRun, target: str, size: int, framing: str
) -> None:
    body = valid_body("inventory.search", target)
    body += b" " * (size - len(body))
    headers = [(b"Content-Type", b"application/json")]
    if framing == "declared":
        answer = post(service.port, target, body, headers)
    else:
        chunked = [*headers, (b"Transfer-Encoding", b"chunked")]
        raw = request("POST", target, chunked, _chunked(body, 65_536, ""), declared=False)
        found = send_raw(service.port, raw)
        assert found is not None
        answer = found
    assert answer.status == 413
    judge.judge(answer, target, sent=len(body))


@pytest.mark.parametrize("target", TARGETS)
def test_a_body_of_exactly_the_limit_is_answered(service: Running, judge: CheckRun, target: str) -> None:
    body = valid_body("inventory.search", target)
    body += b" " * (32 * 1024 - len(body))
    answer = post(service.port, target, body)
    assert answer.status == 200
    judge.judge(answer, target, sent=len(body))


_METHODS = ("GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "POST", "TRACE", "PROPFIND")
_ODD_PATHS = (
    *(
        "/nothing",
        "//",
        "/message:send/x",
        "/rpc/x",
        "/message:stream",
        "/tasks",
        "/tasks/1",
        "/tasks/1:cancel",
        "/extendedAgentCard",
    ),
    *(
        "/tasks/1:subscribe",
        "/tasks/1/pushNotificationConfigs",
        "/tasks/1/pushNotificationConfigs/2",
        "/schemas/../dealer.toml",
    ),
    *(
        "/%2e%2e/%2e%2e/etc/passwd",
        "/%00",
        "/%ff%fe",
        "/schemas/%00.json",
        "/static/../dealer.toml",
        "/schemas",
        "/docs",
        "/",
    ),
    *(
        "/static/style.css",
        "/" + "a" * 5_000,
        "/MESSAGE:SEND",
        "/message%3Asend",
        "/\xe9",
        "/cards/2.0.0.json",
        "/favicon.ico",
    ),
)


@pytest.mark.requirement("http-405")
@pytest.mark.requirement("http-404")
@pytest.mark.requirement("a2a-routes")
def test_every_method_on_every_path_gets_a_document_or_a_complete_error(
    service: Running, judge: CheckRun, record_property: Any
) -> None:
    documented = httpx.get(f"{service.url}/openapi.json", timeout=120).json()["paths"]
    paths = [path.replace("{name}", "inventory.search.request.json") for path in documented]
    sent = 0
    for path in (*paths, *_ODD_PATHS):
        for method in _METHODS:
            answer = send_raw(service.port, request(method, path, []), method=method)
            sent += 1
            assert answer is not None, (method, path)
            assert answer.status < 500, (method, path, answer)
            assert str(service.folder).encode() not in answer.body
            assert answer.status != 405 or answer.headers["allow"], (method, path)
            if method != "HEAD" and answer.status >= 400 and not (path == "/rpc" and method == "POST"):
                judge.refused(answer)
            elif path in paths and method == "GET" and answer.status == 200:
                json.loads(answer.body)
    record_property("requests_sent", sent)
    judge.unharmed()
