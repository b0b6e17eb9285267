"""The words on the wire: types, media types, errors, cards, codec. No I/O, no settings."""
