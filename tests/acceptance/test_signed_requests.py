"""Signed requests to the real service with two workers: who signs is known, and nobody can send a request again."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import sleep, time
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.acceptance.asking import body, lead
from tests.acceptance.dealers import stocked_dealer
from tests.acceptance.known_agent import LOCAL_DIRECTORIES
from tests.acceptance.running import Running, command_here, eventually, serving
from tests.http_signatures.test_foreign_signers import node
from tests.servers.key_directory import KeyDirectory, key_directory, new_key
from tests.soak import SQLITE_FIRST
from tests.storage.databases import fresh_schema

from dealer_agent.http_signatures.keys import encode
from dealer_agent.http_signatures.signing import RequestSigner


@dataclass
class Signed:
    """A service and an agent with a key directory."""

    running: Running
    directory: KeyDirectory
    environment: dict[str, str]

    def head(self, content: bytes, signer: RequestSigner | None = None, path: str = "/message:send") -> dict[str, str]:
        authority = self.running.url.removeprefix("http://")
        signed = (signer or self.directory.signer).sign("POST", authority, path, "", content, time())
        return {"content-type": "application/json", **signed}

    def post(self, content: bytes, headers: dict[str, str], path: str = "/message:send") -> httpx.Response:
        # A connection of its own: another worker may answer.
        return httpx.post(self.running.url + path, content=content, headers=headers, timeout=60)

    def search(self, **headers: str) -> httpx.Response:
        return self.post(SEARCH, self.head(SEARCH) | headers)

    def callers(self) -> list[str]:
        lines = (json.loads(line) for line in self.running.stderr().splitlines() if line.startswith("{"))
        return [line["caller"] for line in lines if "caller" in line]


def encoded(skill: str, **members: Any) -> bytes:
    return json.dumps(body(skill, **members)).encode()


SEARCH = encoded("inventory.search")


@pytest.fixture(scope="module", params=SQLITE_FIRST)
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Signed]:
    folder = tmp_path_factory.mktemp("signed")
    with ExitStack() as opened:
        environment: dict[str, str] = {}
        if request.param == "postgresql":
            environment["DATABASE_URL"] = opened.enter_context(
                fresh_schema(request.getfixturevalue("postgresql_server"))
            )
        directory = opened.enter_context(key_directory(folder))
        dealer = stocked_dealer(folder / "dealer", LOCAL_DIRECTORIES, None, **environment)
        file = dealer / "dealer.toml"
        file.write_text(file.read_text("utf-8").replace('health = ""', 'health = ""\nbad_tokens = ""'), "utf-8")
        environment["SSL_CERT_FILE"] = str(directory.trusted)
        running = opened.enter_context(serving(dealer, workers=2, **environment))
        made = Signed(running, directory, environment)
        # Without its keys, an agent is answered as an anonymous caller.
        assert made.search().status_code == 200
        eventually("both workers know the agent", partial(knows_everywhere, made))
        yield made


def knows_everywhere(service: Signed) -> bool:
    """Whether ten requests, which both workers answer, are those of a known agent."""
    before = len(service.callers())
    for _ in range(10):
        assert service.search().status_code == 200
    time_limit = time() + 1
    while len(service.callers()) < before + 10 and time() < time_limit:
        sleep(0.05)
    return len(service.callers()) == before + 10


def reason_of(response: httpx.Response) -> str:
    assert response.status_code == 401, response.text
    payload = response.json()["error"]["details"][1]
    assert payload["code"] == "AUTH_REQUIRED"
    return str(payload["details"]["reason"])


@pytest.mark.requirement("signed-requests")
def test_a_lead_of_a_signed_request_belongs_to_the_origin_of_its_keys(service: Signed) -> None:
    content = encoded("lead.submit", **lead(1, source_agent="Somebody Else"))
    response = service.post(content, service.head(content))
    assert response.status_code == 200, response.text
    lead_id = response.json()["message"]["parts"][0]["data"]["data"]["lead_id"]
    where: tuple[str | Path, ...] = ("--json", "--dir", service.running.folder)
    shown = command_here("leads", "show", lead_id, *where, cwd=None, **service.environment)
    assert json.loads(shown.stdout)["caller"] == service.directory.origin


@pytest.mark.requirement("signed-requests")
def test_a_request_that_differs_from_what_was_signed_is_refused_with_a_reason(service: Signed) -> None:
    other, content = encoded("dealer.information"), encoded("lead.submit", **lead(2))
    stranger = RequestSigner(new_key(), service.directory.origin)
    assert reason_of(service.post(other, service.head(SEARCH))) == "wrong_digest"
    assert reason_of(service.post(SEARCH, service.head(SEARCH, path="/rpc"))) == "wrong_signature"
    without_digest = service.head(b"") | {"content-type": "application/json"}
    assert reason_of(service.post(content, without_digest)) == "not_covered"
    assert service.post(SEARCH, service.head(b"") | {"content-type": "application/json"}).status_code == 200
    # A new key may have been published a moment ago. Until the keys are fetched again, it is anonymous.
    eventually(
        "the key is known to be wrong", lambda: service.post(SEARCH, service.head(SEARCH, stranger)).status_code == 401
    )


@pytest.mark.requirement("replayed-signatures")
def test_a_signed_request_that_is_sent_again_is_refused_at_every_worker(service: Signed) -> None:
    headers = service.head(SEARCH)
    assert service.post(SEARCH, headers).status_code == 200
    assert {reason_of(service.post(SEARCH, headers)) for _ in range(8)} == {"replayed"}
    headers = service.head(SEARCH)
    with ThreadPoolExecutor(8) as threads:
        sent = list(threads.map(lambda _: service.post(SEARCH, headers).status_code, range(16)))
    assert sorted(sent) == [200] + [401] * 15


@pytest.mark.requirement("signed-requests", "signed-leads")
def test_a_lead_that_a_package_of_npm_has_signed_belongs_to_its_agent(service: Signed) -> None:
    content, key = encoded("lead.submit", **lead(3)), service.directory.signer.key
    assert isinstance(key.key, Ed25519PrivateKey)
    parts = ({"name": "@method"}, {"name": "@authority"}, {"name": "@path"}, {"name": "content-digest"})
    headers = node(
        "sign",
        url=f"{service.running.url}/message:send",
        jwk=key.jwk | {"d": encode(key.key.private_bytes_raw())},
        created=int(time()),
        headers={"signature-agent": f'"{service.directory.origin}"'},
        components=[*parts, {"name": "signature-agent"}],
        body=content.decode(),
    )
    response = service.post(content, {"content-type": "application/json", **headers})
    assert response.status_code == 200, response.text
    lead_id = response.json()["message"]["parts"][0]["data"]["data"]["lead_id"]
    where: tuple[str | Path, ...] = ("--json", "--dir", service.running.folder)
    shown = command_here("leads", "show", lead_id, *where, cwd=None, **service.environment)
    assert json.loads(shown.stdout)["caller"] == service.directory.origin
    assert reason_of(service.post(content, {"content-type": "application/json", **headers})) == "replayed"
