"""Connections to addresses of a dealer's settings: `addresses` decides where they may go, `connections` opens them."""
