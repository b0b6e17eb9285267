"""One file for each schema revision."""
