"""Decides by which IP address a client is counted, also behind proxies (docs/protocol.md#rate-limits)."""

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from itertools import islice

from starlette.types import Scope

Networks = tuple[IPv4Network | IPv6Network, ...]

UNKNOWN = "unknown"

MOST_HOPS = 100
"""How many IP addresses of `X-Forwarded-For` are read, starting with the last."""
_LONGEST_ADDRESS = 64


def client_address(peer: str | None, headers: Iterable[tuple[bytes, bytes]], trusted: Networks) -> str:
    """The IP address by which the client of this request is counted.

    This is the peer's address. If the peer is a trusted proxy, it is the last address in `X-Forwarded-For` that is
    not a trusted proxy. An IPv6 client is counted by its /64 network: it can use every address in it.
    """
    if not trusted:
        return _peer_address(peer)
    address = _parsed(peer)
    if address is None:
        return UNKNOWN
    if _is_in(address, trusted):
        forwarded = [value.decode("latin-1") for name, value in headers if name == b"x-forwarded-for"]
        hops = (hop for line in reversed(forwarded) for hop in reversed(line.rsplit(",", MOST_HOPS)))
        for hop in islice(hops, MOST_HOPS):
            parsed = _parsed(hop.strip())
            if parsed is None:
                # No proxy wrote this entry, so anybody may have written the entries before it.
                break
            address = parsed
            if not _is_in(address, trusted):
                break
    return _counted_as(address)


def scope_address(scope: Scope, trusted: Networks) -> str:
    """The IP address by which the client of an ASGI request is counted."""
    return client_address(scope["client"][0] if scope.get("client") else None, scope["headers"], trusted)


def is_from(scope: Scope, networks: Networks) -> bool:
    """Whether the peer of an ASGI request is in one of the networks."""
    address = _parsed(scope["client"][0] if scope.get("client") else None)
    return address is not None and _is_in(address, networks)


def undeclared_proxy(scope: Scope) -> str | None:
    """The peer of an ASGI request that it has forwarded for another client; None if it seems to have forwarded none.

    Only a private or loopback address counts. Anybody can send the header, and a proxy can name any address as its
    client.
    """
    peer = _parsed(scope["client"][0] if scope.get("client") else None)
    if peer is None or not (peer.is_loopback or peer.is_private):
        return None
    values = (value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for")
    named = (_parsed(hop.strip()) for value in values for hop in value.rsplit(",", MOST_HOPS))
    return str(peer) if any(client is not None and client != peer for client in named) else None


def share_address(peer: str | None, headers: Iterable[tuple[bytes, bytes]], trusted: Networks) -> str | None:
    """The IP address by which the bytes of a request are counted: that of the client which a trusted proxy names.

    None for a trusted proxy that names nobody, and for this machine: they may send the requests of many clients.
    """
    address = limited_address(peer, trusted)
    if address is None and trusted:
        return limited_address(client_address(peer, headers, trusted).partition("/")[0], trusted)
    return address


def limited_address(peer: str | None, trusted: Networks) -> str | None:
    """The IP address for the limit of connections. None for a trusted proxy and this machine: they may have the
    connections of many clients."""
    address = _parsed(peer)
    if address is None or address.is_loopback or _is_in(address, trusted):
        return None
    return _counted_as(address)


@lru_cache(maxsize=4096)
def _peer_address(peer: str | None) -> str:
    address = _parsed(peer)
    return UNKNOWN if address is None else _counted_as(address)


def _is_in(address: IPv4Address | IPv6Address, networks: Networks) -> bool:
    return any(address in network for network in networks)


def _parsed(text: str | None) -> IPv4Address | IPv6Address | None:
    # The client chooses the text. The cache keeps no long ones.
    return _address_in(text) if text and len(text) <= _LONGEST_ADDRESS else None


@lru_cache(maxsize=4096)
def _address_in(text: str) -> IPv4Address | IPv6Address | None:
    """The IP address in a text that may have brackets or a port. None for anything else."""
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
