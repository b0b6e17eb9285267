"""Decides which dealer a request is for, and keeps the services of the dealers that the process has opened.

The dealer comes from the host or from the path, and from nothing else: not from a token, a header or a default
(docs/protocol.md#dealer-addresses). A dealer is opened at its first request, by one task.
"""

import asyncio
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from time import perf_counter
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Scope

from dealer_agent.inventory.catalogue import Catalogue
from dealer_agent.open_installation import OpenInstallation
from dealer_agent.protocol.errors import RateLimited
from dealer_agent.protocol.published_versions import PUBLISHED_VERSIONS, PublishedVersion, VersionName
from dealer_agent.protocol.well_known import PROTECTED_RESOURCE_PATH
from dealer_agent.server.bindings import HTTP_JSON, JSON_RPC, Binding, http_json_of, json_rpc_of
from dealer_agent.server.client_address import is_from
from dealer_agent.server.service import MESSAGE_SEND, RPC, Process, Service

BINDINGS = {MESSAGE_SEND: HTTP_JSON, RPC: JSON_RPC}
"""The bindings at the root of a dealer, by their path."""
BELOW = "/d/"
"""A dealer of an installation answers below this path and its id."""
CONSOLE = "/console"
"""The console answers at this path below the root of the installation, or of the only dealer."""
MOST_OPENING = 4
"""How many dealers a process opens at the same time."""
MOST_WAITING = 256
"""How many dealers may wait to be opened. Anybody can request any dealer."""
RETRY_SECONDS = 2
"""When a client may retry whose dealer could not be opened now."""


class DealerPath(NamedTuple):
    """A dealer, and the path below its root. `is_below_root`: the requested path began with the root."""

    dealer_id: str
    path: str
    is_below_root: bool = True


class ListedDealer(NamedTuple):
    """An enabled dealer that wants to be in the public list. `address` is the root of its addresses."""

    dealer_id: str
    name: str
    address: str


@dataclass(frozen=True)
class Addresses:
    """Where dealers answer. `hosts` maps a host name to a dealer. `dealers` are the enabled ones, by id.

    `only` is the dealer that answers at every host; then `base_path` is the path of its service. `listed` are the
    dealers of the public list, by name. `documents` has the pages of that list that were requested.
    """

    dealers: frozenset[str]
    hosts: Mapping[str, str] = field(default_factory=dict)
    only: str | None = None
    base_path: str = ""
    public_url: str = ""
    listed: Sequence[ListedDealer] = ()
    documents: dict[Any, Any] = field(default_factory=dict, compare=False)

    def locate(self, host: str, path: str) -> DealerPath | None:
        """The dealer at a host and path. None if no enabled dealer answers there.

        A host of a dealer never leads to another dealer. The metadata about tokens (RFC 9728) of a dealer below a path
        is not below that path: the metadata of `/d/north` is at `/.well-known/oauth-protected-resource/d/north`. The
        path below the root is then `/.well-known/oauth-protected-resource`.
        """
        if path.startswith(f"{PROTECTED_RESOURCE_PATH}/"):
            located = self._locate(host, path.removeprefix(PROTECTED_RESOURCE_PATH))
            return located and located._replace(path=PROTECTED_RESOURCE_PATH + located.path.rstrip("/"))
        return self._locate(host, path)

    def _locate(self, host: str, path: str) -> DealerPath | None:
        """The dealer at a host, or else below BELOW in the path."""
        if self.only is not None:
            return self._locate_only(self.only, path)
        dealer_id = self.hosts.get(host_name(host))
        if dealer_id is None and path.startswith(BELOW):
            dealer_id, slash, below = path.removeprefix(BELOW).partition("/")
            path = slash + below or "/"
        return DealerPath(dealer_id, path) if dealer_id in self.dealers else None

    def is_host_of(self, dealer_id: str, name: str) -> bool:
        """Whether a host name is one of a dealer, or that of the installation."""
        return self.hosts.get(name) == dealer_id or (self.only is None and name == urlsplit(self.public_url).hostname)

    def roots(self, dealer_id: str) -> list[tuple[bytes, bytes]]:
        """The host and the path of each root of a dealer. An empty host means all hosts that belong to no dealer."""
        if self.only is not None:
            return [(b"", self.base_path.encode())]
        return [(b"", f"{BELOW}{dealer_id}".encode()), *((host, b"") for host in self._hosts_of.get(dealer_id, ()))]

    @cached_property
    def _hosts_of(self) -> Mapping[str, list[bytes]]:
        hosts_of = defaultdict(list)
        for host, owner in self.hosts.items():
            hosts_of[owner].append(host.encode())
        return hosts_of

    def _locate_only(self, dealer_id: str, path: str) -> DealerPath:
        """The path below the root of the only dealer."""
        if path == self.base_path:
            return DealerPath(dealer_id, "/")
        # The agent card is at the root of the site, also if everything else is below a base path.
        is_below = path.startswith(self.base_path + "/") and not path.startswith("/.well-known/")
        return DealerPath(dealer_id, path.removeprefix(self.base_path) if is_below else path, is_below)


