"""The source of a feed, from its settings."""

from collections.abc import Mapping

import httpx
from msgspec import UNSET

from dealer_agent.config import Settings
from dealer_agent.config.feeds import FeedSettings
from dealer_agent.feed_collection.folder_source import WatchedFolder
from dealer_agent.feed_collection.source import FeedSource
from dealer_agent.feed_collection.url_source import FeedUrl


def source_of(
    feed: FeedSettings, settings: Settings, secrets: Mapping[str, str], client: httpx.AsyncClient
) -> FeedSource | None:
    """What fetches the files of a feed; None if they are uploaded. `secrets` are the environment variables.

    In an installation, a folder must be inside the dealer's own, and a server must have a public address unless
    the operator allows others.
    """
    if feed.folder is not UNSET:
        return WatchedFolder(
            feed.folder, settings.directory, None if settings.installation is None else settings.directory
        )
    if feed.url is not UNSET:
        return FeedUrl(feed.url, secrets, client, public_only=not settings.private_feed_addresses)
    if feed.sftp is not UNSET:
        # Imported here: few feeds need it.
        from dealer_agent.feed_collection.sftp_source import SftpServer

        return SftpServer(feed.sftp, settings.directory, secrets, public_only=not settings.private_feed_addresses)
    return None
