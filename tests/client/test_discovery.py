"""`DealerAgent.discover` finds the card, and chooses binding, vocabulary and version. A card can lie."""

import asyncio
from contextlib import suppress
from typing import Any

import httpx
import msgspec
import pytest
from tests.client.dealers import INFORMATION, application, card, interfaces, members_of, result
from tests.servers.misbehaving import Asked, misbehaving

from dealer_agent.client import Card, DealerAgent, HttpExchange, Retries, errors

pytestmark = pytest.mark.outside_protocol("the client library")

URL = "https://dealer.test"


def read(document: object, url: str = URL, **options: Any) -> Card:
    """What the client makes of a card that an application in the same process serves."""

    async def discover() -> Card:
        async with DealerAgent.discover(url, app=application(document, lambda _: (500, b"", {})), **options) as agent:
            return agent.card

    return asyncio.run(discover())


def refused(document: object, **options: Any) -> str:
    with pytest.raises(errors.NotADealerAgent) as caught:
        read(document, **options)
    return str(caught.value)


@pytest.mark.parametrize("revision", ["1.0.0", "0.1.0"])
@pytest.mark.parametrize("vocabulary", ["proto", "autoagent"])
def test_the_card_of_each_revision_and_vocabulary_is_read(revision: str, vocabulary: str) -> None:
    found = read(card(URL, revision=revision, vocabulary=vocabulary))
    assert (found.binding, found.endpoint, found.vendor) == ("JSONRPC", f"{URL}/rpc", vocabulary)
    assert found.revision == ((1, 0) if revision == "1.0.0" else (0, 1))
    assert found.extension is not None
    # The public protocol has no version of this binding before 1.0, so the card of 0.1.0 names no extension of it.
    assert ("autoagentprotocol.org" in found.extension) is ((vocabulary, revision) == ("autoagent", "1.0.0"))
    assert len(found.skills) == 5
    assert not found.source_agent_is_object


@pytest.mark.parametrize(
    ("uri", "revision", "is_object"),
    [
        ("https://autoagentprotocol.org/extensions/a2a-automotive-retail/v1.0", (1, 0), False),
        ("https://autoagentprotocol.org/extensions/aap/v1.1", (1, 1), True),
        ("https://autoagentprotocol.org/extensions/aap/v1.3", (1, 3), True),
        ("https://autoagentprotocol.org/extensions/aap/v2.0", (2, 0), True),
        ("https://draft.example/extensions/aap/latest", None, True),
    ],
)
def test_the_version_of_the_public_protocol_is_that_of_the_extension(
    uri: str, revision: tuple[int, int] | None, is_object: bool
) -> None:
    capabilities = {"extensions": [{"uri": "https://example.com/other"}, {"uri": uri, "required": True}]}
    found = read(card(URL, vocabulary="autoagent", capabilities=capabilities))
    assert (found.extension, found.revision, found.source_agent_is_object) == (uri, revision, is_object)


def test_json_rpc_is_preferred_and_the_caller_can_choose() -> None:
    document = card(URL, supportedInterfaces=[*interfaces(URL, binding="HTTP+JSON"), *interfaces(f"{URL}/rpc")])
    assert read(document).binding == "JSONRPC"
    assert (read(document, binding="HTTP+JSON").binding, read(document, binding="HTTP+JSON").endpoint) == (
        "HTTP+JSON",
        URL,
    )
    only = card(URL, supportedInterfaces=interfaces(URL, binding="HTTP+JSON"))
    assert read(only).binding == "HTTP+JSON"
    assert "no usable interface" in refused(only, binding="JSONRPC")


def test_a_card_is_printed_without_its_document() -> None:
    found = read(card(URL))
    assert found.document["name"] == "Test Motors"
    assert len(repr(found)) < 1_000


