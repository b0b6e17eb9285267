"""Defects for the checks of the card's signature: agents that sign their card wrongly, each with a key of this test."""

import base64
import json
from typing import Any

import rfc8785
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm
from jwt.api_jws import PyJWS

from dealer_agent.self_test.defect import LISTENS_AT, Agent, AgentResponse, Call, Change, broken
from dealer_agent.self_test.defects.cards import is_card

KEYS_PATH = "/.well-known/jwks.json"
KEY = ec.generate_private_key(ec.SECP256R1())
LARGER_KEY = ec.generate_private_key(ec.SECP384R1())


def unchanged(_: Any) -> None:
    """No change."""


def entry_of(card: Any, header: dict[str, Any], key: ec.EllipticCurvePrivateKey) -> dict[str, str]:
    """An entry of `signatures`. The algorithm in the header may be another one than that of the key."""
    algorithm = "ES256" if key is KEY else "ES384"
    content = {name: value for name, value in card.items() if name != "signatures"}
    protected, _, signature = (
        PyJWS().encode(rfc8785.dumps(content), key, algorithm=algorithm, headers=header).split(".")
    )
    return {"protected": protected, "signature": signature}


def signed(
    requirement_id: str,
    *,
    header: Change = unchanged,
    entry: Change = unchanged,
    keys: Change = unchanged,
    card: Change = unchanged,
    key: ec.EllipticCurvePrivateKey = KEY,
) -> None:
    """Registers a defect that signs the card. The changes are made to the header before it is signed, to the entry,
    to the set of keys, and to the card after it is signed.
    """
    algorithm = ECAlgorithm(ECAlgorithm.SHA256 if key is KEY else ECAlgorithm.SHA384)
    public = {**json.loads(algorithm.to_jwk(key.public_key())), "kid": "key-1", "use": "sig"}

    async def answer(call: Call, agent: Agent) -> AgentResponse:
        if call.path == KEYS_PATH:
            document = {"keys": [dict(public)]}
            keys(document)
            return AgentResponse(200, (("content-type", "application/json"),), json.dumps(document).encode())
        honest = await agent(call)
        return honest.with_document(sign) if is_card(call) and honest.status == 200 else honest

    def sign(node: Any) -> None:
        protected = {"typ": "JOSE", "kid": "key-1", "jku": LISTENS_AT + KEYS_PATH}
        header(protected)
        signature = entry_of(node, protected, key)
        entry(signature)
        node["signatures"] = [signature]
        card(node)

    broken(requirement_id)(answer)


def weak_entry(card: Any) -> None:
    """Adds a signature whose header names a shared secret."""
    header = json.dumps({"alg": "HS256", "typ": "JOSE", "kid": "key-1", "jku": LISTENS_AT + KEYS_PATH}).encode()
    protected = base64.urlsafe_b64encode(header).rstrip(b"=").decode()
    card["signatures"].append({"protected": protected, "signature": "AAAA"})


signed("signatures.members", entry=lambda found: found.update(signature="=not base64="))
signed("signatures.header", header=lambda found: found.pop("kid"))
signed("signatures.algorithm", card=weak_entry)
signed("signatures.es256", key=LARGER_KEY)
signed("signatures.typ", header=lambda found: found.update(typ="JWT"))
signed("signatures.jku", header=lambda found: found.pop("jku"))
signed("signatures.keys", keys=lambda found: found.clear())
signed("signatures.key-public", keys=lambda found: found["keys"][0].update(d="AAAA"))
signed("signatures.key-known", keys=lambda found: found["keys"][0].update(kid="key-0"))
signed("signatures.key-use", keys=lambda found: found["keys"][0].update(use="enc"))
signed("signatures.verify", card=lambda found: found.update(description="Another dealer"))
