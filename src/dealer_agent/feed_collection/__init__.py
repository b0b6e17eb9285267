"""Fetches and receives the files of feeds, and imports each of them once (docs/how-to/automatic-feeds.md)."""
