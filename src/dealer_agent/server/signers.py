"""Finds out which agent has signed a request (docs/protocol.md#signed-requests)."""

from time import time
from urllib.parse import urlsplit

from dealer_agent.dealers.profile_checks import is_this_machine
from dealer_agent.http_signatures.errors import SignatureRefused
from dealer_agent.http_signatures.signature_base import SignableRequest
from dealer_agent.http_signatures.web_bot_auth import KnownKeySet, UnknownKeys, VerifiedRequest, verify_request
from dealer_agent.server.served_dealers import host_name
from dealer_agent.server.service import NEW_AGENTS_RULE, Service


def find_signer(service: Service, request: SignableRequest, address: str) -> VerifiedRequest | None:
    """The agent that has signed a request. None without a signature, and while its keys are not known.

    Keys that are not known are asked for, within the rate of the IP address. Raises SignatureRefused.
    """
    process, keys = service.process, service.process.known_keys
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
    if verified is not None and not _is_for(service, host_name(request.authority)):
        at = service.card.http_json_url
        raise SignatureRefused(
            "wrong_signature", f"The signature is for a host that is not one of this dealer: sign requests to {at}."
        )
    return verified


def _is_for(service: Service, name: str) -> bool:
    """Whether a signed host is one of the dealer. Otherwise, who receives a signed request could send it on to here.

    Without `public_url`, only clients of this machine can use the card.
    """
    if service.process.is_host_of(service.dealer_id, name) or name in service.settings.mcp.allowed_hosts:
        return True
    public = urlsplit(service.settings.service.public_url).hostname
    return name.strip("[]") == public if public else is_this_machine(name)


def replayed() -> SignatureRefused:
    """The refusal of a nonce that was used before."""
    return SignatureRefused("replayed", "The nonce of the signature was used before: sign each request anew.")
