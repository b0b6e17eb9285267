"""Feeds: files are read and checked (`files`), imported (`importing`), and collected without a person (`collection`)."""
