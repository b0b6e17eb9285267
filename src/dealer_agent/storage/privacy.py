"""Which keys customer data is sealed with, who looked at it, and how it goes away (contract, part 10).

Statements on the caller's transaction; whoever changes anything here holds the dealer's lock.
"""

from sqlalchemy import Connection, bindparam, select, text

from dealer_agent.storage.errors import KeyMissing, WrongKey
from dealer_agent.storage.schema import vault_keys
from dealer_agent.vault.errors import BrokenSeal, UnknownKey
from dealer_agent.vault.vault import Vault

PROOF = b"customer data of this dealer is sealed with this key"

READ_PROOFS = select(vault_keys.c.key_id, vault_keys.c.proof).where(vault_keys.c.dealer_id == bindparam("dealer_id"))

ADD_PROOF = text("""
    INSERT INTO vault_keys (dealer_id, key_id, proof) VALUES (:dealer_id, :key_id, :proof) ON CONFLICT DO NOTHING
""")


def check_keys(connection: Connection, vault: Vault, dealer_id: str) -> bool:
    """Whether the active key is noted (`note_active_key`); to be called before customer data is read or written.

    Raises KeyMissing when a key is not here that the dealer's data is sealed with, and WrongKey when one of that name
    is another key.
    """
    noted = {}
    for key_id, proof in connection.execute(READ_PROOFS, {"dealer_id": dealer_id}):
        noted[key_id] = proof
        try:
            vault.open(proof, *_proof_context(dealer_id, key_id))
        except UnknownKey as problem:
            raise KeyMissing(str(problem)) from None
        except BrokenSeal:
            raise WrongKey(
                f"the key {key_id} is not the one that customer data is sealed with: put the right one back from your "
                "backup, into dealer-agent.keys or DEALER_AGENT_KEYS"
            ) from None
    return vault.keyring.active in noted


def note_active_key(connection: Connection, vault: Vault, dealer_id: str) -> None:
    """Notes that data of the dealer is sealed with the active key from now on, with a proof of which key it is."""
    key_id = vault.keyring.active
    proof = vault.seal(PROOF, *_proof_context(dealer_id, key_id))
    connection.execute(ADD_PROOF, {"dealer_id": dealer_id, "key_id": vault.key_of(proof), "proof": proof})


def _proof_context(dealer_id: str, key_id: str) -> tuple[str, ...]:
    return "vault_keys", "proof", dealer_id, key_id
