"""The rival protocol DMC-12 in the words of this service (docs/reference/dmc12.md): tools, records, errors. Pure."""
