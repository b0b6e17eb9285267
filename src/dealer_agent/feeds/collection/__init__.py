"""Fetches and receives the files of feeds, and imports each of them once (docs/reference/feeds.md#automatic-feeds)."""
