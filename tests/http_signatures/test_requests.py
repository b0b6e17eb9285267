"""Which signed requests are accepted (docs/protocol.md#signed-requests)."""

import random
from typing import Any

import pytest
from tests.http_signatures.signed import (
    BODY,
    KEY,
    NOW,
    ORIGIN,
    P256,
    P384,
    RSA,
    SIGNER,
    USUAL,
    key_set,
    known,
    lead,
    signed,
    with_headers,
)
from tests.soak import soak_count, soak_seed

from dealer_agent.http_signatures.content_digest import check_digest, content_digest
from dealer_agent.http_signatures.errors import SignatureRefused
from dealer_agent.http_signatures.keys import PrivateKey
from dealer_agent.http_signatures.origin import parse_origin
from dealer_agent.http_signatures.signature_base import Component, SignableRequest
from dealer_agent.http_signatures.web_bot_auth import (
    UnknownKeys,
    VerifiedRequest,
    check_body,
    check_coverage,
    verify_request,
)

pytestmark = pytest.mark.requirement("signed-requests", "signed-leads", "wrong-signature")
WHOLE: list[Component] = [("@authority", {}), ("signature-agent", {})]


def verified(request: SignableRequest, now: float = NOW) -> VerifiedRequest:
    found = verify_request(request, now, known)
    assert isinstance(found, VerifiedRequest)
    return found


def refused(request: SignableRequest, now: float = NOW) -> str:
    with pytest.raises(SignatureRefused) as error:
        verify_request(request, now, known)
    assert str(error.value).endswith(".")
    return error.value.reason


def test_a_lead_that_our_signer_signs_is_that_of_its_agent() -> None:
    found = verified(lead())
    check_coverage(found)
    check_body(found, BODY)
    assert (found.origin, found.thumbprint, found.accepted_until) == (ORIGIN, KEY.thumbprint, NOW + 60 + 60)
    assert found.nonce
    assert verified(lead()).nonce != found.nonce


@pytest.mark.parametrize("key", [KEY, P256, P384, RSA], ids=lambda key: key.algorithm)
@pytest.mark.parametrize("says", [True, False])
def test_each_algorithm_is_verified_with_and_without_its_name(key: PrivateKey, says: bool) -> None:
    request = signed(key=key, alg=key.algorithm) if says else signed(key=key)
    assert verified(request).thumbprint == key.thumbprint


@pytest.mark.parametrize(
    "request_",
    [
        with_headers({}),
        with_headers({"signature": "a=:AA==:"}),
        with_headers({"signature-input": 'sig=("date");created=1;tag="other"', "signature": "sig=:AA==:"}),
        with_headers({"signature-input": "((("}),
        signed(tag="http-message-signatures-directory"),
        signed([("@authority", {})], agent=None),
        signed(agent=f'agent="{ORIGIN}/jwks.json";type=jwks_uri'),
        signed(agent='agent="http://agent.example"'),
        signed(WHOLE, agent='"agent.example"'),
    ],
    ids=["none", "no input", "other tag", "not parsed", "directory", "no agent", "jwks", "http", "no origin"],
)
def test_a_request_without_a_signature_that_names_a_directory_is_anonymous(request_: SignableRequest) -> None:
    assert verify_request(request_, NOW, known) is None


