"""Verified tokens are kept, within bounds, and no longer than they are valid (docs/protocol.md#issued-tokens)."""

from typing import Any

import pytest
from tests.callers.issuing import AUDIENCE, CLIENT, ISSUER, NOW, jwk, key_set, token

from dealer_agent.callers import issued
from dealer_agent.callers.access_token import TokenRefused
from dealer_agent.callers.issuer import Issuer
from dealer_agent.http_signatures.directory import KeySet
from dealer_agent.protocol.errors import RateLimited
from dealer_agent.server import access_tokens
from dealer_agent.server.access_tokens import AccessTokens, VerifiedTokens

SOURCE = "jwks:https://login.example/keys"
EXPECTED = issued(ISSUER, CLIENT, frozenset({"inventory:read", "leads:write"}))


class Keys:
    """The key sets of a process."""

    def __init__(self, document: bytes | None) -> None:
        self.keys = None if document is None else KeySet(document, {}, NOW, NOW + 600)
        self.asked: list[str] = []

    def find(self, source: str) -> KeySet | None:
        assert source == SOURCE
        return self.keys

    def refresh_soon(self, source: str) -> None:
        self.asked.append(source)


def tokens_of(keys: Keys, verified: VerifiedTokens, dealer_id: str = "d", audience: str = AUDIENCE) -> AccessTokens:
    known: Any = keys
    return AccessTokens(dealer_id, [(Issuer(ISSUER, frozenset({audience})), SOURCE)], known, verified)


@pytest.fixture
def keys() -> Keys:
    return Keys(key_set())


@pytest.fixture
def verified() -> VerifiedTokens:
    return VerifiedTokens()


@pytest.mark.requirement("issued-tokens")
def test_a_repeated_token_is_verified_once(
    keys: Keys, verified: VerifiedTokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens, text = tokens_of(keys, verified), token()
    assert tokens.caller_of(text, NOW) == EXPECTED
    monkeypatch.setattr(access_tokens, "verify", None)
    assert tokens.caller_of(text, NOW + 100) == EXPECTED


@pytest.mark.requirement("issued-token-refused")
def test_a_kept_token_expires(keys: Keys, verified: VerifiedTokens) -> None:
    tokens, text = tokens_of(keys, verified), token()
    tokens.caller_of(text, NOW)
    assert tokens.caller_of(text, NOW + 359) == EXPECTED
    with pytest.raises(TokenRefused, match="expired"):
        tokens.caller_of(text, NOW + 360)
    assert len(verified) == 0


@pytest.mark.requirement("issued-token-keys")
def test_a_kept_token_ends_with_the_key_that_signed_it(keys: Keys, verified: VerifiedTokens) -> None:
    tokens, text = tokens_of(keys, verified), token()
    tokens.caller_of(text, NOW)
    keys.keys = Keys(key_set(jwk(number=2))).keys
    with pytest.raises(TokenRefused, match="no key that can verify it"):
        tokens.caller_of(text, NOW)
    assert keys.asked == [SOURCE]


@pytest.mark.requirement("issued-tokens")
def test_a_kept_token_is_verified_again_after_a_change_of_the_settings(keys: Keys, verified: VerifiedTokens) -> None:
    text = token()
    tokens_of(keys, verified).caller_of(text, NOW)
    with pytest.raises(TokenRefused, match="audience"):
        tokens_of(keys, verified, audience="https://other.example").caller_of(text, NOW)


@pytest.mark.requirement("issued-token-refused")
def test_a_token_that_one_dealer_accepts_is_not_accepted_by_another(keys: Keys, verified: VerifiedTokens) -> None:
    text = token()
    tokens_of(keys, verified).caller_of(text, NOW)
    with pytest.raises(TokenRefused, match="audience"):
        tokens_of(keys, verified, "e", "https://other.example").caller_of(text, NOW)


@pytest.mark.requirement("issued-token-keys")
def test_a_client_waits_while_the_keys_are_missing(verified: VerifiedTokens) -> None:
    with pytest.raises(RateLimited, match="keys of the token's issuer"):
        tokens_of(Keys(None), verified).caller_of(token(), NOW)


@pytest.mark.requirement("issued-token-refused")
def test_an_issuer_that_the_dealer_does_not_name_is_refused(keys: Keys, verified: VerifiedTokens) -> None:
    with pytest.raises(TokenRefused, match="does not trust"):
        tokens_of(keys, verified).caller_of(token(iss="https://evil.example"), NOW)


@pytest.mark.requirement("issued-tokens")
def test_only_the_tokens_that_were_used_last_are_kept(
    keys: Keys, verified: VerifiedTokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_tokens, "MOST_KEPT", 3)
    tokens, texts = tokens_of(keys, verified), [token(jti=str(number)) for number in range(4)]
    for text in (*texts[:3], texts[0], texts[3]):
        tokens.caller_of(text, NOW)
    assert len(verified) == 3
    monkeypatch.setattr(access_tokens, "verify", None)
    for text in (texts[0], texts[2], texts[3]):
        assert tokens.caller_of(text, NOW) == EXPECTED


@pytest.mark.requirement("issued-token-refused")
def test_no_refused_token_is_kept(keys: Keys, verified: VerifiedTokens) -> None:
    tokens = tokens_of(keys, verified)
    for number in range(10):
        with pytest.raises(TokenRefused):
            tokens.caller_of(token(number=2, jti=str(number)), NOW)
    assert len(verified) == 0
