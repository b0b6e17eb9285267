"""The outlets of the dealers of a process, and the deliveries that they send."""

import os
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import NamedTuple

import httpx

from dealer_agent.config.channels import channel_secrets
from dealer_agent.config.settings import DeliverySettings
from dealer_agent.dealers.profile import Profile
from dealer_agent.delivery.outlet import Outlets
from dealer_agent.delivery.outlets import outlets_of
from dealer_agent.open_installation import OpenInstallation
from dealer_agent.storage.deliveries.outbox import DueDelivery, Receiver

MOST_KEPT = 1024


class DealerOutlets(NamedTuple):
    """A dealer with its outlets and its settings of retries."""

    profile: Profile
    outlets: Outlets
    settings: DeliverySettings


@dataclass(frozen=True)
class OutletMaker:
    """Makes the outlets of the dealers of a process, which share an HTTP client."""

    opened: OpenInstallation
    client: httpx.AsyncClient

    def of(self, dealer_id: str) -> DealerOutlets:
        """The outlets of a dealer. Blocks for the database.

        Raises StorageError, and SettingsError if a channel cannot work.
        """
        settings = self.opened.settings_of(dealer_id)
        outlets = outlets_of(
            settings.dealer,
            settings.mail,
            directory=settings.directory,
            links=self.opened.customer_links(settings, self.opened.store.check_keys(dealer_id)),
            secrets=channel_secrets(settings, os.environ),
            client=self.client,
        )
        return DealerOutlets(settings.dealer, outlets, settings.delivery)


DealerReceiver = tuple[str, Receiver]
"""A dealer, and a receiver of its leads."""


class Sending(NamedTuple):
    """A delivery in progress, and its dealer."""

    dealer: DealerOutlets
    delivery: DueDelivery

    @property
    def dealer_id(self) -> str:
        """The dealer's id."""
        return self.dealer.profile.id

    @property
    def receiver(self) -> DealerReceiver:
        """The receiver among those of all dealers."""
        return self.dealer_id, self.delivery.receiver

    def named(self) -> dict[str, object]:
        """What the log says about it."""
        return {
            "dealer": self.dealer_id,
            "delivery": self.delivery.delivery_id,
            "lead": self.delivery.lead_id,
            "kind": self.delivery.kind,
            "rooftop": self.delivery.rooftop,
            "channel": self.delivery.channel,
            "attempt": self.delivery.attempts,
        }


@dataclass
class OutletCache:
    """The outlets of the MOST_KEPT dealers that were used last."""

    _kept: OrderedDict[str, DealerOutlets] = field(default_factory=OrderedDict)

    def get(self, dealer_id: str) -> DealerOutlets | None:
        """The outlets of a dealer, if they are kept."""
        if dealer_id in self._kept:
            self._kept.move_to_end(dealer_id)
        return self._kept.get(dealer_id)

    def keep(self, dealer_id: str, outlets: DealerOutlets) -> None:
        """Keeps the outlets of a dealer. Forgets those that were not used for the longest time."""
        self._kept[dealer_id] = outlets
        self._kept.move_to_end(dealer_id)
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)

    def forget(self, dealer_id: str) -> None:
        """Forgets the outlets of a dealer: its settings have changed."""
        self._kept.pop(dealer_id, None)
