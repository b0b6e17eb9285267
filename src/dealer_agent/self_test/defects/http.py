"""Defects for the checks of HTTP: agents with wrong headers, methods, media types or status codes."""

from collections.abc import Callable
from dataclasses import replace

from dealer_agent.self_test.changing import When, changes_answers, changes_calls
from dealer_agent.self_test.defect import Breaking, Call, broken


def _sets(wanted: When, name: str, value: str | None) -> Breaking:
    """Changes a header of some answers."""
    return changes_answers(wanted, lambda answer: answer.with_header(name, value))


def _reads_content_type(wanted: Callable[[str | None], object], otherwise: str) -> Breaking:
    """Takes some content types of messages for another one."""
    return changes_calls(
        lambda call: call.method == "POST" and wanted(call.header("content-type")),
        lambda call: call.with_header("content-type", otherwise),
    )


def is_post(call: Call) -> bool:
    """POST requests."""
    return call.method == "POST"


JSON = "application/json"

broken("http.content-type")(
    _sets(lambda call: is_post(call) and call.header("content-type") == JSON, "content-type", "text/json")
)
broken("http.content-type-utf8")(
    _sets(
        lambda call: is_post(call) and call.header("content-type") == JSON, "content-type", f"{JSON}; charset=latin-1"
    )
)
broken("http.content-type-a2a")(
    _sets(lambda call: call.header("content-type") == "application/a2a+json", "content-type", JSON)
)
broken("http.content-type-charset")(_reads_content_type(lambda kind: kind and ";" in kind, "text/plain"))
broken("http.content-type-case")(_reads_content_type(lambda kind: kind and kind.startswith("A"), "text/plain"))
broken("http.content-type-other")(_reads_content_type(lambda kind: kind == "text/plain", JSON))
broken("http.content-type-missing")(_reads_content_type(lambda kind: kind is None, JSON))


def is_get_of_an_interface(call: Call) -> bool:
    """GET requests at the URLs that take only POST."""
    return call.method == "GET" and call.path.endswith(("/message:send", "/rpc"))


broken("http.method-not-allowed")(changes_answers(is_get_of_an_interface, lambda answer: answer.with_status(404)))
broken("http.allow")(_sets(is_get_of_an_interface, "allow", "GET"))
broken("http.query-ignored")(
    changes_calls(lambda call: "utm_source" in call.url, lambda call: replace(call, url=call.url.replace("?", "/no?")))
)
broken("http.trailing-slash")(
    changes_calls(
        lambda call: is_post(call) and call.path.endswith("/"), lambda call: replace(call, url=call.url + "no")
    )
)
broken("http.unknown-accept")(
    changes_answers(
        lambda call: is_post(call) and call.header("accept") is None,
        lambda answer: answer.with_status(406).with_body(b""),
    )
)
broken("http.status")(
    changes_answers(is_post, lambda answer: answer.with_status(201) if answer.status == 200 else answer)
)


broken("http.status", name="http.status.search")(
    changes_answers(
        lambda call: call.skill == "inventory.search",
        lambda answer: answer.with_status(206) if answer.status == 200 else answer,
    )
)


def _is_body(test: Callable[[bytes], object]) -> When:
    """Messages over HTTP+JSON whose body passes a test."""
    return lambda call: is_post(call) and call.path.endswith("/message:send") and test(call.body)


for _id, _test in {
    "http.not-json": lambda body: body == b'{"message": ',
    "http.empty-body": lambda body: not body,
    "http.not-an-object": lambda body: body.startswith(b"[") and b"message" in body,
    "http.not-utf8": lambda body: b"\xff" in body,
}.items():
    broken(_id)(changes_answers(_is_body(_test), lambda answer: answer.with_status(400)))

broken("http.deep-json")(
    changes_answers(lambda call: call.body.startswith(b"[[[["), lambda answer: answer.with_status(500))
)
broken("http.unknown-path")(
    changes_answers(
        lambda call: "no-such-path" in call.path,
        lambda answer: answer.with_body(b"<h1>Not Found</h1>").with_header("content-type", "text/html"),
    )
)

broken("http.no-store")(_sets(is_post, "cache-control", "max-age=60"))
broken("http.nosniff")(_sets(is_post, "x-content-type-options", None))
broken("http.request-id")(_sets(is_post, "x-request-id", "1"))
broken("http.cross-origin")(_sets(is_post, "access-control-allow-origin", None))
broken("http.preflight")(changes_answers(lambda call: call.method == "OPTIONS", lambda answer: answer.with_status(405)))
broken("http.no-credentials")(_sets(lambda call: call.header("origin"), "access-control-allow-credentials", "true"))
broken("http.extensions-echo")(_sets(is_post, "a2a-extensions", None))
broken("http.extensions-unknown")(
    _sets(
        lambda call: "unknown" in (call.header("a2a-extensions") or ""),
        "a2a-extensions",
        "https://check.example/extensions/unknown",
    )
)