def test_the_names_of_this_machine_are_one_origin() -> None:
    """The demo's card names 127.0.0.1, and its user says localhost."""
    found = read(card("http://127.0.0.1:8080"), "http://localhost:8080", token="secret")
    assert found.endpoint == "http://127.0.0.1:8080/rpc"


@pytest.mark.parametrize(
    ("url", "wanted"), [("", "/message:send"), ("/a/", "/a/message:send"), ("/a?k=1", "/a/message:send?k=1")]
)
def test_the_requests_of_http_json_go_below_the_url_of_the_interface(url: str, wanted: str) -> None:
    found = read(card(URL, supportedInterfaces=interfaces(URL + url, binding="HTTP+JSON")))
    assert str(found.request_url) == URL + wanted


def test_a_token_among_the_headers_is_refused() -> None:
    with pytest.raises(errors.InvalidRequest, match="give the bearer token as token"):
        DealerAgent.discover(URL, headers={"authorization": "Bearer secret"})


@pytest.mark.parametrize(
    ("path", "requested"),
    [
        ("", ["/.well-known/agent-card.json"]),
        ("/", ["/.well-known/agent-card.json"]),
        ("/d/north", ["/d/north/.well-known/agent-card.json"]),
        ("/d/north/?page=1#x", ["/d/north/.well-known/agent-card.json"]),
        ("/cards/1.0.0.json", ["/cards/1.0.0.json"]),
        ("/the-card", ["/the-card/.well-known/agent-card.json", "/the-card"]),
    ],
)
def test_a_url_is_that_of_a_dealer_or_of_a_card(path: str, requested: list[str]) -> None:
    async def find() -> tuple[list[str], str]:
        paths: list[str] = []

        async def serve(asked: Asked) -> None:
            paths.append(asked.path)
            is_there = asked.path == requested[-1]
            await asked.answer(card(url) if is_there else {}, 200 if is_there else 404)

        async with misbehaving(serve) as url, DealerAgent.discover(url + path) as agent:
            return paths, agent.card.url.removeprefix(url)

    assert asyncio.run(find()) == (requested, requested[-1])


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (b"<html>", "is not an agent card"),
        (b"[1]", "is not an agent card"),
        (b"[" * 100_000, "is not an agent card"),
        (b'{"name": 1, "skills": []}', "is not an agent card"),
        (b"9" * 100_000, "is not an agent card"),
        (b'{"name": "\xff"}', "is not an agent card"),
        ({"name": "A weather agent", "skills": [{"id": "weather.today"}]}, "no skill of a dealer agent"),
        ({"name": "A2A 0.3", "url": URL, "skills": [{"id": "inventory.search"}]}, "no supportedInterfaces"),
        (card(URL, supportedInterfaces=interfaces(URL, binding="GRPC")), "no usable interface"),
        (card(URL, supportedInterfaces=interfaces(URL, version="0.3")), "no usable interface"),
        (card(URL, supportedInterfaces=interfaces("file:///etc/passwd")), "no usable interface"),
        (card(URL, supportedInterfaces=interfaces("https://user:secret@dealer.test/rpc")), "no usable interface"),
        (card(URL, supportedInterfaces=interfaces("https://[::1", "/rpc", "", "\x00")), "no usable interface"),
    ],
)
def test_a_card_that_cannot_be_used_is_refused(document: object, said: str) -> None:
    assert said in refused(document)


@pytest.mark.parametrize(
    "url",
    ["", "dealer.example", "ftp://dealer.example", "https://", "http://[", "\x00", "https://xn--", "http://a:99999"],
)
def test_a_url_that_is_no_web_address_is_refused(url: str) -> None:
    with pytest.raises(errors.NotADealerAgent):
        asyncio.run(_discovered(url))


