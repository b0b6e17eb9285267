"""Where the keys of an issuer are (docs/protocol.md#issued-token-keys)."""

import json

import pytest

from dealer_agent.callers.issuer_metadata import jwks_url_in, metadata_urls

pytestmark = pytest.mark.requirement("issued-token-keys")


@pytest.mark.parametrize(
    ("issuer", "urls"),
    [
        (
            "https://login.example",
            (
                "https://login.example/.well-known/oauth-authorization-server",
                "https://login.example/.well-known/openid-configuration",
            ),
        ),
        (
            "https://login.example/realms/cars/",
            (
                "https://login.example/.well-known/oauth-authorization-server/realms/cars",
                "https://login.example/.well-known/openid-configuration/realms/cars",
                "https://login.example/realms/cars/.well-known/openid-configuration",
            ),
        ),
    ],
)
def test_the_metadata_is_at_the_well_known_urls(issuer: str, urls: tuple[str, ...]) -> None:
    assert metadata_urls(issuer) == urls


def test_the_metadata_names_the_key_set() -> None:
    document = {"issuer": "https://a.example", "jwks_uri": "https://keys.example/a", "more": [1]}
    assert jwks_url_in(json.dumps(document).encode(), "https://a.example") == "https://keys.example/a"


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"issuer": "https://evil.example", "jwks_uri": "https://a.example/k"}, "another issuer"),
        ({"issuer": "https://a.example/", "jwks_uri": "https://a.example/k"}, "another issuer"),
        ({"jwks_uri": "https://a.example/k"}, "has issuer"),
        ({"issuer": "https://a.example"}, "has issuer"),
        ({"issuer": "https://a.example", "jwks_uri": 1}, "has issuer"),
        ([], "has issuer"),
    ],
)
def test_metadata_of_another_issuer_is_refused(document: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        jwks_url_in(json.dumps(document).encode(), "https://a.example")


@pytest.mark.parametrize("document", [b"", b"{", b"[" * 5000, b"\xff"])
def test_metadata_that_is_no_json_is_refused(document: bytes) -> None:
    with pytest.raises(ValueError, match="is not the metadata"):
        jwks_url_in(document, "https://a.example")