@pytest.mark.parametrize(
    ("components", "agent"),
    [
        (USUAL, f'agent="{ORIGIN}"'),
        (USUAL, f'other="https://other.example", agent="{ORIGIN}/"'),
        (WHOLE, f'"{ORIGIN}"'),
        (WHOLE, f'agent="{ORIGIN}"'),
        (WHOLE, f'agent="{ORIGIN}:443";type=directory'),
        ([("@target-uri", {}), ("signature-agent", {"key": "x"})], f'x="{ORIGIN}"'),
        (
            [("@authority", {}), ("signature-agent", {"key": "x"}), *USUAL[1:]],
            f'x="https://x.example", agent="{ORIGIN}"',
        ),
    ],
)
def test_the_agent_is_the_member_that_the_signature_covers(components: list[Component], agent: str) -> None:
    assert verified(signed(components, agent=agent)).origin == ORIGIN


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (signed([("signature-agent", {"key": "agent"})]), "not_covered"),
        (signed([("@authority", {})]), "not_covered"),
        (signed([("@authority", {})], agent=f'"{ORIGIN}"'), "not_covered"),
        (signed([("@authority", {}), ("signature-agent", {"key": "x"})], agent=f'agent="{ORIGIN}", x="{ORIGIN}"'), ""),
        (signed(WHOLE, agent=f'x="{ORIGIN}", y="{ORIGIN}"'), "not_covered"),
        (signed(without=("created",)), "missing_parameter"),
        (signed(without=("expires",)), "missing_parameter"),
        (signed(without=("keyid",)), "missing_parameter"),
        (signed(keyid="test-key"), "missing_parameter"),
        (signed(keyid=P256.thumbprint[:-1] + "A"), "unknown_key"),
        (signed(alg="hmac-sha256"), "wrong_algorithm"),
        (signed(alg="rsa-pss-sha512"), "wrong_algorithm"),
        (signed(nonce="n" * 129), "too_large"),
        (signed(created=int(NOW) + 61, expires=int(NOW) + 90), "too_early"),
        (signed(created=int(NOW) - 600, expires=int(NOW) - 61), "expired"),
        (signed(created=int(NOW) - 361, expires=int(NOW) + 600), "expired"),
        (signed(created=int(NOW), expires=int(NOW)), "expired"),
        (signed(expires=int(NOW) + 24 * 3600 + 1), "too_long"),
        (signed(created=True), "missing_parameter"),
    ],
)
def test_a_wrong_signature_is_refused_with_a_reason(request_: SignableRequest, reason: str) -> None:
    if reason:
        assert refused(request_) == reason
    else:
        verified(request_)


@pytest.mark.parametrize("now", [NOW - 60, NOW, NOW + 120])
def test_clocks_may_differ_by_a_minute(now: float) -> None:
    verified(signed(), now)


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({"signature": "other=:AA==:"}, "malformed"),
        ({"signature": "agent=1"}, "malformed"),
        ({"signature": "agent=:A"}, "malformed"),
        ({"signature": "agent=:" + "A" * 2100 + ":"}, "too_large"),
        ({"signature-input": 'agent=1;tag="web-bot-auth"'}, "malformed"),
        ({"signature-input": 'agent=("@authority" 1);tag="web-bot-auth"'}, "malformed"),
        ({"signature-input": 'agent=("a");tag="web-bot-auth", agent=("b")'}, "malformed"),
        ({"signature-input": 'agent=("a");created=1;created=2;tag="web-bot-auth"'}, "malformed"),
        ({"signature-input": "agent=();tag=web-bot-auth"}, None),
        (
            {"signature-input": 'a=();tag="web-bot-auth"' + "".join(f", b{n}=()" for n in range(8))},
            "too_large",
        ),
        ({"signature-input": 'agent=();tag="web-bot-auth"' + "".join(f";p{n}" for n in range(16))}, "too_large"),
        ({"signature-input": 'agent=();tag="web-bot-auth";x="' + "x" * 2100 + '"'}, "too_large"),
        ({"signature-agent": "agent=1"}, "malformed"),
        ({"signature-agent": '"https://agent.example'}, "not_covered"),
        ({"signature-agent": "((("}, "malformed"),
    ],
)
def test_a_field_that_is_not_in_order_is_refused(headers: dict[str, str], reason: str | None) -> None:
    whole = {name.decode(): value.decode() for name, value in signed().headers}
    request = with_headers(whole | headers)
    if reason is None:
        assert verify_request(request, NOW, known) is None
    else:
        assert refused(request) == reason


@pytest.mark.parametrize(
    "component",
    [
        ("@status", {}),
        ("@authority", {"req": True}),
        ("@unknown", {}),
        ("host", {"sf": True}),
        ("host", {"bs": True}),
        ("host", {"tr": True}),
        ("Host", {}),
        ("absent", {}),
        ("signature-agent", {"key": "absent"}),
        ("host", {"key": "a"}),
        ("@query-param", {"name": "absent"}),
        ("@query-param", {}),
        ("@authority", {}),
    ],
)
def test_a_component_that_is_absent_twice_or_unsupported_is_refused(component: Component) -> None:
    request = signed()
    line = next(value for name, value in request.headers if name == b"signature-input").decode()
    name, of = component
    text = f'"{name}"' + "".join(f";{key}" + ("" if value is True else f'="{value}"') for key, value in of.items())
    headers = {key.decode(): value.decode() for key, value in request.headers} | {
        "signature-input": line.replace(")", f" {text})", 1)
    }
    assert refused(with_headers(headers)) in ("unsupported", "malformed", "wrong_signature")


