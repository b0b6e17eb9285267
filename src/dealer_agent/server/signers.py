"""Finds out which agent has signed a request (docs/protocol.md#signed-requests)."""

from time import time

from dealer_agent.http_signatures.errors import SignatureRefused
from dealer_agent.http_signatures.signature_base import Request
from dealer_agent.http_signatures.web_bot_auth import KnownKeySet, UnknownKeys, Verified, verify_request
from dealer_agent.server.service import NEW_AGENTS_RULE, Process


def find_signer(process: Process, request: Request, address: str) -> Verified | None:
    """The agent that has signed a request. None without a signature, and while its keys are not known.

    Keys that are not known are asked for, within the rate of the IP address. Raises SignatureRefused.
    """
    keys = process.known_keys
    if keys is None:
        return None

    def find(origin: str) -> KnownKeySet | None:
        if origin not in keys and process.limits.acquire(NEW_AGENTS_RULE, address) is not None:
            return None
        return keys.find(origin)

    verified = verify_request(request, time(), find)
    if isinstance(verified, UnknownKeys):
        keys.refresh_soon(verified.origin)
        return None
    return verified


def replayed() -> SignatureRefused:
    """The refusal of a nonce that was used before."""
    return SignatureRefused("replayed", "The nonce of the signature was used before: sign each request anew.")
