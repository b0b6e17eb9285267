"""The programs of docs/how-to/be-found.md verify the card of a running service, and refuse a changed one."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import httpx
import pytest
from tests.acceptance.running import Running
from tests.acceptance.test_javascript_client import JS, installed
from tests.client.dealers import card as card_of

from dealer_agent.encryption.card_signer import CardSigner

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "be-found.md"
CARD, KEYS = "/.well-known/agent-card.json", "/.well-known/jwks.json"


def program(language: str) -> str:
    """The one program of the page in this language."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", HOW_TO.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return str(found)


def python(url: str) -> subprocess.CompletedProcess[str]:
    return run([sys.executable, "-", url], program("python"))


def javascript(url: str) -> subprocess.CompletedProcess[str]:
    return run([installed(), "--input-type=module", "-", url], program("js"))


def run(command: list[str | Path], text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=JS, input=text, env=os.environ, capture_output=True, text=True, check=False, timeout=300
    )


both = pytest.mark.parametrize("verify", [python, javascript], ids=["Python", "JavaScript"])


@contextmanager
def copied(documents: dict[str, bytes]) -> Iterator[str]:
    """A web server with copies of documents, at its URL."""

    class Copies(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = documents.get(self.path)
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(found or b"")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Copies)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@both
@pytest.mark.requirement("card-signatures", "card-signature-keys")
def test_the_program_of_the_page_verifies_the_card(
    service: Running, verify: Callable[[str], subprocess.CompletedProcess[str]]
) -> None:
    done = verify(service.url + "/")
    assert (done.returncode, done.stdout) == (0, "verified: Acceptance Motors\n"), done.stderr


@both
@pytest.mark.requirement("card-signature-keys")
def test_the_program_of_the_page_verifies_the_card_of_a_dealer_below_a_path(
    verify: Callable[[str], subprocess.CompletedProcess[str]],
) -> None:
    """Another dealer is at the root of the host."""
    documents: dict[str, bytes] = {}
    with copied(documents) as host:
        for path, name in (("", "Another"), ("/dealers/a", "Test Motors")):
            signer = CardSigner(name.encode().ljust(32), f"{host}{path}{KEYS}")
            documents[path + CARD] = json.dumps(signer.signed(card_of(host + path, name=name))).encode()
            documents[path + KEYS] = json.dumps({"keys": [signer.public_key]}).encode()
        for address in (f"{host}/dealers/a", f"{host}/dealers/a/"):
            done = verify(address)
            assert (done.returncode, done.stdout) == (0, "verified: Test Motors\n"), done.stderr


@both
@pytest.mark.requirement("card-signatures", "card-signature-keys")
def test_the_program_of_the_page_refuses_a_copy_of_the_card_elsewhere_and_a_changed_one(
    service: Running, verify: Callable[[str], subprocess.CompletedProcess[str]]
) -> None:
    card, keys = (httpx.get(service.url + path).content for path in (CARD, KEYS))
    with copied({CARD: card, KEYS: keys}) as url:
        done = verify(url)
    assert done.returncode != 0
    assert "verified" not in done.stdout
    documents: dict[str, bytes] = {KEYS: keys}
    with copied(documents) as url:
        # Even keys that the card names do not help: the signature covers the header that names them.
        text = card.decode().replace(service.url, url)
        documents[CARD] = json.dumps(json.loads(text)).encode()
        done = verify(url)
    assert done.returncode != 0
    assert "verified" not in done.stdout