@pytest.mark.parametrize(
    "parts",
    [
        {"method": "GET"},
        {"path": "/v1/message:stream"},
        {"authority": "other.example"},
        {"query": "a=b"},
    ],
)
def test_a_signature_is_not_that_of_another_request(parts: dict[str, str]) -> None:
    if "query" in parts:
        verified(lead(**parts))  # It had none, so it covers none.
    else:
        assert refused(lead(**parts)) == "wrong_signature"


def test_the_authority_is_compared_without_case_and_default_port() -> None:
    verified(lead(authority="Dealer.Example:443"))
    assert refused(lead(authority="dealer.example:444")) == "wrong_signature"


def test_an_unknown_origin_or_a_new_key_is_not_wrong_yet() -> None:
    assert verify_request(signed(), NOW, lambda _: None) == UnknownKeys(ORIGIN)
    old = key_set(P256, fetched_at=NOW - 61)
    assert verify_request(signed(), NOW, lambda _: old) == UnknownKeys(ORIGIN)
    new = key_set(P256, fetched_at=NOW - 60)
    with pytest.raises(SignatureRefused):
        verify_request(signed(), NOW, lambda _: new)


def test_the_key_of_one_origin_does_not_sign_for_another() -> None:
    usual = lead()
    other = usual._replace(
        headers=[(name, value.replace(b"agent.example", b"other.example")) for name, value in usual.headers]
    )
    with pytest.raises(SignatureRefused) as error:
        verify_request(other, NOW, lambda origin: key_set(P256) if origin == "https://other.example" else None)
    assert error.value.reason == "unknown_key"
    with pytest.raises(SignatureRefused) as error:
        verify_request(other, NOW, lambda _: key_set(KEY))
    assert error.value.reason == "wrong_signature"


@pytest.mark.parametrize(
    ("components", "parameters", "reason"),
    [
        ([*USUAL, ("@method", {}), ("@path", {})], {"nonce": "n"}, "not_covered"),
        ([*USUAL, ("host", {}), ("@method", {})], {"nonce": "n"}, "not_covered"),
    ],
)
def test_a_signature_that_does_not_cover_the_lead_is_refused(
    components: list[Component], parameters: dict[str, Any], reason: str
) -> None:
    found = verified(signed(components, **parameters))
    with pytest.raises(SignatureRefused) as error:
        check_coverage(found)
    assert error.value.reason == reason


@pytest.mark.parametrize(
    "lacks", [{"content_digest": None}, {"covers_target": False}, {"nonce": None}], ids=lambda lacks: next(iter(lacks))
)
def test_a_lead_needs_digest_target_and_nonce(lacks: dict[str, Any]) -> None:
    with pytest.raises(SignatureRefused):
        check_coverage(verified(lead())._replace(**lacks))


def test_a_body_that_does_not_match_its_digest_is_refused() -> None:
    found = verified(lead())
    with pytest.raises(SignatureRefused) as error:
        check_body(found, BODY + b" ")
    assert error.value.reason == "wrong_digest"


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("https://agent.example", ORIGIN),
        ("https://Agent.Example:443/", ORIGIN),
        ("https://agent.example:8443", "https://agent.example:8443"),
        ("https://[2001:db8::1]:8443", "https://[2001:db8::1]:8443"),
        ("https://[2001:db8::1]", "https://[2001:db8::1]"),
        ("https://[2001:0DB8:0::0001]:443", "https://[2001:db8::1]"),
        ("https://192.0.2.1", "https://192.0.2.1"),
        ("https://192.0.02.1", None),
        ("https://192.0.0x2.1", None),
        ("https://192.0.513", None),
        ("https://3221225985", None),
        ("https://0xc0000201", None),
        ("https://[::ffff:1.2.3.4", None),
        ("https://[1:2]", None),
        ("http://agent.example", None),
        ("https://agent.example/path", None),
        ("https://agent.example?q", None),
        ("https://agent.example#f", None),
        ("https://user@agent.example", None),
        ("https://agent.example:0", None),
        ("https://agent.example:65536", None),
        ("https://agent.example:", None),
        ("https://agent.example:+1", None),
        ("https://", None),
        ("https://.", None),
        ("https://a..b", None),
        ("https://agent_x.example", None),
        ("https://agent.example\\@evil.example", None),
        ("https://[::1", None),
        ("https://[::1]8443", None),
        ("https://ägent.example", None),
        ("https://" + "a" * 250, None),
    ],
)
def test_only_the_canonical_spelling_of_an_origin_is_accepted(text: str, origin: str | None) -> None:
    assert parse_origin(text) == origin


