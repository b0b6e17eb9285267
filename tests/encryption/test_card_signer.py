"""The key of the card signatures: derived, and the same everywhere (docs/protocol.md#card-signatures)."""

import json
from base64 import urlsafe_b64decode

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, derive_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st

from dealer_agent.config import load_settings
from dealer_agent.encryption import Cipher, Keyring
from dealer_agent.encryption.card_signer import CardSigner
from dealer_agent.server.dealer_opener import card_signer

pytestmark = pytest.mark.requirement("card-signature-keys")

ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
KEYS_URL = "https://agent.example.com/.well-known/jwks.json"
SECRET = bytes(range(32))


def number(text: str) -> int:
    return int.from_bytes(urlsafe_b64decode(text + "="))


@given(st.binary(min_size=32, max_size=32))
def test_the_key_is_derived_by_hkdf_and_a_wide_reduction(secret: bytes) -> None:
    """FIPS 186-5, A.2.1, computed here once more."""
    wide = HKDF(SHA256(), 48, salt=None, info=b"dealer-agent card signatures 1").derive(secret)
    expected = derive_private_key(int.from_bytes(wide) % (ORDER - 1) + 1, SECP256R1()).public_key().public_numbers()
    found = CardSigner(secret, KEYS_URL).public_key
    assert (number(found["x"]), number(found["y"])) == (expected.x, expected.y)
    assert (found["kty"], found["crv"], found["alg"], found["use"]) == ("EC", "P-256", "ES256", "sig")


def test_the_key_of_a_secret_never_changes() -> None:
    """Buyers may have stored its id. A change here takes their trust away."""
    assert CardSigner(SECRET, KEYS_URL).public_key["kid"] == "K5tgvjYOhFCSrTOASEy9uohd6aOANWWZzDjxFkZWzs8"


def test_each_dealer_and_each_key_number_has_a_key_of_its_own_although_the_secret_is_the_same(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Also if the id and the number of one are the same text as those of another, such as acme-1 1 and acme 11."""
    cipher = Cipher(Keyring((("k-1", bytes(range(1, 33))),), SECRET))
    found = []
    for dealer_id, key_number in (("acme", 1), ("acme", 2), ("acme", 11), ("acme-1", 1), ("other", 1)):
        folder = tmp_path_factory.mktemp("dealer")
        (folder / "dealer.toml").write_text(
            f'id = "{dealer_id}"\nname = "A"\nfeed_price = "advertised"\n'
            '[[rooftops]]\nname = "A"\ntimezone = "America/New_York"\n'
            f"[service]\ncard_key_number = {key_number}\n",
            "utf-8",
        )
        found.append(card_signer(load_settings(folder, {}), "http://127.0.0.1:8080", cipher).public_key["kid"])
    assert len(set(found)) == 5


def test_neither_the_key_set_nor_a_card_has_the_secret_or_the_private_key() -> None:
    signer = CardSigner(SECRET, KEYS_URL)
    published = json.dumps([signer.public_key, signer.signed({"name": "A"})])
    assert '"d"' not in published
    assert set(signer.public_key) == {"kty", "crv", "x", "y", "kid", "use", "alg"}
