"""What a dealer must state before the service is open to the public, as a table. Pure.

`dealer-agent doctor --public` shows all points, `serve` those that are missing. While one is missing, the agent card
says that the service is not yet open, unless the dealer writes `open = true` under `[service]`.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

from msgspec import UNSET

from dealer_agent.config.settings import Settings
from dealer_agent.dealers.profile import DealerRooftop
from dealer_agent.dealers.profile_checks import is_this_machine


class Point(NamedTuple):
    """A point of the list. `missing` returns what is missing, in words, or None. `cure` is what to do about it."""

    name: str
    missing: Callable[[Settings], str | None]
    cure: str
    stated: str
    """What is said of a point of which nothing is missing."""


class Missing(NamedTuple):
    """A point that is missing."""

    name: str
    says: str
    cure: str


def _guessed(key: str) -> Callable[[Settings], str | None]:
    def missing(settings: Settings) -> str | None:
        return f"the {key} in dealer.toml is a guess of `init`" if key in settings.dealer.guesses else None

    return missing


def _rooftops_without(what: str, has: Callable[[DealerRooftop], object]) -> Callable[[Settings], str | None]:
    def missing(settings: Settings) -> str | None:
        without = [rooftop.name for rooftop in settings.dealer.rooftops if not has(rooftop)]
        if not without:
            return None
        return f"{without[0]}{f' and {len(without) - 1} more' if len(without) > 1 else ''} has no {what}"

    return missing


def _without_public_url(settings: Settings) -> str | None:
    url = settings.service.public_url
    if not url:
        return "public_url is not set: agents on other machines cannot use the card"
    return f"{url} is an address of this machine" if is_this_machine(urlsplit(url).hostname or "") else None


def _without_tls(settings: Settings) -> str | None:
    plain = urlsplit(settings.service.public_url).scheme != "https"
    return "public_url does not begin with https: customer data would travel without encryption" if plain else None


def _without_proxy(settings: Settings) -> str | None:
    return None if settings.service.trusted_proxies else "no proxy is declared: all buyers behind one share one limit"


POINTS = (
    Point("name", _guessed("name"), 'Check name under id and [[rooftops]], then delete "name" from guesses.', "stated"),
    Point(
        "price",
        _guessed("feed_price"),
        'Read the comment above feed_price, set it, then delete "feed_price" from guesses.',
        "the meaning of the feed's price is stated",
    ),
    Point(
        "time zone",
        _guessed("timezone"),
        'Set timezone under [[rooftops]], then delete "timezone" from guesses.',
        "stated",
    ),
    Point("address", _rooftops_without("address", lambda each: each.address), "Write [rooftops.address].", "stated"),
    Point("phone", _rooftops_without("phone number", lambda each: each.phones), "Write [rooftops.phones].", "stated"),
    Point(
        "hours",
        _rooftops_without("opening hours", lambda each: each.hours),
        "Write [rooftops.hours.sales]. Without hours, none are published and no visit is confirmed.",
        "stated",
    ),
    Point(
        "fees",
        _rooftops_without("statement about its fees", lambda each: each.fees is not UNSET),
        "Write [[rooftops.fees]] for each mandatory charge, or fees = [] if there is none.",
        "stated",
    ),
    Point(
        "notice",
        lambda settings: None if settings.dealer.policies.privacy_notice else "no privacy notice is named",
        "Write privacy_notice, the web address of your privacy notice, under [policies].",
        "the privacy notice is named",
    ),
    Point(
        "outlet",
        _rooftops_without("receiver of leads", lambda each: each.deliver.channels or each.deliver.notify),
        "Add a channel or notify under [rooftops.deliver], then try it: dealer-agent doctor --send",
        "leads have a receiver",
    ),
    Point(
        "alerts",
        lambda settings: None if settings.alerts.has_receivers else "nobody gets alerts",
        "Write mail or webhook_url under [alerts], then try it: dealer-agent alerts test",
        "somebody gets them",
    ),
    Point("public url", _without_public_url, "Set public_url under [service].", "set"),
    Point("tls", _without_tls, "Let a proxy with a certificate answer, and set public_url to its https address.", "on"),
    Point(
        "proxy",
        _without_proxy,
        'Name the addresses from which it connects under [service], such as trusted_proxies = ["127.0.0.1"].',
        "declared",
    ),
)


def missing_points(settings: Settings) -> Iterator[Missing]:
    """The points of the list that are missing, in its order."""
    for point in POINTS:
        says = point.missing(settings)
        if says is not None:
            yield Missing(point.name, says, point.cure)


def is_open(settings: Settings) -> bool:
    """Whether nothing is missing, or the dealer says `open = true`."""
    return settings.service.open or next(missing_points(settings), None) is None
