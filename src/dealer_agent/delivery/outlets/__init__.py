"""The outlets of a dealer's rooftops. Each module has the outlets of one kind of channel.

Its `make_outlet` makes the outlet of a channel whose settings have the type `CHANNEL`.
"""

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import NamedTuple

import httpx

from dealer_agent.config.channels import channel_secrets
from dealer_agent.config.settings import DeliverySettings, MailSettings
from dealer_agent.dealers.profile import Channel, Profile
from dealer_agent.dealers.routing import CUSTOMER, NOTIFY
from dealer_agent.delivery.mail_server import MailServer
from dealer_agent.delivery.outlet import Outlet, OutletParts, Outlets
from dealer_agent.delivery.outlets.mail import CustomerMailOutlet, StaffMailOutlet
from dealer_agent.leads.customer_links import CustomerLinks
from dealer_agent.open_installation import OpenInstallation
from dealer_agent.pasted_commands import Where
from dealer_agent.storage.deliveries.outbox import Receiver

_MODULES = [import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__)]

MAKE_OUTLET: Mapping[type[Channel], Callable[[Channel, OutletParts], Outlet]] = {
    module.CHANNEL: module.make_outlet for module in _MODULES
}
"""The function that makes the outlet of a channel, by the type of its settings."""


def outlets_of(
    profile: Profile,
    mail: MailSettings,
    *,
    folder: Path,
    links: CustomerLinks,
    secrets: Mapping[str, str],
    client: httpx.AsyncClient,
    where: Where = Where(),  # noqa: B008 - a constant
) -> dict[Receiver, Outlet]:
    """The outlets of every rooftop: its channels, its staff and its customers.

    `where` completes the commands in mails to staff.
    Relative paths start at `folder`. `secrets` has the environment variables that the settings name.
    `config.channels` checked that they are set, and that there is a mail server if a channel needs it.
    """
    server = None
    if mail.host:
        server = MailServer.of(mail, profile.name, secrets)
    parts = OutletParts(folder, server, secrets, client)
    outlets: dict[Receiver, Outlet] = {}
    for rooftop in profile.rooftops:
        for name, channel in rooftop.deliver.channels.items():
            outlets[rooftop.name, name] = MAKE_OUTLET[type(channel)](channel, parts)
        if server is not None:
            outlets[rooftop.name, CUSTOMER] = CustomerMailOutlet(server, links)
            if rooftop.deliver.notify:
                outlets[rooftop.name, NOTIFY] = StaffMailOutlet(server, rooftop.deliver.notify, where)
    return outlets


class DealerOutlets(NamedTuple):
    """A dealer with its outlets and its settings of retries."""

    profile: Profile
    outlets: Outlets
    settings: DeliverySettings


def outlets_of_dealer(opened: OpenInstallation, client: httpx.AsyncClient, dealer_id: str) -> DealerOutlets:
    """The outlets of a dealer, which use the client of the process. Blocks for the database.

    Raises StorageError, and SettingsError if a channel cannot work.
    """
    settings = opened.settings_of(dealer_id)
    outlets = outlets_of(
        settings.dealer,
        settings.mail,
        folder=settings.folder,
        links=opened.customer_links(settings, opened.store.check_keys(dealer_id)),
        secrets=channel_secrets(settings, os.environ),
        client=client,
        where=settings.where,
    )
    return DealerOutlets(settings.dealer, outlets, settings.delivery)
