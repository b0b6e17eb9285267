"""Fetches the key sets of issuers, in the background (docs/protocol.md#issued-token-keys).

No request waits for a fetch. A key set is fetched when its dealer is opened, and again before it is out of date. A
token that names a key which the set lacks asks for it sooner, within bounds.
"""

import asyncio
import re
from dataclasses import dataclass, field
from time import monotonic
from urllib.parse import urlsplit

import httpx
import structlog

from dealer_agent.callers.access_token import IssuerKeys, read_keys
from dealer_agent.callers.issuer_metadata import jwks_url_in, metadata_urls
from dealer_agent.config.issuers import KEY_SET_AT, METADATA_OF, read_secure_address
from dealer_agent.outgoing.addresses import AddressRefused, AddressRule
from dealer_agent.outgoing.connections import http_client

log = structlog.get_logger()

LARGEST_KEY_SET = 256 * 1024
"""Bytes, also of the metadata of an issuer."""
FETCH_SECONDS = 10.0
SHORTEST_SECONDS, LONGEST_SECONDS = 300.0, 86_400.0
"""A key set is fetched again after the time that its headers say, within these bounds."""
KEPT_SECONDS = 86_400.0
"""How long a key set is used beyond that, while its issuer does not answer."""
RETRY_SECONDS = 30.0
SOONEST_SECONDS = 10.0
"""The shortest time between two fetches for tokens that name an unknown key."""
STEP_SECONDS = 0.5
MOST_AT_ONCE = 4
_MAX_AGE = re.compile(r"(?:^|[\s,])max-age=\"?([0-9]{1,9})")


class KeysNotFetched(Exception):  # noqa: N818 - says what happened.
    """The keys of an issuer could not be fetched. The message says why."""


@dataclass
class _Source:
    rule: AddressRule
    due: float = 0.0
    fetched_at: float = 0.0
    ends: float = 0.0
    keys: IssuerKeys | None = None
    problem: str = ""


@dataclass
class IssuerKeySets:
    """The key sets of the issuers of all opened dealers of a process. Use it on the event loop only."""

    _sources: dict[str, _Source] = field(default_factory=dict)

    def pin(self, source: str, rule: AddressRule) -> None:
        """Fetches a source from now on."""
        self._sources.setdefault(source, _Source(rule))

    def find(self, source: str) -> IssuerKeys | None:
        """The keys of a source, the same object until they change. None if there are none."""
        found = self._sources.get(source)
        return None if found is None else found.keys

    def refresh_soon(self, source: str) -> None:
        """Fetches a source before it is due, unless it was fetched a moment ago."""
        found = self._sources[source]
        found.due = min(found.due, max(monotonic(), found.fetched_at + SOONEST_SECONDS))

    async def refresh(self) -> None:
        """Fetches the sources that are due. One step of the background work."""
        now = monotonic()
        slots = asyncio.Semaphore(MOST_AT_ONCE)
        due = [(name, source) for name, source in self._sources.items() if source.due <= now]
        await asyncio.gather(*(self._fetch(name, source, slots) for name, source in due))

    async def _fetch(self, name: str, source: _Source, slots: asyncio.Semaphore) -> None:
        async with slots:
            problem = ""
            try:
                document, seconds = await fetch_key_set(name, source.rule)
                keys = read_keys(document)
            except KeysNotFetched as error:
                problem = str(error)
            except ValueError as error:
                problem = f"the key set {error}"
            now = monotonic()
            if problem:
                source.due = now + RETRY_SECONDS
                if source.ends <= now:
                    source.keys = None
                if problem != source.problem:
                    log.warning("keys of an issuer not fetched", source=name, problem=problem)
            else:
                source.fetched_at, source.due, source.ends = now, now + seconds, now + seconds + KEPT_SECONDS
                if keys != source.keys:
                    # Tokens that were verified with the older keys are verified again.
                    source.keys = keys
            source.problem = problem


async def fetch_key_set(source: str, rule: AddressRule) -> tuple[bytes, float]:
    """The key set of a source, and the seconds for which it may be used. Raises KeysNotFetched."""
    try:
        async with asyncio.timeout(FETCH_SECONDS), http_client(rule, timeout=FETCH_SECONDS) as client:
            url = source.removeprefix(KEY_SET_AT)
            if source.startswith(METADATA_OF):
                url = await _key_set_url(client, source.removeprefix(METADATA_OF))
            found = await _get(client, url)
    except TimeoutError:
        raise KeysNotFetched(f"there was no answer in {FETCH_SECONDS:.0f} seconds") from None
    except AddressRefused as refused:
        raise KeysNotFetched(str(refused)) from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise KeysNotFetched(f"the connection failed ({type(error).__name__})") from None
    age = _MAX_AGE.search(found.headers.get("cache-control", "").lower())
    return found.content, min(LONGEST_SECONDS, max(SHORTEST_SECONDS, float(age[1]) if age else 0.0))


async def _key_set_url(client: httpx.AsyncClient, issuer: str) -> str:
    """The URL of the key set that the metadata of an issuer names. The first metadata that is there decides."""
    for url in metadata_urls(issuer):
        try:
            found = await _get(client, url)
        except KeysNotFetched as error:
            problem = f"{url}: {error}"
            continue
        try:
            return read_secure_address(jwks_url_in(found.content, issuer))
        except ValueError as error:
            raise KeysNotFetched(f"{url}: {error}") from None
    raise KeysNotFetched(problem)


async def _get(client: httpx.AsyncClient, url: str) -> httpx.Response:
    """A document of at most LARGEST_KEY_SET. Redirects are not followed. Raises KeysNotFetched."""
    async with client.stream("GET", url, headers={"accept": "application/json"}) as response:
        if response.status_code != httpx.codes.OK:
            raise KeysNotFetched(f"{urlsplit(url).hostname} answered with the status {response.status_code}")
        content = bytearray()
        async for part in response.aiter_bytes():
            content += part
            if len(content) > LARGEST_KEY_SET:
                raise KeysNotFetched(f"the document is larger than {LARGEST_KEY_SET} bytes")
    return httpx.Response(response.status_code, headers=_kept(response.headers), content=bytes(content))


def _kept(headers: httpx.Headers) -> dict[str, str]:
    return {"cache-control": headers.get("cache-control", "")}