def _mutated(values: dict[str, str], chance: random.Random) -> dict[str, str]:
    """The headers with one change that a signature must notice."""
    name = chance.choice([*values])
    value, at = values[name], chance.randrange(len(values[name]))
    match chance.randrange(4):
        case 0:
            changed = value[:at] + value[at + 1 :]
        case 1:
            changed = value[:at] + chance.choice('azAZ09";=:() ,/-_\\\t\x7f\xff') + value[at:]
        case 2:
            changed = value[:at] + chr(ord(value[at]) ^ (1 << chance.randrange(7))) + value[at + 1 :]
        case _:
            other = chance.randrange(len(value))
            first, last = sorted((at, other))
            changed = value[:first] + value[last] + value[first + 1 : last] + value[first] + value[last + 1 :]
    return values | {name: changed}


def test_no_mutated_signature_is_accepted() -> None:
    """A mutation that does not change what a field means is left out: spaces, or an unused bit of base64."""
    chance = random.Random(soak_seed())
    original = lead()
    values = {name.decode(): value.decode() for name, value in original.headers if name != b"host"}
    meaning = _meaning(values)
    outcomes: set[str] = set()
    tried = 0
    while tried < soak_count("SOAK_SIGNATURES", 2000):
        mutated = _mutated(values, chance)
        if _meaning(mutated) == meaning:
            continue
        tried += 1
        try:
            found = verify_request(with_headers(mutated), NOW, known)
            outcomes.add("anonymous" if found is None else type(found).__name__)
            if isinstance(found, VerifiedRequest):
                check_coverage(found)
                check_body(found, BODY)
                pytest.fail(f"accepted: {mutated}")
        except SignatureRefused as error:
            outcomes.add(error.reason)
    assert {"malformed", "wrong_signature", "UnknownKeys", "unknown_key"} <= outcomes


def test_no_mutated_digest_is_accepted() -> None:
    chance = random.Random(soak_seed())
    values = {"content-digest": content_digest(BODY)}
    meaning, tried = _meaning(values), 0
    while tried < soak_count("SOAK_SIGNATURES", 2000):
        mutated = _mutated(values, chance)
        if _meaning(mutated) == meaning:
            continue
        tried += 1
        with pytest.raises(SignatureRefused):
            check_digest(mutated["content-digest"], BODY)


def _meaning(values: dict[str, str]) -> object:
    """What the fields of a request mean to another parser than that of the program: base64 by its bytes, no spaces."""
    import http_sf

    try:
        return {
            name: http_sf.parse(value.strip(" \t").encode("latin-1"), tltype="dictionary")
            for name, value in values.items()
        }
    except ValueError:
        return None


def test_no_signature_of_another_body_is_accepted() -> None:
    chance = random.Random(soak_seed())
    found = verified(lead())
    for _ in range(soak_count("SOAK_SIGNATURES", 2000)):
        at = chance.randrange(len(BODY))
        body = BODY[:at] + bytes([BODY[at] ^ (1 << chance.randrange(8))]) + BODY[at + 1 :]
        with pytest.raises(SignatureRefused):
            check_body(found, body)


def test_a_signer_covers_the_query() -> None:
    headers = SIGNER.sign("GET", "dealer.example", "/v1/tasks", "a=b", b"", NOW)
    request = with_headers(headers, method="GET", path="/v1/tasks", query="a=b")
    assert verified(request).content_digest is None
    assert refused(request._replace(query="a=c")) == "wrong_signature"
