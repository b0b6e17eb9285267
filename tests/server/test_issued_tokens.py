"""Access tokens of an issuer on the wire: statuses, challenges, metadata, `/mcp` (docs/protocol.md#issued-tokens)."""

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import httpx
import pytest
from tests.acceptance.running import eventually, free_port
from tests.callers.issuing import token as token_of_another_issuer
from tests.protocol.bodies import STEMS
from tests.server.conftest import OpenDealership
from tests.server.dealership import ACCORD, LISTENS_AT, NO_LIMITS, Dealership, error_of, message, run_dealership, set_up
from tests.server.mcp_calls import FORM, JO, NEW, OLD, STATE_REFUSED, post, text_of, ticked, use
from tests.servers.issuer import Issuer, running_issuer

from dealer_agent.server.served_dealers import Addresses, DealerPath

METADATA = "/.well-known/oauth-protected-resource"
CHALLENGE = re.compile(r'Bearer (?:[a-z_]+="[^"\\]*"(?:, )?)+')


class LogIn(NamedTuple):
    """A dealership that asks for a token for leads, and the issuer whose tokens it accepts."""

    dealership: Dealership
    issuer: Issuer

    def token(self, client: str = "shopping-agent", resource: str = LISTENS_AT, **more: Any) -> str:
        return self.issuer.token(client, resource, **more)

    def ask(self, skill: str, token: str | None = None) -> httpx.Response:
        members = {"vin": ACCORD} if skill == "inventory.vehicle" else {}
        return self.dealership.post(message(skill, **members), token=token)


def settings(url: str, mode: str = 'mode = "bearer"\nskills = ["lead.submit"]') -> str:
    return f'[auth]\n{mode}\n[[auth.issuers]]\nissuer = "{url}"\n'


@pytest.fixture(scope="module")
def log_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LogIn]:
    with running_issuer(algorithm="ES256") as issuer:
        folder = tmp_path_factory.mktemp("login")
        set_up(folder, settings(issuer.url) + NO_LIMITS)
        with run_dealership(folder) as opened:
            found = LogIn(opened, issuer)
            valid = found.token()
            eventually("the keys are here", lambda: found.ask("dealer.information", valid).status_code == 200)
            yield found


def challenge_of(response: httpx.Response) -> dict[str, str]:
    header = response.headers["www-authenticate"]
    assert CHALLENGE.fullmatch(header), header
    return dict(re.findall(r'([a-z_]+)="([^"]*)"', header))


@pytest.mark.requirement("issued-tokens", "scopes")
def test_a_token_of_the_issuer_allows_the_skills_of_its_scopes(log_in: LogIn) -> None:
    both, reader = log_in.token(), log_in.token("reader")
    for skill in STEMS:
        assert log_in.ask(skill, both).status_code == 200, skill
        assert log_in.ask(skill, reader).status_code == (403 if skill == "lead.submit" else 200), skill


@pytest.mark.requirement("scopes")
def test_a_skill_that_needs_no_token_needs_the_scope_of_a_token_that_is_sent(log_in: LogIn) -> None:
    assert log_in.ask("inventory.search").status_code == 200
    assert log_in.ask("inventory.search", log_in.token(scope="leads:write")).status_code == 403
    assert log_in.ask("inventory.search", log_in.token(scope="openid")).status_code == 403


@pytest.mark.requirement("issued-tokens")
def test_a_token_of_the_dealer_is_accepted_beside_those_of_issuers(open_dealership: OpenDealership) -> None:
    opened = open_dealership(settings("https://login.example", 'mode = "bearer"') + NO_LIMITS)
    _, own = opened.new_token()
    with run_dealership(opened.folder) as again:
        assert again.post(message("inventory.search"), token=own).status_code == 200
        assert again.post(message("inventory.search"), token=own[:-1]).status_code == 401


WRONG: dict[str, tuple[Callable[[LogIn], str], str]] = {
    "of another issuer": (lambda _: token_of_another_issuer(), "does not trust the issuer"),
    "for another dealer": (lambda log_in: log_in.token(resource=f"{LISTENS_AT}/d/other"), "for another service"),
    "with another signature": (lambda log_in: log_in.token()[:-6] + "AAAAAA", "signature"),
    "cut": (lambda log_in: log_in.token()[:100], "neither"),
    "too long": (lambda log_in: log_in.token() + "A" * 9000, "more than 8192 characters"),
    "neither": (lambda _: "not-a-token", "neither"),
    "of the dealer, and wrong": (lambda _: "dat_x_wrong", "not valid here"),
}


