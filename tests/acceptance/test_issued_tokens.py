"""Agents that log in at an issuer: the official clients, and a rotation of the issuer's keys.

The issuer is a real authorization server (`tests.servers.issuer`), and the service has two workers.
"""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple

import httpx
import pytest
from a2a.client import A2ACardResolver, ClientCallContext, ClientConfig, ClientFactory
from a2a.client.auth import AuthInterceptor, CredentialService
from a2a.types.a2a_pb2 import SendMessageRequest
from google.protobuf.json_format import MessageToDict, ParseDict
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from tests.acceptance.asking import ask, body, lead
from tests.acceptance.dealers import HONDA_VIN, stocked_dealer
from tests.acceptance.running import Running, eventually, serving
from tests.mcp_tools.test_official_client import JO, NEW, Person
from tests.protocol.bodies import STEMS
from tests.servers.issuer import Issuer, running_issuer


class LogIn(NamedTuple):
    """A service that asks for tokens, and the issuer whose tokens it accepts."""

    service: Running
    issuer: Issuer


@pytest.fixture(scope="module")
def log_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LogIn]:
    with running_issuer() as issuer:
        settings = f"""
[auth]
mode = "bearer"

[[auth.issuers]]
issuer = "{issuer.url}"
token_url = "{issuer.url}/token"
"""
        with serving(stocked_dealer(tmp_path_factory.mktemp("issued"), settings), workers=2) as service:
            token = issuer.token("shopping-agent", service.url)
            eventually("both workers have the keys", lambda: taken(service, token))
            yield LogIn(service, issuer)


def taken(service: Running, token: str) -> bool:
    """Whether both workers accept a token: each connection may be to another one."""
    return all(ask(service.url, "dealer.information", token=token).status_code == 200 for _ in range(8))


def members(skill: str) -> dict[str, Any]:
    return {"inventory.vehicle": {"vin": HONDA_VIN}, "lead.submit": lead()}.get(skill, {})


class _Issued(CredentialService):
    """Gets a token for the scheme of the card, with the scopes that the card names."""

    def __init__(self, card: Any) -> None:
        self._card = card

    async def get_credentials(self, scheme: str, context: ClientCallContext | None) -> str | None:
        flow = self._card.security_schemes[scheme].oauth2_security_scheme.flows.client_credentials
        if not flow.token_url:
            return None
        (resource,) = {each.url for each in self._card.supported_interfaces if each.protocol_binding == "HTTP+JSON"}
        form = {"grant_type": "client_credentials", "resource": resource, "scope": " ".join(flow.scopes)}
        async with httpx.AsyncClient(timeout=60) as http:
            answer = await http.post(flow.token_url, data=form, auth=("shopping-agent", "shopping-agent"[::-1]))
        token: str = answer.json()["access_token"]
        return token


@pytest.mark.requirement("issued-tokens", "card-security", "scopes")
@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
def test_the_official_a2a_client_logs_in_as_the_card_says_and_uses_all_skills(log_in: LogIn, binding: str) -> None:
    async def ask_all() -> list[str]:
        async with httpx.AsyncClient(timeout=120) as http:
            card = await A2ACardResolver(http, log_in.service.url).get_agent_card()
            config = ClientConfig(httpx_client=http, supported_protocol_bindings=[binding], streaming=False)
            client = ClientFactory(config).create(card, interceptors=[AuthInterceptor(_Issued(card))])
            bodies = [ParseDict(body(skill, **members(skill)), SendMessageRequest()) for skill in STEMS]
            replies = [MessageToDict(reply) for each in bodies async for reply in client.send_message(each)]
            return [reply["message"]["parts"][0]["data"]["type"] for reply in replies]

    assert asyncio.run(ask_all()) == [f"{skill}.response" for skill in STEMS]


class _Memory:
    """Where a host keeps what it got at the login."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@pytest.mark.requirement("protected-resource", "www-authenticate", "issued-tokens")
@pytest.mark.parametrize("mode", [NEW, "legacy"])
def test_the_official_mcp_client_finds_the_issuer_and_uses_all_tools(log_in: LogIn, mode: str) -> None:
    url, memory, person = f"{log_in.service.url}/mcp", _Memory(), Person(email=True)
    login = ClientCredentialsOAuthProvider(
        url,
        memory,
        "shopping-agent",
        "shopping-agent"[::-1],
        scope="inventory:read leads:write",
        issuer=log_in.issuer.url,
    )

    answer: Any = person.answer

    async def use_all() -> list[Any]:
        async with (
            _http_client(login) as http,
            Client(streamable_http_client(url, http_client=http), mode=mode, elicitation_callback=answer) as host,
        ):
            calls: list[tuple[str, dict[str, Any]]] = [
                ("dealer_information", {}),
                ("inventory_facets", {}),
                ("inventory_search", {}),
                ("inventory_vehicle", {"vin": HONDA_VIN}),
                ("lead_submit", {"customer": JO | {"email": f"issued-{mode}@example.com"}}),
            ]
            return [await host.call_tool(*each) for each in calls]

    results = asyncio.run(use_all())
    assert [result.is_error for result in results] == [False] * 5
    assert len(person.asked) == 1
    assert memory.tokens is not None


def _http_client(login: Any) -> Any:
    from mcp.shared._httpx_utils import create_mcp_http_client

    return create_mcp_http_client(auth=login)


@pytest.mark.requirement("issued-tokens")
def test_a_lead_belongs_to_the_client_of_the_issuer(log_in: LogIn) -> None:
    token = log_in.issuer.token("shopping-agent", log_in.service.url)
    assert ask(log_in.service.url, "lead.submit", token=token, **lead()).status_code == 200
    with closing(sqlite3.connect(log_in.service.folder / "dealer-agent.db")) as database:
        ((caller,),) = database.execute("SELECT caller FROM leads ORDER BY received_at DESC LIMIT 1")
    assert caller == f"{log_in.issuer.url}#shopping-agent"


@pytest.mark.requirement("scopes", "www-authenticate")
def test_a_token_of_the_issuer_without_the_scope_may_only_read(log_in: LogIn) -> None:
    token = log_in.issuer.token("reader", log_in.service.url)
    assert ask(log_in.service.url, "inventory.search", token=token).status_code == 200
    refused = ask(log_in.service.url, "lead.submit", token=token, **lead())
    assert refused.status_code == 403
    assert 'error="insufficient_scope"' in refused.headers["www-authenticate"]
    assert 'scope="leads:write"' in refused.headers["www-authenticate"]


@pytest.mark.soak
@pytest.mark.requirement("issued-token-keys", "issued-token-refused")
def test_a_new_key_of_the_issuer_is_found_and_the_old_one_is_no_longer_valid(log_in: LogIn) -> None:
    """The last test of the module: it rotates the keys."""
    service, issuer = log_in
    before = issuer.token("shopping-agent", service.url)
    assert ask(service.url, "inventory.search", token=before).status_code == 200
    issuer.rotate(2)
    after = issuer.token("shopping-agent", service.url)
    # A worker asks for the new keys when a token needs one that it does not have, at most once a minute. The pauses
    # keep the refused requests below their rate.
    eventually("both workers have the new key", lambda: taken(service, after), every=5)
    refused = ask(service.url, "inventory.search", token=before)
    assert (refused.status_code, refused.json()["error"]["details"][0]["reason"]) == (401, "AUTH_REQUIRED")
