"""The bounds of a feed. docs/reference/feeds.md has each of them. Pure."""

MOST_FILE_MIB = 1_024
MOST_JSON_MIB = 128
"""JSON and HTML are held in memory as a whole; a delimited file is read row by row."""
MOST_ROWS = 1_000_000
"""Rows of a delimited file, blank ones included, or records of JSON."""
MOST_COLUMNS = 2_000
MOST_NAME = 200
"""Characters that are kept of a column's name."""
MOST_LINE = 1_000_000
"""Characters of one line of a delimited file."""
MOST_CELL = 131_072
"""Characters of one cell, or of one member of a JSON record."""
MOST_VALUES = 10_000
"""Members of one JSON record, at any depth."""
MOST_OBJECTS = 4_000_000
"""Objects and arrays of one JSON file: an empty one takes thirty times its bytes in memory."""
DEEPEST = 8
"""Levels of JSON below a record that are read for members, and levels above it that are searched for records."""
MOST_REPORTED = 1_000
"""Entries of each list of a report; the rest are counted."""
MOST_ROWS_WITHOUT_UNIT = 1_000
"""A file is refused when none of its first rows, as many as this, names a unit."""
