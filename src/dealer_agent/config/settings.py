"""The whole of `dealer.toml`, section by section. Pure types; docs/settings.md documents each key."""

from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from limits import parse_many
from msgspec import Meta, Struct

from dealer_agent.dealers.profile import Profile
from dealer_agent.dealers.profile_checks import (
    Defect,
    Text,
    agreed_by,
    read_by,
    read_email,
    read_environment_name,
    read_host,
    read_web_address,
)
from dealer_agent.encryption import Cipher
from dealer_agent.protocol.did_you_mean import did_you_mean
from dealer_agent.protocol.skill import SKILL_BY_ID
from dealer_agent.protocol.vocabulary import proto

_PROTO = proto()


def read_public_url(value: str) -> str:
    """The public address of the service, without a slash at its end; empty when there is none yet."""
    if not value:
        return value
    parts = urlsplit(read_web_address(value))
    if parts.query or parts.fragment:
        raise ValueError(f"'{value}' must end with the host or the path; leave out what begins with ? or #")
    return value.rstrip("/")


def read_base_path(value: str) -> str:
    """A path such as `/agent`, or nothing."""
    parts = urlsplit(f"//host{value}")
    if value and (parts.path != value or parts.hostname != "host" or value.endswith("/") or "//" in value):
        raise ValueError(f"'{value}' must begin with a slash and end without one, such as '/agent'")
    return value


def read_from_address(value: str) -> str:
    """An e-mail address; empty where no mail is sent."""
    return read_email(value) if value else value


def read_mail_host(value: str) -> str:
    """The host name of the mail server; empty where no mail is sent."""
    return read_host(value) if value else value


def read_skill(value: str) -> str:
    """The id of one of the five skills."""
    if value not in SKILL_BY_ID:
        known = list(SKILL_BY_ID)
        raise ValueError(f"'{value}' must be one of {', '.join(known)}" + did_you_mean(value, known))
    return value


def read_network(value: str) -> str:
    """An address, or a network in CIDR notation."""
    try:
        return str(ip_network(value))
    except ValueError as error:
        raise ValueError(f"{error}; write an address or a network, such as '10.0.0.0/8'") from None


def read_rate(value: str) -> str:
    """A rate limit in the notation of the library `limits`; several are divided by `;`, none is no limit."""
    if not value.strip():
        return value
    try:
        rates = parse_many(value)
    except ValueError:
        raise ValueError(f"'{value}' is no rate limit; write it as '600/minute' or '10/minute; 100/day'") from None
    if min(rate.amount for rate in rates) < 1:
        raise ValueError(f"'{value}' lets nobody in; to switch a skill off, name it in skills_off")
    return value


def named_skills_need_tokens(auth: Any) -> Iterator[Defect]:
    """Skills named as asking for a token mean nothing while nothing asks for one."""
    match auth:
        case {"skills": [_, *_], **rest} if rest.get("mode", "none") == "none":
            yield Defect(("skills",), 'names skills that ask for a token, but mode is "none"; write mode = "bearer"')


def default_is_within_cap(search: Any) -> Iterator[Defect]:
    """No page is larger by default than it may be on request."""
    defaults = {"default_limit": Search().default_limit, "limit_cap": Search().limit_cap}
    match defaults | search:
        case {"default_limit": int(default), "limit_cap": int(cap)} if default > cap:
            yield Defect(("default_limit",), f"{default} is more than limit_cap, {cap}")


Skills = tuple[Annotated[str, read_by(read_skill)], ...]
Rate = Annotated[str, read_by(read_rate)]
WebAddress = Annotated[str, read_by(read_web_address)]