def read_addresses(opened: OpenInstallation) -> Addresses:
    """Where the enabled dealers answer. Raises StorageError, also if the database does not isolate them."""
    installation, (enabled_dealers, hosts) = opened.installation, opened.read_dealers()
    names: dict[str, list[str]] = {}
    for host, dealer_id in hosts.items():
        names.setdefault(dealer_id, []).append(host)
    listed = (
        ListedDealer(each.dealer_id, each.name, installation.address_of(each.dealer_id, names.get(each.dealer_id, ())))
        for each in enabled_dealers
        if each.listed
    )
    only = installation.only
    return Addresses(
        opened.enabled,
        hosts,
        only=None if only is None else only.dealer.id,
        base_path="" if only is None else only.service.base_path,
        public_url=installation.public_url,
        listed=sorted(listed, key=lambda each: (each.name.casefold(), each.dealer_id)),
    )


@cache
def bindings_by_path(served: tuple[VersionName, ...]) -> Mapping[str, Binding]:
    """The bindings by their path below the root of a dealer: those at the root, and those of the versions `served`."""
    bindings = dict(BINDINGS)
    for version in (PUBLISHED_VERSIONS[name] for name in served):
        bindings[version.path + RPC] = json_rpc_of(version)
        if version.has_http_json:
            bindings[version.path + MESSAGE_SEND] = http_json_of(version)
    return bindings


def bindings_of(service: Service) -> Mapping[str, Binding]:
    """The bindings of a dealer, by their path below its root."""
    return bindings_by_path(service.settings.published_versions.served)


def version_at(service: Service, path: str) -> PublishedVersion | None:
    """The served version to whose addresses a path below a dealer's root belongs."""
    served = (PUBLISHED_VERSIONS[name] for name in service.settings.published_versions.served)
    return next((version for version in served if f"{path}/".startswith(f"{version.path}/")), None)


def host_name(host: str) -> str:
    """A host as in `Addresses.hosts`: lower case, without port and final dot."""
    name, colon, port = host.lower().rpartition(":")
    return (name if colon and port.isdigit() else host.lower()).removesuffix(".")


def host_of(scope: Scope) -> bytes:
    """The Host header of a request; empty if it has none."""
    return next((value for name, value in scope["headers"] if name == b"host"), b"")


