"""Inventory feeds: what a dealer's inventory system exports, read into units (docs/protocol.md#listings). Pure."""

from dealer_agent.inventory.feeds.feed import MOST_FILE_MIB, Feed, FeedError, FeedRow, Remark, Repeat
from dealer_agent.inventory.feeds.layouts import LAYOUTS
from dealer_agent.inventory.feeds.reader import read_feed

LAYOUT_NAMES = tuple(LAYOUTS)
"""The names that `read_feed(layout=...)` accepts."""

__all__ = ["LAYOUT_NAMES", "MOST_FILE_MIB", "Feed", "FeedError", "FeedRow", "Remark", "Repeat", "read_feed"]