class Service(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the service appears on the web and on the wire (contract, parts 1 to 4). An empty `public_url` is not set."""

    public_url: Annotated[str, read_by(read_public_url)] = ""
    base_path: Annotated[str, read_by(read_base_path)] = ""
    vocabulary: Literal["proto", "autoagent"] = "proto"
    revision: Literal["1.0.0", "0.1.0"] = "1.0.0"
    error_domain: Text = _PROTO.domain
    extension_uri_1_0_0: WebAddress = _PROTO.extension_1_0_0
    extension_uri_0_1_0: WebAddress = _PROTO.extension_0_1_0
    lenient_configuration: bool = False
    skills_off: Skills = ()
    body_limit_kib: Annotated[int, Meta(ge=1, le=1024)] = 32
    lead_body_limit_kib: Annotated[int, Meta(ge=1, le=1024)] = 256
    trusted_proxies: tuple[Annotated[str, read_by(read_network)], ...] = ()
    request_timeout_seconds: Annotated[int, Meta(ge=1, le=600)] = 30
    max_connections: Annotated[int, Meta(ge=16, le=100_000)] = 10_000
    max_connections_per_address: Annotated[int, Meta(ge=1, le=100_000)] = 128


class Search(Struct, frozen=True, forbid_unknown_fields=True):
    """Page sizes of inventory.search (specification, part 8)."""

    default_limit: Annotated[int, Meta(ge=1, le=50)] = 20
    limit_cap: Annotated[int, Meta(ge=1, le=1000)] = 100


class Auth(Struct, frozen=True, forbid_unknown_fields=True):
    """Which skills require a token; with `bearer` and no skills named, all do (specification, part 5)."""

    mode: Literal["none", "bearer"] = "none"
    skills: Skills = ()


class Rates(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rate limits per client and skill, and per client address (specification, part 8). An empty one is no limit."""

    dealer_information: Rate = "600/minute"
    inventory_facets: Rate = "600/minute"
    inventory_search: Rate = "600/minute"
    inventory_vehicle: Rate = "1200/minute"
    lead_submit: Rate = "10/minute"
    malformed_leads: Rate = "60/minute"
    address: Rate = "6000/minute"
    bad_tokens: Rate = "20/minute"
    health: Rate = "1200/minute"

    def by_skill(self) -> dict[str, str]:
        """Each skill's limit by the skill's id."""
        return {
            "dealer.information": self.dealer_information,
            "inventory.facets": self.inventory_facets,
            "inventory.search": self.inventory_search,
            "inventory.vehicle": self.inventory_vehicle,
            "lead.submit": self.lead_submit,
        }


class Logs(Struct, frozen=True, forbid_unknown_fields=True):
    """What is logged; never personal data."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    access: bool = True


class Mail(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The server that sends the dealer's mail; an empty `host` sends none. User and password are in the environment.

    `confirm_appointments`: customers who consented to e-mail get a mail of the visit that was confirmed to them, and
    when it is cancelled. The links in it work until `links_valid_days` after the end of the visit.
    """

    host: Annotated[str, read_by(read_mail_host)] = ""
    port: Annotated[int, Meta(ge=1, le=65535)] = 587
    security: Literal["starttls", "tls", "none"] = "starttls"
    from_address: Annotated[str, read_by(read_from_address)] = ""
    user_env: Annotated[str, read_by(read_environment_name)] = "DEALER_AGENT_SMTP_USER"
    password_env: Annotated[str, read_by(read_environment_name)] = "DEALER_AGENT_SMTP_PASSWORD"  # noqa: S105 - a name
    timeout_seconds: Annotated[int, Meta(ge=1, le=120)] = 20
    confirm_appointments: bool = False
    links_valid_days: Annotated[int, Meta(ge=1, le=365)] = 30


class Delivery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How hard a delivery is tried. A channel that fails `breaker_failures` times in a row rests `breaker_seconds`."""

    first_retry_seconds: Annotated[int, Meta(ge=1, le=3600)] = 15
    longest_retry_minutes: Annotated[int, Meta(ge=1, le=1440)] = 60
    park_after_hours: Annotated[int, Meta(ge=1, le=720)] = 72
    breaker_failures: Annotated[int, Meta(ge=1, le=1000)] = 5
    breaker_seconds: Annotated[int, Meta(ge=1, le=3600)] = 60
    lease_seconds: Annotated[int, Meta(ge=10, le=3600)] = 300


class DealerFile(Profile, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`dealer.toml`: the dealer's profile at its top, and the service's sections."""

    service: Service = Service()
    search: Annotated[Search, agreed_by(default_is_within_cap)] = Search()
    auth: Annotated[Auth, agreed_by(named_skills_need_tokens)] = Auth()
    rate_limits: Rates = Rates()
    logs: Logs = Logs()
    mail: Mail = Mail()
    delivery: Delivery = Delivery()


class Settings(Struct, frozen=True, kw_only=True):
    """All that the parts are put together from. `directory` holds `dealer.toml` and the default database.

    `cipher` decrypts customer data; None when there is no key: then only work without customer data is possible.
    """

    directory: Path
    database_url: str
    dealer: Profile
    service: Service
    search: Search
    auth: Auth
    rate_limits: Rates
    logs: Logs
    mail: Mail
    delivery: Delivery
    cipher: Cipher | None = None

    @property
    def heads_file(self) -> Path:
        """The file that gets the heads of the consent record and of the access log."""
        return self.directory / self.dealer.privacy.heads_file

    @property
    def confirms_by_mail(self) -> bool:
        """Whether customers get mails about confirmed and cancelled visits."""
        return bool(self.mail.host) and self.mail.confirm_appointments