@dataclass
class ServedDealers:
    """The dealers of one process. `open_dealer` makes the service of one. Use it on the event loop only.

    `close_idle` is called after a dealer was opened. It may close others with `close`. Then `on_opened` is called.
    `loads` counts the snapshots that were loaded. `console` answers below CONSOLE, if the service has it.
    """

    process: Process
    addresses: Addresses
    open_dealer: Callable[[str], Awaitable[Service]]
    close_idle: Callable[["ServedDealers"], None] | None = None
    on_opened: Callable[[str], None] = lambda _: None
    console: ASGIApp | None = None
    opened: dict[str, Service] = field(default_factory=dict)
    loads: int = 0
    # By dealer id.
    _opening: dict[str, asyncio.Task[Service]] = field(default_factory=dict)
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MOST_OPENING))
    # By host and path, the service and the binding of a request. `_roots` has the hosts and paths of each dealer id.
    _targets: dict[tuple[bytes, bytes], tuple[Service, Binding]] = field(default_factory=dict)
    _roots: dict[str, list[tuple[bytes, bytes]]] = field(default_factory=dict)

    @property
    def is_opening(self) -> bool:
        """Whether a dealer is being opened."""
        return bool(self._opening)

    def find_binding(self, host: bytes, path: bytes) -> tuple[Service, Binding] | None:
        """The opened service and the binding at a host and path. If it is None, use `Addresses.locate`."""
        hosts = self.addresses.hosts
        if hosts and host_name(host.decode("latin-1")) in hosts:
            return self._targets.get((host, path))
        return self._targets.get((b"", path))

    def find_catalogue(self, dealer_id: str) -> Catalogue | None:
        """The stock of an opened dealer."""
        service = self.opened.get(dealer_id)
        return None if service is None else service.dealer.catalogue

    async def open(self, dealer_id: str) -> Service:
        """The service of a dealer. Requests for one dealer wait for one task. Raises RateLimited and StorageError."""
        opening = self._opening.get(dealer_id)
        if opening is None:
            if len(self._opening) >= MOST_WAITING:
                raise RateLimited(RETRY_SECONDS, because="The service is busy.")
            opening = self._opening[dealer_id] = asyncio.create_task(self._open(dealer_id))
            opening.add_done_callback(lambda _: self._opening.pop(dealer_id))
        return await asyncio.shield(opening)

    async def _open(self, dealer_id: str) -> Service:
        async with self._slots:
            service = await self.open_dealer(dealer_id)
        self._add(dealer_id, service)
        return service

    def _add(self, dealer_id: str, service: Service) -> None:
        """Makes an opened dealer reachable at its addresses. May close idle dealers to make room."""
        self.loads += 1
        service.used_at = perf_counter()
        self.opened[dealer_id] = service
        self._roots[dealer_id] = self.addresses.roots(dealer_id)
        for host, root in self._roots[dealer_id]:
            for path, binding in bindings_of(service).items():
                self._targets[host, root + path.encode()] = service, binding
        if self.close_idle is not None:
            self.close_idle(self)
        self.on_opened(dealer_id)

    async def open_again(self, dealer_id: str) -> None:
        """Replaces the service of an opened dealer. The older one answers until then. Raises StorageError."""
        service = await self.open_dealer(dealer_id)
        self.close(dealer_id)
        self._add(dealer_id, service)

    def close(self, dealer_id: str) -> Service | None:
        """Removes and returns the service of a dealer. Requests in progress continue to use it."""
        service = self.opened.pop(dealer_id, None)
        for host, root in self._roots.pop(dealer_id, ()):
            for path in bindings_of(service) if service else ():
                del self._targets[host, root + path.encode()]
        return service

    def move(self, addresses: Addresses) -> None:
        """Replaces the addresses. Dealers that are no longer enabled, or answer elsewhere now, are closed."""
        self.addresses = addresses
        for dealer_id in list(self.opened):
            if dealer_id not in addresses.dealers or self._roots[dealer_id] != addresses.roots(dealer_id):
                self.close(dealer_id)


# A name, an IPv4 address or an IPv6 address in brackets, with or without a port.
_HOST = re.compile(r"([A-Za-z0-9]([A-Za-z0-9.-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?")


def at_public_address(service: Service, scope: Scope) -> Service:
    """The service with the URLs that the client of this request can use.

    It is another one only if `public_url` is not set and a trusted proxy says that the client has asked over TLS: then
    the URLs have `https` and the host of the request. A client chooses this host, so such a service signs nothing.
    """
    if service.settings.service.public_url:
        return service
    headers = dict(scope["headers"])
    schemes = headers.get(b"x-forwarded-proto", b"").decode("latin-1").lower().split(",")
    host = headers.get(b"host", b"").decode("latin-1")
    if schemes[-1].strip() != "https" or not is_from(scope, service.settings.service.trusted_networks):
        return service
    if _HOST.fullmatch(host) is None:
        return service
    base = f"https://{host}{service.settings.service.base_path}"
    return replace(service, card=service.card.at(base), signer=None, documents={})
