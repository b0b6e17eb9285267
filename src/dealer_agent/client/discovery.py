"""Finds the agent card of a URL."""

from collections.abc import Iterator

import httpx

from dealer_agent.client.card import Binding, Card, below, parse_url, read_card
from dealer_agent.client.errors import InvalidRequest, NotADealerAgent, Unreachable
from dealer_agent.client.transport import Received, Retries, Transport
from dealer_agent.protocol.well_known import CARD_PATH

MOST_CARD_BYTES = 1024 * 1024
"""The most bytes of a card."""
MOST_REDIRECTS = 5
"""The most redirects on the way to a card."""


def web_address(url: str) -> httpx.URL:
    """The URL of a dealer or of a card. Raises NotADealerAgent for anything but http and https."""
    address = parse_url(url)
    if address is None:
        raise NotADealerAgent(f"{url!r} is not the URL of a dealer: give one like https://dealer.example.")
    return address


async def find_card(
    pool: Transport, address: httpx.URL, *, binding: Binding | None, retries: Retries, verify_signature: bool
) -> Card:
    """The card below a URL, or at the URL. Raises NotADealerAgent and Unreachable, and closes the pool then."""
    try:
        return await _find_card(pool, address, binding, retries, verify_signature=verify_signature)
    except BaseException:
        await pool.aclose()
        raise


async def _find_card(
    pool: Transport, address: httpx.URL, binding: Binding | None, retries: Retries, *, verify_signature: bool
) -> Card:
    """The first agent card at the known addresses. Raises NotADealerAgent if there is none."""
    missing = ""
    for url in _card_urls(address):
        received = await retries.read(lambda url=url: _get(pool, url))  # type: ignore[misc]
        if received.status == 200:
            body = await _verified(pool, received) if verify_signature else received.body
            card = read_card(body, str(received.url), binding, pool.token_origins)
            if not pool.may_have_token(card.endpoint):
                raise NotADealerAgent(
                    f"The card at {card.url} names {card.endpoint}, which is on another origin. The token is not sent "
                    "there unless token_origins has it."
                )
            return card
        missing = f"{received.url} answered {received.status}"
    raise NotADealerAgent(f"No agent card found at {address}: {missing}.")


async def _verified(pool: Transport, received: Received) -> bytes:
    """The body of a card whose signature is valid. Raises InvalidRequest if the packages for it are missing."""
    try:
        from dealer_agent.client.signatures import verified
    except ModuleNotFoundError:
        raise InvalidRequest("verify_signature needs more packages: pip install 'dealer-agent[signatures]'") from None
    return await verified(pool, received)


def _card_urls(address: httpx.URL) -> Iterator[httpx.URL]:
    """Where the card of a URL can be: at the URL if it is of a file, else at the well-known path below it, or at it."""
    path = address.path.rstrip("/")
    if path.endswith(".json"):
        yield address
        return
    yield below(address.copy_with(query=None, fragment=None), CARD_PATH)
    if path:
        yield address


async def _get(pool: Transport, url: httpx.URL) -> Received:
    """Fetches a URL and follows its redirects. An overloaded server raises Unreachable, which is tried again."""
    for _ in range(MOST_REDIRECTS + 1):
        received = await pool.send("GET", url, most=MOST_CARD_BYTES, headers={"Accept": "application/json"})
        if received.status in (429, 502, 503, 504):
            raise Unreachable(
                f"{url} answered {received.status}.",
                may_have_arrived=False,
                http_status=received.status,
                retry_after=received.retry_after,
            )
        if received.status not in (301, 302, 303, 307, 308) or "location" not in received.headers:
            return received
        url = _redirected(url, received.headers["location"])
    raise NotADealerAgent(f"{url} redirects more than {MOST_REDIRECTS} times.")


def _redirected(url: httpx.URL, location: str) -> httpx.URL:
    """The target of a redirect. Raises NotADealerAgent if it is not a URL, or leaves TLS."""
    try:
        target = parse_url(str(url.join(location)))
    except (httpx.InvalidURL, UnicodeError):
        target = None
    if target is None:
        raise NotADealerAgent(f"{url} redirects to {location[:200]!r}, which is not the URL of a card.")
    if url.scheme == "https" and target.scheme == "http":
        raise NotADealerAgent(f"{url} redirects to {target}, which is not encrypted.")
    return target
