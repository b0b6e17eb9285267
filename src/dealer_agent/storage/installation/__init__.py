"""Stores the dealers of an installation, and the machines that serve them."""
