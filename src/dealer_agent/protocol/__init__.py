"""The wire format: types and their bounds, vocabularies, decoding, replies, errors, cards and schemas. Pure."""
