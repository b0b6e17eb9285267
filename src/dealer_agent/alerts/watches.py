"""A watch: which conditions are checked, and who gets the alerts.

There is one for each dealer. In an installation there is one more for the operator, who runs the installation.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from dealer_agent.alerts.checking import Watch
from dealer_agent.alerts.observing import PublicAddress
from dealer_agent.alerts.receivers import receivers_of
from dealer_agent.alerts.texts import Sender
from dealer_agent.config import Settings
from dealer_agent.config.installation import FILE_NAME as INSTALLATION_FILE
from dealer_agent.config.installation import Installation
from dealer_agent.config.loading import FILE_NAME, read_text
from dealer_agent.dealers.profile_checks import is_this_machine
from dealer_agent.outgoing.addresses import ANY_ADDRESS
from dealer_agent.pasted_commands import Where
from dealer_agent.protocol.well_known import CARD_PATH
from dealer_agent.storage.isolation import ALL_DEALERS

HEALTH = "/healthz"
OPERATOR = "dealer-agent"
OPERATOR_ZONE = "UTC"


def watch_of_machine(installation: Installation) -> Watch | None:
    """The watch with the conditions of the machine. None if nobody gets its alerts. Raises SettingsError."""
    if installation.only is not None:
        return watch_of_dealer(installation.only)
    return watch_of_operator(installation)


def watch_of_dealer(settings: Settings, env: Mapping[str, str] = os.environ) -> Watch | None:
    """The watch of a dealer; None if it has no receivers. Raises SettingsError.

    The dealer of a folder also has the conditions of the machine. In an installation, the operator has them.
    """
    if not settings.alerts.has_receivers:
        return None
    alone = settings.installation is None
    profile = settings.dealer
    sender = Sender(profile.id, profile.name, profile.rooftops[0].timezone, FILE_NAME, settings.where)
    text = _text_of(settings.folder / FILE_NAME) if alone else None
    url = settings.service.public_url + settings.service.base_path
    return Watch(
        owner=profile.id,
        settings=settings.alerts,
        receivers=receivers_of(settings.alerts, settings.mail, sender, env, settings.address_rule, text=text),
        folder=settings.folder,
        shares_machine=alone,
        address=_public_address(url, CARD_PATH, expected=url) if alone else None,
        agents=settings.agents,
    )


def watch_of_operator(installation: Installation) -> Watch | None:
    """The watch of the operator: what the dealers share. None if it has no receivers. Raises SettingsError."""
    settings = installation.file.installation.alerts
    if not settings.has_receivers:
        return None
    name = urlsplit(installation.public_url).hostname or OPERATOR
    receivers = receivers_of(
        settings,
        installation.file.mail,
        Sender(ALL_DEALERS, name, OPERATOR_ZONE, INSTALLATION_FILE, Where(installation.folder)),
        os.environ,
        ANY_ADDRESS,
        where=("installation", "alerts"),
        text=_text_of(installation.folder / INSTALLATION_FILE),
    )
    return Watch(
        owner=ALL_DEALERS,
        settings=settings,
        receivers=receivers,
        folder=installation.folder,
        shares_machine=True,
        address=_public_address(installation.public_url, HEALTH, expected='"ok"'),
    )


def _public_address(url: str, path: str, *, expected: str) -> PublicAddress | None:
    """The address to check. None without a public URL, and for one of this machine."""
    host = urlsplit(url).hostname
    return None if not host or is_this_machine(host) else PublicAddress(url, url + path, expected)


def _text_of(path: Path) -> str | None:
    return read_text(path) if path.exists() else None
