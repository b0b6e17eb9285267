"""The source of a feed, from its settings."""

from collections.abc import Mapping

from msgspec import UNSET

from dealer_agent.config import Settings
from dealer_agent.config.feeds import FeedSettings
from dealer_agent.feed_collection.folder_source import WatchedFolder
from dealer_agent.feed_collection.source import FeedSource
from dealer_agent.feed_collection.url_source import FeedUrl


def source_of(feed: FeedSettings, settings: Settings, secrets: Mapping[str, str]) -> FeedSource | None:
    """What fetches the files of a feed; None if they are uploaded. `secrets` are the environment variables.

    In an installation, a folder must be inside the dealer's own.
    """
    if feed.folder is not UNSET:
        return WatchedFolder(
            feed.folder, settings.directory, None if settings.installation is None else settings.directory
        )
    if feed.url is not UNSET:
        return FeedUrl(feed.url, secrets, settings.address_rule, settings.service.address_rule)
    if feed.sftp is not UNSET:
        # Imported here: few feeds need it.
        from dealer_agent.feed_collection.sftp_source import SftpServer

        return SftpServer(feed.sftp, settings.directory, secrets, settings.address_rule)
    return None
