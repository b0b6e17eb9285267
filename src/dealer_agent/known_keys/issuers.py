"""Fetches the key sets of issuers of access tokens (docs/protocol.md#issued-token-keys)."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from dealer_agent.callers.access_token import read_keys
from dealer_agent.callers.issuer_metadata import jwks_url_in, metadata_urls
from dealer_agent.config.issuers import KEY_SET_AT, METADATA_OF, read_secure_address
from dealer_agent.known_keys.fetching import FetchFailed, KeyResponse, fetch
from dealer_agent.known_keys.known import Resolver
from dealer_agent.outgoing.addresses import AddressRule


async def fetch_key_set(source: str, rule: AddressRule, named_rule: AddressRule) -> KeyResponse:
    """The key set of a source in settings: at its URL, or named by the metadata of the issuer. Raises FetchFailed.

    `rule` is for the addresses of the settings. If the metadata names another server, `named_rule` is for that one:
    otherwise an issuer could name a server of the private network.
    """
    url = source.removeprefix(KEY_SET_AT)
    if source.startswith(METADATA_OF):
        issuer = source.removeprefix(METADATA_OF)
        url = await _key_set_url(issuer, rule)
        rule = rule if urlsplit(url)[:2] == urlsplit(issuer)[:2] else named_rule
    found = await fetch(url, rule)
    try:
        read_keys(found.body)
    except ValueError as error:
        raise FetchFailed(f"the key set {error}") from None
    return found


async def _key_set_url(issuer: str, rule: AddressRule) -> str:
    """The URL of the key set that the metadata of an issuer names. The first metadata that is there decides."""
    problem = ""
    for url in metadata_urls(issuer):
        try:
            found = await fetch(url, rule)
        except FetchFailed as error:
            problem = problem or f"{urlsplit(url).path}: {error}"
            continue
        try:
            return read_secure_address(jwks_url_in(found.body, issuer))
        except ValueError as error:
            raise FetchFailed(f"{urlsplit(url).path}: {error}") from None
    raise FetchFailed(problem)


RESOLVERS: Mapping[str, Resolver] = {
    KEY_SET_AT.removesuffix(":"): fetch_key_set,
    METADATA_OF.removesuffix(":"): fetch_key_set,
}
"""The resolvers of `KnownKeys` for the issuers of settings."""
