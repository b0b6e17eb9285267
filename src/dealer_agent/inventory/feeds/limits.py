"""The bounds of a feed. docs/reference/feeds.md has each of them. Pure."""

MOST_FILE_MIB = 1_024
MOST_JSON_MIB = 128
"""JSON and HTML are in memory as a whole. A delimited file is read row by row."""
MOST_ROWS = 1_000_000
"""Rows of a delimited file, including blank ones, or records of JSON."""
MOST_COLUMNS = 2_000
MOST_NAME = 200
"""Characters of a column's name. The rest of the name is not read."""
MOST_LINE = 1_000_000
"""Characters of one line of a delimited file."""
MOST_CELL = 131_072
"""Characters of one cell, or of one member of a JSON record."""
MOST_VALUES = 10_000
"""Members of one JSON record, at any depth."""
MOST_OBJECTS = 4_000_000
"""Objects and arrays of one JSON file. An empty one takes thirty times its bytes in memory."""
DEEPEST = 8
"""Levels of JSON that are read below a record, and levels that are searched for records above it."""
MOST_REPORTED = 1_000
"""Entries of each list of a report. The rest are only counted."""
MOST_ROWS_WITHOUT_UNIT = 1_000
"""A file is refused if none of this many first rows identifies a unit."""
