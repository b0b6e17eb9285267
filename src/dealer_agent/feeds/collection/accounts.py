"""The accounts of vendors that upload feeds: each is in the settings of a feed."""

import re
from dataclasses import dataclass
from pathlib import Path

import structlog
from msgspec import UNSET

from dealer_agent.config import SettingsError
from dealer_agent.config.feeds import Feeds, FeedSettings
from dealer_agent.config.installation import Installation
from dealer_agent.config.settings import Sections
from dealer_agent.config.sftp import read_public_key
from dealer_agent.encryption import EncryptionError
from dealer_agent.feeds.collection.sftp_server import Account
from dealer_agent.feeds.collection.source import incoming_folder
from dealer_agent.feeds.collection.uploads import UploadLimits
from dealer_agent.open_installation import OpenInstallation
from dealer_agent.storage.errors import DealerUnknown, StorageError
from dealer_agent.storage.installation.dealer_registry import find_dealer

log = structlog.get_logger()

_USER = re.compile(r"([a-z0-9-]{1,63})@([a-z0-9-]{1,63})")


def account_of(feed: FeedSettings, dealer_id: str, dealer_folder: Path, shared: Sections) -> Account | None:
    """The account of a feed; None if nobody uploads its files. The bounds are those of the installation (`shared`)."""
    if feed.upload is UNSET:
        return None
    return Account(
        dealer_id,
        feed.name,
        incoming_folder(dealer_folder, feed.name),
        UploadLimits(
            feed.most_bytes,
            shared.sftp.max_waiting_files,
            shared.sftp.max_waiting_mib << 20,
            shared.feed_files.dealer_mib << 20,
            shared.feed_files.least_free_mib << 20,
        ),
        feed.upload.password_hash or None,
        frozenset(map(read_public_key, feed.upload.public_keys)),
    )


@dataclass(frozen=True)
class Accounts:
    """The accounts of all dealers. The name of a user is `feed@dealer`; of the only dealer of a folder, it is `feed`.

    The settings of an only dealer are not in the database: without it (`opened` is None), its vendors can upload too.
    Threads may share it.
    """

    installation: Installation
    opened: OpenInstallation | None

    def find(self, user: str) -> Account | None:
        """The account of a user; None for an unknown name. Blocks for the database."""
        only = self.installation.only
        if only is not None:
            return self._account_of_feed(only.dealer.id, only.folder, only.feeds, user)
        words = _USER.fullmatch(user)
        if words is None:
            return None
        name, dealer_id = words.groups()
        try:
            assert self.opened is not None, "the settings are in the database"
            with self.opened.store.read(dealer_id) as tx:
                if not find_dealer(tx).enabled:
                    return None
            settings = self.opened.settings_of(dealer_id)
            return self._account_of_feed(dealer_id, settings.folder, settings.feeds, name)
        except DealerUnknown:
            return None
        except (StorageError, SettingsError, EncryptionError) as fault:
            log.error("upload account not read", dealer=dealer_id, error=type(fault).__qualname__)
            return None

    def _account_of_feed(self, dealer_id: str, dealer_folder: Path, feeds: Feeds, name: str) -> Account | None:
        feed = next((feed for feed in feeds if feed.name == name), None)
        return None if feed is None else account_of(feed, dealer_id, dealer_folder, self.installation.file)
