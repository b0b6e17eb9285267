"""The outlets of a dealer's rooftops. Each module registers the outlet of one kind of channel with `make_outlet`.

A new kind of channel needs a settings type in `dealers.profile` and a module here.
"""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import httpx

from dealer_agent.config.settings import MailSettings
from dealer_agent.dealers.profile import Profile
from dealer_agent.dealers.routing import CUSTOMER, NOTIFY
from dealer_agent.delivery.mail_server import MailServer
from dealer_agent.delivery.outlet import Outlet, OutletContext, make_outlet
from dealer_agent.delivery.outlets.mail import CustomerMailOutlet, StaffMailOutlet
from dealer_agent.leads.customer_links import CustomerLinks
from dealer_agent.storage.outbox import Receiver

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")


def outlets_of(
    profile: Profile,
    mail: MailSettings,
    *,
    directory: Path,
    links: CustomerLinks,
    secrets: Mapping[str, str],
    client: httpx.AsyncClient,
) -> dict[Receiver, Outlet]:
    """The outlets of every rooftop: its channels, its staff and its customers.

    Relative paths start at `directory`. `secrets` has the environment variables that the settings name.
    `config.channels` checked that they are set, and that there is a mail server if a channel needs it.
    """
    server = None
    if mail.host:
        server = MailServer(mail, profile.name, secrets.get(mail.user_env), secrets.get(mail.password_env))
    context = OutletContext(directory, server, secrets, client)
    outlets: dict[Receiver, Outlet] = {}
    for rooftop in profile.rooftops:
        for name, channel in rooftop.deliver.channels.items():
            outlets[rooftop.name, name] = make_outlet(channel, context)
        if server is not None:
            outlets[rooftop.name, CUSTOMER] = CustomerMailOutlet(server, links)
            if rooftop.deliver.notify:
                outlets[rooftop.name, NOTIFY] = StaffMailOutlet(server, rooftop.deliver.notify)
    return outlets