@pytest.mark.parametrize(
    "urls",
    [
        ["http://169.254.169.254/latest"],
        ["http://localhost:8080/rpc"],
        ["http://dealer.test/rpc"],
        ["http://dealer.test:443/rpc"],
    ],
)
def test_a_card_leads_to_no_unencrypted_service_on_another_origin(urls: list[str]) -> None:
    app = application(card(URL, supportedInterfaces=interfaces(*urls)), lambda _: (500, b"", {}))
    with pytest.raises(errors.NotADealerAgent, match="no usable interface"):
        asyncio.run(_discovered(URL, transport=httpx.ASGITransport(app)))
    # In the same process, all URLs are the application.
    assert asyncio.run(_discovered(URL, app=app)).endpoint == urls[0]


async def _discovered(url: str, **options: Any) -> Card:
    async with DealerAgent.discover(url, retries=Retries(most=0), **options) as agent:
        return agent.card


def test_without_a_card_the_error_names_the_place_that_was_read() -> None:
    async def find() -> None:
        async with misbehaving(lambda asked: asked.answer({}, 404)) as url:
            with pytest.raises(errors.NotADealerAgent, match=r"well-known/agent-card.json answered 404"):
                await _discovered(url)

    asyncio.run(find())


def test_a_card_may_be_behind_redirects_but_not_behind_a_loop_of_them() -> None:
    async def find() -> None:
        async def serve(asked: Asked) -> None:
            turns = {
                "/.well-known/agent-card.json": "/a",
                "/a": f"{url}/b",
                "/loop/.well-known/agent-card.json": "/loop/.well-known/agent-card.json",
                "/file/.well-known/agent-card.json": "file:///etc/passwd",
                "/odd/.well-known/agent-card.json": "http://[",
            }
            if asked.path in turns:
                await asked.answer(b"", 302, location=turns[asked.path])
            else:
                await asked.answer(card(url))

        async with misbehaving(serve) as url:
            assert (await _discovered(url)).url == f"{url}/b"
            for place, said in (
                ("loop", "more than 5 times"),
                ("file", "not the URL of a card"),
                ("odd", "not the URL of a card"),
            ):
                with pytest.raises(errors.NotADealerAgent, match=said):
                    await _discovered(f"{url}/{place}")

    asyncio.run(find())


def redirecting(target: str, document: object) -> Any:
    """An application whose card is at `target`, and whose well-known place redirects there."""
    inner = application(document, lambda _: (500, b"", {}))

    async def app(scope: Any, receive: Any, send: Any) -> None:
        host = dict(scope["headers"])[b"host"].decode()
        if f"{scope['scheme']}://{host}{scope['path']}" == target:
            await inner(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 301, "headers": [(b"location", target.encode())]})
        await send({"type": "http.response.body"})

    return app


def test_a_card_behind_a_redirect_from_https_to_http_is_refused() -> None:
    app = redirecting("http://dealer.test/agent-card.json", card("http://dealer.test"))
    with pytest.raises(errors.NotADealerAgent, match="which is not encrypted"):
        asyncio.run(_discovered(URL, transport=httpx.ASGITransport(app)))


def test_a_token_does_not_follow_a_redirect_of_the_card_to_another_origin() -> None:
    app = redirecting("https://www.dealer.test/agent-card.json", card("https://www.dealer.test"))
    assert asyncio.run(_discovered(URL, transport=httpx.ASGITransport(app))).endpoint == "https://www.dealer.test/rpc"
    with pytest.raises(errors.NotADealerAgent, match="on another origin"):
        asyncio.run(_discovered(URL, transport=httpx.ASGITransport(app), token="secret"))


def test_a_card_that_never_ends_is_cut_off() -> None:
    async def find() -> None:
        async def serve(asked: Asked) -> None:
            asked.start(200)
            with suppress(ConnectionError):
                while not asked.writer.is_closing():
                    asked.writer.write(b"[" * 65_536)
                    await asked.writer.drain()

        async with misbehaving(serve) as url:
            with pytest.raises(errors.MalformedResponse, match="more than 1,048,576 bytes"):
                await _discovered(url)

    asyncio.run(find())


