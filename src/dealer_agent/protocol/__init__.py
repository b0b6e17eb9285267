"""The wire format: types and their bounds, vocabularies, decoding, responses, errors, cards and schemas. Pure."""