@pytest.mark.requirement("issued-token-refused", "www-authenticate", "rpc-http-status")
@pytest.mark.parametrize(("wrong", "words"), WRONG.values(), ids=WRONG)
def test_a_wrong_token_gets_401_and_the_reason(log_in: LogIn, wrong: Callable[[LogIn], str], words: str) -> None:
    refused = log_in.ask("dealer.information", wrong(log_in))
    assert (refused.status_code, error_of(refused)["code"]) == (401, "AUTH_REQUIRED")
    assert words in error_of(refused)["message"]
    challenge = challenge_of(refused)
    assert challenge["error"] == "invalid_token"
    assert words in challenge["error_description"]
    assert challenge["resource_metadata"] == LISTENS_AT + METADATA


@pytest.mark.requirement("www-authenticate", "token-missing")
def test_a_missing_token_gets_the_metadata_and_the_scope_but_no_error(log_in: LogIn) -> None:
    challenge = challenge_of(log_in.ask("lead.submit"))
    assert challenge == {"resource_metadata": LISTENS_AT + METADATA, "scope": "leads:write"}


@pytest.mark.requirement("scopes", "rpc-http-status", "www-authenticate")
def test_a_missing_scope_is_403_on_both_bindings(log_in: LogIn) -> None:
    reader = log_in.token("reader")
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message("lead.submit")}
    for refused in (log_in.ask("lead.submit", reader), log_in.dealership.post(call, "/rpc", token=reader)):
        assert (refused.status_code, error_of(refused)["code"]) == (403, "AUTH_REQUIRED")
        challenge = challenge_of(refused)
        assert (challenge["error"], challenge["scope"]) == ("insufficient_scope", "leads:write")


@pytest.mark.requirement("wrong-token-counts", "issued-token-refused")
def test_wrong_tokens_of_issuers_count_against_their_address(open_dealership: OpenDealership) -> None:
    limits = NO_LIMITS.replace('bad_tokens = ""', 'bad_tokens = "2/hour"')
    opened = open_dealership(settings("https://login.example", 'mode = "none"') + limits)
    wrong = token_of_another_issuer(iss="https://evil.example")
    statuses = [opened.post(message("inventory.search"), token=wrong).status_code for _ in range(4)]
    assert statuses == [401, 401, 429, 429]
    assert opened.post(message("inventory.search"), token=wrong, address="198.51.100.99").status_code == 401
    assert opened.post(message("inventory.search")).status_code == 200


@pytest.mark.requirement("issued-token-keys")
def test_without_the_keys_a_client_is_asked_to_wait(open_dealership: OpenDealership) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    opened = open_dealership(settings(url, 'mode = "none"') + NO_LIMITS)
    for sent in (message("inventory.search"), message("lead.submit")):
        waits = opened.post(sent, token=token_of_another_issuer(iss=url))
        assert (waits.status_code, error_of(waits)["code"]) == (429, "RATE_LIMITED")
        assert int(waits.headers["retry-after"]) > 0
        assert error_of(waits)["retryable"] is True


@pytest.mark.requirement("protected-resource")
def test_the_metadata_names_issuers_and_scopes(log_in: LogIn) -> None:
    answer = log_in.dealership.get(METADATA)
    assert answer.headers["content-type"] == "application/json"
    found = answer.json()
    assert found["resource"] == LISTENS_AT
    assert found["authorization_servers"] == [log_in.issuer.url]
    assert found["scopes_supported"] == ["inventory:read", "leads:write"]
    assert found["bearer_methods_supported"] == ["header"]
    assert log_in.dealership.get(f"{METADATA}/mcp").json() == found | {"resource": f"{LISTENS_AT}/mcp"}


@pytest.mark.requirement("protected-resource")
def test_a_dealer_without_issuers_names_none(dealership: Dealership) -> None:
    assert "authorization_servers" not in dealership.get(METADATA).json()


@pytest.mark.requirement("protected-resource")
def test_below_a_base_path_the_metadata_is_at_both_addresses(open_dealership: OpenDealership) -> None:
    issued = settings("https://login.example", 'mode = "bearer"')
    opened = open_dealership('[service]\nbase_path = "/agent"\n' + issued + NO_LIMITS)
    refused = opened.post(message("inventory.search"), "/agent/message:send")
    assert challenge_of(refused)["resource_metadata"] == f"{LISTENS_AT}{METADATA}/agent"
    for path in (f"{METADATA}/agent", f"/agent{METADATA}", METADATA):
        assert opened.get(path).json()["resource"] == f"{LISTENS_AT}/agent"
    assert opened.get(f"{METADATA}/agent/mcp").json()["resource"] == f"{LISTENS_AT}/agent/mcp"
    assert opened.get(f"{METADATA}/other").status_code == 404


