"""Where the keys of an issuer come from, and what is not fetched (docs/protocol.md#issued-token-keys)."""

import asyncio
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from tests.servers.issuer import Issuer, running_issuer

from dealer_agent.callers.access_token import read_keys
from dealer_agent.known_keys import issuers
from dealer_agent.known_keys.fetching import FetchFailed
from dealer_agent.known_keys.issuers import fetch_key_set
from dealer_agent.outgoing.addresses import ANY_ADDRESS, AddressRule

pytestmark = pytest.mark.requirement("issued-token-keys")


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with running_issuer(algorithm="ES256") as running:
        yield running


def fetched(source: str, rule: AddressRule = ANY_ADDRESS) -> int:
    return len(read_keys(asyncio.run(fetch_key_set(source, rule, AddressRule())).body))


def test_the_metadata_of_the_issuer_leads_to_its_keys(issuer: Issuer) -> None:
    assert fetched(f"issuer:{issuer.url}") == 1
    assert fetched(f"jwks:{issuer.url}/keys.json") == 1


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("jwks:{url}/nothing", "the status 404"),
        ("jwks:{url}/.well-known/oauth-authorization-server", "is not a JSON Web Key Set"),
        ("issuer:{url}/realm", "/.well-known/oauth-authorization-server/realm: it answered with the status 404"),
        ("issuer:{url}/", "names another issuer"),
        ("jwks:http://login.example/keys", "not https"),
        ("jwks:ftp://127.0.0.1/keys", "the connection failed|not https"),
        ("jwks:http://[/keys", "not https"),
    ],
)
def test_a_key_set_that_cannot_be_fetched_or_read_is_refused_with_the_reason(
    issuer: Issuer, source: str, words: str
) -> None:
    with pytest.raises(FetchFailed, match=words):
        fetched(source.format(url=issuer.url))


@pytest.mark.parametrize("source", ["issuer:{url}", "jwks:{url}/keys.json"])
def test_a_dealer_of_an_installation_reaches_no_private_address(issuer: Issuer, source: str) -> None:
    before = issuer.fetched
    with pytest.raises(FetchFailed, match="not public"):
        fetched(source.format(url=issuer.url), AddressRule())
    assert issuer.fetched == before


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ("http://10.0.0.1/keys", "not encrypted"),
        ("https://10.0.0.1/keys", "not public"),
        ("https://169.254.169.254/latest/meta-data", "not public"),
        ("https://localhost/keys", "not public"),
        ("http://127.0.0.1:{other}/keys.json", "not public"),
        ("file:///etc/passwd", "https://"),
    ],
)
def test_metadata_cannot_name_a_key_set_on_the_private_network(
    issuer: Issuer, named: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The settings may name any address, as those of a folder. The issuer may name its own server, and public ones."""
    with running_issuer(algorithm="ES256") as other:
        url = named.format(other=urlsplit(other.url).port)
        monkeypatch.setattr(issuers, "jwks_url_in", lambda *_: url)
        with pytest.raises(FetchFailed, match=words):
            fetched(f"issuer:{issuer.url}")
        assert other.fetched == 0
