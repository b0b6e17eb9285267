"""The outlets that a dealer's profile names, ready to send."""

from collections.abc import Callable, Mapping
from pathlib import Path

import httpx
from msgspec import UNSET, UnsetType

from dealer_agent.config.settings import MailSettings
from dealer_agent.dealers.profile import DirectoryChannel, HttpChannel, Profile, SmtpChannel
from dealer_agent.dealers.routing import CUSTOMER, NOTIFY, Channel, channels_of
from dealer_agent.delivery.directory import DirectoryOutlet
from dealer_agent.delivery.http import HttpOutlet
from dealer_agent.delivery.outlet import Outlet
from dealer_agent.delivery.smtp import CrmMailOutlet, CustomerMailOutlet, MailServer, PeopleMailOutlet
from dealer_agent.leads.adf import adf_of
from dealer_agent.leads.customer_links import CustomerLinks
from dealer_agent.leads.lead_json import json_of
from dealer_agent.leads.lead_view import Message
from dealer_agent.storage.outbox import Address

FORMATS: Mapping[str, tuple[Callable[[Message], bytes], str, str]] = {
    "adf": (adf_of, "application/xml; charset=utf-8", "xml"),
    "json": (json_of, "application/json", "json"),
}
"""What makes it, its media type, and the suffix of its file."""


def outlets_of(
    profile: Profile,
    mail: MailSettings,
    *,
    directory: Path,
    links: CustomerLinks,
    secrets: Mapping[str, str],
    client: httpx.AsyncClient,
) -> dict[Address, Outlet]:
    """The ways out of every rooftop. `directory` is where relative folders start; `secrets` is by environment name;
    `links` are for the mails to customers.

    `config.channels` has checked that what they need is there.
    """
    outlets: dict[Address, Outlet] = {}
    server = None
    if mail.host:
        server = MailServer(mail, profile.name, secrets.get(mail.user_env), secrets.get(mail.password_env))
    for rooftop in profile.rooftops:
        for name, channel in channels_of(rooftop.deliver).items():
            outlets[rooftop.name, name] = _outlet(channel, directory, server, secrets, client)
        if server is not None:
            outlets[rooftop.name, CUSTOMER] = CustomerMailOutlet(server, links)
            if rooftop.deliver.notify:
                outlets[rooftop.name, NOTIFY] = PeopleMailOutlet(server, rooftop.deliver.notify)
    return outlets


def _outlet(
    channel: Channel,
    directory: Path,
    server: MailServer | None,
    secrets: Mapping[str, str],
    client: httpx.AsyncClient,
) -> Outlet:
    match channel:
        case SmtpChannel():
            assert server is not None, "settings with a channel of mail name its server"
            return CrmMailOutlet(server, channel.to)
        case HttpChannel():
            render, media_type, _ = FORMATS[channel.format]
            secret = _secret(secrets, channel.secret_env)
            return HttpOutlet(
                client=client,
                url=channel.url,
                media_type=media_type,
                render=render,
                timeout_seconds=channel.timeout_seconds,
                secret=None if secret is None else secret.encode(),
                authorization=_secret(secrets, channel.authorization_env),
            )
        case DirectoryChannel():
            render, _, suffix = FORMATS[channel.format]
            return DirectoryOutlet(directory / channel.path, suffix, render)


def _secret(secrets: Mapping[str, str], name: str | UnsetType) -> str | None:
    return None if name is UNSET else secrets[name]