def test_a_token_goes_to_the_interface_on_the_origin_of_the_card_and_not_with_the_request_for_the_card() -> None:
    async def run() -> dict[str, str | None]:
        sent: dict[str, str | None] = {}

        async def serve(asked: Asked) -> None:
            sent[asked.method] = asked.headers.get("authorization")
            await asked.answer(card(url) if asked.method == "GET" else result(asked.body, INFORMATION))

        async with misbehaving(serve) as url, DealerAgent.discover(url, token="secret") as agent:
            await agent.information()
        return sent

    assert asyncio.run(run()) == {"GET": None, "POST": "Bearer secret"}


def with_token(**options: Any) -> set[tuple[str, str | None]]:
    """Asks https://dealer.test, whose card names https://api.test. Returns each request with a token or without."""
    sent: set[tuple[str, str | None]] = set()
    document = card(URL, supportedInterfaces=interfaces("https://api.test/rpc"))
    inner = application(document, lambda body: (200, result(body, INFORMATION), {}))

    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope["headers"])
        token = headers.get(b"authorization")
        sent.add((headers[b"host"].decode(), token and token.decode()))
        await inner(scope, receive, send)

    async def ask() -> None:
        async with DealerAgent.discover(URL, transport=httpx.ASGITransport(app), **options) as agent:
            await agent.information()

    asyncio.run(ask())
    return sent


def test_a_card_with_an_interface_on_another_origin_needs_permission_for_the_token() -> None:
    assert with_token() == {("dealer.test", None), ("api.test", None)}
    with pytest.raises(errors.NotADealerAgent, match=r"https://api.test/rpc, which is on another origin"):
        with_token(token="secret")
    allowed = with_token(token="secret", token_origins=["https://api.test"])
    assert allowed == {("dealer.test", None), ("api.test", "Bearer secret")}


def test_the_hook_sees_each_exchange_and_never_the_token() -> None:
    seen: list[HttpExchange] = []

    def respond(body: bytes) -> tuple[int, object, dict[str, str]]:
        return 200, result(body, INFORMATION), {}

    async def ask() -> None:
        app = application(card(URL), respond)
        async with DealerAgent.discover(
            URL, app=app, token="secret", user_agent="Shopper/2", on_exchange=seen.append, headers={"X-Trace": "1"}
        ) as agent:
            await agent.information()

    asyncio.run(ask())
    first, second = seen
    assert (first.method, first.status, second.method, second.url) == ("GET", 200, "POST", f"{URL}/rpc")
    assert members_of(second.request) == {"type": "dealer.information.request"}
    assert msgspec.json.decode(second.body)["result"]["message"]["role"] == "ROLE_AGENT"
    assert second.request_headers["user-agent"].startswith("Shopper/2 dealer-agent/")
    assert (second.request_headers["a2a-version"], second.request_headers["x-trace"]) == ("1.0", "1")
    assert "secret" not in repr(seen)


@pytest.mark.parametrize(
    "uri",
    [
        f"https://autoagentprotocol.org/extensions/aap/v{'9' * 5_000}.1",
        "https://autoagentprotocol.org/extensions/aap/v1.3\r\nX-Injected: yes",
        "https://autoagentprotocol.org/extensions/aap/v1.3\u00e9",
    ],
)
def test_an_extension_that_no_header_can_name_is_ignored(uri: str) -> None:
    found = read(card(URL, capabilities={"extensions": [{"uri": uri}]}))
    assert found.revision is None
    assert found.extension is None or found.extension.isprintable()


@pytest.mark.parametrize("path", ["/a%3Fb", "/a%23b", "/a%00b", "/a%0D%0Ab"])
def test_an_interface_with_encoded_characters_in_its_path_keeps_them(path: str) -> None:
    found = read(card(URL, supportedInterfaces=interfaces(f"{URL}{path}", binding="HTTP+JSON")))
    assert str(found.request_url) == f"{URL}{path}/message:send"
