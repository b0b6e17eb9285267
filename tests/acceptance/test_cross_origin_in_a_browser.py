"""A page of another origin calls the skills in a real browser (docs/protocol.md#cross-origin).

`js/cross_origin.js` drives the browser.
"""

import json
import os
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from tests.acceptance.asking import body
from tests.acceptance.running import Running
from tests.acceptance.test_javascript_client import JS, installed


class Page(BaseHTTPRequestHandler):
    """A page with a cookie. Browsers keep cookies by host, so the service's host has it as well."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("set-cookie", "session=secret")
        self.end_headers()
        self.wfile.write(b"{}" if self.headers["cookie"] else b"<!doctype html><title>An agent</title>")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def results(service: Running) -> dict[str, Any]:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("GAP: no Chromium here, so no call from a page of another origin was tried")
    node = installed()
    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        given = {
            "CHROMIUM": chromium,
            "PAGE": f"http://127.0.0.1:{server.server_port}/",
            "URL": service.url,
            "SEARCH": json.dumps(body("inventory.search")),
        }
        done = subprocess.run(
            [node, "cross_origin.js"],
            cwd=JS,
            env=os.environ | given,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        server.shutdown()
    assert done.returncode == 0, done.stdout + done.stderr
    results: dict[str, Any] = json.loads(done.stdout)
    return results


@pytest.mark.requirement("cross-origin")
def test_a_page_of_another_origin_reads_answers_and_errors(results: dict[str, Any]) -> None:
    read = results["read"]
    assert read["card"]["body"]["name"] == "Acceptance Motors"
    assert read["search"]["body"]["message"]["parts"][0]["data"]["data"]["total"] == 3
    assert read["rpc"]["body"]["result"]["message"]
    assert read["search"]["requestId"] == read["search"]["body"]["message"]["messageId"]
    refused = {name: read[name]["body"]["error"]["code"] for name in ("malformed", "token", "type", "nothing")}
    assert refused == {"malformed": 422, "token": 401, "type": 415, "nothing": 404}
    assert read["token"]["authenticate"] == "Bearer"


@pytest.mark.requirement("cross-origin")
def test_the_browser_sends_no_cookie_and_refuses_a_call_with_credentials(results: dict[str, Any]) -> None:
    assert results["read"]["withCookies"] == {"refused": "TypeError"}
    assert results["read"]["otherHeader"] == {"refused": "TypeError"}
    assert results["read"]["health"] == {"refused": "TypeError"}
    sent = results["cookies"]
    assert {sent[name] for name in ("card", "search", "rpc", "malformed", "token", "type", "nothing")} == {None}
    # The browser has a cookie for this host, and sends it to the page's own server.
    assert sent["itself"] == "session=secret"
    assert results["read"]["cardWithCookies"] == {"refused": "TypeError"}
