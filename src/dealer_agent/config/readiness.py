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


class ReadinessItem(NamedTuple):
    """A point of the list. `missing` returns what is missing, in words, or None. `cure` is what to do about it."""

    name: str
    missing: Callable[[Settings], str | None]
    cure: str
    stated: str
    """What is said of a point of which nothing is missing."""


class MissingItem(NamedTuple):
    """A point that is missing."""

    name: str
    says: str
    cure: str


EXAMPLE_ADDRESS = ("100 Main Street", "43215")
EXAMPLE_PHONES = ("+1 202 555 0123", "+1 202 555 0124", "+12025550123", "+12025550124")
"""What the template of dealer.toml has as an example. Left as it is, buyers would get it."""
EXAMPLE_DOMAIN = "example.com"
"""The domain of the template's mail and web addresses. Nobody has it."""


def _guessed(key: str) -> Callable[[Settings], str | None]:
    def missing(settings: Settings) -> str | None:
        return f"the {key} in dealer.toml is a guess of `init`" if key in settings.dealer.guesses else None

    return missing


def _rooftops_without(what: str, has: Callable[[DealerRooftop], object]) -> Callable[[Settings], str | None]:
    """A check that says which rooftops lack something."""

    def missing(settings: Settings) -> str | None:
        without = [rooftop.name for rooftop in settings.dealer.rooftops if not has(rooftop)]
        if not without:
            return None
        return f"{without[0]}{f' and {len(without) - 1} more' if len(without) > 1 else ''} has no {what}"

    return missing


def _has_own_address(rooftop: DealerRooftop) -> bool:
    """Whether the address is stated, and is not the example of the template."""
    address = rooftop.address
    return address is not UNSET and (address.address_line_1, address.zip) != EXAMPLE_ADDRESS


def _has_own_phone(rooftop: DealerRooftop) -> bool:
    """Whether a phone number is stated that is not an example of the template."""
    return any(phone not in EXAMPLE_PHONES for phone in (rooftop.phones or {}).values())


def _is_example(address: str) -> bool:
    """Whether a mail address or a URL is an example of the template."""
    host = urlsplit(address).hostname or address.rpartition("@")[2]
    return f".{host}".endswith(f".{EXAMPLE_DOMAIN}")


def _has_own_receiver(rooftop: DealerRooftop) -> bool:
    """Whether somebody gets the leads whose address is not an example of the template."""
    deliver = rooftop.deliver
    return bool(deliver.channels) or not all(map(_is_example, deliver.notify))


def _without_notice(settings: Settings) -> str | None:
    """Why customers cannot read a privacy notice. None if the settings name one."""
    url = settings.dealer.policies.privacy_notice
    if not url:
        return "no privacy notice is named"
    return f"{url} is the example of the template" if _is_example(url) else None


def _without_alerts(settings: Settings) -> str | None:
    """Why nobody gets alerts. None if somebody does."""
    receivers = [*settings.alerts.mail, *([settings.alerts.webhook_url] if settings.alerts.webhook_url else [])]
    if not receivers:
        return "nobody gets alerts"
    return f"{receivers[0]} is the example of the template" if all(map(_is_example, receivers)) else None


def _without_public_url(settings: Settings) -> str | None:
    """Why buyers on other machines cannot reach `public_url`. None if they can."""
    url = settings.service.public_url
    if not url:
        return "public_url is not set: agents on other machines cannot use the card"
    if _is_example(url):
        return f"{url} is the example of the template"
    return f"{url} is an address of this machine" if is_this_machine(urlsplit(url).hostname or "") else None


def _without_tls(settings: Settings) -> str | None:
    """Why customer data is not safe on its way. None if `public_url` has TLS."""
    plain = urlsplit(settings.service.public_url).scheme != "https"
    return "public_url does not begin with https: customer data would travel without encryption" if plain else None


def _without_proxy(settings: Settings) -> str | None:
    """Why buyers share one rate limit. None if a proxy is declared, which says who they are."""
    undeclared = "no proxy is declared: if there is one, its buyers share one rate limit"
    return None if settings.service.trusted_proxies else undeclared


POINTS = (
    ReadinessItem(
        "name", _guessed("name"), 'Check name under id and [[rooftops]], then delete "name" from guesses.', "stated"
    ),
    ReadinessItem(
        "price",
        _guessed("feed_price"),
        'Read the comment above feed_price, set it, then delete "feed_price" from guesses.',
        "the meaning of the feed's price is stated",
    ),
    ReadinessItem(
        "time zone",
        _guessed("timezone"),
        'Set timezone under [[rooftops]], then delete "timezone" from guesses.',
        "stated",
    ),
    ReadinessItem(
        "address",
        _rooftops_without("address of its own", _has_own_address),
        "In dealer.toml, remove the # before [rooftops.address] and the lines below it, and write yours.",
        "stated",
    ),
    ReadinessItem(
        "phone",
        _rooftops_without("phone number of its own", _has_own_phone),
        "In dealer.toml, remove the # before [rooftops.phones] and a line below it, and write your number.",
        "stated",
    ),
    ReadinessItem(
        "hours",
        _rooftops_without("opening hours", lambda each: each.hours),
        "In dealer.toml, remove the # before [rooftops.hours.sales] and the lines below it, and write yours. Without "
        "hours, none are published and no visit is confirmed.",
        "stated",
    ),
    ReadinessItem(
        "fees",
        _rooftops_without("statement about its fees", lambda each: each.fees is not UNSET),
        "In dealer.toml, remove the # before [[rooftops.fees]] and the lines below it, and write each mandatory "
        "charge. If there is none, write fees = [] below timezone.",
        "stated",
    ),
    ReadinessItem(
        "notice",
        _without_notice,
        'Write the web address of your privacy notice below [policies], as privacy_notice = "https://...".',
        "the privacy notice is named",
    ),
    ReadinessItem(
        "outlet",
        _rooftops_without("receiver of leads of its own", _has_own_receiver),
        "In dealer.toml, remove the # before [rooftops.deliver] and before notify, write who gets leads, and the "
        "server of [mail]. Then try it:\ndealer-agent doctor --send",
        "leads have a receiver",
    ),
    ReadinessItem(
        "alerts",
        _without_alerts,
        "In dealer.toml, remove the # before [alerts] and before mail, and write who gets them. Then try it:\n"
        "dealer-agent alerts test",
        "somebody gets them",
    ),
    ReadinessItem(
        "public url",
        _without_public_url,
        'Write the address that your proxy answers below [service], as public_url = "https://...".',
        "set",
    ),
    ReadinessItem(
        "tls",
        _without_tls,
        "Let a proxy with a certificate answer, and set public_url to its https address.",
        "public_url begins with https",
    ),
    ReadinessItem(
        "proxy",
        _without_proxy,
        'Name the addresses from which it connects under [service], such as trusted_proxies = ["127.0.0.1"].',
        "declared",
    ),
)


def missing_points(settings: Settings) -> Iterator[MissingItem]:
    """The points of the list that are missing, in its order."""
    for point in POINTS:
        says = point.missing(settings)
        if says is not None:
            yield MissingItem(point.name, says, point.cure)


def is_open(settings: Settings) -> bool:
    """Whether nothing is missing, or the dealer says `open = true`."""
    return settings.service.open or next(missing_points(settings), None) is None
