"""A feed is fetched over HTTP only if it has changed, within limits, and with its login."""

import base64
import gzip
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from tests.feeds.collection.feed_server import FeedServer, feed_server
from tests.feeds.collection.feeding import feed_bytes, feed_dealer, states

from dealer_agent.feeds.collection.url_source import MOST_REDIRECTS

pytestmark = pytest.mark.outside_protocol("automatic feeds")

LOCAL = '\n[service]\nprivate_networks = ["127.0.0.1"]\n'
"""Allows redirects to this machine."""


@pytest.mark.parametrize(
    "validators", [{}, {"has_etag": False, "modified": "Mon, 02 Nov 2026 06:00:00 GMT"}], ids=["etag", "modified"]
)
@pytest.mark.parametrize("compresses", [False, True], ids=["plain", "gzip"])
def test_a_file_is_fetched_again_only_when_it_has_changed(
    validators: dict[str, object], compresses: bool, tmp_path: Path
) -> None:
    with (
        feed_server(feed_bytes(3), compresses=compresses, **validators) as server,
        feed_dealer(tmp_path / "store", server.toml()) as dealer,
    ):
        assert states(dealer.collect().files) == ["imported"]
        assert dealer.files()[0].name == "stock.json"
        assert dealer.collect().files == []
        _, headers = server.requests[-1]
        assert ("if-none-match" in headers, "if-modified-since" in headers) == (not validators, bool(validators))
        server.content, server.modified = feed_bytes(4), server.modified and "Tue, 03 Nov 2026 06:00:00 GMT"
        assert states(dealer.collect().files) == ["imported"]
        assert dealer.for_sale() == 4
        assert states(dealer.collect(again=True).files) == ["imported"]
        assert dealer.state().succeeded_at is not None


def test_a_server_without_validators_sends_the_file_each_time_and_it_is_imported_once(tmp_path: Path) -> None:
    with (
        feed_server(feed_bytes(3), has_etag=False) as server,
        feed_dealer(tmp_path / "store", server.toml()) as dealer,
    ):
        assert states(dealer.collect().files) == ["imported"]
        assert states(dealer.collect().files) == ["unchanged"]
        assert len(dealer.imports()) == 1


@pytest.mark.parametrize(
    ("settings", "login"),
    [
        ('user_env = "FEED_USER"\npassword_env = "FEED_PASSWORD"', "Basic " + base64.b64encode(b"me:secret").decode()),
        ('token_env = "FEED_TOKEN"', "Bearer t0ken"),
    ],
    ids=["basic", "bearer"],
)
def test_the_login_comes_from_the_environment_and_goes_to_its_server_only(
    settings: str, login: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        feed_server(feed_bytes(3)) as other,
        feed_server(feed_bytes(3), login=login) as server,
        feed_dealer(tmp_path / "store", server.toml(settings) + LOCAL) as dealer,
    ):
        assert "is not set" in (dealer.collect().problem or "")
        for name, value in {"FEED_USER": "me", "FEED_PASSWORD": "wrong", "FEED_TOKEN": "wrong"}.items():
            monkeypatch.setenv(name, value)
        assert "the server asks for a login" in (dealer.collect().problem or "")
        assert dealer.state().problem is not None
        for name, value in {"FEED_PASSWORD": "secret", "FEED_TOKEN": "t0ken"}.items():
            monkeypatch.setenv(name, value)
        assert states(dealer.collect().files) == ["imported"]
        assert dealer.state().problem is None

        server.login, server.redirects = None, {"/stock.json": f"{other.url}/elsewhere.json"}
        assert states(dealer.collect(again=True).files) == ["imported"]
        ((path, headers),) = other.requests
        assert path == "/elsewhere.json"
        assert "authorization" not in headers


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "127.1", "[::1]", "0.0.0.0", "[::ffff:127.0.0.1]", "0177.0.0.1"]
)
def test_a_redirect_to_this_machine_is_not_followed(host: str, tmp_path: Path) -> None:
    with (
        feed_server(feed_bytes(3)) as other,
        feed_server(feed_bytes(3)) as server,
        feed_dealer(tmp_path / "store", server.toml()) as dealer,
    ):
        server.redirects = {"/stock.json": other.url.replace("127.0.0.1", host)}
        assert dealer.collect().problem
        assert other.requests == []


def in_circles(server: FeedServer) -> None:
    server.redirects = {"/stock.json": "/stock.json"}


def not_encrypted(server: FeedServer) -> None:
    server.redirects = {"/stock.json": "http://192.0.2.1/stock.json"}


def too_large(server: FeedServer) -> None:
    server.content = bytes(1 << 20) + b"x"


def bomb(server: FeedServer) -> None:
    server.content, server.compresses = bytes(1 << 26), True


def cut_off(server: FeedServer) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b"[")
        handler.close_connection = True

    server.answer = answer


def sends_packed(server: FeedServer, body: bytes) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Encoding", "gzip")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        with suppress(ConnectionError):
            handler.wfile.write(body)

    server.answer = answer


def cut_off_gzip(server: FeedServer) -> None:
    sends_packed(server, gzip.compress(feed_bytes(100))[:-20])


def gzip_of_nothing(server: FeedServer) -> None:
    """Blocks that unpack to nothing."""
    sends_packed(server, gzip.compress(b"")[:10] + b"\0\0\0\xff\xff" * 250_000)


def fails(server: FeedServer) -> None:
    server.answer = lambda handler: handler.send_error(503)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (in_circles, f"redirects more than {MOST_REDIRECTS} times"),
        (not_encrypted, "not https"),
        (too_large, "more than 1 MiB"),
        (bomb, "more than 1 MiB"),
        (cut_off, "the connection to the server failed"),
        (cut_off_gzip, "ends too early"),
        (gzip_of_nothing, "more than 1 MiB"),
        (fails, "status 503"),
    ],
)
def test_what_cannot_be_fetched_is_a_problem_and_leaves_nothing(change: "object", words: str, tmp_path: Path) -> None:
    with feed_server(feed_bytes(3)) as server:
        toml = server.toml().replace('"main"', '"main"\nmax_mib = 1') + LOCAL
        with feed_dealer(tmp_path / "store", toml) as dealer:
            assert callable(change)
            change(server)
            done = dealer.collect()
            assert words in (done.problem or "")
            assert done.files == []
            assert dealer.state().problem == done.problem
            assert not list((tmp_path / "store" / "feeds" / "main" / "incoming").glob("*"))
            assert not list((tmp_path / "store" / "feeds" / "main" / "incoming").glob(".*"))
            server.answer, server.redirects, server.compresses = None, {}, False
            server.content = feed_bytes(3)
            assert states(dealer.collect().files) == ["imported"]
            assert dealer.state().problem is None


def test_nothing_is_read_after_the_end_of_a_packed_file(tmp_path: Path) -> None:
    sent = 0

    def answer(handler: BaseHTTPRequestHandler) -> None:
        nonlocal sent
        handler.send_response(200)
        handler.send_header("Content-Encoding", "gzip")
        handler.end_headers()
        handler.close_connection = True
        with suppress(ConnectionError):
            handler.wfile.write(gzip.compress(feed_bytes(3)))
            while sent < 200:
                handler.wfile.write(bytes(1 << 20))
                sent += 1

    with feed_server() as server, feed_dealer(tmp_path / "store", server.toml()) as dealer:
        server.answer = answer
        assert states(dealer.collect().files) == ["imported"]
        assert sent < 100, "MiB after the end"