@pytest.mark.requirement("protected-resource", "dealer-addresses")
@pytest.mark.parametrize(
    ("host", "path", "place"),
    [
        ("any.example", f"{METADATA}/d/north", DealerPath("north", METADATA)),
        ("any.example", f"{METADATA}/d/north/mcp", DealerPath("north", f"{METADATA}/mcp")),
        ("any.example", f"/d/north{METADATA}", DealerPath("north", METADATA)),
        ("north.example", METADATA, DealerPath("north", METADATA)),
        ("north.example", f"{METADATA}/mcp", DealerPath("north", f"{METADATA}/mcp")),
        ("any.example", METADATA, None),
        ("any.example", f"{METADATA}/d/south", None),
        ("any.example", f"{METADATA}{METADATA}/d/north", None),
    ],
)
def test_the_path_of_a_dealer_follows_that_of_its_metadata(host: str, path: str, place: DealerPath | None) -> None:
    addresses = Addresses(frozenset(("north",)), {"north.example": "north"})
    assert addresses.locate(host, path) == place


@pytest.mark.requirement("card-security")
def test_cards_declare_the_issuer(log_in: LogIn, open_dealership: OpenDealership) -> None:
    card = log_in.dealership.get("/cards/1.0.0.json").json()
    openid = {"openIdConnectUrl": f"{log_in.issuer.url}/.well-known/openid-configuration"}
    assert card["securitySchemes"]["issuer-1"] == {"openIdConnectSecurityScheme": openid}
    (lead,) = (skill for skill in card["skills"] if skill["id"] == "lead.submit")
    assert lead["securityRequirements"] == [
        {"schemes": {"bearer": {"list": []}}},
        {"schemes": {"issuer-1": {"list": ["leads:write"]}}},
    ]
    assert "securityRequirements" not in card
    named = settings(log_in.issuer.url, "") + 'token_url = "https://login.example/token"\n' + NO_LIMITS
    opened = open_dealership(named)
    old = opened.get("/cards/0.1.0.json").json()
    (flow,) = old["security_schemes"]["issuer-1"]["oauth2_security_scheme"]["flows"].values()
    assert flow["token_url"] == "https://login.example/token"
    assert set(flow["scopes"]) == {"inventory:read", "leads:write"}
    assert old["auth_type"] == "none"
    assert "security_requirements" not in str(old)
    for path in ("/aap/1.3/card.json", "/openapi.json"):
        document = opened.get(path)
        assert document.status_code != 200 or "issuer-1" in document.text


def lead_of(opened: Dealership, **more: Any) -> Any:
    return use(opened, "lead_submit", {"customer": JO}, capabilities=FORM, **more)


@pytest.mark.requirement("mcp-login", "www-authenticate")
@pytest.mark.parametrize("revision", [OLD, NEW])
def test_mcp_sends_a_host_to_the_issuer(log_in: LogIn, revision: str) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "lead_submit", "arguments": {}}}
    metadata = f"{LISTENS_AT}{METADATA}/mcp"
    missing = post(log_in.dealership, call, revision)
    assert missing.status_code == 401
    assert challenge_of(missing) == {"resource_metadata": metadata, "scope": "leads:write"}
    scope = post(log_in.dealership, call, revision, token=log_in.token("reader"))
    assert scope.status_code == 403
    assert challenge_of(scope)["error"] == "insufficient_scope"
    for body in (call, {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}):
        wrong = post(log_in.dealership, body, revision, token="wrong")
        assert wrong.status_code == 401
        assert (challenge_of(wrong)["error"], challenge_of(wrong)["resource_metadata"]) == ("invalid_token", metadata)
        assert wrong.json()["error"]["message"].startswith("AUTH_REQUIRED: ")


@pytest.mark.requirement("mcp-login")
def test_mcp_asks_for_a_token_at_once_if_all_skills_need_one(log_in: LogIn, open_dealership: OpenDealership) -> None:
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
    assert post(log_in.dealership, hello).status_code != 401
    opened = open_dealership(settings(log_in.issuer.url, 'mode = "bearer"') + NO_LIMITS)
    assert post(opened, hello).status_code == 401


@pytest.mark.requirement("mcp-login")
def test_without_an_issuer_the_tool_says_what_is_missing(open_dealership: OpenDealership) -> None:
    opened = open_dealership('[auth]\nmode = "bearer"\n' + NO_LIMITS)
    assert text_of(use(opened, "inventory_search")).startswith("AUTH_REQUIRED: ")


@pytest.mark.requirement("mcp-login", "issued-tokens")
def test_a_question_belongs_to_the_client_and_not_to_its_token(log_in: LogIn) -> None:
    opened = log_in.dealership
    asked = lead_of(opened, token=log_in.token())["requestState"]
    again = {"state": asked, "answer": ticked(email=True)}
    log_in.issuer.clients["other"] = type(log_in.issuer.clients["reader"])("other")
    assert lead_of(opened, token=log_in.token("other"), **again) == STATE_REFUSED
    # A newer token of the same client.
    sent = lead_of(opened, token=log_in.token(), **again)
    assert sent["structuredContent"]["status"] in ("received", "duplicate")
