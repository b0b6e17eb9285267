"""The outlets of a dealer's rooftops. Each module has the outlets of one kind of channel."""

from collections.abc import Mapping
from pathlib import Path

import httpx
from msgspec import UNSET

from dealer_agent.config.settings import MailSettings
from dealer_agent.dealers.profile import Profile
from dealer_agent.dealers.routing import CUSTOMER, NOTIFY
from dealer_agent.delivery.mail_server import MailServer
from dealer_agent.delivery.outlet import FORMATS, Outlet
from dealer_agent.delivery.outlets.directory import DirectoryOutlet
from dealer_agent.delivery.outlets.http import HttpOutlet
from dealer_agent.delivery.outlets.mail import CrmMailOutlet, CustomerMailOutlet, StaffMailOutlet
from dealer_agent.leads.customer_links import CustomerLinks
from dealer_agent.storage.outbox import Receiver


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
    outlets: dict[Receiver, Outlet] = {}
    for rooftop in profile.rooftops:
        deliver = rooftop.deliver
        for folder in deliver.directory:
            outlets[rooftop.name, folder.name] = DirectoryOutlet(directory / folder.path, FORMATS[folder.format])
        for http in deliver.http:
            outlets[rooftop.name, http.name] = HttpOutlet(
                client=client,
                url=http.url,
                format=FORMATS[http.format],
                timeout_seconds=http.timeout_seconds,
                secret=None if http.secret_env is UNSET else secrets[http.secret_env].encode(),
                authorization=None if http.authorization_env is UNSET else secrets[http.authorization_env],
            )
        if server is not None:
            outlets[rooftop.name, CUSTOMER] = CustomerMailOutlet(server, links)
            for mailbox in deliver.smtp:
                outlets[rooftop.name, mailbox.name] = CrmMailOutlet(server, mailbox.to)
            if deliver.notify:
                outlets[rooftop.name, NOTIFY] = StaffMailOutlet(server, deliver.notify)
    return outlets
