"""Who is calling: the client's address behind trusted proxies, and its token (specification, parts 5 and 8)."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from itertools import islice

from starlette.types import Scope

from dealer_agent.protocol.errors import AuthRequired, RateLimited
from dealer_agent.server.service import ADDRESS_RULE, BAD_TOKENS_RULE, HEALTH_RULE, MALFORMED_LEADS_RULE, Service
from dealer_agent.server.tokens import bearer_token

Network = IPv4Network | IPv6Network

UNKNOWN = "unknown"


_HOPS = 100
"""How many addresses of `X-Forwarded-For` are read, from the last."""


def client_address(peer: str | None, forwarded: Sequence[str], trusted: tuple[Network, ...]) -> str:
    """The address that requests are counted by.

    That of the peer; when the peer is a trusted proxy, the nearest address in `X-Forwarded-For` that is not one. An
    IPv6 client is counted by its /64: it has as many addresses as it likes within it.
    """
    if not trusted:
        return _peer_address(peer)
    address = _parsed(peer)
    if address is None:
        return UNKNOWN
    if _is_in(address, trusted):
        hops = (hop for line in reversed(forwarded) for hop in reversed(line.rsplit(",", _HOPS)))
        for hop in islice(hops, _HOPS):
            parsed = _parsed(hop.strip())
            if parsed is None:
                # What stands further left came through something that writes no address: it may be anybody's word.
                break
            address = parsed
            if not _is_in(address, trusted):
                break
    return _counted_as(address)


@lru_cache(maxsize=4096)
def _peer_address(peer: str | None) -> str:
    address = _parsed(peer)
    return UNKNOWN if address is None else _counted_as(address)


def counted_address(lines: Iterable[tuple[bytes, bytes]], peer: str | None, service: Service) -> str:
    """The address that a request with these header lines is counted by."""
    trusted = service.settings.service.trusted_networks
    forwarded = [value.decode("latin-1") for name, value in lines if name == b"x-forwarded-for"] if trusted else []
    return client_address(peer, forwarded, trusted)


def caller_of(scope: Scope, service: Service) -> str:
    """The same, of an ASGI request."""
    peer = scope["client"][0] if scope.get("client") else None
    return counted_address(scope["headers"], peer, service)


def limited_address(peer: str | None, trusted: tuple[Network, ...]) -> str | None:
    """The address whose connections are limited together. None for an address that may have the connections of many
    clients: a trusted proxy or this machine."""
    address = _parsed(peer)
    if address is None or address.is_loopback or _is_in(address, trusted):
        return None
    return _counted_as(address)


def _is_in(address: IPv4Address | IPv6Address, networks: tuple[Network, ...]) -> bool:
    return any(address in network for network in networks)


_LONGEST_ADDRESS = 64


def _parsed(text: str | None) -> IPv4Address | IPv6Address | None:
    # Nothing longer is kept in the cache: the text is anybody's.
    return _address_in(text) if text and len(text) <= _LONGEST_ADDRESS else None


@lru_cache(maxsize=4096)
def _address_in(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text.removeprefix("[").partition("]")[0] if text.startswith("[") else text)
    except ValueError:
        host, colon, port = text.rpartition(":")
        # Some proxies add the port to an IPv4 address.
        return _parsed(host) if colon and port.isdigit() and ":" not in host else None
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped
    return address


@lru_cache(maxsize=4096)
def _counted_as(address: IPv4Address | IPv6Address) -> str:
    return str(ip_network((address, 64), strict=False)) if isinstance(address, IPv6Address) else str(address)


def admit(service: Service, address: str, authorization: str | None, cost: int) -> str | None:
    """The first gate, before the body is looked at: the address's rate, then the token (contract, part 3).

    `cost` is how many times the request counts against the rate.

    Returns the id of a valid token, or None when none was sent and none is needed yet. Raises RateLimited and
    AuthRequired.
    """
    count_address(service, address, cost)
    token = bearer_token(authorization)
    if token is None:
        if service.settings.every_skill_needs_token:
            raise AuthRequired("Send a token: Authorization: Bearer <ACCESS_TOKEN>.")
        return None
    owner = service.tokens.owner(token)
    if owner is None:
        count_bad_token(service, address)
        raise AuthRequired("The bearer token is not valid here.")
    return owner


def count_address(service: Service, address: str, cost: int = 1) -> None:
    """Counts a request `cost` times. Raises RateLimited."""
    wait = service.limits.hit(ADDRESS_RULE, address, cost)
    if wait is not None:
        raise RateLimited(wait)


def count_health_check(service: Service, address: str) -> None:
    """Counts a health check. Raises RateLimited."""
    wait = service.limits.hit(HEALTH_RULE, address)
    if wait is not None:
        raise RateLimited(wait)


def count_bad_token(service: Service, address: str) -> None:
    """Counts a wrong secret. Raises RateLimited.

    Only wrong ones use this limit up: buyers may share an address with somebody whose token was revoked.
    """
    wait = service.limits.hit(BAD_TOKENS_RULE, address)
    if wait is not None:
        raise RateLimited(wait)


def admit_to_skill(service: Service, skill_id: str, address: str, token_id: str | None) -> None:
    """The second gate, once the skill is known: its token, then its rate. Raises AuthRequired, RateLimited."""
    if token_id is None and skill_id in service.settings.token_skills:
        raise AuthRequired(f"{skill_id} asks for a token: Authorization: Bearer <ACCESS_TOKEN>.")
    wait = service.limits.hit(skill_id, _client(address, token_id))
    if wait is not None:
        raise RateLimited(wait)


def count_as_malformed(service: Service, skill_id: str, address: str, token_id: str | None) -> None:
    """Counts a lead against the rate of malformed ones, in place of the rate of its skill. Raises RateLimited."""
    client = _client(address, token_id)
    service.limits.give_back(skill_id, client)
    wait = service.limits.hit(MALFORMED_LEADS_RULE, client)
    if wait is not None:
        raise RateLimited(wait)


def _client(address: str, token_id: str | None) -> str:
    """The client that the rate of a skill counts: a token, else an address."""
    return f"token:{token_id}" if token_id else address
