"""The sections of `dealer.toml`, and all settings together. docs/reference/settings.md documents each key.

The server and the delivery read these types directly. A property converts a setting to the unit that the code needs.
"""

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import cached_property
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlsplit

from msgspec import Meta, Struct, defstruct
from msgspec.structs import asdict, fields

from dealer_agent.callers.policy import ANONYMOUS_LEADS_A_DAY
from dealer_agent.config.agent_settings import AgentsSettings, automatic_quarantine_is_heard
from dealer_agent.config.alert_settings import AlertSettings
from dealer_agent.config.feeds import FeedFileSettings, Feeds, feeds_name_rooftops
from dealer_agent.config.issuers import MOST_ISSUERS, IssuerSettings, issuers_differ
from dealer_agent.config.rates import Rate, Skills
from dealer_agent.config.sftp import SftpSettings
from dealer_agent.dealers.profile import Profile
from dealer_agent.dealers.profile_checks import (
    Text,
    hours_have_a_zone,
    must_satisfy,
    read_by,
    read_email,
    read_environment_name,
    read_host,
    read_web_address,
)
from dealer_agent.dmc12.settings import Dmc12Settings, dmc12_fits
from dealer_agent.encryption import Cipher
from dealer_agent.feeds.files.checks import FeedChecks, check_names_are_known
from dealer_agent.mcp_tools.consent import CONSENT_TEXT
from dealer_agent.offers.pricing_rules import pricing_fits
from dealer_agent.offers.pricing_settings import PricingSettings
from dealer_agent.outgoing.addresses import ANY_ADDRESS, AddressRule
from dealer_agent.pasted_commands import Where
from dealer_agent.protocol.problems import Problem
from dealer_agent.protocol.published_versions import VersionName
from dealer_agent.protocol.skill import AFTER_LEAD_SKILLS, ALL_SKILLS, LEAD_SUBMIT, SKILL_BY_ID, SKILLS
from dealer_agent.protocol.vocabulary import PROTO_EXTENSION_0_1_0, Vocabulary, proto
from dealer_agent.protocol.well_known import CARD_PATH

_PROTO = proto()


def read_public_url(value: str) -> str:
    """The public URL of the service, without a query."""
    parts = urlsplit(read_web_address(value))
    if parts.query or parts.fragment:
        raise ValueError(f"'{value}' must end with the host or the path; leave out what begins with ? or #")
    return value


def read_base_path(value: str) -> str:
    """A path such as `/agent`."""
    parts = urlsplit(f"//host{value}")
    if parts.path != value or parts.hostname != "host" or value.endswith("/") or "//" in value:
        raise ValueError(f"'{value}' must begin with a slash and end without one, such as '/agent'")
    return value


def or_empty(reader: Callable[[str], str]) -> Callable[[str], str]:
    """A reader that also accepts an empty text: a value that is not set."""
    return lambda value: reader(value) if value else value


def read_network(value: str) -> str:
    """An IP address, or a network in CIDR notation."""
    try:
        return str(ip_network(value))
    except ValueError as error:
        raise ValueError(f"{error}; write an address or a network, such as '10.0.0.0/8'") from None


def named_skills_need_tokens(auth: Any) -> Iterator[Problem]:
    """A list of skills that need a token has no effect without a mode."""
    match auth:
        case {"skills": [_, *_], **rest} if rest.get("mode", "none") == "none":
            yield Problem(("skills",), 'names skills that ask for a token, but mode is "none"; write mode = "bearer"')


def default_is_within_cap(search: Any) -> Iterator[Problem]:
    """The default page size is at most the largest page size."""
    defaults = {"default_limit": SearchSettings().default_limit, "limit_cap": SearchSettings().limit_cap}
    match defaults | search:
        case {"default_limit": int(default), "limit_cap": int(cap)} if default > cap:
            yield Problem(
                ("default_limit",),
                f"{default} is more than limit_cap, {cap}; write a default_limit of at most {cap}, or raise limit_cap",
            )


def versions_differ(versions: Any) -> Iterator[Problem]:
    """Each version is named once."""
    match versions:
        case {"served": [*names]} if len(names) > len({*map(str, names)}):
            yield Problem(("served",), "names a version twice; remove one")


