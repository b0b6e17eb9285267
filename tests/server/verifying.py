"""Verifies agent cards with the official SDKs, as a careful buyer does."""

import json
import subprocess
from copy import deepcopy
from typing import Any, NamedTuple

import jwt
from a2a.client.card_resolver import parse_agent_card
from a2a.utils.signing import InvalidSignaturesError, create_signature_verifier
from tests.acceptance.test_javascript_client import JS, installed
from tests.server.dealership import Dealership

Card = dict[str, Any]
KEYS_PATH = "/.well-known/jwks.json"


class Read(NamedTuple):
    """A card that a buyer has read below `root`, and the key set of this root."""

    card: Card
    root: str
    keys: dict[str, Any]


def read(dealership: Dealership, path: str, root: str, below: str = "") -> Read:
    """What a buyer reads of a dealer whose service is below a path."""
    return Read(dealership.get(below + path).json(), root, dealership.get(below + KEYS_PATH).json())


def is_valid_in_python(seen: Read) -> bool:
    """Whether the official Python SDK finds a valid signature."""

    def find_key(kid: str | None, jku: str | None) -> jwt.PyJWK:
        if jku != seen.root + KEYS_PATH:
            raise jwt.InvalidKeyError(jku)
        found = [key for key in jwt.PyJWKSet.from_dict(seen.keys).keys if key.key_id == kid]
        if not found:
            raise jwt.InvalidKeyError(kid)
        return found[0]

    try:
        create_signature_verifier(find_key, ["ES256"])(parse_agent_card(deepcopy(seen.card)))
    except InvalidSignaturesError:
        return False
    return True


def are_valid_in_javascript(seen: list[Read]) -> list[bool]:
    """For each, whether the official JavaScript SDK finds a valid signature. Skips the test without Node."""
    node = installed()
    done = subprocess.run(
        [node, "verify_cards.js"],
        cwd=JS,
        input=json.dumps([each._asdict() for each in seen]),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    valid: list[bool] = json.loads(done.stdout)
    return valid
