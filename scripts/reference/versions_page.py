"""The page about the published versions of the public protocol, from their table."""

from collections.abc import Callable, Iterable

from scripts.reference.markdown import code, page, table

from dealer_agent.protocol.published_versions import PUBLISHED_VERSIONS, PublishedVersion
from dealer_agent.protocol.responses import COUNT_FACETS, RANGE_FACETS
from dealer_agent.protocol.version_errors import ExtensionSupportRequired
from dealer_agent.protocol.version_payloads import filters_of

_INTRODUCTION = (
    "The public protocol is the Auto Agent Protocol. Each of its published versions has addresses of its own below the "
    "root of a dealer. All versions are one service: the same stock, limits, tokens and leads. "
    "[The protocol](../protocol.md#published-versions) has the rules. The setting "
    "[`served`](settings.md#published_versions) switches versions on and off."
)

_DISAGREEMENTS = (
    (
        "all",
        "A wrong `consent.scope`: the page about errors says `INVALID_CONSENT`, the page about `lead.submit` says "
        "`CONTACT_CONSENT_REQUIRED`.",
        "`INVALID_CONSENT`: the schema makes the consent malformed.",
    ),
    (
        "all",
        "A channel that is not allowed: the description in the schema says `INVALID_CONSENT`, the page about errors "
        "says `CONTACT_CONSENT_REQUIRED`.",
        "`CONTACT_CONSENT_REQUIRED`, as at the root. No keyword of the schema decides.",
    ),
    (
        "all",
        "A repeated idempotency key: the schema says the same response, the page about errors allows the status "
        "`duplicate`.",
        "The same response.",
    ),
    (
        "all",
        "An unknown vehicle of a lead: the page about errors says `VEHICLE_NOT_FOUND`, the page about `lead.submit` "
        "says so only for a test drive.",
        "`VEHICLE_NOT_FOUND` for a test drive only.",
    ),
    (
        "all",
        "A vehicle of a lead: the pages require a VIN, a stock number, or year, make and model. The schema requires "
        "nothing. It calls `mileage` required for a trade-in, and does not require it.",
        "Nothing is required.",
    ),
    (
        "all",
        "Entries of `details.errors`: the pages define their members, the schema says nothing about `details`.",
        "The members that the pages define.",
    ),
    (
        "all",
        "The requirement of tokens on a card: the schema names A2A's older member `security`.",
        "`securityRequirements`, as in A2A v1.0. The schema allows other members.",
    ),
    (
        "1.0",
        "The error payload over HTTP+JSON: the page about the binding shows an `@type`, the closed schema has none.",
        "No `@type`.",
    ),
    (
        "1.0",
        "`offered_price`: the pages call it the list price plus the taxes of the area. A search can sort by it, but "
        "has no area.",
        "The advertised price minus the dealer's offer for the area. The sort is that by `price`.",
    ),
    (
        "1.0, 1.1",
        "`price` is the final price that the buyer pays. The pages count taxes sometimes in and sometimes out.",
        "The advertised price: every mandatory dealer charge is in it, tax, title and registration are not.",
    ),
    (
        "1.1 to 1.3",
        "Bindings: the pages remove HTTP+JSON, the schema of the card still lists it.",
        "JSON-RPC only.",
    ),
    (
        "1.3",
        "Fees: the page says that the names in a list differ, the schema says that the entries differ.",
        "The list of the dealer. A list with equal entries is left out.",
    ),
)
"""Version, what disagrees, and what the service does."""


def versions_page() -> str:
    """The addresses of each version, the table of differences, and the disagreements of the published texts."""
    versions = tuple(PUBLISHED_VERSIONS.values())
    addresses = table(
        ("Version", "Card", "JSON-RPC", "HTTP+JSON", "Extension"),
        (
            (
                each.name,
                code(each.card_path),
                code(f"{each.path}/rpc"),
                code(f"{each.path}/message:send") if each.has_http_json else "no",
                code(each.extension_uri),
            )
            for each in versions
        ),
    )
    differences = table(
        ("", *(each.name for each in versions)), ((words, *map(tell, versions)) for words, tell in _ROWS)
    )
    disagreements = table(("Version", "Published texts", "This service"), _DISAGREEMENTS)
    return page(
        "Published versions",
        _INTRODUCTION,
        (
            "## Addresses",
            addresses,
            "`next` is the draft of the next major version, and off by default. Its extension URI is the placeholder "
            "of the draft, which no released version can have.",
            "## Differences",
            differences,
            "Every version has the vocabulary `autoagent`, the twelve codes of the public protocol, and no "
            "`AUTH_REQUIRED`: a refused token is a plain HTTP 401. An extra member of the dealer's feed stays in a "
            "listing.",
            "## Where the published texts disagree",
            "The schemas decide. The published examples of requests and responses are valid by the schemas of their "
            "own version.",
            disagreements,
        ),
    )


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(code, names)) or "none"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _facets_without(version: PublishedVersion) -> str:
    facets = (*COUNT_FACETS, *RANGE_FACETS)
    return _names(facet.name for facet in facets if facet.field.name in version.unsearchable)


_ROWS: tuple[tuple[str, Callable[[PublishedVersion], str]], ...] = (
    ("Meaning of `price`", lambda version: version.price),
    ("Members that responses leave out", lambda version: _names(sorted(version.left_out))),
    ("Filters that are refused", lambda version: _names(filters_of(sorted(version.unsearchable)))),
    ("Facets that are left out", _facets_without),
    ("`zip`, `offered_price` and the sort by it", lambda version: _yes(version.has_area_prices)),
    (
        "`source_agent`",
        lambda version: "a string" if version.agent_is_text else "closed object: `name`, `url`, `agent_card_url`",
    ),
    ("`consent.source_agent`", lambda version: "required" if version.agent_is_text else "forbidden"),
    (
        "All problems at once",
        lambda version: "always" if version.lists_all_problems else "always, though the version does not ask for it",
    ),
    (
        "JSON-RPC `error.data`",
        lambda version: "array: ErrorInfo, BadRequest, payload" if version.has_a2a_errors else "the payload",
    ),
    ("`UNSUPPORTED_SKILL`", lambda version: "-32004" if version.has_a2a_errors else "-32601"),
    ("`RATE_LIMITED`", lambda version: "-32000" if version.has_a2a_errors else "-32002"),
    ("Unsupported media type or output mode", lambda version: "-32005" if version.has_a2a_errors else "-32602"),
    ("A2A's other methods", lambda version: "-32004, push: -32003" if version.has_a2a_errors else "-32601"),
    ("Request without `A2A-Version`", lambda version: "-32009" if version.needs_headers else "accepted"),
    (
        "Request without the extension in `A2A-Extensions`",
        lambda version: str(ExtensionSupportRequired.json_rpc) if version.needs_headers else "accepted",
    ),
)