WebAddress = Annotated[str, read_by(read_web_address)]


class ServiceSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """How the service appears on the web and on the wire (docs/protocol.md#http). An empty `public_url` is not set.

    `open`: the agent card does not say "not yet open", whatever `config.readiness` misses.
    """

    public_url: Annotated[str, read_by(or_empty(read_public_url))] = ""
    base_path: Annotated[str, read_by(or_empty(read_base_path))] = ""
    open: bool = False
    vocabulary: Literal["proto", "autoagent"] = "proto"
    revision: Literal["1.0.0", "0.1.0"] = "1.0.0"
    card_key_number: Annotated[int, Meta(ge=1, le=1000)] = 1
    error_domain: Text = _PROTO.domain
    extension_uri_1_0_0: WebAddress = _PROTO.extension_1_0_0
    extension_uri_0_1_0: WebAddress = PROTO_EXTENSION_0_1_0
    lenient_configuration: bool = False
    skills_off: Skills = ()
    body_limit_kib: Annotated[int, Meta(ge=1, le=1024)] = 32
    lead_body_limit_kib: Annotated[int, Meta(ge=1, le=1024)] = 256
    trusted_proxies: tuple[Annotated[str, read_by(read_network)], ...] = ()
    private_networks: Annotated[tuple[Annotated[str, read_by(read_network)], ...], Meta(max_length=100)] = ()
    request_timeout_seconds: Annotated[int, Meta(ge=1, le=600)] = 30
    max_connections: Annotated[int, Meta(ge=16, le=100_000)] = 10_000
    max_connections_per_address: Annotated[int, Meta(ge=1, le=100_000)] = 128
    request_memory_mib: Annotated[int, Meta(ge=4, le=65_536)] = 64
    request_memory_mib_per_address: Annotated[int, Meta(ge=1, le=65_536)] = 4

    @cached_property
    def body_limit_bytes(self) -> int:
        """The most bytes of a request that is not a lead."""
        return self.body_limit_kib * 1024

    @cached_property
    def largest_body_bytes(self) -> int:
        """The most bytes of a body whose skill is not known yet."""
        takes_leads = LEAD_SUBMIT.id not in self.skills_off
        return max(self.body_limit_kib, self.lead_body_limit_kib if takes_leads else 0) * 1024

    @property
    def proto(self) -> Vocabulary:
        """The vocabulary of the name `proto`, with the domain and the URIs of these settings."""
        return proto(self.error_domain, self.extension_uri_1_0_0, self.extension_uri_0_1_0)

    @cached_property
    def trusted_networks(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """`trusted_proxies` as networks."""
        return tuple(map(ip_network, self.trusted_proxies))

    @property
    def address_rule(self) -> AddressRule:
        """Which IP addresses a connection may go to if somebody else than the operator has named its host."""
        return AddressRule(tuple(map(ip_network, self.private_networks)))


class PublishedVersionSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Which published versions of the public protocol have addresses (docs/protocol.md#published-versions)."""

    served: Annotated[tuple[VersionName, ...], Meta(max_length=5)] = ("1.0", "1.1", "1.2", "1.3")


class SearchSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Page sizes of inventory.search (docs/protocol.md#inventory-search)."""

    default_limit: Annotated[int, Meta(ge=1, le=50)] = 20
    limit_cap: Annotated[int, Meta(ge=1, le=1000)] = 100


class AuthSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Which skills require a token (docs/protocol.md#authentication). `bearer` without `skills` means all of them.

    `issuers` give access tokens, besides the dealer itself.
    """

    mode: Literal["none", "bearer"] = "none"
    skills: Skills = ()
    issuers: Annotated[tuple[IssuerSettings, ...], Meta(max_length=MOST_ISSUERS), must_satisfy(issuers_differ)] = ()


class _OtherRateLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    malformed_leads: Rate = "60/minute"
    unknown_leads: Rate = "20/minute"
    address: Rate = "6000/minute"
    bad_tokens: Rate = "20/minute"
    health: Rate = "1200/minute"
    mcp: Rate = "1200/minute"
    new_agents: Rate = "20/minute"
    sign_ins: Rate = "10/minute; 60/hour"

    @property
    def by_rule(self) -> dict[str, str]:
        """Each limit, by the id of its skill or by its own name."""
        skill_ids = {skill.rate_setting: skill.id for skill in ALL_SKILLS}
        return {skill_ids.get(name, name): limit for name, limit in asdict(self).items()}


if TYPE_CHECKING:
    RateLimitSettings = _OtherRateLimits
else:
    RateLimitSettings = defstruct(
        "RateLimitSettings",
        [(skill.rate_setting, Rate, skill.default_rate) for skill in ALL_SKILLS],
        bases=(_OtherRateLimits,),
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )
    """The rate limits of each client (docs/protocol.md#rate-limits). Empty means no limit. Each skill has one."""


class ConsoleSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Whether the service has the console, the pages for the people of a dealership."""

    enabled: bool = True


class LogSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """What the service logs. It never logs personal data."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    access: bool = True


class MetricsSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The address of the metrics for Prometheus. At most `dealers` dealers have a label of their own."""

    enabled: bool = False
    host: Annotated[str, read_by(read_host)] = "127.0.0.1"
    port: Annotated[int, Meta(ge=1, le=65535)] = 9464
    dealers: Annotated[int, Meta(ge=0, le=1000)] = 50


class TracesSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where traces are sent, over OTLP. Without an `endpoint` there are none. `ratio` is the share that is sampled."""

    endpoint: Annotated[str, read_by(or_empty(read_web_address))] = ""
    ratio: Annotated[float, Meta(ge=0, le=1)] = 0.01
    follow_parent: bool = False


class MailSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The server that sends the dealer's mail. Without a `host` no mail is sent. User and password are secrets."""

    host: Annotated[str, read_by(or_empty(read_host))] = ""
    port: Annotated[int, Meta(ge=1, le=65535)] = 587
    security: Literal["starttls", "tls", "none"] = "starttls"
    from_address: Annotated[str, read_by(or_empty(read_email))] = ""
    user_env: Annotated[str, read_by(read_environment_name)] = "DEALER_AGENT_SMTP_USER"
    password_env: Annotated[str, read_by(read_environment_name)] = "DEALER_AGENT_SMTP_PASSWORD"  # noqa: S105 - a name
    timeout_seconds: Annotated[int, Meta(ge=1, le=120)] = 20
    confirm_appointments: bool = False
    links_valid_days: Annotated[int, Meta(ge=1, le=365)] = 30

    @property
    def confirms_visits(self) -> bool:
        """Whether customers get mails about confirmed and cancelled visits."""
        return bool(self.host) and self.confirm_appointments


def monthly_report_has_readers(reports: Any) -> Iterator[Problem]:
    """A report that is mailed needs an address."""
    match reports:
        case {"monthly": True, **rest} if not rest.get("mail"):
            yield Problem(("monthly",), 'needs who gets the report: write mail = ["owner@example.com"]')


def read_agent_name(value: str) -> str:
    """The name of an agent, as the first characters of a `User-Agent` header."""
    if not (value.isascii() and value.isprintable() and value.strip() == value and 1 <= len(value) <= 100):
        raise ValueError(f"'{value}' must be 1 to 100 ASCII characters without spaces at the ends")
    if value.lower().startswith("https:"):
        raise ValueError(
            f"'{value}' is an address, which only a signature can prove; write the beginning of the User-Agent header, "
            "such as 'ChatGPT-User'"
        )
    return value


class ReportSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The monthly report (docs/how-to/monthly-report.md). `agents` are names that it lists besides tokens."""

    monthly: bool = False
    mail: Annotated[tuple[Annotated[str, read_by(read_email)], ...], Meta(max_length=20)] = ()
    agents: Annotated[tuple[Annotated[str, read_by(read_agent_name)], ...], Meta(max_length=50)] = ()


def read_origin(value: str) -> str:
    """The origin of web pages, such as `https://chat.example.com`: a URL without a path."""
    parts = urlsplit(read_web_address(value))
    if value != f"{parts.scheme}://{parts.netloc}" or value != value.lower():
        raise ValueError(f"'{value}' must be an origin in lower case, such as 'https://chat.example.com'")
    return value


class McpSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The MCP server at `/mcp` (docs/how-to/mcp.md): its host names and the origins of pages that may call it."""

    enabled: bool = True
    allowed_hosts: Annotated[tuple[Annotated[str, read_by(read_host)], ...], Meta(max_length=20)] = ()
    allowed_origins: Annotated[tuple[Annotated[str, read_by(read_origin)], ...], Meta(max_length=20)] = ()


class LeadSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the dealer asks a person for consent. `{dealer}` in the text becomes the dealer's name."""

    consent_text: Annotated[Text, Meta(max_length=4000)] = CONSENT_TEXT


HOLD_TERMS = (
    "A hold is no contract. The dealer keeps the vehicle for the buyer for this time if it can, and may still sell it."
)
QUOTE_TERMS = (
    "The dealer keeps the firm price until the quote ends, unless the vehicle is sold. Lines that are not firm are "
    "estimates. A quote is no contract."
)


class OfferSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Quotes and holds (docs/protocol.md#offers). An agent may begin `holds_a_day` holds in 24 hours.

    At one time, all agents together may hold `most_held_percent` of the units in stock.
    """

    enabled: bool = False
    quote_minutes: Annotated[int, Meta(ge=1, le=1440)] = 30
    hold_minutes: Annotated[int, Meta(ge=1, le=4320)] = 120
    holds_a_day: Annotated[int, Meta(ge=0, le=1000)] = 5
    most_held_percent: Annotated[int, Meta(ge=1, le=100)] = 25
    quote_terms: Annotated[Text, Meta(max_length=2000)] = QUOTE_TERMS
    hold_terms: Annotated[Text, Meta(max_length=2000)] = HOLD_TERMS


LONGEST_LEASE_SECONDS = 3600


class RecordSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long the record is kept (docs/how-to/record.md). Cursors of changes last for 30 days.

    `replies` are recorded too if it is true, at most `replies_a_day`. With `anonymous`, who asked is left out.
    """

    keep_days: Annotated[int, Meta(ge=30, le=3650)] = 730
    replies: bool = False
    replies_a_day: Annotated[int, Meta(ge=1, le=1_000_000)] = 20_000
    anonymous: bool = False


class DeliverySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a failed delivery is retried. After `breaker_failures` failures in a row, a channel pauses."""

    first_retry_seconds: Annotated[int, Meta(ge=1, le=3600)] = 15
    longest_retry_minutes: Annotated[int, Meta(ge=1, le=1440)] = 60
    give_up_after_hours: Annotated[int, Meta(ge=1, le=720)] = 72
    breaker_failures: Annotated[int, Meta(ge=1, le=1000)] = 5
    breaker_seconds: Annotated[int, Meta(ge=1, le=3600)] = 60
    lease_seconds: Annotated[int, Meta(ge=10, le=LONGEST_LEASE_SECONDS)] = 300


class Sections(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """The sections about the service."""

    service: ServiceSettings = ServiceSettings()
    published_versions: Annotated[PublishedVersionSettings, must_satisfy(versions_differ)] = PublishedVersionSettings()
    search: Annotated[SearchSettings, must_satisfy(default_is_within_cap)] = SearchSettings()
    auth: Annotated[AuthSettings, must_satisfy(named_skills_need_tokens)] = AuthSettings()
    rate_limits: RateLimitSettings = RateLimitSettings()
    agents: AgentsSettings = AgentsSettings()
    console: ConsoleSettings = ConsoleSettings()
    logs: LogSettings = LogSettings()
    metrics: MetricsSettings = MetricsSettings()
    traces: TracesSettings = TracesSettings()
    mail: MailSettings = MailSettings()
    delivery: DeliverySettings = DeliverySettings()
    alerts: AlertSettings = AlertSettings()
    checks: Annotated[FeedChecks, must_satisfy(check_names_are_known)] = FeedChecks()
    feed_files: FeedFileSettings = FeedFileSettings()
    sftp: SftpSettings = SftpSettings()
    record: RecordSettings = RecordSettings()
    reports: Annotated[ReportSettings, must_satisfy(monthly_report_has_readers)] = ReportSettings()
    leads: LeadSettings = LeadSettings()
    mcp: McpSettings = McpSettings()
    offers: OfferSettings = OfferSettings()
    dmc12: Dmc12Settings = Dmc12Settings()

    @cached_property
    def skills(self) -> frozenset[str]:
        """The ids of the skills that are switched on."""
        known, off = ALL_SKILLS if self.offers.enabled else SKILLS, frozenset(self.service.skills_off)
        if LEAD_SUBMIT.id in off:
            off |= {skill.id for skill in AFTER_LEAD_SKILLS}
        return frozenset(skill.id for skill in known) - off

    @property
    def anonymous_leads_a_day(self) -> int | None:
        """The default for anonymous callers. An operator who has switched off the rate of leads wants no limit."""
        return ANONYMOUS_LEADS_A_DAY if self.rate_limits.by_rule[LEAD_SUBMIT.id].strip() else None


if TYPE_CHECKING:

    class DealerFile(Profile, Sections, frozen=True, kw_only=True):
        """`dealer.toml`: the dealer's profile at its top, feeds, prices, and the sections about the service."""

        feeds: Feeds = ()
        pricing: PricingSettings = PricingSettings()
else:
    # msgspec cannot combine two bases that have fields.
    DealerFile = defstruct(
        "DealerFile",
        [
            ("feeds", Feeds, ()),
            ("pricing", PricingSettings, PricingSettings()),
            *((field.name, field.type, field.default) for field in fields(Sections)),
        ],
        bases=(Profile,),
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )


CheckedDealerFile = Annotated[
    DealerFile,
    must_satisfy(feeds_name_rooftops, hours_have_a_zone, pricing_fits, dmc12_fits, automatic_quarantine_is_heard),
]
"""`DealerFile`, with the rules about several of its parts."""

DATABASE_CONNECTIONS = 10
FEWEST_CONNECTIONS = 3
"""An import needs two at the same time, and the announcements of changes need one."""
MOST_CONNECTIONS = 1000


class Settings(Sections, frozen=True, kw_only=True, dict=True):
    """All settings of one dealer. `folder` holds `dealer.toml` and the default database.

    `cipher` decrypts customer data; in an installation, it decrypts the dealers' keys. Without a key it is None, and
    only work without customer data is possible. `installation` is the folder of the dealer's installation, if any.
    """

    folder: Path
    database_url: str
    dealer: Profile
    feeds: Feeds = ()
    pricing: PricingSettings = PricingSettings()
    cipher: Cipher | None = None
    installation: Path | None = None

    @classmethod
    def of(cls, file: DealerFile, **more: Any) -> "Settings":
        """The settings of a file. `more` has further members, and sections that replace those of the file."""
        sections = {name: getattr(file, name) for name in Sections.__struct_fields__}
        return cls(dealer=file, feeds=file.feeds, pricing=file.pricing, **{**sections, **more})

    @property
    def where(self) -> Where:
        """Where the commands in mails about the dealer work."""
        return Where(self.folder) if self.installation is None else Where(self.installation, self.dealer.id)

    @property
    def heads_file(self) -> Path:
        """The file that gets the heads of the consent record and of the access log."""
        return self.folder / self.dealer.privacy.heads_file

    @property
    def address_rule(self) -> AddressRule:
        """Which IP addresses the addresses in these settings may have. In a folder, the operator has written them."""
        return ANY_ADDRESS if self.installation is None else self.service.address_rule

    @property
    def card_url(self) -> str:
        """The URL of the agent card; empty without a `public_url`. That of a folder's dealer is at its site's root."""
        url = self.service.public_url
        return "" if not url else (url if self.installation is None else self.base_url("")) + CARD_PATH

    @property
    def stock_seconds(self) -> int:
        """The most seconds between two confirmations of the stock: those between the collections of its feeds."""
        pauses = [feed.longest_pause for feed in self.feeds] or [timedelta(hours=self.dmc12.fresh_hours)]
        return int(max(pauses).total_seconds())

    @cached_property
    def token_skills(self) -> frozenset[str]:
        """The ids of the skills that are switched on and require a token."""
        if self.auth.mode == "none":
            return frozenset()
        return self.skills & frozenset(self.auth.skills or SKILL_BY_ID)

    def base_url(self, listens_at: str) -> str:
        """The URL of the service in cards and mails. `listens_at` is used where `public_url` is not set."""
        return (self.service.public_url or listens_at) + self.service.base_path
