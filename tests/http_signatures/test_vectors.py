"""The test vectors of RFC 9421, and of the drafts of Web Bot Auth (docs/protocol.md#signed-requests)."""

from typing import Any

import pytest
from tests.http_signatures.vectors import VECTORS, message_of

from dealer_agent.http_signatures.directory import DirectoryRefused, KeySet, read_directory
from dealer_agent.http_signatures.errors import SignatureRefused
from dealer_agent.http_signatures.fields import Fields
from dealer_agent.http_signatures.keys import KeyRefused, PublicKey, read_public_key, thumbprint_of
from dealer_agent.http_signatures.signature_base import signature_base
from dealer_agent.http_signatures.web_bot_auth import UnknownKeys, VerifiedRequest, verify_request

KEYS: dict[str, PublicKey] = {name: read_public_key(jwk) for name, jwk in VECTORS["keys"].items()}
CREATED = 1_735_689_600.0
pytestmark = pytest.mark.outside_protocol("the vectors of RFC 9421 and of the drafts of Web Bot Auth")


def named(case: dict[str, Any]) -> str:
    return str(case["name"])


@pytest.mark.parametrize("case", [*VECTORS["rfc9421"], *VECTORS["web_bot_auth"]], ids=named)
def test_every_vector_has_its_signature_base_and_is_valid_or_not_as_it_says(case: dict[str, Any]) -> None:
    message = message_of(case)
    fields = Fields(message.headers)
    ((label, (components, parameters)),) = fields.dictionary("signature-input").items()
    base = signature_base(components, parameters, message, fields)
    if "base" in case and case["valid"]:
        assert base.decode() == case["base"]
    key = KEYS.get(case["key"])
    if key is None:
        assert case["key"] == "test-key-shared-secret"  # No HMAC is ever verified.
    else:
        assert key.verifies(fields.dictionary("signature")[label][0], base) is case["valid"]


def test_the_secret_of_an_hmac_is_no_key() -> None:
    with pytest.raises(KeyRefused):
        read_public_key({"kty": "oct", "k": "dGVzdA"})


@pytest.mark.parametrize("case", [each for each in VECTORS["web_bot_auth"] if "method" in each], ids=named)
def test_the_drafts_examples_are_requests_of_their_agent(case: dict[str, Any]) -> None:
    message = message_of(case)
    assert not isinstance(message, tuple) or hasattr(message, "method")
    agent = dict(case["headers"]).get("signature-agent")
    asked: list[str] = []

    def find(origin: str) -> None:
        asked.append(origin)

    lives_too_long = "expires=4889289600" in dict(case["headers"])["signature-input"]
    if agent is None:
        assert verify_request(message, CREATED, find) is None  # type: ignore[arg-type]
    elif lives_too_long:
        with pytest.raises(SignatureRefused) as refused:
            verify_request(message, CREATED, find)  # type: ignore[arg-type]
        assert refused.value.reason == "too_long"
    else:
        assert verify_request(message, CREATED, find) == UnknownKeys("https://signature-agent.test")  # type: ignore[arg-type]
        assert asked == ["https://signature-agent.test"]


def test_an_example_that_lives_a_day_at_most_is_verified() -> None:
    (case,) = (each for each in VECTORS["web_bot_auth"] if each["name"] == "ed25519, string")
    key = KEYS["test-key-ed25519"]

    known = KeySet(b"", {key.thumbprint: key}, CREATED, CREATED)
    found = verify_request(message_of(case), CREATED + 300, lambda _: known)  # type: ignore[arg-type]
    assert isinstance(found, VerifiedRequest)
    assert (found.origin, found.thumbprint) == ("https://signature-agent.test", key.thumbprint)
    assert found.accepted_until == CREATED + 300 + 60


def test_the_example_of_a_directory_is_refused_only_because_its_key_is_published() -> None:
    (case,) = (each for each in VECTORS["web_bot_auth"] if each["name"] == "directory")
    with pytest.raises(DirectoryRefused, match="published in RFC 9421"):
        read_directory(message_of(case).headers, case["body"].encode(), case["authority"], CREATED)


@pytest.mark.parametrize(
    ("name", "thumbprint"),
    [
        ("test-key-ed25519", "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"),
        ("test-key-rsa-pss", "oD0HwocPBSfpNy5W3bpJeyFGY_IQ_YpqxSjQ3Yd-CLA"),
    ],
)
def test_thumbprints_are_those_of_the_drafts(name: str, thumbprint: str) -> None:
    assert thumbprint_of(VECTORS["keys"][name]) == thumbprint
