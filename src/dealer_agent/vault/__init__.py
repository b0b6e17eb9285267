"""Customer data at rest: keys, sealing, keyed hashes. Pure but for the random numbers."""

from dealer_agent.vault.errors import BadKeys, BrokenSeal, UnknownKey, VaultError
from dealer_agent.vault.keyring import Keyring, new_key, new_lasting_secret, render
from dealer_agent.vault.vault import Vault

__all__ = [
    "BadKeys",
    "BrokenSeal",
    "Keyring",
    "UnknownKey",
    "Vault",
    "VaultError",
    "new_key",
    "new_lasting_secret",
    "render",
]
